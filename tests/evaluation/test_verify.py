"""Responses of a file verified by real tasks: numbers by hand, gaps, what cannot be judged, and our own rollouts."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from cli_calls import save_tiny_model
from scoring_verifiers import Acting
from small_runs import offered

from reasonrl import ReasonRLError, plugins, store, tasks
from reasonrl.evaluation import report as reports
from reasonrl.evaluation.command import ModelOnTask, evaluate_model
from reasonrl.evaluation.counting import Scores
from reasonrl.evaluation.report import Coverage, Report
from reasonrl.evaluation.verify import verify_responses

GSM8K = Path(__file__).parents[1] / "data" / "gsm8k_rows.jsonl"
ANSWERS = ["72", "10", "1,080", "-7", "400", "1,000,000"]


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def gsm8k(file: Path, **options: Any) -> tuple[Report, Path]:
    return verify_responses("gsm8k", file, data={"eval": str(GSM8K)}, runs=file.parent / "runs", **options)


def sampled(report: Report) -> Scores:
    assert report.sampled is not None
    return report.sampled


def test_gsm8k_by_hand(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    file = lines(
        tmp_path / "other.jsonl",
        {"problem_id": "eval-2", "responses": ["So 1080.", "#### 1,080", "#### 108", "I give up"]},
        {"problem_id": "eval-0", "responses": ["#### 72", "#### 27", "", "#### 27"]},
        {"problem_id": "eval-3", "responses": ["#### -7", "#### 7"]},
    )
    report, folder = gsm8k(file, k=(1, 4), progress=lambda done, total: seen.append((done, total)))
    assert report.greedy is None
    one, four = sampled(report).pass_at_k
    assert one.value == pytest.approx((1 / 4 + 2 / 4 + 1 / 2) / 3)
    assert (one.problems, one.left_out) == (3, 0)
    assert (four.value, four.problems, four.left_out) == (1.0, 2, 1)
    assert (sampled(report).judged, sampled(report).unjudged) == (10, 0)
    assert sampled(report).reasons["correct"] == 4
    assert (sampled(report).truncated, sampled(report).mean_length) == (None, None)
    assert (report.task, report.model, report.samples, report.sampling) == (
        "gsm8k", str(file), None, {"temperature": None},
    )  # fmt: skip
    assert report.coverage == Coverage(answered=3, problems=6)
    assert seen == [(10, 10)]

    assert folder == tmp_path / "runs" / "verify-gsm8k"
    assert reports.read(folder / "report.json") == report
    rows = store.read(folder / "rollouts.parquet")
    assert [(row["problem_id"], row["sample"]) for row in rows[3:6]] == [("eval-0", 3), ("eval-2", 0), ("eval-2", 1)]
    assert [row["correct"] for row in rows] == [True, False, False, False, True, True, False, False, True, False]
    assert [v["verifier"] for v in rows[0]["verdicts"]] == ["math", "pattern"]
    assert [row["reward"] for row in rows[4:6]] == [1.0, 1.1]  # the second has the form asked for, too
    for unknown in ("response_tokens", "finish_reason", "temperature", "seed", "prompt_ids"):
        assert rows[0][unknown] is None


def test_lines_without_ids_answer_the_problems_in_their_order(tmp_path: Path) -> None:
    file = lines(tmp_path / "r.jsonl", *({"response": f"#### {answer}"} for answer in ANSWERS))
    report, _ = gsm8k(file)
    assert sampled(report).pass_at_k[0].value == 1.0
    assert (report.samples, report.coverage) == (1, Coverage(6, 6))
    few, _ = gsm8k(lines(tmp_path / "few.jsonl", *({"response": f"#### {a}"} for a in ANSWERS[:2])), rows=2)
    assert few.coverage == Coverage(2, 2)


def test_the_order_of_the_lines_changes_nothing(tmp_path: Path) -> None:
    rows = [{"id": f"eval-{n}", "response": f"#### {ANSWERS[n] if n % 2 else 5}"} for n in range(6)]
    forth, _ = gsm8k(lines(tmp_path / "r.jsonl", *rows))
    back, _ = gsm8k(lines(tmp_path / "r.jsonl", *reversed(rows)))
    assert reports.to_json(forth) == reports.to_json(back)


@pytest.mark.parametrize(
    ("rows", "k", "expected"),
    [
        ([{"responses": ["1", "2"]}] * 6, (1, 3), "pass@3: no problem of .* has 3 responses, the most is 2; lower k"),
        ([{"response": "1", "temperature": 0}] * 6, (2,), "pass@2: all responses of .* are greedy"),
        ([{"response": "1"}] * 6, (0,), "pass@k needs k >= 1; k is 0"),
        ([{"response": "1"}] * 5, (1,), "has 5 lines, and there are 6 problems"),
        ([{"id": "eval-9", "response": "1"}], (1,), "line 1: id: the task has no problem 'eval-9'; did you mean 'eval"),
    ],
)
def test_a_fault_leaves_no_folder(
    tmp_path: Path, rows: list[dict[str, Any]], k: tuple[int, ...], expected: str
) -> None:
    with pytest.raises(ReasonRLError, match=expected):
        gsm8k(lines(tmp_path / "r.jsonl", *rows), k=k)
    assert not (tmp_path / "runs").exists()


ACTING = """
name: acting
dataset: {data_files: {eval: problems.jsonl}}
prompt: {template: "{{ question }}"}
reference: {column: answer}
metadata: [pid]
verifiers: [{name: acting}]
"""


@pytest.mark.timeout(120)
def test_a_response_that_hangs_costs_its_deadline_and_is_unjudged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, source in offered(Acting).items():
        monkeypatch.setitem(plugins.installed().verifiers, name, source)
    monkeypatch.chdir(tmp_path)
    Path("task.yaml").write_text(ACTING)
    lines(Path("problems.jsonl"), *({"question": "1+1", "answer": "2", "pid": str(tmp_path / "pid")} for _ in range(3)))
    file = lines(
        Path("r.jsonl"),
        {"id": "eval-0", "responses": ["2", "spin", "3"]},
        {"id": "eval-1", "responses": ["fail", "exit"]},
        {"id": "eval-2", "responses": ["2", "3", "3"]},
    )
    seconds = {}
    for deadline in (0.5, 4.0):
        started = time.monotonic()
        report, folder = verify_responses("task.yaml", file, k=(1, 2, 3), deadline=deadline, workers=1)
        seconds[deadline] = time.monotonic() - started
    assert seconds[4.0] - seconds[0.5] > 2.0  # 3.5, less what starting the workers differs by
    assert sampled(report).reasons == {"wrong": 3, "correct": 2, "timeout": 1, "error": 1, "worker_died": 1}
    assert (sampled(report).judged, sampled(report).unjudged) == (5, 3)
    one, two, three = sampled(report).pass_at_k
    assert [one.value, two.value] == pytest.approx([(1 / 2 + 1 / 3) / 2, (1 + 2 / 3) / 2])
    assert (one.left_out, two.left_out) == (1, 1)
    assert (three.value, three.left_out) == (1.0, 2)
    assert [row["correct"] for row in store.read(folder / "rollouts.parquet")][:3] == [True, None, False]


def test_many_responses_go_through_in_chunks_with_the_progress_of_each(tmp_path: Path) -> None:
    problems = tasks.load("arithmetic").problems("eval", 50)
    file = lines(
        tmp_path / "r.jsonl",
        *({"id": p.id, "responses": [p.reference if n % 4 == 0 else "?" for n in range(40)]} for p in problems),
    )
    seen: list[int] = []
    report, folder = verify_responses(
        "arithmetic", file, k=(1,), rows=50, runs=tmp_path, progress=lambda done, total: seen.append(done)
    )
    assert seen == sorted(set(seen))
    assert (len(seen) > 5, seen[0], seen[-1]) == (True, 16, 2000)
    assert sampled(report).judged == 2000
    rows = store.read(folder / "rollouts.parquet")
    assert [(row["problem_id"], row["sample"]) for row in rows] == [(p.id, j) for p in problems for j in range(40)]


MIXED = """
name: two_sums
mixture: [{task: debug}, {task: arithmetic}]
sampling: {max_tokens: 8}
"""


def test_rollouts_of_eval_verified_again_give_the_same_numbers_for_a_mixture_too(tmp_path: Path) -> None:
    model = save_tiny_model(tmp_path / "tiny")
    (tmp_path / "mix.yaml").write_text(MIXED)
    mixture = str(tmp_path / "mix.yaml")
    first, folder = evaluate_model(ModelOnTask(mixture, str(model), rows=12), samples=3, k=(1, 3), runs=tmp_path)
    assert folder == tmp_path / "eval-two_sums"
    assert first.task == "two_sums"
    assert {name: group.problems for name, group in first.by["task"].items()} == {"arithmetic": 6, "debug": 6}
    again, folder = verify_responses(mixture, folder / "rollouts.parquet", k=(1, 3), rows=12, runs=tmp_path, workers=1)
    assert (again.greedy, again.sampled, again.by) == (first.greedy, first.sampled, first.by)
    assert (again.task, again.samples, again.seed) == (first.task, first.samples, first.seed)
    assert again.sampling == {"temperature": 1.0}
    assert again.coverage == Coverage(12, 12)

    once_more, _ = verify_responses(mixture, folder / "rollouts.parquet", k=(1, 3), rows=12, runs=tmp_path)
    assert (once_more.greedy, once_more.sampled, once_more.by) == (first.greedy, first.sampled, first.by)
    verdicts = [
        [(row["reward"], row["reason"], [v["verifier"] for v in row["verdicts"]]) for row in store.read(path)]
        for path in sorted(tmp_path.glob("*/rollouts.parquet"))
    ]
    assert len(verdicts) == 3
    assert verdicts[0] == verdicts[1] == verdicts[2]
    assert {tuple(names) for _, _, names in verdicts[0]} == {("arithmetic_steps", "length"), ("arithmetic_steps",)}
