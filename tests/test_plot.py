"""reasonrl plot: what is read of a run, what stands beside the reward, and the image."""

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cli_in_process import Program, program_of

from reasonrl import ReasonRLError
from reasonrl.plot import draw, moving, read

# A learned reward that rises while the true verifier, of weight 0, falls.
HACKED = [
    {"reward": step / 10, "reward/rm": step / 10, "reward/math": 1 - step / 10, "kl": 0.01} for step in range(1, 5)
]


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    return program_of(monkeypatch, capsys)


def run_of(folder: Path, rows: Sequence[dict[str, Any]], phase: str = "grpo") -> Path:
    folder.mkdir()
    lines = [{"phase": "warm start", "step": 1, "loss": 2.0}]
    lines += [{"phase": phase, "step": step, **row} for step, row in enumerate(rows, 1)]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder


def test_a_run_is_read_as_the_curves_of_its_last_phase(tmp_path: Path) -> None:
    found = read(run_of(tmp_path / "a", [*HACKED, {"reward": None, "kl": 0.5}]))
    assert (found.name, found.phase) == ("a", "grpo")
    assert found.metrics["reward"] == [(1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4)]  # step 5 had no finite one
    assert found.metrics["kl"][-1] == (5, 0.5)
    assert "loss" not in found.metrics  # of the warm start
    assert found.observers() == ["reward/math"]  # reward/rm is the reward


def test_a_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    run = run_of(tmp_path / "a", HACKED)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"phase": "grpo", "step": 5, "rew')
    assert [step for step, _ in read(run).metrics["reward"]] == [1, 2, 3, 4]


def test_moving_means() -> None:
    assert moving([(1, 1.0), (2, 3.0), (3, 8.0), (5, 1.0)], 2) == [(1, 1.0), (2, 2.0), (3, 5.5), (5, 4.5)]
    assert moving([(1, 1.0), (2, 3.0)], 1) == [(1, 1.0), (2, 3.0)]
    assert moving([], 3) == []


def test_the_verifier_that_watches_stands_beside_the_reward(tmp_path: Path, program: Program) -> None:
    run, image = run_of(tmp_path / "hacked", HACKED), tmp_path / "curves.svg"
    ended = program("plot", str(run), "-o", str(image))
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == f"plot      {image}: reward, kl\n"
    drawn = image.read_text()
    written = re.findall(r"<text[^>]*>([^<]*)</text>", drawn)
    assert {"reward", "reward/math", "verifiers, dashed", "kl", "step of grpo"} <= set(written)
    assert "reward/rm" not in written
    reward, math = (curve(drawn, colour) for colour in ("#1f77b4", "#ff7f0e"))
    assert rises(reward[::-1])  # an SVG's y grows downwards
    assert rises(math)


def test_the_same_curves_are_the_same_file(tmp_path: Path) -> None:
    run = read(run_of(tmp_path / "a", HACKED))
    images = [tmp_path / "one.svg", tmp_path / "two.svg"]
    for image in images:
        draw([run], image)
    assert images[0].read_bytes() == images[1].read_bytes()


def test_several_runs_have_a_colour_each(tmp_path: Path) -> None:
    runs = [read(run_of(tmp_path / name, HACKED)) for name in ("a", "b")]
    assert draw(runs, tmp_path / "both.svg", metrics=["kl", "reward"], window=2) == ["kl", "reward"]
    written = re.findall(r"<text[^>]*>([^<]*)</text>", (tmp_path / "both.svg").read_text())
    assert [written.count(label) for label in ("a", "b", "a: reward/math", "b: reward/math")] == [2, 2, 1, 1]


def test_a_metric_can_be_one_that_only_some_runs_have(tmp_path: Path) -> None:
    runs = [read(run_of(tmp_path / "a", HACKED)), read(run_of(tmp_path / "b", [{"loss": 1.0}], "sft"))]
    draw(runs, tmp_path / "both.png", metrics=["loss"])
    assert (tmp_path / "both.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("name", "metrics", "message"),
    [
        ("x.doc", [], "x.doc: an image is written as .*svg.*; give one of these endings"),
        ("x", [], "give one of these endings"),
        ("x.svg", ["rewards"], "no run has a metric 'rewards'; there are: kl, reward, reward/math, reward/rm"),
    ],
)
def test_what_cannot_be_drawn(tmp_path: Path, name: str, metrics: list[str], message: str) -> None:
    run = read(run_of(tmp_path / "a", HACKED))
    with pytest.raises(ReasonRLError, match=message):
        draw([run], tmp_path / name, metrics=metrics)
    assert not (tmp_path / name).exists()


def test_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(ReasonRLError, match="nowhere is no folder of a run"):
        read(tmp_path / "nowhere")
    file = tmp_path / "metrics.jsonl"
    file.write_text("")
    with pytest.raises(ReasonRLError, match="no step has been logged yet"):
        read(file)
    file.write_text('{"phase": "grpo", "step": 1, "reward": 1}\n[1]\n')
    with pytest.raises(ReasonRLError, match=r"line 2: no metrics of a step: '\[1\]'"):
        read(tmp_path)


def curve(drawn: str, colour: str) -> list[float]:
    """The heights of an SVG's first curve of a colour with a point for each of four steps."""
    for path, style in re.findall(r'<path d="([^"]*)"[^>]*style="([^"]*)"', drawn):
        points = re.findall(r"[ML] (\S+) (\S+)", path)
        if f"stroke: {colour}" in style and len(points) == len(HACKED):
            return [float(y) for _, y in points]
    pytest.fail(f"no curve of {colour}")


def rises(values: Sequence[float]) -> bool:
    return all(one < other for one, other in pairwise(values))
