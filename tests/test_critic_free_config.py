"""The critic-free family's settings: what each name stands for, and what cannot be, with line and cure."""

from pathlib import Path
from typing import Any

import pytest

from reasonrl import ReasonRLError, config
from reasonrl.config import CriticFreeConfig

RUN = """\
name: mine
task: arithmetic
model: {path: some/model}
algorithm:
  name: NAME
  steps: 2
  problems_per_step: 4
"""
NAMES = ("grpo", "dr_grpo", "rloo", "reinforce_pp", "reinforce_pp_baseline", "dapo", "gspo", "cispo")


def loaded(folder: Path, name: str, lines: str = "", *overrides: str) -> CriticFreeConfig:
    path = folder / "run.yaml"
    path.write_text(RUN.replace("NAME", name) + lines)
    algorithm = config.load(str(path), overrides).algorithm
    assert isinstance(algorithm, CriticFreeConfig)
    return algorithm


def message(folder: Path, name: str, lines: str, *overrides: str) -> str:
    with pytest.raises(ReasonRLError) as caught:
        loaded(folder, name, lines, *overrides)
    return str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_stands_for_these_settings(tmp_path: Path, name: str) -> None:
    """advantage, std, loss, clip, aggregation, group size, refills, shaping: as the papers have them."""
    expected: dict[str, tuple[Any, ...]] = {
        "grpo": ("group_relative", "population", "clip", 0.2, 0.2, "sequence_mean", 8, 0, None),
        "dr_grpo": ("group_relative", "none", "clip", 0.2, 0.2, "constant", 8, 0, None),
        "rloo": ("leave_one_out", "population", "importance_weighted", 0.2, 0.2, "constant", 8, 0, None),
        "reinforce_pp": ("batch_whitened", "population", "clip", 0.2, 0.2, "token_mean", 1, 0, None),
        "reinforce_pp_baseline": ("group_centred_whitened", "population", "clip", 0.2, 0.2, "token_mean", 8, 0, None),
        "dapo": ("group_relative", "population", "clip", 0.2, 0.28, "token_mean", 8, 3, 0.2),
        "gspo": ("group_relative", "population", "gspo", 3e-4, 4e-4, "sequence_mean", 8, 0, None),
        "cispo": ("group_relative", "population", "cispo", 1.0, 4.0, "token_mean", 8, 0, None),
    }
    one = loaded(tmp_path, name)
    found = (
        one.advantage, one.std, one.loss, one.clip_low, one.clip_high, one.aggregation, one.group_size, one.refills,
        one.overlong_buffer,
    )  # fmt: skip
    assert found == expected[name]
    assert (one.name, one.process, one.dual_clip, one.kl.coefficient) == (name, None, None, 0.0)


KL = {"rloo": ("k1", "reward"), "reinforce_pp": ("k1", "reward"), "reinforce_pp_baseline": ("k2", "loss")}


@pytest.mark.parametrize("name", NAMES)
def test_a_coefficient_alone_keeps_estimator_and_place(tmp_path: Path, name: str) -> None:
    estimator, place = KL.get(name, ("k3", "loss"))
    in_file = loaded(tmp_path, name, "  kl: {coefficient: 0.1}\n").kl
    assert (in_file.coefficient, in_file.estimator, in_file.place) == (0.1, estimator, place)
    on_the_line = loaded(tmp_path, name, "", "algorithm.kl.coefficient=0.1").kl
    assert on_the_line == in_file
    other = loaded(tmp_path, name, "  kl: {coefficient: 0.1, place: loss}\n").kl
    assert (other.estimator, other.place) == (estimator, "loss")


def test_a_run_that_was_saved_is_the_same_run(tmp_path: Path) -> None:
    for name in NAMES:
        path, saved = tmp_path / "run.yaml", tmp_path / "saved.yaml"
        path.write_text(RUN.replace("NAME", name) + "  kl: {coefficient: 0.1}\n")
        config.save(config.load(str(path)), saved)
        assert config.load(str(saved)) == config.load(str(path))


PROCESS = "  process: {}\n"


@pytest.mark.parametrize(
    ("name", "lines", "where", "cure"),
    [
        ("rloo", PROCESS, 4, "with advantage leave_one_out there is none. Set advantage to group_relative, or process"),
        ("reinforce_pp", PROCESS + "  group_size: 4\n", 4, "with advantage batch_whitened there is none"),
        ("reinforce_pp_baseline", PROCESS, 4, "with advantage group_centred_whitened there is none"),
        ("grpo", "  process: {steps: lines, separator: x}\n", 8, "go together; give both, or neither"),
        ("grpo", "  process: {steps: separator}\n", 8, 'steps "separator" and the key `separator` go together'),
        ("grpo", "  process: {steps: separator, separator: '(a'}\n", 8, "'(a' is not a regular expression: missing )"),
        ("grpo", "  process: {steps: words}\n", 8, "'verifier'"),
        ("grpo", "  process: {outcome_weight: -1}\n", 8, "algorithm.process.outcome_weight: expected at least 0"),
        ("reinforce_pp", "  refills: 2\n", 4, "refills 2 replaces groups whose rewards have no spread, and with"),
        ("reinforce_pp", "  refills: 2\n", 4, "Set refills to 0, or group_size to 2 or more"),
        ("grpo", "  group_size: 1\n", 8, "algorithm.group_size: expected at least 2, not 1"),
        ("reinforce_pp_baseline", "  group_size: 1\n", 8, "algorithm.group_size: expected at least 2, not 1"),
        ("reinforce_pp", "  advantage: group_centred_whitened\n", 4, "expected at least 2, not 1: a response"),
        ("gspo", "  dual_clip: 3\n", 4, "dual_clip bounds the loss clip; the loss gspo has no such bound"),
        ("rloo", "  dual_clip: 3\n", 4, "the loss importance_weighted has no such bound"),
        ("grpo", "  dual_clip: 1\n", 8, "algorithm.dual_clip: expected more than 1"),
        ("grpo", "  kl: {target: 0.1}\n", 8, "target 0.1 adapts the coefficient by a factor, and 0 stays 0"),
        ("rloo", "  kl: {target: 0.1}\n", 8, "0 stays 0; give one to start from"),
        ("grpo", "  refills: -1\n", 8, "algorithm.refills: expected at least 0"),
        ("dapo", "  overlong_buffer: 0\n", 8, "algorithm.overlong_buffer: expected more than 0"),
        ("gspo", "  clip_low: 1\n", 8, "algorithm.clip_low: expected less than 1"),
        ("cispo", "  clip_low: 1.5\n", 8, "algorithm.clip_low: expected at most 1"),
        ("dapo", "  advantge: leave_one_out\n", 8, "did you mean 'advantage'?"),
        ("dapo", "  loss: ppo\n", 8, "algorithm.loss: expected 'clip', 'gspo', 'cispo'"),
        ("dapo", PROCESS, 4, "raise process.outcome_weight, or set overlong_buffer to null"),
        ("grpo", "  kl: {coefficient: 1, target: 0.1, horizon: 1}\n", 4, "kl.horizon 1 is too small for the"),
        ("ppo", "  loss: penalty\n  epochs: 1\n", 4, "nothing holds the policy back; set epochs or minibatches to 2"),
        ("ppo", "  critic: {warmup_steps: 9}\n", 4, "critic.warmup_steps 9 leaves none of the"),
    ],
)  # fmt: skip
def test_what_cannot_be_says_where_and_why(tmp_path: Path, name: str, lines: str, where: int, cure: str) -> None:
    said = message(tmp_path, name, lines)
    assert said.startswith(f"{tmp_path / 'run.yaml'}:{where}: algorithm")
    assert cure in said


def test_what_makes_it_possible_is_taken(tmp_path: Path) -> None:
    assert loaded(tmp_path, "reinforce_pp", "  refills: 2\n  group_size: 2\n").refills == 2
    assert loaded(tmp_path, "reinforce_pp", "  advantage: group_relative\n  group_size: 2\n  process: {}\n").process
    given = "  process: {steps: separator, separator: '(a)', outcome_weight: 0.5}\n"
    process = loaded(tmp_path, "dapo", given).process
    assert process is not None
    assert (process.steps, process.separator, process.outcome_weight) == ("separator", "(a)", 0.5)
    assert loaded(tmp_path, "dapo", "  refills: 0\n  overlong_buffer: null\n").overlong_buffer is None
