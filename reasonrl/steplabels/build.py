"""Monte-Carlo labels of steps (Math-Shepherd, Wang et al. 2023, arXiv 2312.08935, §3.2).

From the end of each step of a stored response others are sampled on, and verified: the label is the share that ends
right (soft, eq. 4), or whether any does (hard, eq. 3). The last step of a response that ended by itself leads nowhere
else: its label is the response's own verdict.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from reasonrl.errors import ReasonRLError
from reasonrl.pairs.candidates import Prompt, stored_prompt
from reasonrl.rollout.engine import Engine, Request, Sampling, sample_seed
from reasonrl.rollout.finished import decoded
from reasonrl.scoring import Scorer
from reasonrl.steps import split_steps, token_ends
from reasonrl.types import FinishReason, Problem, Response

STORED = (
    "step", "problem_id", "sample", "prompt", "response", "reference", "metadata", "finish_reason", "prompt_ids",
    "response_ids",
)  # fmt: skip


@dataclass(frozen=True)
class Labelling:
    """How steps are labelled.

    Attributes:
        continuations: m, sampled from the end of each step.
        steps, separator: how a response is split, as of `reasonrl.steps.split_steps`.
        hard: is a label 1 where any continuation ends right? Else it is their share.
        question: metadata column with the problem alone, where the prompt also holds instructions.
        seed: of the continuations.
    """

    continuations: int = 8
    steps: str = "paragraphs"
    separator: str | None = None
    hard: bool = False
    question: str | None = None
    seed: int = 0


@dataclass(frozen=True)
class Sampler:
    """What samples on, and judges what comes of it.

    Attributes:
        engine, sampling: how; at most `sampling.max_tokens` tokens from a step on.
        tokenizer, eos_ids, max_positions: of the model.
        scorer: with the task's verifiers, the first of which says what is right.
    """

    engine: Engine
    sampling: Sampling
    tokenizer: Any
    eos_ids: frozenset[int]
    max_positions: int | None
    scorer: Scorer


@dataclass(frozen=True)
class _Split:
    """A stored response and its steps.

    Attributes:
        key: its step, problem and sample, of which its seeds derive.
        row: as stored.
        problem: its problem, as verifiers see it.
        texts, ends: of each step the text, and how many tokens of the response it is complete with.
        own: is its last step labelled by its own verdict?
    """

    key: str
    row: dict[str, Any]
    problem: Problem
    texts: tuple[str, ...]
    ends: tuple[int, ...]
    own: bool


def label_steps(rows: Sequence[dict[str, Any]], labelling: Labelling, sampler: Sampler) -> list[dict[str, Any]]:
    """The responses with labels of their steps, in order; those without steps are left out.

    A label depends on the response, its step and sample, the seed and the weights alone, not on what stands beside it.
    It is None where no continuation could be judged, or fits the model.

    Args:
        rows: of rollout files, with the columns `STORED`.
        labelling, sampler: how.

    Raises:
        ReasonRLError: a response was sampled with another tokenizer, or has no metadata that is asked for.
    """
    split = [one for one in (_split(row, labelling, sampler) for row in rows) if one.texts]
    requests: list[Request] = []
    places: dict[str, tuple[int, int]] = {}
    for number, one in enumerate(split):
        if one.own:
            last = (number, len(one.texts) - 1, 0)
            sampler.scorer.submit(last, one.problem, Response(one.row["response"], len(one.row["response_ids"])))
        for step, request in _requests(number, one, labelling, sampler):
            requests.append(request)
            places[request.problem_id] = number, step
    for rollout in sampler.engine.sample(requests, sampler.sampling):
        number, step = places[rollout.problem_id]
        one = split[number]
        so_far = one.row["response_ids"][: one.ends[step]]
        response = _whole(so_far, rollout.response_ids, rollout.finish_reason, sampler)
        sampler.scorer.submit((number, step, rollout.sample), one.problem, response)
    ends: dict[tuple[int, int], list[bool]] = {}
    for key, scored in sampler.scorer.collect().items():
        assert isinstance(key, tuple)  # as submitted
        if scored.correct is not None:
            ends.setdefault((key[0], key[1]), []).append(scored.correct)
    found = ([ends.get((number, step), []) for step in range(len(one.texts))] for number, one in enumerate(split))
    return [_record(one, of_steps, labelling) for one, of_steps in zip(split, found, strict=True)]


def _split(row: dict[str, Any], labelling: Labelling, sampler: Sampler) -> _Split:
    text, ids = row["response"], row["response_ids"]
    key = f"{row['step']}/{row['problem_id']}/{row['sample']}"
    problem = Problem(row["problem_id"], stored_prompt(row["prompt"]), row["reference"], json.loads(row["metadata"]))
    spans = split_steps(text, labelling.steps, labelling.separator)
    own_ids = ids[:-1] if ids and ids[-1] in sampler.eos_ids else ids
    try:
        last = token_ends(own_ids, text, [s.end for s in spans], lambda part: decoded(sampler.tokenizer, part))
    except ValueError as error:
        raise ReasonRLError(
            f"problem {row['problem_id']}: {error}; take the model that sampled, or one with the same tokenizer"
        ) from None
    texts = tuple(text[span.start : span.end] for span in spans)
    return _Split(key, row, problem, texts, tuple(at + 1 for at in last), row["finish_reason"] != "length")


def _requests(number: int, one: _Split, labelling: Labelling, sampler: Sampler) -> Iterator[tuple[int, Request]]:
    """Each step that is sampled on from, and the request: the prompt, and the response up to the step's end."""
    for step, end in enumerate(one.ends[: len(one.ends) - one.own]):
        ids = (*one.row["prompt_ids"], *one.row["response_ids"][:end])
        if sampler.max_positions is None or len(ids) + sampler.sampling.max_tokens <= sampler.max_positions:
            seeds = tuple(sample_seed(labelling.seed, step, one.key, j) for j in range(labelling.continuations))
            # Several responses may have one key: of two runs, or a greedy and a sampled one of an evaluation.
            yield step, Request(f"{one.key}/{step}/{number}", ids, seeds)


def _whole(so_far: Sequence[int], continuation: Sequence[int], reason: FinishReason, sampler: Sampler) -> Response:
    """The response that begins with a step's prefix and goes on so, as if it had been sampled whole."""
    ids = (*so_far, *continuation)
    text = decoded(sampler.tokenizer, ids[:-1] if ids[-1] in sampler.eos_ids else ids)
    cuts = [at for stop in sampler.sampling.stop if (at := text.find(stop)) >= 0]
    return Response(text[: min(cuts)] if cuts else text, len(ids), reason)


def _record(one: _Split, ends: Sequence[Sequence[bool]], labelling: Labelling) -> dict[str, Any]:
    prompt: Prompt = one.problem.prompt
    if labelling.question is not None:
        found = one.problem.metadata.get(labelling.question)
        if not isinstance(found, str):
            raise ReasonRLError(
                f"--question {labelling.question}: problem {one.problem.id} has no such text in its metadata"
            )
        prompt = found
    return {
        "prompt": prompt,
        "completions": list(one.texts),
        "labels": [_label(of_step, hard=labelling.hard) for of_step in ends],
        "right": [sum(of_step) for of_step in ends],
        "judged": [len(of_step) for of_step in ends],
        "problem_id": one.problem.id,
        "reference": one.problem.reference,
        "step": one.row["step"],
        "sample": one.row["sample"],
    }


def _label(ends: Sequence[bool], *, hard: bool) -> float | None:
    if not ends:
        return None
    return float(any(ends)) if hard else sum(ends) / len(ends)
