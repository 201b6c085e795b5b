"""What tests of resuming a reward model's run share: small runs of both kinds, their files in the folder."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from reasonrl import config
from reasonrl.config import RunConfig

STEPS = 4
PAIRS = [{"prompt": f"{i}+1=", "chosen": str(i + 1), "rejected": str(i + 2)} for i in range(8)]
LABELS = [
    {"prompt": f"{i}+1=", "completions": [str(i), str(i + 1)], "labels": [i % 2 == 0, i % 3 == 0]} for i in range(8)
]
Rows = Sequence[Mapping[str, object]]
FILES: dict[str, tuple[str, Rows]] = {"reward_model": ("pairs", PAIRS), "process_reward_model": ("labels", LABELS)}


def write(folder: Path, algorithm: str, rows: Rows | None = None) -> Path:
    """The file of examples that a run reads."""
    key, usual = FILES[algorithm]
    path = folder / f"{key}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in (usual if rows is None else rows)))
    return path


def config_of(folder: Path, algorithm: str, runs: str, *overrides: str) -> RunConfig:
    """A run of four steps, more than once through its examples; its own folder lies in one below."""
    key, _ = FILES[algorithm]
    path = folder / f"{key}.jsonl"
    document = {
        "name": "scorer", "runs": str(folder / runs), "checkpoint": {"every": 2},
        "model": {"tiny": {
            "characters": "0123456789+=,:", "hidden_size": 16, "intermediate_size": 24, "layers": 1, "heads": 2,
            "max_positions": 32,
        }},
        "algorithm": {
            "name": algorithm, key: str(path if path.exists() else write(folder, algorithm)), "held_out": 0.25,
            "steps": STEPS, "batch_size": 4, "evaluate_every": 1,
            "optimizer": {"learning_rate": 0.01, "schedule": "cosine"},
        } | ({"mark": ","} if key == "labels" else {"margin": False}),
    }  # fmt: skip
    (folder / f"{algorithm}.yaml").write_text(json.dumps(document))
    return config.load(str(folder / f"{algorithm}.yaml"), overrides)
