"""format: the response is one block of thinking, then one answer, and nothing else."""

from typing import Self

from pydantic import Field, model_validator

from reasonrl import Problem, Response, Verdict, Verifier, VerifierOptions

TAG = r"^[A-Za-z][A-Za-z0-9_-]*$"


class FormatOptions(VerifierOptions):
    """Options of `format`.

    Attributes:
        think: name of the tag around the thinking.
        answer: name of the tag around the answer.
        think_opened: the prompt already ends with the opening think tag, so the response must not open it again.
    """

    think: str = Field("think", pattern=TAG, description="tag around the thinking")
    answer: str = Field("answer", pattern=TAG, description="tag around the answer")
    think_opened: bool = Field(False, description="the prompt has already opened the think tag")

    @model_validator(mode="after")
    def _two_tags(self) -> Self:
        if self.think == self.answer:
            raise ValueError(f"think and answer must be two different tags, not {self.think!r} twice")
        return self


class Format(Verifier):
    """Reward 1 if the response is `<think>…</think>` then `<answer>…</answer>`, else 0.

    Each of the four tags stands exactly once, and outside them there is only white space. This is the format reward of
    DeepSeek-R1 (arXiv 2501.12948, section 2.2.2).
    """

    name = "format"
    Options = FormatOptions
    isolation = "inline"

    def verify(self, problem: Problem, response: Response) -> Verdict:
        """Reasons: correct, wrong_format. Evidence: the rule that failed."""
        text = response.text
        if self.options.think_opened:
            text = f"<{self.options.think}>{text}"
        fault = _fault(text.strip(), self.options.think, self.options.answer)
        return Verdict(0.0, "wrong_format", evidence={"fault": fault}) if fault else Verdict(1.0, "correct")

    def right_response(self, problem: Problem) -> str:
        """A block of thinking, then an answer, whatever stands in it."""
        opened = "" if self.options.think_opened else f"<{self.options.think}>"
        return f"{opened}…</{self.options.think}>\n<{self.options.answer}>…</{self.options.answer}>"

    def wrong_response(self, problem: Problem) -> str:
        """The same with the answer left open."""
        return self.right_response(problem).removesuffix(f"</{self.options.answer}>")


def _fault(text: str, think: str, answer: str) -> str | None:
    """The first rule that `text` breaks, or None."""
    for tag in (f"<{think}>", f"</{think}>", f"<{answer}>", f"</{answer}>"):
        if text.count(tag) != 1:
            return f"{tag} stands {text.count(tag)} times"
    if not text.startswith(f"<{think}>"):
        return f"text before <{think}>"
    if not text.endswith(f"</{answer}>"):
        return f"text after </{answer}>"
    between = text.partition(f"</{think}>")[2].partition(f"<{answer}>")
    if not between[1]:
        return f"<{answer}> stands before </{think}>"
    return f"text between </{think}> and <{answer}>" if between[0].strip() else None
