"""The fixture of all tests of `tasks check`."""

import json
from pathlib import Path
from typing import Any

import checking_verifiers
import pytest
from checked_tasks import HELD_OUT, TASK, rows

from reasonrl import checking, tasks
from reasonrl.checking import CheckReport


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A task from its YAML text and rows, with the judges of checking_verifiers installed; and its check."""
    checking_verifiers.offer(monkeypatch)

    def write(name: str, data: list[dict[str, Any]]) -> str:
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in data))
        return str(tmp_path / name)

    def check(
        text: str = TASK,
        train: list[dict[str, Any]] | None = None,
        held_out: list[dict[str, Any]] = HELD_OUT,
        **options: Any,
    ) -> CheckReport:
        train = rows(3) if train is None else train
        text = text.replace("TRAIN", write("t.jsonl", train)).replace("EVAL", write("e.jsonl", held_out))
        (tmp_path / "mine.yaml").write_text(text)
        return checking.check(tasks.read(str(tmp_path / "mine.yaml")), **options)

    return check
