"""Whitening over the batch and dynamic sampling on two gloo processes give what they give on one."""

import json
from pathlib import Path
from typing import Any

import pytest
from small_runs import accelerator
from two_process_launch import launch_two
from two_processes_family import REFILLED, WHITENED, refilled, whitened

Found = list[dict[str, Any]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What each of the two processes found."""
    folder = tmp_path_factory.mktemp("found")
    launch_two("two_processes_family.py", folder, [0, 0])
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1)]


def assert_same_weights(one: dict[str, list[float]], expected: dict[str, list[float]]) -> None:
    for name, values in expected.items():
        assert one[name] == pytest.approx(values, rel=1e-5, abs=1e-6), name


@pytest.mark.parametrize("name", WHITENED)
def test_whitening_is_over_the_tokens_of_both(found: Found, name: str) -> None:
    assert [one["processes"] for one in found] == [2, 2]
    expected = whitened(accelerator(), WHITENED[name])
    pieces = [one["whitened"][name] for one in found]
    assert not pieces[0]["advantages"].keys() & pieces[1]["advantages"].keys()
    together = pieces[0]["advantages"] | pieces[1]["advantages"]
    assert together.keys() == expected["advantages"].keys()
    for key, advantages in expected["advantages"].items():
        assert together[key] == pytest.approx(advantages, abs=1e-6)
    alone = [a for each in pieces[0]["advantages"].values() for a in each]
    assert abs(sum(alone)) > 0.1, "of one process alone, they do not have mean 0"
    for one in pieces:
        assert one["loss"] == pytest.approx(expected["loss"], abs=1e-6)
        assert one["norm"] == pytest.approx(expected["norm"], rel=1e-5)
        assert one["means"] == pytest.approx(
            expected["means"] | {"padding": one["means"]["padding"]}, rel=1e-5, abs=1e-9
        )
        assert_same_weights(one["weights"], expected["weights"])


@pytest.mark.parametrize("name", REFILLED)
def test_refills_sample_the_same_groups_and_train_alike(found: Found, tmp_path: Path, name: str) -> None:
    expected = refilled(accelerator(), name, tmp_path)
    pieces = [one["refilled"][name] for one in found]
    asked = sorted(n for one in pieces for numbers in one["asked"] for n in numbers)
    assert asked == sorted(n for numbers in expected["asked"] for n in numbers)
    assert len(asked) > 10, "some were sampled in place of others"
    differ = ("padding", "seconds", "tokens_per_second", "sampled_tokens_per_second")
    for one in pieces:
        assert len(one["lines"]) == 2
        for line, other in zip(one["lines"], expected["lines"], strict=True):
            assert line.keys() == other.keys()
            for key in line:
                if not key.startswith(differ):
                    assert line[key] == pytest.approx(other[key], rel=1e-4, abs=1e-6), key
            assert line["groups_left_out"] > 0
            assert line["updates"] == 1
        assert_same_weights(one["weights"], expected["weights"])


def test_one_process_may_have_nothing_to_train_on(found: Found) -> None:
    """All that it sampled is left out, of both steps and all rounds; it takes part in whitening and update."""
    first, second = (one["refilled"]["all left out on one"] for one in found)
    assert [len(numbers) for numbers in first["asked"]] == [3, 3]
    assert [len(numbers) for numbers in second["asked"]] == [2, 2, 2, 2]
    assert [line["groups_left_out"] for line in second["lines"]] == [4, 4]
