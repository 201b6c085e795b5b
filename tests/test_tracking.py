"""metrics.jsonl has a line a step that every JSON reader takes; the display says what a run is doing, in 80 columns."""

import io
import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from reasonrl.tracking import Tracker

STEP = {
    "reward": 0.8125, "pass_rate": 0.734, "kl": 0.0123, "clip_fraction": 0.0321, "response_length": 1234.5,
    "tokens_per_second": 123456.7, "entropy": 0.5,
}  # fmt: skip
LABELS = ("reward 0.812", "pass 73.4%", "KL 0.0123", "clip 3.21%", "length 1234.5", "tok/s 123,457")


@pytest.fixture
def tracker() -> Iterator[Callable[..., tuple[Tracker, io.StringIO]]]:
    """A tracker and what it shows; closed when the test is over."""
    made: list[Tracker] = []

    def make(path: Path | None, *, terminal: bool = False) -> tuple[Tracker, io.StringIO]:
        output = io.StringIO()
        made.append(Tracker(path, Console(file=output, force_terminal=terminal, width=80, height=25)))
        return made[-1], output

    yield make
    for one in made:
        one.close()


def test_every_step_is_a_line_of_json(tracker: Any, tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    track, _ = tracker(path)
    with track.phase("warm start", 2):
        track.log(1, {"loss": 2.5, "learning_rate": 1e-4})
        track.log(2, {"loss": math.nan, "grad_norm": math.inf})
        # a line is there as soon as its step is over, for those who watch the run
        assert len(path.read_text().splitlines()) == 2
    with track.phase("grpo", 1):
        track.log(1, STEP)
    track.close()
    track.close()

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    rows = [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]
    assert rows == [
        {"phase": "warm start", "step": 1, "loss": 2.5, "learning_rate": 1e-4},
        {"phase": "warm start", "step": 2, "loss": None, "grad_norm": None},
        {"phase": "grpo", "step": 1, **STEP},
    ]


def test_a_file_that_is_there_is_continued(tracker: Any, tmp_path: Path) -> None:
    for step in (1, 2):
        track, _ = tracker(tmp_path / "metrics.jsonl")
        with track.phase("grpo", 2):
            track.log(step, STEP)
        track.close()
    assert [json.loads(line)["step"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()] == [1, 2]


def test_the_terminal_shows_step_metrics_and_eta(tracker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(0, 100_000, 100))  # every look at the clock comes 100 s after the last one
    track, output = tracker(tmp_path / "metrics.jsonl", terminal=True)
    monkeypatch.setattr(track.console, "get_time", lambda: float(next(seconds)))
    with track.phase("grpo", 120):
        for step in (1, 2, 3):
            track.log(step, STEP)
    lines = [Text.from_ansi(line).plain.rstrip() for line in output.getvalue().replace("\r", "\n").split("\n")]
    assert max(map(len, lines)) <= 80
    bar = [line for line in lines if "3/120" in line][-1]
    assert bar.startswith("grpo ")
    # steps of 100 s are longer than the 30 s that rich averages over by default, and still give an ETA
    assert "ETA -:--:--" not in bar
    assert "ETA 2:" in bar or "ETA 3:" in bar or "ETA 6:" in bar, bar
    metrics = [line for line in lines if "reward" in line][-1]
    for label in LABELS:
        assert label in metrics


def test_off_a_terminal_there_are_plain_lines_now_and_then(
    tracker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    track, output = tracker(tmp_path / "metrics.jsonl")
    with track.phase("grpo", 100):
        for step in range(1, 101):
            now = 3.0 * step
            track.log(step, STEP)
    lines = output.getvalue().splitlines()
    # The first step, every 12 s (the first multiple of 3 s beyond 10 s), and the last step.
    assert [line.split()[1] for line in lines] == [f"{step}/100" for step in [*range(1, 101, 4), 100]]
    assert lines[0] == f"grpo 1/100  {'  '.join(LABELS)}  ETA 297 s"
    assert lines[1].endswith("ETA 285 s")
    assert lines[-1].endswith("ETA 0 s")


def test_what_a_phase_does_not_measure_is_not_shown(tracker: Any, tmp_path: Path) -> None:
    track, output = tracker(tmp_path / "metrics.jsonl")
    with track.phase("sft", 1):
        track.log(1, {"loss": 1.5, "response_length": 4.0})
    assert output.getvalue().startswith("sft 1/1  loss 1.500  length 4.0  ETA")


def test_other_processes_write_and_show_nothing(tracker: Any) -> None:
    track, output = tracker(None, terminal=True)
    with track.phase("grpo", 1):
        track.log(1, STEP)
    track.close()
    assert output.getvalue() == ""


def test_the_display_ends_with_an_error_inside_and_the_next_phase_starts_its_own(tracker: Any, tmp_path: Path) -> None:
    track, output = tracker(tmp_path / "metrics.jsonl", terminal=True)

    def fails() -> Any:
        with track.phase("grpo", 5):
            track.log(1, STEP)
            raise KeyError("boom")

    with pytest.raises(KeyError):
        fails()
    with track.phase("second", 5):
        track.log(1, {"loss": 1.0})
    assert "second" in output.getvalue()
    assert output.getvalue().count("\x1b[?25l") == output.getvalue().count("\x1b[?25h")  # the cursor is back
