"""PPO's clip, KL and pass@k against the float64 rows of an independent NumPy implementation."""

from collections import Counter

import pytest
from oracle_rows import CASES, Case, close, float64, rows

from reasonrl.algorithms.kl import kl_estimate
from reasonrl.algorithms.losses import clip
from reasonrl.algorithms.pass_at_k import pass_at_k, pass_hat_k


def test_no_row_is_missing_and_none_is_left_over() -> None:
    assert Counter(case["fn"] for case in CASES) == {
        "group_advantage": 42,
        "rloo_advantage": 8,
        "process_advantage": 8,
        "gae": 20,
        "reinforce_pp_advantage": 4,
        "kl_token": 12,
        "ppo_clip_token": 24,
        "delta_clip_token": 8,
        "cispo_token": 8,
        "cispo_loss": 4,
        "gspo_ratio": 4,
        "grpo_loss": 60,
        "grpo_grad": 24,
        "value_clip_loss": 4,
        "dpo": 18,
        "bradley_terry": 9,
        "pass_at_k": 11,
        "pass_hat_k": 9,
        # the same numbers as overlong_penalty.json, in tests/verifiers/test_rule_length.py
        "overlong_penalty": 7,
    }
    assert len({case["name"] for case in CASES}) == len(CASES) == 284


@rows("kl_token")
def test_kl_token(case: Case) -> None:
    given = case["inputs"]
    close(kl_estimate(float64([given["lp"]]), float64([given["ref"]]), given["kind"]), [case["expected"]])


@rows("ppo_clip_token")
def test_ppo_clip_token(case: Case) -> None:
    given = case["inputs"]
    loss = clip(
        float64([given["lp"]]),
        float64([given["old"]]),
        float64([given["A"]]),
        clip_low=given["lo"],
        clip_high=given.get("hi", given["lo"]),
        dual_clip=given.get("dual"),
    )
    close(loss, [case["expected"]])


@rows("pass_at_k")
def test_pass_at_k_row(case: Case) -> None:
    assert pass_at_k(**case["inputs"]) == pytest.approx(case["expected"], abs=1e-9)


@rows("pass_hat_k")
def test_pass_hat_k_row(case: Case) -> None:
    assert pass_hat_k(**case["inputs"]) == pytest.approx(case["expected"], abs=1e-9)
