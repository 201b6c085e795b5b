"""The sections of an explanation, in order."""

from reasonrl.config import (
    DPOConfig,
    OnlineDPOConfig,
    PPOConfig,
    ProcessRewardModelConfig,
    RewardModelConfig,
    RunConfig,
    SFTConfig,
    TRPOConfig,
    UpdatesConfig,
)
from reasonrl.explain import loss, preferences, rewards, scorers, updates
from reasonrl.explain.facts import Facts, sampling_of
from reasonrl.explain.papers import PAPERS, deviations
from reasonrl.explain.text import Section
from reasonrl.explain.unused import changed_without_effect
from reasonrl.tasks import Mixture, Task


def explain(run: RunConfig, task: Task | Mixture | None, *, sampler_is_policy: bool | None = None) -> list[Section]:
    """What a run optimises, section by section; no data is read and no model loaded.

    Args:
        run: the run.
        task: its task; None where it has none.
        sampler_is_policy: is the engine's model the trained one itself? Where the config does not say, both cases are
            told if this is None.
    """
    found: list[tuple[str, list[str]]] = []
    if run.warm_start is not None:
        found.append(("warm start", updates.supervised(run.warm_start, run.model)))
    if isinstance(run.algorithm, SFTConfig):
        found.append(("sft", updates.supervised(run.algorithm, run.model)))
    elif isinstance(run.algorithm, DPOConfig):
        found += preferences.offline(run, run.algorithm)
    elif isinstance(run.algorithm, OnlineDPOConfig):
        assert task is not None
        found += preferences.online(run, run.algorithm, task, sampling_of(task, run))
    elif isinstance(run.algorithm, RewardModelConfig | ProcessRewardModelConfig):
        found += scorers.scorer(run, run.algorithm)
    else:
        assert task is not None
        if run.engine.name != "auto":
            sampler_is_policy = run.engine.name == "huggingface"
        found += reinforcement(Facts(run, run.algorithm, task, sampling_of(task, run), sampler_is_policy))
    return [Section(title, tuple(lines)) for title, lines in found if lines]


def reinforcement(facts: Facts) -> list[tuple[str, list[str]]]:
    """The sections of reinforcement learning; one without lines is left out."""
    config = facts.algorithm
    about = f"{config.name}: {PAPERS[config.name].title}"
    head = [about, updates.parameters(facts.run.model), *updates.budget(facts)]
    found = [("algorithm", head)]
    if isinstance(config, TRPOConfig):
        goal, step = updates.trust_region(facts, config)
        found += [("objective", goal), ("step", step)]
    else:
        found.append(("objective", loss.objective(facts, config)))
    found.append(("loss", loss.token_loss(facts)))
    if isinstance(config, PPOConfig) and config.loss == "penalty":
        found.append(("penalty", loss.penalty(config)))
    found += [
        ("sampler", loss.sampler(facts)),
        ("rewards", rewards.rewards(facts)),
        ("advantage", rewards.advantage(facts)),
        ("KL", loss.kl(facts)),
    ]
    if isinstance(config, PPOConfig):
        found.append(("critic", updates.critic(facts, config)))
    if isinstance(config, UpdatesConfig):
        found.append(("optimiser", updates.optimiser(config.optimizer, config.updates)))
    return [
        *found,
        ("no effect", changed_without_effect(facts)),
        ("not as in the paper", deviations(facts)),
    ]
