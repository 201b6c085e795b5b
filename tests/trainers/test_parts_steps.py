"""Process supervision wants a verifier that rewards steps, of every task, before anything is loaded."""

from pathlib import Path

import pytest
import yaml
from small_runs import RULE, Rule, silent

from reasonrl import ReasonRLError, VerifierOptions, config
from reasonrl.scoring import WeightedVerifier
from reasonrl.trainers import run
from reasonrl.trainers.parts import check_steps


class Stepwise(Rule):
    name = "stepwise"
    supervises = ("outcome", "process")


def judge(weight: float = 1.0, task: str = "") -> WeightedVerifier:
    return WeightedVerifier(Stepwise, VerifierOptions(), weight, "1", task)


def test_one_that_rewards_steps_is_enough() -> None:
    check_steps((RULE, judge()))
    check_steps((judge(task="a"), judge(task="b")))


@pytest.mark.parametrize("verifiers", [(RULE,), (RULE, judge(weight=0.0))])
def test_without_one_there_is_nothing_to_supervise(verifiers: tuple[WeightedVerifier, ...]) -> None:
    with pytest.raises(ReasonRLError, match=r"no verifier rewards steps \(rule\), as process supervision needs"):
        check_steps(verifiers)


def test_every_task_of_a_mixture_needs_one() -> None:
    other = WeightedVerifier(Rule, VerifierOptions(), 1.0, "1", "b")
    with pytest.raises(ReasonRLError, match=r"no verifier of task b rewards steps \(rule\)"):
        check_steps((judge(task="a"), other))


@pytest.mark.parametrize("algorithm", [{"name": "grpo", "process": {}}, {"name": "ppo", "process_weight": 0.5}])
def test_a_run_says_so_and_leaves_nothing_behind(tmp_path: Path, algorithm: dict[str, object]) -> None:
    task = {
        "name": "sums", "generator": {"name": "arithmetic", "options": {"digits": 1, "eval_rows": 10}},
        "prompt": {"template": "{{ question }}"}, "reference": {"column": "answer"}, "verifiers": [{"name": "exact"}],
    }  # fmt: skip
    path = tmp_path / "sums.yaml"
    path.write_text(yaml.safe_dump(task))
    made = {
        "name": "a", "task": str(path), "runs": str(tmp_path / "runs"), "model": {"tiny": {"characters": "0123456789"}},
        "algorithm": {"steps": 1, "problems_per_step": 2, **algorithm},
    }  # fmt: skip
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(made))
    with pytest.raises(ReasonRLError, match=r"no verifier rewards steps \(exact\)"):
        run.train(config.load(str(tmp_path / "run.yaml")), silent())
    assert not (tmp_path / "runs").exists()
