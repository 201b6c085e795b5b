"""What learning from preferences optimises: the loss of a pair, the reference, and where pairs come from."""

from reasonrl.config import DPOConfig, OnlineDPOConfig, PreferenceConfig, RunConfig
from reasonrl.explain.rewards import of_verifiers
from reasonrl.explain.text import count, number, share
from reasonrl.explain.updates import optimiser, parameters
from reasonrl.tasks import Mixture, SamplingConfig, Task

_CHOICES = {
    "random": "drawn",
    "balanced": "those that keep chosen and rejected responses as long as each other",
    "hardest": "those whose rejected response was likeliest beside the chosen one",
}


def pair_loss(config: PreferenceConfig) -> list[str]:
    """ℓ of a pair, with its numbers."""
    beta, smoothing = number(config.beta), config.label_smoothing
    logs = "(1/L)·Σ_t log" if config.length_normalised else "Σ_t log"
    delta = "Δ = (log π_θ(o_w) − log π_ref(o_w)) − (log π_θ(o_l) − log π_ref(o_l))"
    loss = {
        "dpo": f"ℓ = −log σ({beta}·Δ)",
        "ipo": f"ℓ = (Δ − 1/(2·{beta}))²",
        "hinge": f"ℓ = max(0, 1 − {beta}·Δ)",
    }[config.loss]
    if smoothing > 0:
        loss = f"ℓ = −{number(1 - smoothing)}·log σ({beta}·Δ) − {number(smoothing)}·log σ(−{beta}·Δ)"
    return [
        f"{loss},   {delta}",
        f"log π(o): {logs} π(o_t) of the response's tokens, its end of sequence among them, at temperature 1",
        f"implicit reward: {beta}·(log π_θ(o) − log π_ref(o))",
    ]


def offline(run: RunConfig, config: DPOConfig) -> list[tuple[str, list[str]]]:
    """The sections of DPO on files."""
    start = "after the warm start" if run.warm_start is not None else "as training begins"
    total = config.steps * config.batch_size
    head = [
        "dpo: DPO (Rafailov et al. 2023, arXiv 2305.18290)" + _variant(config),
        parameters(run.model),
        f"{count(config.steps, 'step')} × {config.batch_size:,} = {count(total, 'pair')}",
    ]
    goal = [f"minimise over θ, once a step, on B = {count(config.batch_size, 'pair')}:", "    (1/B) Σ_i ℓ_i"]
    return [
        ("algorithm", head),
        ("objective", goal),
        ("loss", pair_loss(config)),
        ("pairs", [f"of {', '.join(config.pairs)}; o_w chosen, o_l rejected"]),
        ("reference", [f"π_ref: the policy {start}; its log-probabilities are computed once, and kept for later runs"]),
        ("optimiser", optimiser(config.optimizer, config.steps)),
    ]


def online(
    run: RunConfig, config: OnlineDPOConfig, task: Task | Mixture, sampling: SamplingConfig
) -> list[tuple[str, list[str]]]:
    """The sections of DPO on the policy's own responses."""
    responses = config.steps * config.responses_per_step
    drawn = f"{count(config.steps, 'step')} × {count(config.problems_per_step, 'problem')}"
    per_step = f"{count(config.epochs, 'epoch')} × {count(config.minibatches, 'minibatch', 'minibatches')}"
    head = [
        "online_dpo: online DPO (Guo et al. 2024, arXiv 2402.04792), verifiers in place of an annotator"
        + _variant(config),
        parameters(run.model),
        f"{drawn} × {count(config.group_size, 'response')} = {count(responses, 'response')}",
        f"{count(config.steps, 'step')} × {per_step} = {count(config.updates, 'update')}",
    ]
    goal = [
        f"minimise over θ, in each of {count(config.epochs * config.minibatches, 'update')} a step, on its B pairs:",
        "    (1/B) Σ_i ℓ_i",
    ]
    start = "after the warm start" if run.warm_start is not None else "as training begins"
    reference = f"the policy {start}" if config.reference == "start" else "the policy as each step begins"
    return [
        ("algorithm", head),
        ("objective", goal),
        ("loss", pair_loss(config)),
        ("sampler", [f"o ~ π_θ at temperature {number(sampling.temperature)}, at most {sampling.max_tokens:,} tokens"]),
        ("rewards", _rewards(config, task, sampling)),
        ("pairs", _pairs(config)),
        ("reference", [f"π_ref: {reference}"]),
        ("optimiser", optimiser(config.optimizer, config.updates)),
    ]


def _variant(config: PreferenceConfig) -> str:
    names = {"ipo": "the loss of IPO (arXiv 2310.12036)", "hinge": "a hinge on the margin (arXiv 2305.10425)"}
    found = [names[config.loss]] if config.loss in names else []
    if config.label_smoothing > 0:
        found.append("conservative: labels smoothed")
    if config.length_normalised:
        found.append("normalised by length")
    return "".join(f"; {name}" for name in found)


def _rewards(config: OnlineDPOConfig, task: Task | Mixture, sampling: SamplingConfig) -> list[str]:
    shaped = config.overlong_buffer is not None
    lines = [line + " + S_i" * shaped for line in of_verifiers(task)]
    if config.overlong_buffer is not None:
        limit = sampling.max_tokens
        buffer = max(1, round(config.overlong_buffer * limit))
        lines.append(
            f"S_i = clip(({limit - buffer} − L_i)/{buffer}, −1, 0): falls to −1 over the last "
            f"{share(config.overlong_buffer)} of the tokens"
        )
    return lines


def _pairs(config: OnlineDPOConfig) -> list[str]:
    better = "o_w is right and o_l is wrong, by the judge"
    if config.margin is not None:
        better = f"R_w > R_l by at least {number(config.margin)}, and o_w is not wrong where o_l is right"
    lines = [
        f"{better}; at most {config.pairs_per_problem:,} of a problem: {_CHOICES[config.choice]}",
        "a response that could not be judged is in no pair",
    ]
    if config.mask_truncated:
        lines.append("nor is one cut at the token limit")
    return lines
