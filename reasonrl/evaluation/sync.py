"""The policy's weights handed to the engine, and proof that they arrived."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from reasonrl.batch import Row, collate
from reasonrl.errors import ReasonRLError
from reasonrl.evaluation.evaluate import Prompted
from reasonrl.models.load import Policy, checkpoint_weights
from reasonrl.models.logprobs import response_logprobs
from reasonrl.rollout.engine import Engine, Request, Sampling
from reasonrl.types import Rollout

PROBE_PROMPTS = 2
PROBE_TOKENS = 16  # of each response, at most


class WeightSync:
    """Syncs the engine; after the first and every so many syncs, compares its log-probabilities with the trainer's.

    Args:
        engine: what samples. One that samples with the policy's own model is neither copied to nor compared.
        policy: what is trained.
        probe: problems whose prompts the probe samples from.
        every: syncs between two probes.
        tolerance: most the log-probabilities may differ in the mean, in nats.
        max_tokens: of a response in the run; prompt and response of the probe fit where those of the run do.
        logits_chunk: see `models.logprobs`.
        autocast: makes the context of mixed precision, as the trainer uses it.
    """

    def __init__(
        self,
        engine: Engine,
        policy: Policy,
        probe: Sequence[Prompted],
        *,
        every: int,
        tolerance: float,
        max_tokens: int,
        logits_chunk: int,
        autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self._engine = engine
        self._policy = policy
        self._probe = list(probe[:PROBE_PROMPTS])
        self._every = every
        self._tolerance = tolerance
        self._sampling = Sampling(max_tokens=min(PROBE_TOKENS, max_tokens))
        self._logits_chunk = logits_chunk
        self._autocast = autocast
        self._syncs = 0

    def __call__(self, version: int) -> None:
        """The engine samples from the policy as it is now; later rollouts carry this version.

        Raises:
            ReasonRLError: the probe finds other weights in the engine, or the engine is lost.
        """
        if not self._engine.keeps_copy:
            self._engine.sync(self._policy.model.named_parameters(), version)
            return
        self._engine.sync(checkpoint_weights(self._policy.model), version)
        if self._syncs % self._every == 0:
            self.check()
        self._syncs += 1

    def check(self) -> float:
        """Sample a few tokens; the mean of |log μ − log π| over them, in nats.

        Raises:
            ReasonRLError: it is beyond the tolerance; shows the token where they differ most.
        """
        requests = [Request(p.problem.id, p.prompt_ids, (at,)) for at, p in enumerate(self._probe)]
        rollouts = list(self._engine.sample(requests, self._sampling))
        differences = [self._differences(rollout) for rollout in rollouts]
        mean = torch.cat(differences).mean().item()
        if not mean <= self._tolerance:  # NaN is no agreement either
            worst = max(zip(rollouts, differences, strict=True), key=lambda pair: pair[1].max().item())
            raise ReasonRLError(self._complaint(mean, *worst))
        return mean

    @torch.no_grad()
    def _differences(self, rollout: Rollout) -> torch.Tensor:
        """|log μ − log π| of each token of a response (T,), on the CPU."""
        row = Row(rollout.prompt_ids, rollout.response_ids, rollout.logprobs, group=0)
        batch = collate([row], self._policy.pad_id).to(self._policy.model.device)
        with self._autocast():
            scores = response_logprobs(
                self._policy.model, batch, temperature=1.0, share_prompt=False, logits_chunk=self._logits_chunk
            )
        return (scores.logprobs[0].double().cpu() - torch.tensor(rollout.logprobs, dtype=torch.float64)).abs()

    def _complaint(self, mean: float, rollout: Rollout, differences: torch.Tensor) -> str:
        at = int(differences.argmax())
        token = self._policy.tokenizer.decode([rollout.response_ids[at]])
        where = (
            f"Most at token {at} ({token!r}) of a response to problem {rollout.problem_id}: {rollout.logprobs[at]:.3f} "
            f"by the engine, off by {differences[at]:.3f}."
        )
        return (
            "the engine does not sample from the policy's weights: after a sync its log-probabilities differ from the "
            f"trainer's by {mean:.3g} nats in the mean, where engine.probe_tolerance is {self._tolerance:g}. {where} "
            "Compare engine.dtype with model.dtype; if they agree, the weights do not reach vLLM under the names it "
            "expects: use engine.name=huggingface, and please report it"
        )
