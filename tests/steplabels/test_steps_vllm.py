"""Monte-Carlo labels by the real vLLM engine, started once: each prefix is computed once, and the labels are right.

Weights are float32, so that a continuation is the same whatever else is sampled.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
import yaml
from small_models import EOS
from small_runs import offered
from step_labels import Even, check_labels, stop_at
from vllm_engines import LONGEST, needs_vllm, policy_of

from reasonrl import processes, store
from reasonrl.config import EngineConfig
from reasonrl.evaluation.command import ModelOnTask, model_engine
from reasonrl.models.load import Policy, save_policy
from reasonrl.pairs.sampling import sample_rollouts
from reasonrl.plugins import installed
from reasonrl.rollout.engine import Engine, Sampling
from reasonrl.steplabels import command
from reasonrl.steplabels.build import Labelling

Rows = list[dict[str, Any]]

pytestmark = needs_vllm

BLOCK = 32  # tokens whose keys and values are cached together, on a CPU
VLLM = EngineConfig(name="vllm", kv_cache_gib=1, start_deadline=170, deadline=60)
LABELLING = Labelling(continuations=4, steps="separator", separator="[=,:]", seed=4)
SAMPLING = Sampling(max_tokens=24)


@pytest.fixture(scope="module")
def policy() -> Policy:
    """Its responses end late: the logit of the end is 0, where others are up to several."""
    policy = policy_of()
    with torch.no_grad():
        policy.model.model.embed_tokens.weight[EOS] = 0
    return policy


@pytest.fixture(scope="module")
def given(policy: Policy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, Path]]:
    """A task with prompts of more than two blocks, a model, and nine of its responses."""
    folder = tmp_path_factory.mktemp("given")
    save_policy(policy, folder / "model")
    task = {
        "extends": "debug", "name": "odd", "verifiers": [{"name": "even"}],
        "prompt": {"template": "1+2=3," * 12 + "{{ question }}"}, "sampling": {"max_tokens": SAMPLING.max_tokens},
    }  # fmt: skip
    (folder / "task.yaml").write_text(yaml.safe_dump(task))
    names = str(folder / "task.yaml"), str(folder / "model")
    with pytest.MonkeyPatch.context() as patch:
        for name, source in offered(Even).items():
            patch.setitem(installed().verifiers, name, source)
        asked = ModelOnTask(*names, rows=3, max_tokens=80, engine=EngineConfig(name="huggingface"))
        rollouts = sample_rollouts(asked, samples=3, seed=2, runs=folder)
        yield *names, rollouts


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the engine's worker writes down what it found in its cache."""
    return tmp_path_factory.mktemp("counts") / "counts.jsonl"


@pytest.fixture(scope="module")
def engine(given: tuple[str, str, Path], policy: Policy, counts: Path) -> Iterator[Engine]:
    """As `build_steps` starts it, but for the counting."""
    start = processes.start
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COUNTS", str(counts))
        patch.setattr(processes, "start", lambda module, *rest: start("counting_vllm_worker", *rest))
        engine = model_engine(VLLM, given[1], policy, 0, LONGEST)
    try:
        yield engine
    finally:
        engine.close()


@pytest.fixture
def build(given: tuple[str, str, Path], engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Rows]:
    """`build_steps` with the engine of the whole file, which stays open."""
    task, model, rollouts = given
    monkeypatch.setattr(engine, "close", lambda: None)
    monkeypatch.setattr(command, "model_engine", lambda *_: engine)

    def rows(out: Path, **settings: Any) -> Rows:
        command.build_steps([rollouts], out, task, model, LABELLING, engine=VLLM, **settings)
        found: Rows = pq.read_table(out).to_pylist()
        return found

    return rows


def test_labels_are_what_verified_continuations_say_and_each_prefix_is_computed_once(
    given: tuple[str, str, Path],
    policy: Policy,
    engine: Engine,
    counts: Path,
    build: Callable[..., Rows],
    tmp_path: Path,
) -> None:
    stored = store.read(given[2] / "rollouts.parquet")
    rows = build(tmp_path / "steps.parquet")
    asked = [json.loads(line) for line in counts.read_text().splitlines()]
    asked = [one for one in asked if len(one["prompt"]) > 1]  # without the engine's warm-up
    prefixes = Counter(tuple(one["prompt"]) for one in asked)
    assert set(prefixes.values()) == {LABELLING.continuations}
    assert sum(len(one["prompt"]) - one["cached"] for one in asked) == computed_once(prefixes)

    assert check_labels(rows, stored, LABELLING, engine, policy, SAMPLING) == len(prefixes) > 20
    assert len({label for row in rows for label in row["labels"]}) > 2


def computed_once(prefixes: Mapping[tuple[int, ...], int]) -> int:
    """Prompt tokens to compute if a whole block is computed once, and only what is behind the blocks for each sample.

    A prefix of whole blocks has its last one computed for each sample: the logits behind it are wanted.
    """
    blocks = {ids[:end] for ids in prefixes for end in range(BLOCK, len(ids), BLOCK)} - prefixes.keys()
    return BLOCK * len(blocks) + sum(((len(ids) - 1) % BLOCK + 1) * samples for ids, samples in prefixes.items())


def test_interrupted_it_goes_on_and_gives_the_same(
    build: Callable[..., Rows], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "PIECE", 4)
    whole = build(tmp_path / "whole.parquet")
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "steps.parquet", progress=stop_at(2))
    assert build(tmp_path / "steps.parquet") == whole
