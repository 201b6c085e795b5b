"""What tests of the command line share: the real program in a process of its own, and a small saved model."""

import os
import subprocess
import sys
from pathlib import Path

from reasonrl.config import ModelConfig, TinyModelConfig
from reasonrl.models.load import load_policy, save_policy

ROOT = Path(__file__).parents[1]
PROGRAM = Path(sys.executable).parent / "reasonrl"


def call(*arguments: str | Path, cwd: Path, seconds: float = 240) -> subprocess.CompletedProcess[str]:
    """Run `reasonrl …` as a user does; its output is 80 columns wide and has no colours."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("FORCE_", "GITHUB_"))}
    return subprocess.run(
        [PROGRAM, *map(str, arguments)],
        cwd=cwd,
        env=environment | {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def refused(result: subprocess.CompletedProcess[str]) -> str:
    """The message of a call that ended with exit code 2, as it must: no traceback."""
    assert result.returncode == 2, result.stdout + result.stderr
    assert "Traceback" not in result.stdout + result.stderr
    return " ".join(result.stderr.split())


def save_tiny_model(folder: Path) -> Path:
    """An untrained character-level Llama that the arithmetic task fits, saved as transformers loads it."""
    tiny = TinyModelConfig(
        characters="0123456789+=,:", hidden_size=16, intermediate_size=32, layers=1, heads=2, max_positions=48
    )
    save_policy(load_policy(ModelConfig(tiny=tiny), seed=0), folder)
    return folder
