"""The verifier `reward_model`."""

from collections.abc import Sequence
from functools import cached_property

from reasonrl import Problem, Response, Verdict, Verifier
from reasonrl_reward_model.options import RewardModelOptions
from reasonrl_reward_model.remote import Server
from reasonrl_reward_model.source import LocalModel, Pair, Source


class RewardModelVerifier(Verifier):
    """Rewards a response by the score of a reward model: any sequence classifier of transformers with one logit, or a
    server (a vLLM server's classify or pooling API, or a JSON endpoint).

    A chat prompt goes through the model's own chat template with the response as the assistant's turn; a text prompt is
    continued by the response. What is longer than the model's context is unjudged, never cut. A server that is slow,
    fails or answers nonsense leaves its responses unjudged.

    The reward is ((score − mean) / std), squashed, clipped. As the first verifier of a task it is also the judge of
    what is right, which a learned score should not be: put the true verifier first, with weight 0 if it is not to
    count.
    """

    name = "reward_model"
    Options = RewardModelOptions
    isolation = "inline"

    def verify(self, problem: Problem, response: Response) -> Verdict:
        """Reasons: scored, too_long, not_finite, remote. Evidence: the score, or why there is none."""
        return self.verify_batch([(problem, response)])[0]

    def verify_batch(self, pairs: Sequence[Pair]) -> list[Verdict]:
        """One verdict each, in order."""
        return [found if isinstance(found, Verdict) else self._judge(found) for found in self._source.scores(pairs)]

    def audit(self, problem: Problem) -> str | None:
        """A chat prompt needs a chat template, and a prompt that fills the context leaves no place for a response."""
        return self._source.fault(problem)

    def warm_up(self) -> None:
        """Load the model, once for the verifier's life."""
        _ = self._source

    def right_response(self, problem: Problem) -> None:
        """None: a learned score knows no right response."""

    def wrong_response(self, problem: Problem) -> None:
        """None: nor a wrong one."""

    @cached_property
    def _source(self) -> Source:
        options = self.options
        return LocalModel(options) if options.remote is None else Server(options.remote, options.batch_size)

    def _judge(self, score: float) -> Verdict:
        return Verdict(self.options.reward(score), "scored", evidence={"score": score})
