"""Pairs that part at the first wrong step of a response (Step-DPO, Lai et al. 2024, arXiv 2406.18629)."""

from collections.abc import Sequence
from dataclasses import replace

from reasonrl.pairs.candidates import Candidate, Prompt

RIGHT = 1.0  # a step is right where its reward is at least this, as a response is


def first_wrong_step(candidate: Candidate) -> int | None:
    """The character at which the first step begins that its verifier finds wrong; None if it finds none."""
    wrong = [step.start for step in candidate.steps if step.reward < RIGHT]
    return min(wrong, default=None)


def step_pairs(candidates: Sequence[Candidate]) -> list[tuple[Candidate, Candidate]]:
    """Each wrong response of a problem with every right one that begins as it does up to its first wrong step.

    Both come without what they share, which is the end of their prompt. They go on to their end: what is learnt is to
    get from these steps to the answer, and a response that ends is one in any trainer.
    """
    found = []
    for rejected in (one for one in candidates if not one.correct):
        start = first_wrong_step(rejected)
        if start is None:
            continue
        prefix = rejected.text[:start]
        found += [
            (_after(chosen, prefix), _after(rejected, prefix))
            for chosen in candidates
            if chosen.correct and chosen.text.startswith(prefix) and len(chosen.text) > start
        ]
    return found


def _after(candidate: Candidate, prefix: str) -> Candidate:
    """The response from behind the prefix on. Its length in tokens is an estimate, by characters."""
    left = len(candidate.text) - len(prefix)
    return replace(
        candidate,
        prompt=continued(candidate.prompt, prefix),
        text=candidate.text[len(prefix) :],
        tokens=max(1, round(candidate.tokens * left / max(1, len(candidate.text)))),
    )


def continued(prompt: Prompt, prefix: str) -> Prompt:
    """A prompt with the beginning of the response in it: of a chat, an assistant's turn that is still open."""
    if not prefix:
        return prompt
    return prompt + prefix if isinstance(prompt, str) else (*prompt, {"role": "assistant", "content": prefix})
