"""What tests of resuming the training of reward models share: files, and small runs on them."""

import json
from pathlib import Path
from typing import Any

import yaml

from reasonrl import config
from reasonrl.config import RunConfig

SCORERS = ("reward_model", "process_reward_model")
STEPS = 4  # of four examples: more than once through those that are not held out


def files_of(folder: Path, kind: str, *, changed: bool = False) -> dict[str, str]:
    """The examples' file and that of those held out; with `changed`, one response of the first is another."""
    rows: dict[str, list[dict[str, Any]]] = {
        "pairs": [{"prompt": f"{i}+1=", "chosen": f"{i + 1}", "rejected": f"{i + 2}"} for i in range(14)],
        "labels": [
            {"prompt": f"{i}+1=", "completions": [f"{i}", f"{i + 1 + i % 2}"], "labels": [True, i % 2 == 0]}
            for i in range(14)
        ],
    }
    key = "pairs" if kind == "reward_model" else "labels"
    if changed:
        rows["pairs"][0]["rejected"] = "9"
        rows["labels"][0]["completions"] = ["0", "9"]
    found = {}
    for name, part in ((key, rows[key][:10]), ("held_out_files", rows[key][10:])):
        path = folder / f"{kind}-{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in part))
        found[name] = str(path)
    return found


def scorer_config_of(folder: Path, kind: str, runs: str, *overrides: str) -> RunConfig:
    """A run of four steps; its data lies in the folder, written by the first call, and its own folder in one below."""
    path = folder / f"{kind}.yaml"
    if not path.exists():
        path.write_text(yaml.safe_dump(document_of(folder, kind)))
    return config.load(str(path), [f"runs={folder / runs}", *overrides])


def document_of(folder: Path, kind: str) -> dict[str, Any]:
    return {
        "name": kind.replace("_", "-"),
        "model": {
            "tiny": {
                "characters": "0123456789+=\n", "hidden_size": 16, "intermediate_size": 24, "heads": 2, "layers": 1,
                "max_positions": 24,
            },
        },
        "algorithm": {
            "name": kind, "steps": STEPS, "batch_size": 4, "evaluate_every": 1,
            "optimizer": {"learning_rate": 0.01, "schedule": "cosine"}, **files_of(folder, kind),
        },
        "checkpoint": {"every": 2},
    }  # fmt: skip
