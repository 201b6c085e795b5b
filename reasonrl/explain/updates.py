"""How much is sampled and updated, by which optimiser; the critic; the step of TRPO; supervised fine-tuning."""

from reasonrl.config import LoRAConfig, ModelConfig, OptimizerConfig, PPOConfig, SFTConfig, TRPOConfig, UpdatesConfig
from reasonrl.explain.facts import Facts
from reasonrl.explain.loss import average, terms
from reasonrl.explain.text import count, factor, number, shown


def parameters(model: ModelConfig) -> str:
    """What θ is."""
    start = "a tiny model made on the spot" if model.path is None else model.path
    revision = f", revision {model.revision}" if model.revision is not None else ""
    return f"θ: {_trained(model.lora)} of {start}{revision}"


def _trained(lora: LoRAConfig | None) -> str:
    if lora is None:
        return "all weights"
    return f"LoRA adapters, W + ({number(lora.alpha)}/{lora.rank})·B·A of rank {lora.rank} on {shown(lora.targets)},"


def budget(facts: Facts) -> list[str]:
    """Responses and updates of the whole run."""
    config = facts.algorithm
    drawn = f"{count(config.steps, 'step')} × {count(config.problems_per_step, 'problem')}"
    responses = config.steps * config.problems_per_step * config.group_size
    lines = [f"{drawn} × {count(config.group_size, 'response')} = {count(responses, 'response')}"]
    if facts.refills:
        most = responses * (1 + facts.refills)
        lines.append(f"with refills up to {1 + facts.refills} times as many: {count(most, 'response')}")
    if isinstance(config, UpdatesConfig):
        per_step = f"{count(config.epochs, 'epoch')} × {count(config.minibatches, 'minibatch', 'minibatches')}"
        steps = config.steps - (config.critic.warmup_steps if isinstance(config, PPOConfig) else 0)
        lines.append(f"{count(steps, 'step')} × {per_step} = {count(config.updates, 'update')}")
    return lines


def optimiser(config: OptimizerConfig, updates: int) -> list[str]:
    """AdamW with its numbers, its schedule over so many updates, its limits."""
    first, second = config.betas
    return [
        f"AdamW: learning rate {number(config.learning_rate)}, β₁ {number(first)}, β₂ {number(second)}, "
        f"ε {number(config.epsilon)}, weight decay {number(config.weight_decay)}",
        f"rate: {_schedule(config, updates)}",
        f"gradient: scaled down to a norm of {number(config.max_grad_norm)}; an update that is not finite is skipped, "
        f"{config.max_nonfinite} in a row end the run",
    ]


def _schedule(config: OptimizerConfig, updates: int) -> str:
    rises = (
        f"rises linearly over the first {count(config.warmup_steps, 'update')}, then " if config.warmup_steps else ""
    )
    if config.schedule == "constant":
        return f"{rises}constant"
    how = {"linear": "linearly", "cosine": "along a cosine"}[config.schedule]
    end = number(config.final_ratio * config.learning_rate)
    return f"{rises}falls {how}, to reach {end} after the last of {count(updates, 'update')}"


def critic(facts: Facts, config: PPOConfig) -> list[str]:
    """V: where it starts, its loss, what trains it."""
    own, bound = config.critic, config.value_clip
    error = "(V − R̂)²"
    if bound is not None:
        error = f"max((V − R̂)², (V_old + clip(V − V_old, ±{number(bound)}) − R̂)²)"
    lines = [f"ℓV = ½·{error}"]
    if bound is not None and config.on_policy:
        lines.append("one update a step: V is V_old, and its clip does not act")
    if own.shared:
        coefficient = number(config.value_coefficient)
        lines.insert(0, "V: a value head on the policy's trunk; it gives 0 at first")
        lines.append(f"in the policy's loss, times c_v = {coefficient}, with the policy's optimiser")
    else:
        revision = f", revision {own.revision}" if own.revision is not None else ""
        start = "the policy as training begins" if own.path is None else f"{own.path}{revision}"
        lines.insert(0, f"V: a model of its own, from {start}; a new value head gives 0 at first")
        lines.append(f"minimise over its own parameters, on the same minibatches:   {average(facts)} ℓV_{{i,t}}")
        lines += optimiser(own.optimizer, config.steps * config.epochs * config.minibatches)
        if config.target_kl is not None:
            lines.append("all of its updates are taken, also those that the policy skips")
    if own.warmup_steps:
        lines.append(f"in the first {count(own.warmup_steps, 'step')} it alone is trained")
    return lines


def trust_region(facts: Facts, config: TRPOConfig) -> tuple[list[str], list[str]]:
    """The objective of TRPO, and how its step is found."""
    limit, damped = number(config.max_kl), _damped(config.damping)
    problems = max(1, round(config.fisher_share * config.problems_per_step))
    responses = count(config.problems_per_step * config.group_size, "response")
    goal = [
        f"minimise over θ, once a step, subject to mean KL(π_old ‖ π_θ) ≤ {limit} nats a token:",
        f"    J(θ) = {average(facts)} {terms(facts)}",
        f"{config.aggregation}: i over the B = {responses} of the step, of all processes, less those left out of the "
        "loss",
        "the KL is over the whole vocabulary, its mean over all response tokens",
    ]
    step = [
        f"Δ = √(2·{limit}/xᵀ{damped}x)·x,   x ≈ {damped}⁻¹ g,   g = −∇J",
        f"x by at most {count(config.cg_iterations, 'iteration')} of the conjugate gradient, until its residual is "
        f"{number(config.cg_tolerance)}·‖g‖",
        f"F: the Hessian of the mean KL at π_old, on {count(problems, 'problem')} drawn from the step, a share of "
        f"{number(config.fisher_share)}",
        f"line search: θ + {number(config.shrink)}^k·Δ for k = 0, …, {config.backtracks}; the first to lower J with a "
        f"mean KL ≤ {limit} is taken; if there is none, θ stays",
    ]
    return goal, step


def _damped(damping: float) -> str:
    return f"(F + {factor(damping, 'I')})" if damping > 0 else "F"


def supervised(config: SFTConfig, model: ModelConfig) -> list[str]:
    """Supervised fine-tuning."""
    total = config.steps * config.batch_size
    return [
        f"minimise over θ, once a step, on {count(config.batch_size, 'demonstration')}:",
        "    (1/Σ_i L_i) Σ_i Σ_t −log π_θ(o_t)",
        "token_mean: over the response tokens of the batch, of all processes; at temperature 1",
        parameters(model),
        f"{count(config.steps, 'step')} × {config.batch_size:,} = {count(total, 'demonstration')}",
        *optimiser(config.optimizer, config.steps),
    ]
