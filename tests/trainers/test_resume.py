"""A run that is ended and resumed leaves, bit for bit, what an uninterrupted one leaves."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import resumed_runs
from resumed_runs import (
    ALGORITHMS,
    STEPS,
    Killed,
    assert_same,
    config_of,
    folder_of,
    killed_at,
    offer,
    steps_of,
    train,
)  # fmt: skip
from small_runs import reset_accelerate

from reasonrl.plugins import installed


@pytest.fixture(autouse=True)
def _noisy() -> Iterator[None]:
    offer()
    yield
    resumed_runs.HOOKS.clear()
    del installed().verifiers["noisy"]  # type: ignore[attr-defined]
    reset_accelerate()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_goes_on_as_if_nothing_had_been(tmp_path: Path, algorithm: str) -> None:
    """Ended in step 4, after the checkpoint of step 2, which ends an epoch: step 3 is taken again."""
    expected = train(config_of(tmp_path, algorithm, "whole"))
    wanted = config_of(tmp_path, algorithm, "cut")
    with killed_at(STEPS), pytest.raises(Killed):
        train(wanted)
    assert steps_of(folder_of(wanted))[-1][1] == STEPS - 1
    assert_same(train(wanted, folder_of(wanted)), expected)
    assert [step for _, step in steps_of(expected)] == list(range(1, STEPS + 1))
