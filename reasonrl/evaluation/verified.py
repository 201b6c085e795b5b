"""Responses of a file with what the verifiers say of them; they are verified in chunks."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reasonrl.evaluation.responses import GivenResponse
from reasonrl.scoring import Scored, Scorer
from reasonrl.types import Problem

_CHUNK, _LARGEST_CHUNK = 16, 8192
_PACE = 3.0  # seconds; chunks that take less are followed by larger ones


@dataclass(frozen=True)
class Verified:
    """A response of a file and what the verifiers say of it."""

    given: GivenResponse
    scored: Scored

    @property
    def problem(self) -> Problem:
        """What was asked."""
        return self.given.problem

    @property
    def tokens(self) -> int | None:
        """The length of the response, if the file says it."""
        return self.given.tokens

    @property
    def truncated(self) -> bool | None:
        """Was the response cut at the token limit, if the file says why it ended?"""
        return None if self.given.finish_reason is None else self.given.finish_reason == "length"


def verify_given(
    given: Sequence[GivenResponse], scorer: Scorer, progress: Callable[[int, int], None]
) -> list[Verified]:
    """Verify in chunks, for the progress to move; workers idle at the end of each, so chunks grow while they are short.

    Small ones at first: a verifier may take a millisecond or a minute.
    """
    verified: list[Verified] = []
    size = _CHUNK
    while len(verified) < len(given):
        chunk, started = given[len(verified) : len(verified) + size], time.monotonic()
        for index, one in enumerate(chunk):
            scorer.submit(index, one.problem, one.response)
        scored = scorer.collect()
        verified += [Verified(one, scored[index]) for index, one in enumerate(chunk)]
        progress(len(verified), len(given))
        if time.monotonic() - started < _PACE:
            size = min(2 * size, _LARGEST_CHUNK)
    return verified
