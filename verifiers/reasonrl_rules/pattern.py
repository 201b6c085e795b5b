"""pattern: does the response have the form that was asked for, whatever it says there?"""

import re

from pydantic import Field, field_validator

from reasonrl import Problem, Response, Verdict, Verifier, VerifierOptions


class PatternOptions(VerifierOptions):
    """Options of `pattern`.

    Attributes:
        regex: a regular expression of Python; found anywhere in the response unless it is anchored.
    """

    regex: str = Field(min_length=1, description="regular expression that the response must contain")

    @field_validator("regex")
    @classmethod
    def _compiles(cls, regex: str) -> str:
        try:
            re.compile(regex)
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        return regex


class Pattern(Verifier):
    """Reward 1 if the response contains the pattern, else 0: a small reward for the form asked for.

    It says nothing about the answer, so give it a small weight and let another verifier be the judge. Some regular
    expressions take exponential time; the check runs in a process that is killed at its deadline.
    """

    name = "pattern"
    Options = PatternOptions

    def verify(self, problem: Problem, response: Response) -> Verdict:
        """Look for the pattern."""
        found = re.search(self.options.regex, response.text)
        if found is None:
            return Verdict(0.0, "wrong_format")
        return Verdict(1.0, "correct", evidence={"found": found.group()[:200]})

    def right_response(self, problem: Problem) -> None:
        """None: a text is not made from a regular expression here."""

    def wrong_response(self, problem: Problem) -> None:
        """None: what the expression does not match, cannot be told from it."""
