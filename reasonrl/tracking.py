"""Metrics of a run: a line a step in metrics.jsonl, and a live display (or plain lines where there is no terminal)."""

import json
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from reasonrl import files

Metrics = Mapping[str, float]

# What the display shows of a step, in this order: the metric, its label and its format.
_SHOWN = (
    ("loss", "loss", "{:.3f}"),
    ("reward", "reward", "{:.3f}"),
    ("pass_rate", "pass", "{:.1%}"),
    ("kl", "KL", "{:.4f}"),
    ("clip_fraction", "clip", "{:.2%}"),
    ("response_length", "length", "{:.1f}"),
    ("tokens_per_second", "tok/s", "{:,.0f}"),
)
_PLAIN_EVERY = 10.0  # seconds between lines where there is no terminal
_LONG = 1e9  # seconds; see _Display


class _Display(Progress):
    """A bar, and below it the metrics of the last step, so that both fit into 80 columns."""

    def __init__(self, console: Console) -> None:
        self.metrics = ""
        super().__init__(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("ETA"),
            TimeRemainingColumn(),
            console=console,
            # By default only the last 30 s count: with steps longer than that there would never be an ETA.
            speed_estimate_period=_LONG,
        )

    def get_renderables(self) -> Iterable[RenderableType]:
        """The bar and the metrics."""
        yield from super().get_renderables()
        yield Text(self.metrics, no_wrap=True, overflow="ellipsis")


class Tracker:
    """Writes metrics and shows progress.

    Args:
        path: the metrics.jsonl to append to; None on processes that do not write.
        console: where progress is shown.

    Attributes:
        latest: what was logged last, on every process.
    """

    def __init__(self, path: Path | None, console: Console) -> None:
        self._path = path
        # Unbuffered: a line that a full disk refuses must not be written again, and fail again, as the file is closed.
        self._file = path.open("ab", buffering=0) if path else None
        self.console = console
        self.latest: Metrics = {}
        self._quiet = path is None
        self._progress: _Display | None = None
        self._phase, self._total, self._last_line, self._started = "", 0, 0.0, 0.0
        self._first = 0  # the first step that was logged in this phase

    @contextmanager
    def phase(self, name: str, total: int) -> Iterator[None]:
        """Show a bar of `total` steps for what is logged inside."""
        self._first = 0
        self._phase, self._total, self._started, self._last_line = name, total, time.monotonic(), -math.inf
        if self._quiet or not self.console.is_terminal:
            yield
            return
        with _Display(self.console) as progress:
            self._progress = progress
            progress.add_task(name, total=total)
            try:
                yield
            finally:
                self._progress = None

    def log(self, step: int, metrics: Metrics) -> None:
        """Record one step. Non-finite values are written as null: JSON has no NaN.

        Raises:
            ReasonRLError: the disk is full, or may not be written to.
        """
        self.latest = metrics
        self._first = self._first or step
        row = {"phase": self._phase, "step": step, **metrics}
        clean = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
        self._write(f"{json.dumps(clean)}\n".encode())
        shown = "  ".join(f"{label} {form.format(metrics[key])}" for key, label, form in _SHOWN if key in metrics)
        if self._progress:
            self._progress.metrics = shown
            self._progress.update(self._progress.task_ids[0], completed=step)
        elif not self._quiet:
            self._line(step, shown)

    def sync(self) -> None:
        """Bring what was logged to the disk."""
        if self._file:
            os.fsync(self._file.fileno())

    def _write(self, line: bytes) -> None:
        if self._file is None or self._path is None:
            return
        with files.writing(self._path):
            while line:
                line = line[self._file.write(line) :]

    def _line(self, step: int, shown: str) -> None:
        now = time.monotonic()
        if now - self._last_line < _PLAIN_EVERY and step != self._total:
            return
        self._last_line = now
        left = (now - self._started) / (step - self._first + 1) * (self._total - step)  # a resumed run begins later
        self.console.print(
            f"{self._phase} {step}/{self._total}  {shown}  ETA {left:.0f} s", highlight=False, soft_wrap=True
        )

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        if self._file:
            self._file.close()
            self._file = None
