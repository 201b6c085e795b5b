"""What tests of resuming share: small runs of several algorithms whose every number depends on all that is restored."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import yaml
from small_runs import DEBUG, offered, reset_accelerate, silent

from reasonrl import Problem, Response, Verdict, Verifier, config
from reasonrl.config import RunConfig
from reasonrl.plugins import installed
from reasonrl.tracking import Metrics, Tracker
from reasonrl.trainers import run

TIMED = ("seconds", "tokens_per_second", "sampled_tokens_per_second")
ROWS = 10  # two steps of four problems are an epoch
STEPS = 4


class Killed(BaseException):
    """Ends a run as a kill would: nothing catches it."""


class Noisy(Verifier):
    """How many sevens; and numbers of every generator, so that a run is the same only if all of them are restored.

    `HOOKS` are called with each response.
    """

    name = "noisy"
    isolation = "inline"

    def verify(self, problem: Problem, response: Response) -> Verdict:
        for hook in HOOKS:
            hook()
        noise = random.random() + float(np.random.random()) + float(torch.rand(()))
        share = response.text.count("7") / max(1, response.tokens)
        return Verdict(1.0 if share > 0.5 else share + 0.01 * noise, "counted")


HOOKS: list[Callable[[], None]] = []
ADAPTIVE = ["algorithm.kl.coefficient=0.05", "algorithm.kl.target=0.01", "algorithm.kl.horizon=20"]
ALGORITHMS: dict[str, list[str]] = {
    "grpo": ["algorithm.minibatches=2", *ADAPTIVE],
    "dapo, lora": ["algorithm={name: dapo, refills: 1, overlong_buffer: null}", "model.lora={rank: 2}"],
    "ppo": [
        "algorithm={name: ppo, loss: penalty, minibatches: 2, critic: {warmup_steps: 1}}",
        *ADAPTIVE,
        "algorithm.kl.place=reward",
    ],
    "ppo, shared critic": ["algorithm={name: ppo, critic: {shared: true}}", "algorithm.optimizer.schedule=linear"],
    "trpo": ["algorithm={name: trpo, cg_iterations: 2, backtracks: 2}", "model.attention=eager"],
    "sft": [f"algorithm={{name: sft, steps: {STEPS}, batch_size: 3}}", "algorithm.optimizer.schedule=cosine"],
    "dpo": [f"algorithm={{name: dpo, steps: {STEPS}, batch_size: 3, pairs: PAIRS}}"],
    "online dpo": ["algorithm={name: online_dpo, margin: 0.0, epochs: 2, minibatches: 2}"],
}
SIZES = ["algorithm.problems_per_step=4", f"algorithm.steps={STEPS}", "algorithm.group_size=2"]
SMALL = [
    "model.tiny.hidden_size=16", "model.tiny.intermediate_size=24", "model.tiny.heads=2", "model.tiny.layers=1",
    "sampling.max_tokens=5", "evaluation={rows: 2, samples: 1, k: [1], every: 2}", "verification.max_unjudged=1",
    "checkpoint.every=2",
]  # fmt: skip


@contextmanager
def noisy_offered() -> Iterator[None]:
    """The verifier is installed, and has no hooks."""
    with patch.dict(installed().verifiers, offered(Noisy)):
        yield
    HOOKS.clear()


def task(folder: Path, name: str = "task", *, rows: int = ROWS) -> Path:
    """The YAML of a task of sums in a data file of its own."""
    for split, first in (("train", 0), ("eval", 50)):
        lines = [json.dumps({"q": f"{i}+{i % 3}=", "a": str(i + i % 3)}) for i in range(first, first + rows)]
        (folder / f"{name}-{split}.jsonl").write_text("\n".join(lines) + "\n")
    made = {
        "name": "sums",
        "dataset": {"data_files": {split: str(folder / f"{name}-{split}.jsonl") for split in ("train", "eval")}},
        "prompt": {"template": "{{ q }}"},
        "demonstration": "{{ a }}",
        "verifiers": [{"name": "noisy"}],
    }
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(made))
    return folder / f"{name}.yaml"


def pairs(folder: Path) -> Path:
    """A file of preferences; four steps of three are more than once through."""
    rows = [{"prompt": f"{i}+1=", "chosen": str(i + 1), "rejected": str(i + 2)} for i in range(8)]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "pairs.jsonl"


def config_of(folder: Path, algorithm: str, runs: str, *overrides: str, warm: bool = False) -> RunConfig:
    """A run of four steps; its data lies in the folder, and its own folder in one below."""
    there = folder / "task.yaml"
    data = there if there.exists() else task(folder)
    start = "warm_start={steps: 3, batch_size: 4, optimizer: {learning_rate: 0.01}}" if warm else "warm_start=null"
    sizes = [] if algorithm in ("sft", "dpo") else SIZES
    if algorithm.startswith("ppo"):
        sizes = [*sizes[:2], "algorithm.group_size=1"]
    own = [one.replace("PAIRS", str(pairs(folder))) for one in ALGORITHMS[algorithm]]
    whole = [one for one in own if one.startswith("algorithm={")]
    rest = [one for one in own if one not in whole]
    return config.load(
        DEBUG, [*whole, f"task={data}", f"runs={folder / runs}", start, *SMALL, *sizes, *rest, *overrides]
    )


def train(wanted: RunConfig, resume: Path | None = None) -> Path:
    """A run in this process, as if it were a new one."""
    reset_accelerate()
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(12345)  # whatever the generators were
    return run.train(wanted, silent(), resume)


@contextmanager
def killed_at(step: int, phase: str | None = None) -> Iterator[None]:
    """A run ends as it logs a step: its rollouts are written, its metrics are not."""
    log = Tracker.log

    def kill(self: Tracker, at: int, metrics: Metrics) -> None:
        if at == step and phase in (None, self._phase):
            raise Killed
        log(self, at, metrics)

    with patch.object(Tracker, "log", kill):
        yield


def folder_of(wanted: RunConfig) -> Path:
    return Path(wanted.runs) / wanted.name


def contents(folder: Path) -> dict[str, Any]:
    """All that a run leaves, but for seconds and where it lies."""
    found: dict[str, Any] = {}
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        name = str(path.relative_to(folder))
        if path.name in ("config.yaml", "checksums.json", ".lock"):
            found[name] = "there"
        elif path.name == "metrics.jsonl":
            found[name] = [untimed(json.loads(line)) for line in path.read_text().splitlines()]
        elif path.name == "state.json":
            found[name] = json.loads(path.read_text()) | {"config": None}
        elif path.suffix == ".json" and path.parent.name == "eval":
            found[name] = json.loads(path.read_text()) | {"model": None}
        else:
            found[name] = path.read_bytes()
    return found


def untimed(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if not name.startswith(TIMED)}


def assert_same(folder: Path, expected: Path) -> None:
    """Bit for bit."""
    one, other = contents(folder), contents(expected)
    assert one.keys() == other.keys()
    assert [name for name in one if one[name] != other[name]] == []


def steps_of(folder: Path) -> Sequence[tuple[str, int]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [(line["phase"], line["step"]) for line in lines]
