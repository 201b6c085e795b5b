"""Curves of runs, from their metrics.jsonl: a panel a metric, a colour a run.

Beside the reward, on an axis of their own, stand the verifiers that say something else than it does: one of weight 0
that falls while a learned reward rises is what reward hacking looks like.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from reasonrl import files
from reasonrl.errors import ReasonRLError

Curve = list[tuple[int, float]]

# What is shown where nothing is asked for, if the runs have it.
SHOWN = (
    "reward", "pass_rate", "loss", "accuracy", "margin", "kl", "entropy", "clip_fraction", "response_length",
    "truncated", "unjudged", "grad_norm",
)  # fmt: skip
_REWARD = "reward"
_COLUMNS = 3
_PANEL = (4.4, 3.0)  # inches


@dataclass(frozen=True)
class Curves:
    """A run's metrics.

    Attributes:
        name: of its folder.
        phase: the one they are of: its last.
        metrics: of each, (step, value) where it is a number.
    """

    name: str
    phase: str
    metrics: dict[str, Curve]

    def observers(self) -> list[str]:
        """The verifiers' metrics that differ from the reward."""
        reward = self.metrics.get(_REWARD)
        return [key for key, curve in self.metrics.items() if key.startswith(f"{_REWARD}/") and curve != reward]


def read(run: Path) -> Curves:
    """The curves of a run's folder, or of a metrics.jsonl.

    Raises:
        ReasonRLError: there is none, a line is no JSON object, or no step has been logged.
    """
    path = run / "metrics.jsonl" if run.is_dir() else run
    if not path.is_file():
        raise ReasonRLError(f"{run} is no folder of a run: it has no metrics.jsonl")
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(keepends=True), 1):
        if not line.endswith("\n"):  # the last one, which a run is just writing
            break
        try:
            row = json.loads(line)
            rows.append((row.pop("phase"), row.pop("step"), row))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ReasonRLError(f"{path}, line {number}: no metrics of a step: {line.strip()[:80]!r}") from None
    if not rows:
        raise ReasonRLError(f"{path}: no step has been logged yet")
    phase = rows[-1][0]
    metrics: dict[str, Curve] = {}
    for of, step, row in rows:
        if of == phase:
            for key, value in row.items():
                if isinstance(value, int | float):
                    metrics.setdefault(key, []).append((step, value))
    return Curves(path.resolve().parent.name, phase, metrics)


def moving(curve: Curve, window: int) -> Curve:
    """The mean over the last `window` values at each step, over fewer at the beginning."""
    sums = [0.0, *accumulate(value for _, value in curve)]
    firsts = [max(0, end - window) for end in range(1, len(sums))]
    means = [(sums[end] - sums[first]) / (end - first) for end, first in enumerate(firsts, 1)]
    return [(step, mean) for (step, _), mean in zip(curve, means, strict=True)]


def draw(runs: Sequence[Curves], path: Path, *, metrics: Sequence[str] = (), window: int = 1) -> list[str]:
    """Draw the runs' curves into a file, whose ending says the format (svg, png, pdf); the metrics that are shown.

    Args:
        runs: each with a colour of its own.
        path: the file; one that is there is replaced.
        metrics: which; those of `SHOWN` that a run has if empty.
        window: steps that each point is the mean over.

    Raises:
        ReasonRLError: matplotlib is not installed or knows no such format, or no run has one of the metrics.
    """
    figures, formats = _matplotlib()
    kind = path.suffix.removeprefix(".").lower()
    if kind not in formats:
        raise ReasonRLError(f"{path}: an image is written as {', '.join(sorted(formats))}; give one of these endings")
    there = {key for run in runs for key in run.metrics}
    for key in metrics:
        if key not in there:
            raise ReasonRLError(f"no run has a metric {key!r}; there are: {', '.join(sorted(there))}")
    shown = list(metrics) or [key for key in SHOWN if key in there]
    if not shown:
        raise ReasonRLError(f"no run has one of {', '.join(SHOWN)}; name others of: {', '.join(sorted(there))}")
    rows = -(-len(shown) // _COLUMNS)
    columns = min(len(shown), _COLUMNS)
    figure = figures.Figure(figsize=(_PANEL[0] * columns, _PANEL[1] * rows), layout="constrained")
    for at, key in enumerate(shown, 1):
        _panel(figure.add_subplot(rows, columns, at), runs, key, window)
    with files.whole(path) as unfinished:
        figure.savefig(unfinished, format=kind, dpi=120, metadata={"Date": None} if kind == "svg" else None)
    return shown


def _panel(axes: Any, runs: Sequence[Curves], key: str, window: int) -> None:
    lines = []
    beside = None
    for number, run in enumerate(runs):
        colour = f"C{number}"
        if key in run.metrics:
            name = run.name if len(runs) > 1 else key
            lines += axes.plot(*zip(*moving(run.metrics[key], window), strict=True), color=colour, label=name)
        for index, other in enumerate(run.observers() if key == _REWARD else ()):
            beside = beside or axes.twinx()
            name = f"{run.name}: {other}" if len(runs) > 1 else other
            style = ("--", ":", "-.")[index % 3]
            own = colour if len(runs) > 1 else f"C{index + 1}"
            curve = moving(run.metrics[other], window)
            lines += beside.plot(*zip(*curve, strict=True), color=own, linestyle=style, label=name)
    axes.set_title(key, fontsize="medium")
    axes.set_xlabel(" / ".join(dict.fromkeys(f"step of {run.phase}" for run in runs)), fontsize="small")
    axes.grid(alpha=0.3)
    if beside is not None:
        beside.set_ylabel("verifiers, dashed", fontsize="small")
    if len(lines) > 1:
        axes.legend(handles=lines, fontsize="x-small")


def _matplotlib() -> tuple[Any, set[str]]:
    """The module of figures, which opens no window, and the formats it can write."""
    try:
        import matplotlib
        from matplotlib import backend_bases, figure
    except ImportError:
        raise ReasonRLError("drawing needs matplotlib: pip install 'reasonrl[plot]'") from None
    # Text stays text in an SVG, and the same curves are the same file.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "reasonrl"})
    return figure, set(backend_bases.FigureCanvasBase.get_supported_filetypes())
