"""What training a reward model or a process reward model optimises."""

from reasonrl.config import ProcessRewardModelConfig, RewardModelConfig, RunConfig
from reasonrl.explain.text import count, factor, number, share
from reasonrl.explain.updates import optimiser, parameters


def scorer(run: RunConfig, config: RewardModelConfig | ProcessRewardModelConfig) -> list[tuple[str, list[str]]]:
    """Its sections."""
    found = _of_pairs(config) if isinstance(config, RewardModelConfig) else _of_steps(config)
    files = config.pairs if isinstance(config, RewardModelConfig) else config.labels
    out = f"{share(config.held_out)} of the prompts, drawn by the seed"
    if config.held_out_files:
        out = f"{', '.join(config.held_out_files)}; training leaves out what has one of their prompts"
    measured = (
        [] if isinstance(config, RewardModelConfig) else [f"a step is found wrong where q < {number(config.threshold)}"]
    )
    unit = "pair" if isinstance(config, RewardModelConfig) else "solution"
    size = f"{count(config.steps, 'step')} × {config.batch_size:,} = {count(config.steps * config.batch_size, unit)}"
    return [
        ("algorithm", [found[0], parameters(run.model) + ", and a linear head", size]),
        ("objective", [f"minimise over θ, once a step, on {count(config.batch_size, unit)}:", found[1]]),
        ("loss", found[2:]),
        ("data", [f"of {', '.join(files)}"]),
        ("held out", [out, *measured]),
        ("optimiser", optimiser(config.optimizer, config.steps)),
    ]


def _of_pairs(config: RewardModelConfig) -> list[str]:
    margin = " − m" if config.margin else ""
    center = f" + {factor(config.center, '(r_w + r_l)²')}" if config.center > 0 else ""
    lines = [
        "reward_model: Bradley and Terry's model of a choice (InstructGPT, Ouyang et al. 2022, arXiv 2203.02155)",
        "    (1/B) Σ_i ℓ_i",
        f"ℓ = −log σ(r_w − r_l{margin}){center},   r: the score at the last token of prompt and response",
    ]
    return [*lines, "m: the pair's margin (Llama 2, arXiv 2307.09288)"] if config.margin else lines


def _of_steps(config: ProcessRewardModelConfig) -> list[str]:
    return [
        "process_reward_model: labelled steps (Lightman et al. 2023, arXiv 2305.20050)",
        "    (1/Σ_i K_i) Σ_i Σ_k ℓ_ik,   K_i: labelled steps",
        f"ℓ = −p·log q − (1 − p)·log(1 − q),   q: P(good) at the mark {config.mark!r} behind a step, p: its label",
    ]
