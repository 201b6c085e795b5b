"""The scalar that an update minimises, the loss of a token, the ratio in it, and the KL toward the reference."""

from reasonrl.config import CriticFreeConfig, KLConfig, PPOConfig, TRPOConfig, UpdatesConfig
from reasonrl.explain.facts import Facts
from reasonrl.explain.text import count, factor, number, share

_RATIO = "ρ = π_θ(o_t)/π_old(o_t)"
_OLD_IN_REWARD = {
    True: "by the trainer",
    False: "μ, as the sampler gave it",
    None: "μ if huggingface samples, by the trainer if vllm",
}
_ESTIMATORS = {"k1": "d", "k2": "d²/2", "k3": "e^(−d) + d − 1"}


def average(facts: Facts) -> str:
    """How losses of tokens become one number: what stands before the loss of a token."""
    return {
        "sequence_mean": "(1/B) Σ_i (1/L_i) Σ_t",
        "token_mean": "(1/Σ_i L_i) Σ_i Σ_t",
        "constant": f"(1/(B·{facts.sampling.max_tokens})) Σ_i Σ_t",
    }[facts.algorithm.aggregation]


def terms(facts: Facts) -> str:
    """The terms of a token's loss, with their coefficients."""
    config = facts.algorithm
    found = ["ℓ_{i,t}" if facts.corrects is False else "w_{i,t}·ℓ_{i,t}"]
    if facts.kl_in_loss:
        beta = "β·KL_{i,t}" if config.kl.target is not None else factor(config.kl.coefficient, "KL_{i,t}")
        found.append(f"+ {beta}")
    if isinstance(config, PPOConfig) and config.loss == "penalty":
        found.append("+ β_p·D_{i,t}")
    if isinstance(config, UpdatesConfig) and config.entropy_bonus > 0:
        found.append(f"− {factor(config.entropy_bonus, 'H_{i,t}')}")
    if isinstance(config, PPOConfig) and config.critic.shared:
        found.append(f"+ {factor(config.value_coefficient, 'ℓV_{i,t}')}")
    return found[0] if len(found) == 1 else f"[{' '.join(found)}]"


def objective(facts: Facts, config: CriticFreeConfig | PPOConfig) -> list[str]:
    """What an update minimises, over which responses."""
    minibatch = config.problems_per_step // config.minibatches
    responses = count(minibatch * config.group_size, "response")
    updates = config.epochs * config.minibatches
    if config.on_policy:
        when = f"in the one update of a step, on {count(config.problems_per_step, 'problem')}"
    else:
        cut = f"{count(config.epochs, 'epoch')} × {count(config.minibatches, 'minibatch', 'minibatches')}"
        when = f"in each of {updates:,} updates a step ({cut} of {count(minibatch, 'problem')})"
    fewer = "; fewer where refills end with groups without spread" if facts.refills else ""
    lines = [
        f"minimise over θ, {when}:",
        f"    {average(facts)} {terms(facts)}",
        f"{config.aggregation}: i over the B = {responses} of the update, of all processes, less those left out of the "
        f"loss{fewer}",
    ]
    if config.entropy_bonus > 0:
        lines.append("H: entropy of π_θ over the whole vocabulary, exact from the logits")
    if config.target_kl is not None and not config.on_policy:
        limit = f"1.5 × {number(config.target_kl)} = {number(1.5 * config.target_kl)}"
        lines.append(
            f"after a step's first update, one whose mean KL(π_old ‖ π_θ), by k3, is above {limit} nats a token is not "
            "taken, nor are those behind it"
        )
    return lines


def token_loss(facts: Facts) -> list[str]:
    """ℓ, with the numbers of its clip."""
    config = facts.algorithm
    if isinstance(config, TRPOConfig) or config.loss in ("importance_weighted", "penalty"):
        lines = [f"ℓ = −ρA,   {_RATIO}"]
    else:
        clip = f"{number(1 - config.clip_low)}, {number(1 + config.clip_high)}"
        lines = {
            "clip": [f"ℓ = −min(ρA, clip(ρ, {clip})·A),   {_RATIO}"],
            "gspo": [
                f"ℓ = −min(sA, clip(s, {clip})·A),   s = sg(s_i)·π_θ(o_t)/sg(π_θ(o_t)),   sg: as a constant",
                "s_i = exp((1/L_i) Σ_t log(π_θ(o_t)/π_old(o_t))): one ratio, and one clip, for a response",
            ],
            "cispo": [f"ℓ = −sg(clip(ρ, {clip}))·A·log π_θ(o_t),   {_RATIO},   sg: as a constant"],
        }[config.loss]
        if config.dual_clip is not None:
            lines.append(f"where A < 0:   ℓ = −max(min(ρA, clip(ρ, {clip})·A), {number(config.dual_clip)}·A)")
    if facts.on_policy:
        lines.append("one update a step: π_old is π_θ, no clip acts, and the gradient of ℓ is that of −A·log π_θ(o_t)")
    return lines


def penalty(config: PPOConfig) -> list[str]:
    """PPO-Penalty's term and the rule of its coefficient."""
    target = config.penalty.target
    low, high = number(target / 1.5), number(1.5 * target)
    return [
        "D = KL(π_old ‖ π_θ) over the whole vocabulary",
        f"β_p = {number(config.penalty.coefficient)} at first; by the mean D that a step led to it is halved below "
        f"{number(target)}/1.5 = {low}, doubled above 1.5 × {number(target)} = {high} nats a token",
    ]


def sampler(facts: Facts) -> list[str]:
    """What samples, what π_old is, and how a sampler that is another model is corrected for."""
    config = facts.algorithm
    stops = f"; {', '.join(map(repr, facts.sampling.stop))} ends a response" if facts.sampling.stop else ""
    lines = [
        f"o_i ~ μ at temperature {number(facts.sampling.temperature)}, "
        f"at most {count(facts.sampling.max_tokens, 'token')}{stops}",
        "all probabilities of the loss are at that temperature",
    ]
    same, weighted = _old(facts, corrected=False), _old(facts, corrected=True)
    cap = number(config.importance.cap)
    weight = f"{weighted};   w = min(π_old/μ, {cap}), as a constant"
    engine = facts.run.engine.name
    if facts.corrects is None:
        lines += [
            "engine auto: vLLM where it is installed and the model is more than a toy; the run says which",
            f"if huggingface, the trained model itself:   w = 1;   {same}",
            f"if vllm, a copy with other kernels:   {weight}",
        ]
    else:
        lines.append(f"engine {engine}:   " + (weight if facts.corrects else f"{_no_weight(facts)};   {same}"))
    return lines


def _no_weight(facts: Facts) -> str:
    if facts.sampler_is_policy:
        return "the trained model itself, no weight w"
    return "no weight w, whatever samples (importance.mode none)"


def _old(facts: Facts, *, corrected: bool) -> str:
    if isinstance(facts.algorithm, TRPOConfig):
        return "π_old: π_θ before the step, by the trainer"
    if facts.on_policy:
        return "π_old: π_θ itself, as a constant"
    return "π_old: by the trainer, before the step's first update" if corrected else "π_old: μ, as the sampler gave it"


def kl(facts: Facts) -> list[str]:
    """The KL toward the reference: estimator, place, coefficient and how that adapts."""
    config = facts.algorithm.kl
    if not facts.has_reference:
        return ["β = 0: no reference model is loaded"]
    policy = "π_θ" if facts.kl_in_loss else "π_old"
    start = "after the warm start" if facts.run.warm_start is not None else "as training begins"
    lines = [
        f"KL_t = {_ESTIMATORS[config.estimator]}   ({config.estimator}),   d = log {policy}(o_t) − log π_ref(o_t),   "
        f"π_ref: the policy {start}"
    ]
    if facts.kl_in_loss:
        unweighted = "" if facts.corrects is False else ", without w"
        lines.append(f"in the loss of every token{unweighted}, β = {number(config.coefficient)}")
        if config.estimator == "k1":
            lines.append(
                "k1 in the loss has a gradient of 0 on average: it does not hold the policy back; k2 and k3 do"
            )
    else:
        lines.append(f"in the rewards, β = {number(config.coefficient)}: {_paid(facts)}")
        lines.append(f"π_old here: {_OLD_IN_REWARD[facts.corrects]}")
    return lines + _adapting(facts, config)


def _paid(facts: Facts) -> str:
    if facts.token_rewards:
        return "each token pays β·KL_t"
    config = facts.algorithm
    if not isinstance(config, PPOConfig) and config.process is not None:
        return "each step pays β·Σ KL_t over the tokens since the step before"
    return "each response pays β·Σ_t KL_t"


def _adapting(facts: Facts, config: KLConfig) -> list[str]:
    if config.target is None:
        return []
    responses = facts.algorithm.problems_per_step * facts.algorithm.group_size
    most = share(0.2 * responses / config.horizon)
    more = ", with more responses where refills bring them" if facts.refills else ""
    return [
        f"β ← β·(1 + clip(KL/{number(config.target)} − 1, ±0.2)·{responses}/{config.horizon}) after each step{more}",
        f"that is by {most} at most; KL: the mean KL_t of the tokens trained on",
    ]
