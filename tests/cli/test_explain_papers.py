"""What `reasonrl explain` says of the papers: a setting that is not theirs is a line, any other none."""

from typing import Any

import pytest
from explain_runs import KINDS, LEARNING, PAPER, keys_of, run_of, sections_of

from reasonrl.config import RunConfig
from reasonrl.explain.papers import PAPERS


def deviating(run: RunConfig) -> list[str]:
    """The keys that a run has otherwise than its paper."""
    lines = sections_of(run, sampler_is_policy=True)[PAPER].splitlines()
    return [line.split(" ")[0] for line in lines if "; the paper: " in line]


@pytest.mark.parametrize("name", LEARNING)
def test_a_run_with_the_papers_settings_deviates_nowhere(name: str) -> None:
    settings = {key: one.values[0] for key, one in PAPERS[name].settings.items() if one.values and fits(name, key)}
    settings["problems_per_step"] = settings.get("problems_per_step", 512)
    if "clip_low" in KINDS[name].model_fields:
        settings["clip_low"] = settings.get("clip_low", 0.2)
    exact = run_of(name, settings)
    assert deviating(exact) == []
    text = sections_of(exact, sampler_is_policy=True)[PAPER].splitlines()
    assert text[0] == PAPERS[name].title
    assert text[1] == "no setting deviates from what the paper states"
    assert text[-1].startswith("left open by the paper: ")


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("grpo", {"group_size": 64, "minibatches": 1, "kl.coefficient": 0.04, "std_epsilon": 0}, []),
        ("grpo", {"group_size": 64, "minibatches": 1, "kl.coefficient": 0.04, "std_epsilon": 0, "std": "sample"}, []),
        ("grpo", {"group_size": 64, "minibatches": 1, "kl.coefficient": 0.04}, ["std_epsilon"]),
        ("grpo", {"group_size": 64, "minibatches": 1, "std": "none"}, ["std", "kl.coefficient"]),
        ("grpo", {"clip_low": 0.1, "clip_high": 0.1}, ["std_epsilon", "minibatches", "group_size", "kl.coefficient"]),
        ("dr_grpo", {}, []),
        ("dr_grpo", {"std": "population", "entropy_bonus": 0.1}, ["entropy_bonus", "std"]),
        ("rloo", {"minibatches": 1, "kl.coefficient": 0.05}, []),
        ("rloo", {"kl.coefficient": 0.05, "kl.place": "loss"}, ["minibatches", "kl.place"]),
        ("reinforce_pp", {}, []),
        ("reinforce_pp_baseline", {"kl.coefficient": 0.1, "kl.estimator": "k3"}, ["kl.estimator"]),
        ("dapo", {"problems_per_step": 512, "group_size": 16, "minibatches": 16, "std_epsilon": 0}, []),
        ("gspo", {"minibatches": 4, "std_epsilon": 0}, []),
        ("cispo", {"std_epsilon": 0}, ["optimizer.betas", "optimizer.epsilon"]),
        ("ppo", {}, ["discount", "whiten", "value_clip"]),
        ("ppo", {"discount": 0.99, "whiten": False, "value_clip": None, "critic.shared": True}, ["value_coefficient"]),
        ("ppo", {"discount": 0.99, "whiten": False, "value_clip": None, "loss": "penalty", "penalty.target": 0.02},
         ["penalty.target"]),
        ("trpo", {}, ["fisher_share"]),
    ],
)  # fmt: skip
def test_deviations_are_those_of_the_settings(name: str, settings: dict[str, Any], expected: list[str]) -> None:
    assert deviating(run_of(name, settings)) == expected


def fits(name: str, key: str) -> bool:
    return key.split(".")[0] in KINDS[name].model_fields


def test_a_papers_keys_are_keys_of_its_algorithm_or_of_another() -> None:
    known = {key for name in KINDS for key, _ in keys_of(KINDS[name])}
    assert set(PAPERS) == set(LEARNING)
    for name, paper in PAPERS.items():
        assert set(paper.settings) <= known, name
        assert paper.title.split("arXiv ")[1].rstrip(")") in (KINDS[name].__doc__ or "")
