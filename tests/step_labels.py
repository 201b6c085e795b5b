"""What tests of labelled steps share: a verifier that looks at all digits, and labels computed one at a time."""

from collections.abc import Callable, Sequence
from typing import Any

from reasonrl import Problem, Response, Verdict, Verifier
from reasonrl.models.load import Vocabulary
from reasonrl.rollout.engine import Engine, Request, Sampling, sample_seed
from reasonrl.rollout.finished import decoded
from reasonrl.steplabels.build import Labelling
from reasonrl.steps import split_steps


def even(text: str) -> bool:
    return sum(text.count(digit) for digit in "13579") % 2 == 0


class Even(Verifier):
    """Right is what has an even number of odd digits; no text is unjudged."""

    name = "even"
    isolation = "inline"

    def verify(self, problem: Problem, response: Response) -> Verdict:
        return Verdict(float(even(response.text)) if response.text else None, "counted")


def check_labels(
    rows: Sequence[dict[str, Any]],
    stored: Sequence[dict[str, Any]],
    labelling: Labelling,
    engine: Engine,
    vocabulary: Vocabulary,
    sampling: Sampling,
) -> int:
    """Continue each step by itself, from its first tokens that have its text, and compare.

    Returns:
        How many labels come from continuations.
    """
    by_response = {(row["problem_id"], row["sample"]): row for row in rows}
    checked = 0
    for one in stored:
        text, name = one["response"], (one["problem_id"], one["sample"])
        spans = split_steps(text, labelling.steps, labelling.separator)
        row = by_response.pop(name) if spans else {"labels": (), "completions": []}
        assert row["completions"] == [text[span.start : span.end] for span in spans]
        for step, (span, label) in enumerate(zip(spans, row["labels"], strict=True)):
            if step == len(spans) - 1 and one["finish_reason"] == "stop":
                assert label == float(even(text))
                continue
            ids = one["response_ids"]
            tokens = next(n for n in range(len(ids) + 1) if decoded(vocabulary.tokenizer, ids[:n]) == text[: span.end])
            key = f"{one['step']}/{name[0]}/{name[1]}"
            seeds = tuple(sample_seed(labelling.seed, step, key, j) for j in range(labelling.continuations))
            request = Request("p", (*one["prompt_ids"], *ids[:tokens]), seeds)
            if len(request.prompt_ids) + sampling.max_tokens > (vocabulary.max_positions or 0):
                assert label is None
                continue
            right = [even(text[: span.end] + found.text) for found in engine.sample([request], sampling)]
            assert len(right) == row["judged"][step] == labelling.continuations
            assert row["right"][step] == sum(right)
            assert label == sum(right) / len(right)
            checked += 1
    assert not by_response
    return checked


def stop_at(piece: int) -> Callable[[int, int], None]:
    """What is told of progress, and interrupts after so many pieces."""

    def progress(done: int, total: int) -> None:
        if done == piece:
            raise KeyboardInterrupt

    return progress
