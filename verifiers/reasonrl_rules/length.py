"""length: a soft punishment of overlong responses."""

from typing import Self

from pydantic import Field, model_validator

from reasonrl import Problem, Response, Verdict, Verifier, VerifierOptions


def overlong_penalty(length: int, max_tokens: int, buffer: int) -> float:
    """DAPO's soft overlong punishment (arXiv 2503.14476, eq. 13), between 0 and −1; all arguments in tokens.

    0 up to max_tokens − buffer (L_max − L_cache), from there linearly down to −1 at max_tokens, and −1 beyond.
    """
    over = length - (max_tokens - buffer)
    if over <= 0:
        return 0.0
    return -min(over / buffer, 1.0)


class LengthOptions(VerifierOptions):
    """Options of `length`, in tokens.

    Attributes:
        max_tokens: L_max of DAPO: from here on the penalty is −1.
        buffer: L_cache of DAPO: over how many tokens before max_tokens the penalty grows.
    """

    max_tokens: int = Field(ge=1, description="tokens at which the penalty reaches -1")
    buffer: int = Field(ge=1, description="tokens before max_tokens over which the penalty grows")

    @model_validator(mode="after")
    def _buffer_fits(self) -> Self:
        if self.buffer > self.max_tokens:
            raise ValueError(f"buffer ({self.buffer}) must not exceed max_tokens ({self.max_tokens})")
        return self


class Length(Verifier):
    """Reward between 0 and −1 by the response's length in tokens: see `overlong_penalty`.

    Raises:
        ValueError: the response has text but no token count, so its length is not known.
    """

    name = "length"
    Options = LengthOptions
    isolation = "inline"

    def verify(self, problem: Problem, response: Response) -> Verdict:
        """Reasons: within, buffer, overlong. Evidence: the length in tokens."""
        if response.text and not response.tokens:
            raise ValueError("the response has no token count")
        reward = overlong_penalty(response.tokens, self.options.max_tokens, self.options.buffer)
        reason = "within" if reward == 0 else "buffer"
        if response.tokens > self.options.max_tokens:
            reason = "overlong"
        return Verdict(reward, reason, evidence={"tokens": response.tokens})

    def right_response(self, problem: Problem) -> None:
        """None: no length is right; the best there is, is a penalty of 0."""

    def wrong_response(self, problem: Problem) -> None:
        """None: no text is wrong, only its length."""
