"""What a response earns, and how that becomes the advantage of each of its tokens."""

from reasonrl.config import AdvantageConfig, PPOConfig, ProcessConfig
from reasonrl.explain.facts import Facts
from reasonrl.explain.text import factor, number, share
from reasonrl.tasks import Mixture, Task

_WHITEN_EPSILON = 1e-8  # of `algorithms.whitening.whiten`


def rewards(facts: Facts) -> list[str]:
    """R of a response: the task's verifiers with their weights, shaping, and what is left out."""
    config, limit = facts.algorithm, facts.sampling.max_tokens
    shaped = config.overlong_buffer is not None
    lines = [line + " + S_i" * shaped for line in of_verifiers(facts.task)]
    if config.overlong_buffer is not None:
        buffer = max(1, round(config.overlong_buffer * limit))
        lines.append(
            f"S_i = clip(({limit - buffer} − L_i)/{buffer}, −1, 0): 0 up to {limit - buffer:,} of the {limit:,} tokens "
            f"({share(config.overlong_buffer)} before the end), then falling to −1 at {limit:,}"
        )
    unjudged = facts.run.verification.max_unjudged
    lines.append(
        f"a response that could not be judged is left out of means and loss, never 0; a step with more than "
        f"{share(unjudged)} of them ends the run"
    )
    if config.mask_truncated:
        lines.append(
            f"a response cut at {limit:,} tokens counts in the advantages of others, and is left out of the loss"
        )
    if isinstance(config, PPOConfig):
        return lines + ([_weighted_steps(config)] if config.process_weight > 0 else [])
    if config.process is not None:
        lines += steps(config.process)
    if config.refills:
        spread = "step rewards" if config.process is not None else "rewards"
        lines.append(
            f"dynamic sampling: groups whose {spread} are all equal are left out of the step, others sampled in their "
            f"place, up to {config.refills} times a step"
        )
    return lines


def of_verifiers(task: Task | Mixture) -> list[str]:
    """R_i = Σ_k w_k·r_k(i), a line for each task of a mixture."""
    total = sum(weight for _, weight in task.parts)
    lines = []
    for part, weight in task.parts:
        which = f"{part.name} ({share(weight / total)} of the problems): " if isinstance(task, Mixture) else ""
        weighed = [entry for entry in part.verifiers if entry.weight != 0]
        told = [entry.name for entry in part.verifiers if entry.weight == 0]
        summed = " + ".join(factor(entry.weight, entry.name) for entry in weighed) or "0"
        lines.append(f"{which}R_i = {summed}" + (f"   (reported only: {', '.join(told)})" if told else ""))
    return lines


def steps(config: ProcessConfig) -> list[str]:
    """Which steps there are, and what each of them earns."""
    if config.steps == "verifier":
        first = "steps: those that verifiers reward, each with its reward times the verifier's weight"
    else:
        by = f" {config.separator!r}" if config.separator is not None else ""
        first = (
            f"steps: those of the text, by {config.steps}{by}, each with the lowest of the step rewards that end in "
            "it, times the verifier's weight; one without any is no step"
        )
    if config.outcome_weight == 0:
        return [first, "the outcome R_i is no step (process.outcome_weight 0)"]
    return [first, f"one more step at the last token, with {factor(config.outcome_weight, 'R_i')}"]


def _weighted_steps(config: PPOConfig) -> str:
    return (
        f"steps: those that verifiers reward; {factor(config.process_weight, 'r^(j)')} stands on the last token of "
        "step j, r^(j) its reward times the verifier's weight"
    )


def advantage(facts: Facts) -> list[str]:
    """A_{i,t}."""
    config = facts.algorithm
    if isinstance(config, PPOConfig):
        return _gae(facts, config)
    if config.advantage in ("batch_whitened", "group_centred_whitened"):
        return _whitened(facts, config)
    earned = "R_i − β·Σ_t KL_t" if facts.kl_in_reward else "R_i"
    if config.advantage == "leave_one_out":
        others = config.group_size - 1
        lines = [f"A_{{i,t}} = r_i − mean of the r of the other {others:,} responses to the problem,   r_i = {earned}"]
    elif config.process is not None:
        lines = _process(facts, config)
    else:
        group = f"over the {config.group_size:,} responses to a problem"
        lines = [f"A_{{i,t}} = {_normalised(config, 'r_i', 'r')},   r_i = {earned}, {group}{_which_std(config)}"]
    return [*lines, _silent(facts)]


def _normalised(config: AdvantageConfig, one: str, all_of: str) -> str:
    centred = f"{one} − mean {all_of}"
    if config.std == "none":
        return centred
    epsilon = f" + {number(config.std_epsilon)}" if config.std_epsilon > 0 else ""
    return f"({centred})/(std {all_of}{epsilon})"


def _which_std(config: AdvantageConfig) -> str:
    return {
        "population": "; std of the population, with 1/n",
        "sample": "; std of a sample, with 1/(n − 1)",
        "none": "   (std: none)",
    }[config.std]


def _process(facts: Facts, config: AdvantageConfig) -> list[str]:
    paid = " less β·Σ KL_t since the step before" if facts.kl_in_reward else ""
    z = f"{_normalised(config, 'r_i^(j)', 'R')}{_which_std(config)}"
    return [
        f"A_{{i,t}} = Σ_{{j: end(j) ≥ t}} z_i^(j),   z_i^(j) = {z}",
        f"r_i^(j): the reward of step j{paid};   R: those of all steps of the {config.group_size:,} responses to a "
        "problem",
    ]


def _silent(facts: Facts) -> str:
    bonus = getattr(facts.algorithm, "entropy_bonus", 0.0) > 0
    if facts.kl_in_loss or bonus:
        other = "KL" if facts.kl_in_loss else "entropy"
        return f"A = 0 in a group that agrees; the {other} term pulls on its responses all the same"
    if facts.refills:
        return "a group that agrees is left out, of the average too"
    return "a group that agrees has A = 0: its forward is left out, and its responses count in the average all the same"


def _whitened(facts: Facts, config: AdvantageConfig) -> list[str]:
    outcome = "R_i"
    if config.advantage == "group_centred_whitened":
        outcome = f"(R_i − mean R of the {config.group_size:,} responses to the problem)"
    pays = " − β·KL_t" if facts.kl_in_reward else ""
    return [
        f"A_{{i,t}} = (G_t − mean G)/(std G + {number(_WHITEN_EPSILON)}), over all tokens of the step; std with 1/n",
        f"G_t = Σ_{{s ≥ t}} r_s,   r_t = [t is the last token]·{outcome}{pays}",
    ]


def _gae(facts: Facts, config: PPOConfig) -> list[str]:
    pays = " − β·KL_t" if facts.kl_in_reward else ""
    process = f" + Σ_{{j: end(j) = t}} {factor(config.process_weight, 'r^(j)')}" if config.process_weight > 0 else ""
    discount, decay = factor(config.discount, "V_{t+1}"), number(config.discount * config.gae_lambda)
    lines = [
        f"r_t = [t is the last token]·R_i{process}{pays}",
        f"δ_t = r_t + {discount} − V_t;   A_t = δ_t + {number(config.discount)}·{number(config.gae_lambda)}·A_{{t+1}} "
        f"(γλ = {decay});   R̂_t = A_t + V_t;   0 after the last token",
    ]
    if config.whiten:
        epsilon = number(_WHITEN_EPSILON)
        lines.append(f"then A ← (A − mean A)/(std A + {epsilon}), over all tokens of the step; std with 1/n")
    else:
        lines.append("A is not whitened")
    return lines
