"""Whole runs on a mixture, on data that streams, and on data with unusable references or prompts that are too long."""

import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console
from small_runs import DEBUG, reset_accelerate, silent

from reasonrl import ReasonRLError, config
from reasonrl.trainers import run

QUICK = (
    "warm_start=null", "algorithm.steps=2", "algorithm.kl.coefficient=0", "evaluation.samples=1", "evaluation.k=[1]",
    "evaluation.every=0", "evaluation.rows=2",
)  # fmt: skip
TASK = """\
name: sums
dataset: {data_files: {train: FILE}, hold_out: 2OPTIONS}
prompt: {template: "{{ q }}"}
reference: {column: a}
demonstration: "{{ w }}"
verifiers: [{name: arithmetic_steps, options: {answer: ":"}}]
sampling: {max_tokens: 8}
"""


@pytest.fixture(autouse=True)
def _precision() -> None:
    reset_accelerate()


def rows(count: int) -> list[dict[str, Any]]:
    pairs = [divmod(index, 10) for index in range(count)]
    return [{"q": f"{a}+{b}=", "a": str(a + b), "w": f"{a}+{b}={a + b}:{a + b}"} for a, b in pairs]


def write_task(folder: Path, made: list[dict[str, Any]], options: str = "") -> Path:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made))
    path = folder / "sums.yaml"
    path.write_text(TASK.replace("FILE", str(folder / "rows.jsonl")).replace("OPTIONS", options))
    return path


def train(folder: Path, *overrides: str) -> Path:
    return run.train(config.load(DEBUG, [f"runs={folder / 'runs'}", *QUICK, *overrides]), silent())


def problems_of(folder: Path) -> list[list[str]]:
    """The problem ids of each step, every response one."""
    files = sorted((folder / "rollouts").glob("*.parquet"))
    return [pq.read_table(file)["problem_id"].to_pylist() for file in files]


def test_a_mixture_trains_on_its_tasks_by_weight_and_evaluates_all_of_them(tmp_path: Path) -> None:
    write_task(tmp_path, rows(40))
    (tmp_path / "mix.yaml").write_text(
        "name: mix\nmixture: [{task: sums.yaml, weight: 2}, {task: debug}]\nsampling: {max_tokens: 8}\n"
    )
    folder = train(tmp_path, f"task={tmp_path / 'mix.yaml'}", "warm_start={steps: 2, batch_size: 6}")
    for ids in problems_of(folder):
        assert len(ids) == 6 * 4
        assert sum(id_.startswith("sums/") for id_ in ids) == 4 * 4
        assert sum(id_.startswith("debug/") for id_ in ids) == 2 * 4
    held_out = pq.read_table(folder / "eval" / "after.parquet")["problem_id"].to_pylist()
    assert {id_.partition("/")[0] for id_ in held_out} == {"sums", "debug"}
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["phase"] == "grpo"]
    assert {"reward/arithmetic_steps", "reward/length"} <= steps[-1].keys()


def test_data_that_streams_trains_as_it_comes_and_twice_the_same(tmp_path: Path) -> None:
    task = write_task(tmp_path, rows(60), ", streaming: true, window: 8")
    with (tmp_path / "rows.jsonl").open("a") as file:
        file.write('{"q": "1", "a": null}\n')  # far behind what two steps read
    first, second = (train(tmp_path, f"task={task}") for _ in range(2))
    assert problems_of(first) == problems_of(second)
    drawn = {id_ for ids in problems_of(first) for id_ in ids}
    assert len(drawn) == 12
    assert not drawn & {"train-0", "train-1"}, "held out"
    assert max(int(id_.removeprefix("train-")) for id_ in drawn) < 2 + 8 + 12 + 1


def test_a_reference_that_cannot_be_read_is_named_before_anything_is_sampled(tmp_path: Path) -> None:
    made = rows(40)
    made[7]["a"] = "seven"
    made[9]["a"] = "nine"
    task = write_task(tmp_path, made)
    with pytest.raises(ReasonRLError) as caught:
        train(tmp_path, f"task={task}", "algorithm.steps=6")  # six steps of six draw all but two of the 38
    message = str(caught.value)
    assert message.startswith((f"{task}: row 7: the reference", f"{task}: row 9: the reference"))
    assert "seven" in message or "nine" in message
    assert "dataset.where" in message
    assert not (tmp_path / "runs").exists()


def test_long_prompts_stop_a_run_or_are_left_out_and_counted(tmp_path: Path) -> None:
    made = rows(30)
    made[5]["q"] = "1+" * 40 + "1="
    task = write_task(tmp_path, made)
    with pytest.raises(ReasonRLError, match=r"problem train-5: the prompt has 82 tokens.*task\.max_prompt_tokens"):
        train(tmp_path, f"task={task}")
    folder = train(tmp_path, f"task={task}", "task.max_prompt_tokens=20", "algorithm.steps=4")
    assert "train-5" not in {id_ for ids in problems_of(folder) for id_ in ids}


def said(folder: Path, *overrides: str) -> tuple[Path, str]:
    """The folder of a run, and what it printed."""
    console = Console(file=io.StringIO(), width=120)
    made = run.train(config.load(DEBUG, [f"runs={folder / 'runs'}", *QUICK, *overrides]), console)
    assert isinstance(console.file, io.StringIO)
    return made, console.file.getvalue()


def test_a_run_says_which_rows_it_leaves_out(tmp_path: Path) -> None:
    made = rows(40)
    for index in (0, 5, 9):
        made[index]["a"] = None
    folder, text = said(tmp_path, f"task={write_task(tmp_path, made, ', skip_faulty: true')}")
    assert text.count("sums: 2 of 38 rows left out of the train split (first: row 5: reference.column") == 1
    assert text.count("sums: 1 of 2 rows left out of the eval split (first: row 0: reference.column") == 1
    assert json.loads((folder / "eval" / "after.json").read_text())["left_out"] == 1
    assert "rows_left_out" not in (folder / "metrics.jsonl").read_text(), "nothing streams"


def test_faulty_rows_of_a_stream_do_not_end_a_run(tmp_path: Path) -> None:
    made = rows(60)
    made[3]["a"] = None
    del made[4]["q"]
    made[5]["q"] = "1+" * 80 + "1="  # beyond the context
    made[6]["q"] = "1+" * 12 + "1="  # beyond what was asked for
    task = write_task(tmp_path, made, ", streaming: true, window: 4")
    folder, text = said(tmp_path, f"task={task}", "task.max_prompt_tokens=20", "algorithm.steps=3")
    steps = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["rows_left_out"] for line in steps if line["phase"] == "grpo"][-1] == 4
    assert (folder / "final").is_dir()
    assert text.count("sums: rows are left out and counted, rows_left_out (first: row ") == 1
    drawn = {id_ for ids in problems_of(folder) for id_ in ids}
    assert not drawn & {f"train-{index}" for index in (3, 4, 5, 6)}
    with pytest.raises(
        ReasonRLError, match=r"sums: 11 of the first \d+ rows of the train split cannot be used; the first"
    ):
        train(tmp_path, f"task={write_task(tmp_path, [*rows(2), *made[3:4] * 20], ', streaming: true')}")


def test_a_stream_warms_up_on_the_demonstrations_that_fit(tmp_path: Path) -> None:
    made = rows(30)
    made[4]["w"] = "1" * 200
    made[5]["a"] = None
    task = write_task(tmp_path, made, ", streaming: true, window: 4")
    _, text = said(tmp_path, f"task={task}", "warm_start={steps: 2, batch_size: 6}")
    assert "sums: 2 of 13 rows left out of the train split (first: row 5: reference.column" in text
