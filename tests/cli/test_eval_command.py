"""`reasonrl eval` on a small model, as a user runs it: the same command gives the same numbers, faults cost seconds."""

import json
from pathlib import Path

import pytest
from cli_calls import call, refused, save_tiny_model

from reasonrl import store
from reasonrl.cli.evaluate import parse_k
from reasonrl.config import EngineConfig
from reasonrl.errors import ReasonRLError
from reasonrl.evaluation import report as reports
from reasonrl.evaluation.command import ModelOnTask, evaluate_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model") / "tiny")


def test_the_same_command_gives_the_same_numbers(tmp_path: Path, model: Path) -> None:
    command = ("eval", "arithmetic", "--model", model, "-n", "4", "-k", "1,4", "--rows", "20", "--json")
    first = call(*command, "first.json", cwd=tmp_path)
    second = call(*command, "deeper/second.json", cwd=tmp_path)
    for result in (first, second):
        assert result.returncode == 0, result.stderr
        for words in (
            "arithmetic, held-out problems",
            "greedy pass@1",
            "sampled pass@4 (n=4, T=1)",
            "judged / unjudged",
        ):
            assert words in result.stdout
    assert (tmp_path / "first.json").read_bytes() == (tmp_path / "deeper" / "second.json").read_bytes()
    assert "runs/eval-arithmetic/rollouts.parquet" in first.stdout
    assert "runs/eval-arithmetic-2/rollouts.parquet" in second.stdout

    report = reports.read(tmp_path / "first.json")
    assert report == reports.read(tmp_path / "runs" / "eval-arithmetic" / "report.json")
    assert (report.task, report.samples, report.seed) == ("arithmetic", 4, 0)
    assert report.greedy is not None
    assert report.sampled is not None
    assert (report.greedy.judged, report.sampled.judged, report.sampled.unjudged) == (20, 80, 0)
    assert [one.k for one in report.sampled.pass_at_k] == [1, 4]
    assert report.sampled.truncated  # an untrained model rarely ends by itself

    rows = store.read(tmp_path / "runs" / "eval-arithmetic" / "rollouts.parquet")
    assert len(rows) == 20 + 80
    assert [row["temperature"] for row in rows] == [0.0] * 20 + [1.0] * 80
    again = store.read(tmp_path / "runs" / "eval-arithmetic-2" / "rollouts.parquet")
    assert [row["response"] for row in rows] == [row["response"] for row in again]
    assert sum(row["finish_reason"] == "length" for row in rows[20:]) / 80 == report.sampled.truncated
    assert sum(row["response_tokens"] for row in rows[20:]) / 80 == report.sampled.mean_length
    assert sum(bool(row["correct"]) for row in rows[20:]) == report.sampled.reasons.get("correct", 0)


def test_the_numbers_depend_on_the_seed_and_not_on_the_batch(tmp_path: Path, model: Path) -> None:
    def responses(seed: int, max_batch: int) -> list[str]:
        engine = EngineConfig(name="huggingface", max_batch=max_batch)
        asked = ModelOnTask("arithmetic", str(model), rows=6, engine=engine)
        _, folder = evaluate_model(asked, samples=2, k=(1,), seed=seed, runs=tmp_path)
        return [row["response"] for row in store.read(folder / "rollouts.parquet")]

    wide, narrow, other = responses(0, 256), responses(0, 4), responses(1, 256)
    assert wide == narrow
    assert wide[:6] == other[:6]  # greedy
    assert wide[6:] != other[6:]


def test_options_change_the_sampling_and_progress_counts_every_response(tmp_path: Path, model: Path) -> None:
    seen: list[tuple[int, int]] = []
    report, folder = evaluate_model(
        ModelOnTask("arithmetic", str(model), rows=3, temperature=0.5, max_tokens=4), samples=2, k=(1, 2),
        runs=tmp_path, progress=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    assert seen == [(done, 9) for done in range(1, 10)]
    assert (report.sampling["temperature"], report.sampling["max_tokens"]) == (0.5, 4)
    assert max(row["response_tokens"] for row in store.read(folder / "rollouts.parquet")) <= 4


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-n", "4", "-k", "8"], "error: -k 8: pass@k needs 1 <= k <= n, and n is 4; raise -n"),
        (["-k", "0"], "error: -k 0: pass@k needs 1 <= k <= n"),
        (["-k", "one"], "error: -k one: expected whole numbers separated by commas, as in -k 1,8"),
        (["-k", ""], "expected whole numbers"),
        (["-n", "0"], "Invalid value for '-n'"),
        (["--temperature", "-1"], "Invalid value for '--temperature'"),
        (["--json", "."], "Invalid value for '--json'"),
        (["--data", "rows.json"], "task arithmetic makes its own rows; it takes no data files"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_told_at_once(tmp_path: Path, model: Path, arguments: list[str], expected: str) -> None:
    message = refused(call("eval", "arithmetic", "--model", model, *arguments, cwd=tmp_path))
    assert expected in message.replace("│ ", "")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("task", "model_name", "expected"),
    [
        ("arithmetik", "x", "error: no task is named 'arithmetik'; did you mean 'arithmetic'?"),
        ("arithmetic", "./nowhere", "there is no folder ./nowhere"),
        ("gsm8k", "./nowhere", "the hub cannot be reached, and openai/gsm8k has not been loaded"),
    ],
)
def test_a_wrong_task_or_model_is_named(tmp_path: Path, task: str, model_name: str, expected: str) -> None:
    assert expected in refused(call("eval", task, "--model", model_name, cwd=tmp_path))
    assert not (tmp_path / "runs").exists()


def test_a_python_caller_is_told_of_a_k_beyond_n_too(tmp_path: Path) -> None:
    with pytest.raises(ReasonRLError, match="pass@k needs 1 <= k <= n; k is 1, 8 and n is 4"):
        evaluate_model(ModelOnTask("arithmetic", "x"), samples=4, k=(1, 8), runs=tmp_path)


def test_a_k_given_twice_is_one() -> None:
    assert parse_k("4, 1,4") == (4, 1)


def test_a_mixture_is_broken_down_by_task_and_its_json_goes_where_it_can_be_piped(tmp_path: Path, model: Path) -> None:
    (tmp_path / "mix.yaml").write_text(
        "name: sums\nmixture: [{task: debug}, {task: arithmetic}]\nsampling: {max_tokens: 9}"
    )
    result = call(
        "eval", "mix.yaml", "--model", model, "-n", "2", "-k", "2,1", "--rows", "6", "--json", "-", cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr
    data = json.loads(result.stdout)
    assert result.stdout == (tmp_path / "runs" / "eval-sums" / "report.json").read_text()
    assert list(data) == ["task", "model", "seed", "samples", "sampling", "greedy", "sampled", "by"]
    assert data["task"] == "sums"
    assert [(name, group["problems"]) for name, group in data["by"]["task"].items()] == [
        ("arithmetic", 3),
        ("debug", 3),
    ]
    assert data["by"]["task"]["debug"]["sampled"]["k"] == 2
    assert "mix.yaml, held-out problems" in result.stderr
    shown = result.stderr[result.stderr.index("by task") :]
    assert "sampled pass@2" in shown
    assert [line.split()[1:4:2] for line in shown.splitlines() if line.startswith("│")] == [
        ["arithmetic", "3"],
        ["debug", "3"],
    ]


def test_a_report_is_plain_json(tmp_path: Path, model: Path) -> None:
    _, folder = evaluate_model(ModelOnTask("arithmetic", str(model), rows=2), samples=1, k=(1,), runs=tmp_path)
    data = json.loads((folder / "report.json").read_text())
    assert data["model"] == str(model)
    assert data["sampling"]["stop"] == []
