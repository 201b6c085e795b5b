"""What a run's formulas depend on, beside its algorithm's numbers."""

from dataclasses import dataclass

from reasonrl.config import CriticFreeConfig, PolicyConfig, PPOConfig, RunConfig, TRPOConfig, UpdatesConfig
from reasonrl.tasks import Mixture, SamplingConfig, Task

Reinforcement = CriticFreeConfig | PPOConfig | TRPOConfig


@dataclass(frozen=True)
class Facts:
    """A run of reinforcement learning.

    Attributes:
        run: the whole config.
        algorithm: its algorithm.
        task: with the verifiers.
        sampling: of its responses.
        sampler_is_policy: is the engine's model the trained one itself? None where that shows only as the run begins.
    """

    run: RunConfig
    algorithm: Reinforcement
    task: Task | Mixture
    sampling: SamplingConfig
    sampler_is_policy: bool | None

    @property
    def corrects(self) -> bool | None:
        """Is each token weighted for its sampler's having been another? None where that depends on the engine."""
        return corrects(self.algorithm, self.sampler_is_policy)

    @property
    def on_policy(self) -> bool:
        """Is there one update a step? TRPO's line search goes further than its first evaluation, from ratios of 1."""
        return isinstance(self.algorithm, UpdatesConfig) and self.algorithm.on_policy

    @property
    def token_rewards(self) -> bool:
        """Do tokens have rewards, or only responses and steps?"""
        config = self.algorithm
        return isinstance(config, PPOConfig) or config.advantage in ("batch_whitened", "group_centred_whitened")

    @property
    def has_reference(self) -> bool:
        """Is a reference model loaded?"""
        return self.algorithm.kl.coefficient > 0

    @property
    def kl_in_loss(self) -> bool:
        """Does the loss have a KL term?"""
        return self.has_reference and self.algorithm.kl.place == "loss"

    @property
    def kl_in_reward(self) -> bool:
        """Do the rewards have a KL term?"""
        return self.has_reference and self.algorithm.kl.place == "reward"

    @property
    def refills(self) -> int:
        """How often groups without spread are replaced in a step."""
        return 0 if isinstance(self.algorithm, PPOConfig) else self.algorithm.refills


def corrects(config: PolicyConfig, sampler_is_policy: bool | None) -> bool | None:
    """Is the loss weighted with min(π_old/μ, C)? None where that depends on the engine, and it is not known."""
    if sampler_is_policy is not None:
        return config.importance.corrects(sampler_is_policy=sampler_is_policy)
    either = {config.importance.corrects(sampler_is_policy=same) for same in (True, False)}
    return either.pop() if len(either) == 1 else None


def sampling_of(task: Task | Mixture, run: RunConfig) -> SamplingConfig:
    """A task's sampling; what a run sets of its own wins, key by key."""
    own = {} if run.sampling is None else run.sampling.model_dump(exclude_unset=True)
    return task.sampling.model_copy(update=own)
