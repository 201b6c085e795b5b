"""The formulas of `reasonrl explain`, with the numbers of a run put in."""

import inspect
from pathlib import Path
from typing import Any

import pytest
from explain_runs import KINDS, run_of, sections_of

from reasonrl.algorithms.whitening import whiten
from reasonrl.config import ProcessConfig
from reasonrl.explain.text import count, factor, number, share, shown
from reasonrl.explain.unused import default_at


@pytest.mark.parametrize(
    ("name", "settings", "title", "expected"),
    [
        ("grpo", {}, "objective", "    (1/B) Σ_i (1/L_i) Σ_t w_{i,t}·ℓ_{i,t}"),
        ("grpo", {}, "objective", "in each of 2 updates a step (1 epoch × 2 minibatches of 2 problems):"),
        ("grpo", {}, "objective", "the B = 16 responses of the update"),
        ("grpo", {"aggregation": "constant", "importance.mode": "none"}, "objective", "(1/(B·26)) Σ_i Σ_t ℓ_{i,t}"),
        ("grpo", {"aggregation": "token_mean"}, "objective", "(1/Σ_i L_i) Σ_i Σ_t w_{i,t}·ℓ_{i,t}"),
        ("grpo", {"kl.coefficient": 0.04, "entropy_bonus": 0.01}, "objective",
         "[w_{i,t}·ℓ_{i,t} + 0.04·KL_{i,t} − 0.01·H_{i,t}]"),
        ("grpo", {"kl.coefficient": 1}, "objective", "[w_{i,t}·ℓ_{i,t} + KL_{i,t}]"),
        ("grpo", {"target_kl": 0.02}, "objective", "by k3, is above 1.5 × 0.02 = 0.03 nats a token is not taken, nor"),
        ("grpo", {}, "loss", "ℓ = −min(ρA, clip(ρ, 0.8, 1.2)·A),   ρ = π_θ(o_t)/π_old(o_t)"),
        ("grpo", {"dual_clip": 3}, "loss", "where A < 0:   ℓ = −max(min(ρA, clip(ρ, 0.8, 1.2)·A), 3·A)"),
        ("grpo", {"minibatches": 1}, "loss", "no clip acts, and the gradient of ℓ is that of −A·log π_θ(o_t)"),
        ("gspo", {}, "loss", "ℓ = −min(sA, clip(s, 0.9997, 1.0004)·A)"),
        ("cispo", {}, "loss", "ℓ = −sg(clip(ρ, 0, 5))·A·log π_θ(o_t)"),
        ("rloo", {}, "loss", "ℓ = −ρA,   ρ = π_θ(o_t)/π_old(o_t)"),
        ("grpo", {}, "advantage", "A_{i,t} = (r_i − mean r)/(std r + 1e-6),   r_i = R_i, over the 8 responses to"),
        ("grpo", {}, "advantage", "; std of the population, with 1/n"),
        ("grpo", {"std_epsilon": 0, "std": "sample"}, "advantage",
         "(r_i − mean r)/(std r),   r_i = R_i, over the 8 responses to a problem; std of a sample, with 1/(n − 1)"),
        ("dr_grpo", {}, "advantage", "A_{i,t} = r_i − mean r,"),
        ("rloo", {"group_size": 4, "kl.coefficient": 0.1}, "advantage",
         "A_{i,t} = r_i − mean of the r of the other 3 responses to the problem,   r_i = R_i − β·Σ_t KL_t"),
        ("reinforce_pp", {"kl.coefficient": 0.1}, "advantage", "r_t = [t is the last token]·R_i − β·KL_t"),
        ("reinforce_pp_baseline", {}, "advantage",
         "r_t = [t is the last token]·(R_i − mean R of the 8 responses to the problem)"),
        ("grpo", {"process": {}}, "advantage",
         "A_{i,t} = Σ_{j: end(j) ≥ t} z_i^(j),   z_i^(j) = (r_i^(j) − mean R)/(std R + 1e-6)"),
        ("grpo", {"process": {"outcome_weight": 0.5}}, "rewards", "one more step at the last token, with 0.5·R_i"),
        ("ppo", {"discount": 0.9, "process_weight": 2}, "advantage",
         "δ_t = r_t + 0.9·V_{t+1} − V_t;   A_t = δ_t + 0.9·0.95·A_{t+1} (γλ = 0.855)"),
        ("ppo", {"process_weight": 2}, "advantage", "r_t = [t is the last token]·R_i + Σ_{j: end(j) = t} 2·r^(j)"),
        ("ppo", {}, "critic", "ℓV = ½·max((V − R̂)², (V_old + clip(V − V_old, ±0.2) − R̂)²)"),
        ("ppo", {"value_clip": None}, "critic", "ℓV = ½·(V − R̂)²"),
        ("ppo", {"critic.shared": True}, "objective", "[w_{i,t}·ℓ_{i,t} + 0.5·ℓV_{i,t}]"),
        ("ppo", {"critic.warmup_steps": 1}, "critic",
         "in the first 1 step it alone is trained"),
        ("ppo", {"loss": "penalty"}, "objective", "[w_{i,t}·ℓ_{i,t} + β_p·D_{i,t}]"),
        ("ppo", {"loss": "penalty"}, "penalty",
         "halved below 0.01/1.5 = 0.006666666667, doubled above 1.5 × 0.01 = 0.015"),
        ("ppo", {"minibatches": 1, "epochs": 1}, "critic", "one update a step: V is V_old, and its clip does not act"),
        ("dapo", {}, "rewards", "S_i = clip((21 − L_i)/5, −1, 0): 0 up to 21 of the 26 tokens"),
        ("dapo", {}, "algorithm", "with refills up to 4 times as many: 384 responses"),
        ("grpo", {}, "algorithm",
         "3 steps × 4 problems × 8 responses = 96 responses\n3 steps × 1 epoch × 2 minibatches = 6 updates"),
        ("trpo", {}, "objective",
         "subject to mean KL(π_old ‖ π_θ) ≤ 0.01 nats a token:\n    J(θ) = (1/Σ_i L_i) Σ_i Σ_t w_{i,t}·ℓ_{i,t}"),
        ("trpo", {"fisher_share": 0.5}, "step", "Δ = √(2·0.01/xᵀ(F + 0.1·I)x)·x,   x ≈ (F + 0.1·I)⁻¹ g,   g = −∇J"),
        ("trpo", {"fisher_share": 0.5}, "step", "on 2 problems drawn from the step"),
        ("trpo", {}, "step", "line search: θ + 0.8^k·Δ for k = 0, …, 10;"),
        ("grpo", {}, "KL", "β = 0: no reference model is loaded"),
        ("grpo", {"kl.coefficient": 0.04}, "KL", "KL_t = e^(−d) + d − 1   (k3),   d = log π_θ(o_t) − log π_ref(o_t)"),
        ("rloo", {"kl.coefficient": 0.04}, "KL", "KL_t = d   (k1),   d = log π_old(o_t) − log π_ref(o_t)"),
        ("grpo", {"kl.coefficient": 0.04, "kl.estimator": "k1"}, "KL", "k1 in the loss has a gradient of 0 on average"),
        ("grpo", {"kl.coefficient": 0.04, "kl.target": 0.1}, "KL",
         "β ← β·(1 + clip(KL/0.1 − 1, ±0.2)·32/10000) after each step\nthat is by 0.064 % at most"),
        ("grpo", {"optimizer.schedule": "cosine", "optimizer.final_ratio": 0.1}, "optimiser",
         "rate: falls along a cosine, to reach 1e-7 after the last of 6 updates"),
        ("grpo", {"optimizer.warmup_steps": 2}, "optimiser",
         "rate: rises linearly over the first 2 updates, then constant"),
        ("sft", {}, "sft", "    (1/Σ_i L_i) Σ_i Σ_t −log π_θ(o_t)"),
        ("sft", {}, "sft", "3 steps × 4 = 12 demonstrations"),
    ],
)  # fmt: skip
def test_the_formulas_with_their_numbers(name: str, settings: dict[str, Any], title: str, expected: str) -> None:
    assert expected in sections_of(run_of(name, settings))[title]


@pytest.mark.parametrize(
    ("settings", "others", "known", "expected"),
    [
        ({}, {"engine": "huggingface"}, None,
         "engine huggingface:   the trained model itself, no weight w;   π_old: μ, as"),
        ({}, {"engine": "vllm"}, True,
         "engine vllm:   π_old: by the trainer, before the step's first update;   w = min(π_old/μ, 2)"),
        ({"minibatches": 1}, {"engine": "vllm"}, None,
         "engine vllm:   π_old: π_θ itself, as a constant;   w = min(π_old/μ, 2)"),
        ({}, {}, True, "engine auto:   the trained model itself, no weight w;   π_old: μ"),
        ({}, {}, None, "if huggingface, the trained model itself:   w = 1;   π_old: μ"),
        ({}, {}, None, "if vllm, a copy with other kernels:   π_old: by the trainer"),
        ({"importance.mode": "none"}, {"engine": "vllm"}, None,
         "engine vllm:   no weight w, whatever samples (importance.mode none);   π_old: μ"),
        ({"importance.mode": "truncated", "importance.cap": 5}, {}, None,
         "engine auto:   π_old: by the trainer, before the step's first update;   w = min(π_old/μ, 5)"),
    ],
)  # fmt: skip
def test_the_sampler_is_told_as_far_as_it_is_known(
    settings: dict[str, Any], others: dict[str, Any], known: bool | None, expected: str
) -> None:
    assert expected in sections_of(run_of("grpo", settings, **others), sampler_is_policy=known)["sampler"]


@pytest.mark.parametrize(
    ("others", "title", "expected"),
    [
        ({"sampling": {"temperature": 0.6}}, "sampler", "at temperature 0.6, at most 26 tokens"),
        ({"sampling": {"max_tokens": 1, "stop": ("\n\n",)}}, "sampler",
         "temperature 1, at most 1 token; '\\n\\n' ends a"),
        ({"verification": {"max_unjudged": 0.25}}, "rewards", "a step with more than 25 % of them ends the run"),
        ({"model": {"path": "m", "revision": "r"}}, "algorithm", "θ: all weights of m, revision r"),
        ({"model": {"path": "m", "lora": {"targets": ["q"]}}}, "algorithm", "W + (32/16)·B·A of rank 16 on [q], of m"),
        ({"warm_start": {"steps": 2, "batch_size": 3}}, "warm start", "2 steps × 3 = 6 demonstrations"),
    ],
)  # fmt: skip
def test_what_a_run_says_beside_its_algorithm(others: dict[str, Any], title: str, expected: str) -> None:
    assert expected in sections_of(run_of("grpo", **others))[title]


def test_the_reference_is_the_policy_after_a_warm_start() -> None:
    settings = {"kl.coefficient": 0.1}
    assert "π_ref: the policy as training begins" in sections_of(run_of("grpo", settings))["KL"]
    warm = run_of("grpo", settings, warm_start={"steps": 2, "batch_size": 3})
    assert "π_ref: the policy after the warm start" in sections_of(warm)["KL"]


def test_rewards_are_those_of_the_tasks_by_their_weights(tmp_path: Path) -> None:
    (tmp_path / "mix.yaml").write_text("name: mix\nmixture:\n- {task: arithmetic, weight: 3}\n- {task: gsm8k}\n")
    (tmp_path / "told.yaml").write_text(
        "extends: arithmetic\nname: told\nverifiers:\n- {name: exact, weight: 0}\n- {name: format, weight: 0.5}\n"
        "- {name: length, options: {max_tokens: 9, buffer: 3}}\n"
    )
    mixture = sections_of(run_of("grpo", task=str(tmp_path / "mix.yaml")))["rewards"]
    assert "arithmetic (75 % of the problems): R_i = arithmetic_steps\n" in mixture
    assert "gsm8k (25 % of the problems): R_i = math" in mixture
    told = sections_of(run_of("grpo", task=str(tmp_path / "told.yaml")))["rewards"]
    assert "R_i = 0.5·format + length   (reported only: exact)\n" in told


def test_the_epsilon_of_whitening_is_the_one_computed_with() -> None:
    epsilon = number(inspect.signature(whiten).parameters["eps"].default)
    for name, title in (("ppo", "advantage"), ("reinforce_pp", "advantage")):
        assert f" + {epsilon})" in sections_of(run_of(name))[title]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (number(1e-6), "1e-6"),
        (number(1 - 3e-4), "0.9997"),
        (number(1 + 0.28), "1.28"),
        (number(5.0), "5"),
        (share(0.1), "10 %"),
        (share(1 / 3), "33.33 %"),
        (count(1, "epoch"), "1 epoch"),
        (count(25600, "response"), "25,600 responses"),
        (count(2, "minibatch", "minibatches"), "2 minibatches"),
        (factor(1.0, "KL"), "KL"),
        (factor(0.5, "KL"), "0.5·KL"),
        (shown((0.9, 0.95)), "[0.9, 0.95]"),
        (shown(None), "null"),
        (shown(True), "true"),
        (shown("clip"), "clip"),
        (shown(ProcessConfig()), "{steps: verifier, separator: null, outcome_weight: 0}"),
    ],
)
def test_numbers_are_written_short(text: str, expected: str) -> None:
    assert text == expected


def test_defaults_are_read_at_dotted_keys() -> None:
    assert default_at(KINDS["gspo"], "clip_low") == 3e-4
    assert default_at(KINDS["rloo"], "kl.place") == "reward"
