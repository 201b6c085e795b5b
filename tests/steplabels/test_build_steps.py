"""Monte-Carlo labels: each is what sampling on from its step gives, computed apart; interrupted, they go on."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
import yaml
from cli_in_process import program_of
from small_runs import CHARACTERS, offered
from step_labels import Even, check_labels, stop_at

from reasonrl import ReasonRLError, store
from reasonrl.config import EngineConfig, ModelConfig, TinyModelConfig
from reasonrl.evaluation.command import ModelOnTask
from reasonrl.evaluation.engines import huggingface_engine
from reasonrl.models.load import load_policy, save_policy
from reasonrl.pairs.sampling import sample_rollouts
from reasonrl.plugins import installed
from reasonrl.rollout.engine import Sampling
from reasonrl.steplabels import command
from reasonrl.steplabels.build import Labelling
from reasonrl.steplabels.parts import write_in_parts
from reasonrl.steplabels.read import read_solutions

HF = EngineConfig(name="huggingface")
LABELLING = Labelling(continuations=3, steps="separator", separator="[=,:]", seed=4)


@pytest.fixture(autouse=True)
def _verifier(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, source in offered(Even).items():
        monkeypatch.setitem(installed().verifiers, name, source)


@pytest.fixture
def given(tmp_path: Path) -> tuple[str, str, Path]:
    """A task, a model, and twenty of its responses."""
    tiny = TinyModelConfig(
        characters=CHARACTERS, hidden_size=16, intermediate_size=24, layers=1, heads=2, max_positions=40
    )
    policy = load_policy(ModelConfig(tiny=tiny), 1)
    with torch.no_grad():
        policy.model.model.embed_tokens.weight[3:].mul_(20)  # some tokens are likelier than others
    save_policy(policy, tmp_path / "model")
    task = {"extends": "debug", "name": "odd", "verifiers": [{"name": "even"}], "sampling": {"max_tokens": 12}}
    (tmp_path / "task.yaml").write_text(yaml.safe_dump(task))
    names = str(tmp_path / "task.yaml"), str(tmp_path / "model")
    folder = sample_rollouts(ModelOnTask(*names, rows=4, engine=HF), samples=5, seed=2, runs=tmp_path)
    return *names, folder


def build(
    given: tuple[str, str, Path], out: Path, labelling: Labelling = LABELLING, **settings: Any
) -> list[dict[str, Any]]:
    task, model, rollouts = given
    command.build_steps([rollouts], out, task, model, labelling, engine=HF, **settings)
    rows: list[dict[str, Any]] = pq.read_table(out).to_pylist()
    return rows


def test_a_label_is_what_sampling_on_gives(given: tuple[str, str, Path], tmp_path: Path) -> None:
    policy, stored = load_policy(ModelConfig(path=given[1]), 0), store.read(given[2] / "rollouts.parquet")
    rows = build(given, tmp_path / "steps.parquet")
    checked = check_labels(rows, stored, LABELLING, huggingface_engine(policy, 1), policy, Sampling(max_tokens=12))
    assert checked > 5
    assert len({label for row in rows for label in row["labels"]}) > 2


def test_hard_labels_are_of_the_same_continuations(given: tuple[str, str, Path], tmp_path: Path) -> None:
    soft = build(given, tmp_path / "soft.parquet")
    hard = build(given, tmp_path / "hard.parquet", Labelling(3, "separator", "[=,:]", hard=True, seed=4))
    assert [row["right"] for row in hard] == [row["right"] for row in soft]
    for one, other in zip(soft, hard, strict=True):
        assert [None if label is None else float(label > 0) for label in one["labels"]] == other["labels"]


def test_interrupted_it_goes_on_and_gives_the_same(
    given: tuple[str, str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = build(given, tmp_path / "whole.parquet")
    monkeypatch.setattr(command, "PIECE", 8)
    out, parts = tmp_path / "steps.parquet", tmp_path / ".steps.parquet.parts"
    with pytest.raises(KeyboardInterrupt):
        build(given, out, progress=stop_at(2))
    assert not out.exists()
    kept = {part.name: part.stat().st_mtime_ns for part in parts.glob("*.parquet")}
    assert sorted(kept) == ["000000.parquet", "000001.parquet"]
    with pytest.raises(ReasonRLError, match=r"an interrupted run that differs in continuations, seed; run that again"):
        build(given, out, Labelling(2, "separator", "[=,:]"))
    seen: dict[str, int] = {}
    found = build(
        given, out, progress=lambda done, total: seen.update({p.name: p.stat().st_mtime_ns for p in parts.glob("0*")})
    )
    assert found == whole
    assert len(seen) == 3
    assert {name: seen[name] for name in kept} == kept, "these were not made again"
    assert not parts.exists()


@pytest.mark.parametrize("pieces", [[2], [0, 2], [0, 1, 0], [0, 0]], ids=str)
def test_pieces_without_rows_are_joined_with_others(pieces: list[int], tmp_path: Path) -> None:
    row = {
        "prompt": [{"role": "user", "content": "1+1="}], "completions": ["2"], "labels": [None], "right": [0],
        "judged": [0], "problem_id": "p", "reference": None, "step": 0, "sample": 0,
    }  # fmt: skip
    made = list(write_in_parts(tmp_path / "steps.parquet", {}, pieces, lambda number: [row] * number))
    assert made == [[row] * number for number in pieces]
    assert pq.read_table(tmp_path / "steps.parquet").to_pylist() == [row] * sum(pieces)


def test_the_command_writes_what_a_process_reward_model_learns_from(
    given: tuple[str, str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program, out = program_of(monkeypatch, capsys), tmp_path / "steps.parquet"
    task, model, rollouts = given
    ended = program(
        "build", "steps", str(rollouts), "-o", str(out), "--task", task, "--model", model, "-n", "2", "--engine",
        "huggingface", "--steps", "separator", "--separator", "[=,:]", "--per-problem", "1",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    assert "steps of " in ended.out
    rows = pq.read_table(out).to_pylist()
    assert len(rows) == len({row["problem_id"] for row in rows})
    found = read_solutions([out])
    kept = [row for row in rows if any(label is not None for label in row["labels"])]
    assert [list(one.labels) for one in found.solutions] == [row["labels"] for row in kept]
    assert found.solutions[0].question == kept[0]["prompt"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give ROLLOUTS"),
        (("x", "--steps", "separator"), "--steps separator and --separator go together"),
        (("nowhere",), "there is no file or folder nowhere"),
        (("nowhere", "--engine", "magic"), "--engine magic: there are"),
    ],
)
def test_bad_options_are_refused(
    arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = program_of(monkeypatch, capsys)("build", "steps", *arguments, "-o", "o", "--task", "debug", "--model", "m")
    assert ended.code == 2
    assert message in " ".join(ended.err.split())


def test_responses_of_the_same_step_problem_and_sample_are_told_apart(
    given: tuple[str, str, Path], tmp_path: Path
) -> None:
    """As in the files of two runs, or the greedy and the sampled responses of an evaluation."""
    task, model, first = given
    second = sample_rollouts(ModelOnTask(task, model, rows=4, engine=HF), samples=5, seed=3, runs=tmp_path)
    apart = [build((task, model, one), tmp_path / f"{one.name}.parquet") for one in (first, second)]
    assert apart[0] != apart[1]
    command.build_steps([first, second], tmp_path / "both.parquet", task, model, LABELLING, engine=HF)
    assert pq.read_table(tmp_path / "both.parquet").to_pylist() == [*apart[0], *apart[1]]


def test_another_tokenizer_is_refused(given: tuple[str, str, Path], tmp_path: Path) -> None:
    tiny = TinyModelConfig(
        characters=CHARACTERS[::-1], hidden_size=16, intermediate_size=24, layers=1, heads=2, max_positions=40
    )
    save_policy(load_policy(ModelConfig(tiny=tiny), 1), tmp_path / "other")
    with pytest.raises(ReasonRLError, match="take the model that sampled, or one with the same tokenizer"):
        build((given[0], str(tmp_path / "other"), given[2]), tmp_path / "steps.parquet")


def test_the_question_may_be_a_column(given: tuple[str, str, Path], tmp_path: Path) -> None:
    rows = store.read(given[2] / "rollouts.parquet")
    for row in rows:
        row["metadata"] = json.dumps({"q": "just this"})
    store.write(given[2] / "rollouts.parquet", rows)
    found = build(given, tmp_path / "a.parquet", Labelling(1, "separator", "[=,:]", question="q"))
    assert {row["prompt"] for row in found} == {"just this"}
    with pytest.raises(ReasonRLError, match=r"--question r: problem .* has no such text"):
        build(given, tmp_path / "b.parquet", Labelling(1, "separator", "[=,:]", question="r"))
