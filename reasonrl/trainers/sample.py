"""One response on its way through a step: what it earned, and what is trained on."""

import math
from dataclasses import dataclass
from itertools import pairwise

import torch

from reasonrl.algorithms.shaping import overlong_penalty
from reasonrl.batch import Row
from reasonrl.config import ProcessConfig, RolloutConfig
from reasonrl.errors import ReasonRLError
from reasonrl.evaluation.evaluate import Judged
from reasonrl.scoring import WeightedVerifier
from reasonrl.steps import Decode, split_steps, token_ends
from reasonrl.verifier import Verdict


@dataclass(frozen=True)
class Step:
    """The reward of one step, and the index of its last token in the response."""

    reward: float
    end: int


@dataclass(frozen=True)
class Sample:
    """One response on its way through a step.

    Attributes:
        judged: the response and its verdicts.
        row: what is trained on, with its advantages once they are known.
        outcome: its reward, and what shaping adds to it; 0 where it could not be judged, which `counted` says.
        steps: what its steps earned, in order of their ends; the outcome as one more of them, where it counts as such.
        kl: of each token, KL(π_old ‖ π_ref), for a KL in the reward; else empty.
        counted: is it part of the loss (judged, not masked for being cut, its group not left out)?
        learns: does it have a gradient? Responses of a group that agrees have none.
        left_out: was another group sampled in place of its own?
    """

    judged: Judged
    row: Row
    outcome: float = 0.0
    steps: tuple[Step, ...] = ()
    kl: tuple[float, ...] = ()
    counted: bool = True
    learns: bool = True
    left_out: bool = False

    @property
    def known(self) -> bool:
        """Could the response be judged?"""
        return self.judged.scored.reward is not None


def make_sample(
    one: Judged, group: int, config: RolloutConfig, max_tokens: int, process: ProcessConfig | None, decode: Decode
) -> Sample:
    """A response with what it earned.

    Args:
        one: the response and its verdicts.
        group: position of its problem in the step's global batch.
        config: its shaping, and whether cut responses are masked.
        max_tokens: of a response.
        process: how its steps are found; None if only the outcome counts.
        decode: token ids → text, as the response's text was made.

    Raises:
        ReasonRLError: the engine gave no log-probability, or no finite one, for one of its tokens; its steps cannot be
            found.
    """
    outcome = one.scored.reward
    if outcome is not None and config.overlong_buffer is not None:
        buffer = max(1, round(config.overlong_buffer * max_tokens))
        outcome += float(overlong_penalty(torch.tensor(one.tokens, dtype=torch.float64), max_tokens, buffer))
    cut = config.mask_truncated and one.rollout.finish_reason == "length"
    return Sample(
        one,
        row_of(one, group),
        outcome=outcome or 0.0,
        steps=() if process is None or outcome is None else steps_of(one, outcome, process, decode),
        counted=outcome is not None and not cut,
    )


def row_of(one: Judged, group: int) -> Row:
    """What is trained on of a response; its π_old is its sampler's until the trainer computes its own.

    Raises:
        ReasonRLError: the engine gave no log-probability, or no finite one, for one of its tokens.
    """
    rollout = one.rollout
    logprobs = rollout.logprobs
    if len(logprobs) != len(rollout.response_ids) or not all(map(math.isfinite, logprobs)):
        raise ReasonRLError(
            f"the engine gave {sum(map(math.isfinite, logprobs))} finite log-probabilities for the "
            f"{len(rollout.response_ids)} tokens of response {rollout.sample} to problem {rollout.problem_id!r}; "
            "training needs that of every token, and one made up would teach something else in silence"
        )
    return Row(rollout.prompt_ids, rollout.response_ids, logprobs, logprobs, group=group)


def steps_of(one: Judged, outcome: float, process: ProcessConfig, decode: Decode) -> tuple[Step, ...]:
    """The rewards of a response's steps, its outcome as the last one if that has a weight.

    Raises:
        ReasonRLError: a verifier rewards a step beyond the text; the separator takes too long.
    """
    rollout = one.rollout
    try:
        for weighted, verdict in zip(one.scored.verifiers, one.scored.verdicts, strict=True):
            if last := max((step.end for step in verdict.steps if step.end > len(rollout.text)), default=0):
                fault = f"ends at character {last} of a text of {len(rollout.text)}"
                raise ValueError(f"a step that the verifier {weighted.name!r} rewards {fault}")
        spans = sorted(verifier_steps(one) if process.steps == "verifier" else text_steps(one, process))
        ends = token_ends(rollout.response_ids, rollout.text, [end for end, _ in spans], decode)
    except ValueError as error:
        raise ReasonRLError(f"response {rollout.sample} to problem {rollout.problem_id!r}: {error}") from None
    steps = [Step(reward, end) for (_, reward), end in zip(spans, ends, strict=True)]
    if process.outcome_weight > 0:
        steps.append(Step(process.outcome_weight * outcome, len(rollout.response_ids) - 1))
    return tuple(steps)


def verifier_steps(one: Judged) -> list[tuple[int, float]]:
    """The character at which each step ends that a verifier rewards, and its reward by the verifier's weight."""
    return [(step.end, weighted.weight * step.reward) for weighted, verdict in rewarding(one) for step in verdict.steps]


def rewarding(one: Judged) -> list[tuple[WeightedVerifier, Verdict]]:
    """The verifiers whose verdict counts, and what it is; one of weight 0 is reported only."""
    pairs = zip(one.scored.verifiers, one.scored.verdicts, strict=True)
    return [(weighted, verdict) for weighted, verdict in pairs if weighted.weight != 0]


def text_steps(one: Judged, process: ProcessConfig) -> list[tuple[int, float]]:
    """The same of the text's own steps.

    Each has the lowest reward that a verifier gives to what ends in it, since a step that is wrong in one place is a
    wrong step; of several verifiers, the sum. A step that no verifier rewards is none.
    """
    found = []
    spans = split_steps(one.rollout.text, process.steps, process.separator)
    # What stands between two steps, as a line break that a verifier counts in, belongs to the one before it.
    bounds = [-1, *(span.start for span in spans[1:]), math.inf]
    for span, (after, until) in zip(spans, pairwise(bounds), strict=False):
        rewards = [
            weighted.weight * min(inside)
            for weighted, verdict in rewarding(one)
            if (inside := [step.reward for step in verdict.steps if after < step.end <= until])
        ]
        if rewards:
            found.append((span.end, sum(rewards)))
    return found
