"""The verifier `prm`. Imports torch only when its model is loaded."""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from reasonrl import Message, Problem, Response, StepReward, Verdict, Verifier
from reasonrl.steps import Span, split_steps
from reasonrl_prm.options import REDUCTIONS, PRMOptions

if TYPE_CHECKING:
    from reasonrl_prm.conventions import Convention, Marked


class PRM(Verifier):
    """Rewards each step of a response, between 0 and 1, by a process reward model in one of four conventions, and the
    response by the last, the least, the mean or the product of these.

    Steps that end beyond the model's context are unjudged, and then so is the response; the verdict says how many were
    judged, and holds their rewards. A response without steps has reward 0.
    """

    name = "prm"
    Options = PRMOptions
    isolation = "inline"
    supervises = ("outcome", "process")

    def verify(self, problem: Problem, response: Response) -> Verdict:
        """Reasons: scored, no_steps; unjudged: too_long, mark_in_text, not_finite, error."""
        return self.verify_batch([(problem, response)])[0]

    def verify_batch(self, pairs: Sequence[tuple[Problem, Response]]) -> list[Verdict]:
        """One verdict each, in order."""
        seen = [self._seen(problem, response.text) for problem, response in pairs]
        marked = [one for one in seen if not isinstance(one, Verdict)]
        rewards = iter(self._model.rewards([solution for _, solution in marked]))
        return [one if isinstance(one, Verdict) else self._judge(one[0], next(rewards)) for one in seen]

    def audit(self, problem: Problem) -> str | None:
        """The column of the question must be there, and the prompt leave room for a step."""
        column = self.options.question
        if column is not None and not isinstance(problem.metadata.get(column), str):
            return f"the column {column!r} should hold the question; name it under the task's `metadata`"
        seen = self._seen(problem, "1")
        if isinstance(seen, Verdict):
            return str(seen.evidence.get("error"))
        [end], context = seen[1].ends, self._model.context
        if context is not None and end >= context:
            return f"the prompt and one step have {end + 1} tokens, and the process reward model takes {context}"
        return None

    def warm_up(self) -> None:
        """Load the model, once for the verifier's life."""
        _ = self._model

    def right_response(self, problem: Problem) -> None:
        """None: a learned reward knows no right response."""

    def wrong_response(self, problem: Problem) -> None:
        """None: nor a wrong one."""

    @cached_property
    def _model(self) -> "Convention":
        from reasonrl_prm.conventions import CONVENTIONS

        return CONVENTIONS[self.options.convention](self.options)

    def _seen(self, problem: Problem, text: str) -> "tuple[tuple[Span, ...], Marked] | Verdict":
        """The steps of a response, and how the model sees them."""
        from reasonrl_prm.conventions import MarkInText

        try:
            spans = split_steps(text, self.options.steps, self.options.separator)
        except ValueError as error:  # the separator takes too long on this text
            return Verdict(None, "error", evidence={"error": str(error)})
        if not spans:
            return Verdict(0.0, "no_steps", evidence={"steps": 0})
        steps = [text[span.start : span.end] for span in spans]
        question, messages = self._asked(problem)
        try:
            return spans, self._model.mark(messages, question, steps)
        except MarkInText as error:
            return Verdict(None, "mark_in_text", evidence={"error": str(error)})

    def _asked(self, problem: Problem) -> tuple[str, Sequence[Message]]:
        """A problem as text, which of a chat is what the user said last, and as messages."""
        prompt = problem.prompt if self.options.question is None else str(problem.metadata[self.options.question])
        if isinstance(prompt, str):
            return prompt, [Message(role="user", content=prompt)]
        said = [message["content"] for message in prompt if message["role"] == "user"]
        return (said or [prompt[-1]["content"]])[-1], prompt

    def _judge(self, spans: Sequence[Span], rewards: Sequence[float]) -> Verdict:
        if not all(map(math.isfinite, rewards)):
            return Verdict(None, "not_finite", evidence={"rewards": str(rewards)})
        steps = tuple(StepReward(span.start, span.end, reward) for span, reward in zip(spans, rewards, strict=False))
        evidence = {"steps": len(spans), "judged": len(rewards)}
        if len(rewards) < len(spans):
            return Verdict(None, "too_long", steps, evidence | {"context": self._model.context})
        return Verdict(REDUCTIONS[self.options.reduction](rewards), "scored", steps, evidence)
