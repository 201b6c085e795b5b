"""pass@k by hand, with responses that could not be judged; the table that shows what was left out; the JSON file."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from small_runs import RULE

from reasonrl import Verdict
from reasonrl.evaluation import report as reports
from reasonrl.evaluation.counting import Scores, scores
from reasonrl.evaluation.evaluate import Evaluation, Judged
from reasonrl.evaluation.report import Coverage, Report, report
from reasonrl.rollout.engine import Sampling
from reasonrl.scoring.records import weigh
from reasonrl.types import FinishReason, Problem, Rollout

REASONS = {1: "correct", 0: "wrong", None: "timeout"}


def judged(problem: str, sample: int, mark: int | None, length: int = 4, finish: FinishReason = "stop") -> Judged:
    reward = None if mark is None else float(mark)
    rollout = Rollout(problem, sample, (1,), (2,) * length, (0.0,) * length, "x", finish, 0, 0)
    return Judged(Problem(problem, "q", "r"), rollout, weigh([RULE], [Verdict(reward, REASONS[mark])]))


def evaluation(marks: dict[str, list[int | None]], greedy: dict[str, int | None] | None = None) -> Evaluation:
    one = {problem: given[0] for problem, given in marks.items()} if greedy is None else greedy
    return Evaluation(
        greedy=[judged(problem, 0, mark) for problem, mark in one.items()],
        sampled=[judged(problem, j, mark) for problem, given in marks.items() for j, mark in enumerate(given)],
        sampling=Sampling(temperature=1.0, stop=("\n",)),
        samples=4,
    )


MARKS: dict[str, list[int | None]] = {
    "a": [1, 1, 0, 0],  # pass@1 1/2, pass@2 1 − 1/6 = 5/6, pass@4 1
    "b": [0, 0, 0, 0],  # 0, 0, 0
    "c": [1, None, 0, None],  # of two judged: 1/2, 1, and left out of pass@4
    "d": [None, None, None, None],  # left out of all
}


def of(marks: dict[str, list[int | None]], *k: int) -> Report:
    return report(evaluation(marks), task="t", model="m", seed=3, k=k)


def sampled(report: Report) -> Scores:
    assert report.sampled is not None
    return report.sampled


def greedy(report: Report) -> Scores:
    assert report.greedy is not None
    return report.greedy


def test_pass_at_k_by_hand_over_the_problems_with_k_judged_samples() -> None:
    found = sampled(of(MARKS, 1, 2, 4)).pass_at_k
    assert [(p.k, p.problems, p.left_out) for p in found] == [(1, 3, 1), (2, 3, 1), (4, 2, 2)]
    assert [p.value for p in found] == pytest.approx([(1 / 2 + 0 + 1 / 2) / 3, (5 / 6 + 0 + 1) / 3, (1 + 0) / 2])
    for one in found:
        assert one.low is not None
        assert one.value is not None
        assert one.high is not None
        assert 0 <= one.low <= one.value <= one.high <= 1


def test_responses_are_counted() -> None:
    found = of(MARKS, 1)
    assert (sampled(found).judged, sampled(found).unjudged) == (10, 6)
    assert sampled(found).reasons == {"wrong": 7, "timeout": 6, "correct": 3}
    assert (greedy(found).judged, greedy(found).unjudged) == (3, 1)
    assert greedy(found).pass_at_k[0].value == pytest.approx(2 / 3)
    assert (found.task, found.model, found.seed, found.samples) == ("t", "m", 3, 4)
    assert found.sampling["temperature"] == 1.0


def test_lengths_and_truncation_count_every_response_also_the_unjudged() -> None:
    some = [judged("a", 0, 1, length=2), judged("a", 1, None, length=10, finish="length")]
    found = scores([*some, judged("b", 0, 0, 3), judged("b", 1, 0, 5)], (1,), seed=0)
    assert found.truncated == 0.25
    assert found.mean_length == 5.0


def test_a_reward_of_at_least_1_is_right_and_part_of_one_is_not() -> None:
    marked = [replace(judged("a", 0, 1), scored=weigh([RULE], [Verdict(0.99, "wrong")])), judged("b", 0, 1)]
    assert scores(marked, (1,), seed=0).pass_at_k[0].value == 0.5


def test_where_nothing_could_be_judged_the_report_says_so_and_does_not_fail() -> None:
    found = of({"a": [None, None, None, None], "b": [None, 1, None, None]}, 1, 2)
    one, two = sampled(found).pass_at_k
    assert (one.value, one.problems, one.left_out) == (1.0, 1, 1)
    assert (two.value, two.low, two.high, two.problems, two.left_out) == (None, None, None, 0, 2)
    assert greedy(found).pass_at_k[0].value is None
    assert "none (2 left out)" in shown({"m": found})


def test_the_interval_is_the_same_for_the_same_seed() -> None:
    marks: dict[str, list[int | None]] = {f"p{i}": [i % 2, i % 3 == 0, 0, 1] for i in range(30)}
    assert of(marks, 1, 2) == of(marks, 1, 2)


def test_a_report_survives_its_file(tmp_path: Path) -> None:
    found = of(MARKS, 1, 2, 4)
    reports.save(found, tmp_path / "new" / "report.json")
    assert reports.read(tmp_path / "new" / "report.json") == found
    data = json.loads((tmp_path / "new" / "report.json").read_text())
    assert data["sampled"]["pass_at_k"][2] == {
        "k": 4,
        "value": 0.5,
        "low": 0.0,
        "high": 1.0,
        "problems": 2,
        "left_out": 2,
    }
    reports.save(of({"a": [None] * 4}, 4), tmp_path / "none.json")
    assert sampled(reports.read(tmp_path / "none.json")).pass_at_k[0].value is None


def test_a_report_of_an_earlier_version_is_read_and_eval_writes_no_key_of_files(tmp_path: Path) -> None:
    found = of(MARKS, 1)
    data = json.loads(reports.to_json(found))
    assert list(data) == ["task", "model", "seed", "samples", "sampling", "greedy", "sampled", "by"]
    assert data.pop("by") == {}
    (tmp_path / "old.json").write_text(json.dumps(data))
    assert reports.read(tmp_path / "old.json") == found


def of_a_file(**kinds: Any) -> Report:
    """As of `reasonrl verify`: one kind of response, and nothing known of lengths."""
    found = of(MARKS, 1)
    unknown = {name: kinds[name] and replace(kinds[name], truncated=None, mean_length=None) for name in kinds}
    return replace(found, samples=None, sampling={"temperature": None}, coverage=Coverage(4, 9), **unknown)


def test_a_report_of_one_kind_has_a_table_and_a_file(tmp_path: Path) -> None:
    only_sampled = of_a_file(greedy=None, sampled=sampled(of(MARKS, 1)))
    table = shown({"r.jsonl": only_sampled})
    assert "greedy" not in table
    assert cells(table, "sampled pass@1")[0].split()[0] == "33.3%"
    assert cells(table, "problems") == ["4 of 9"]
    assert cells(table, "judged / unjudged") == ["10 / 6"]
    assert (cells(table, "truncated"), cells(table, "mean length, tokens")) == (["–"], ["–"])
    only_greedy = of_a_file(greedy=greedy(of(MARKS, 1)), sampled=None)
    assert cells(shown({"r.jsonl": only_greedy}), "greedy pass@1")[0].split()[0] == "66.7%"
    assert "sampled" not in shown({"r.jsonl": only_greedy})
    both = shown({"one": only_greedy, "other": only_sampled})
    assert [cell.split()[0] for cell in cells(both, "sampled pass@1")] == ["–", "33.3%"]
    for number, found in enumerate((only_sampled, only_greedy)):
        reports.save(found, tmp_path / f"{number}.json")
        assert reports.read(tmp_path / f"{number}.json") == found


def shown(columns: dict[str, Report], width: int = 80) -> str:
    output = io.StringIO()
    Console(file=output, width=width).print(reports.table(columns, "arithmetic, held-out problems"))
    return output.getvalue()


def cells(table: str, label: str) -> list[str]:
    """The cells of the row with that label."""
    line = next(line for line in table.splitlines() if line.startswith(f"│ {label} "))
    return [cell.strip() for cell in line.split("│")[2:-1]]


def test_the_table_shows_what_was_found_and_what_was_left_out() -> None:
    judged_all: dict[str, list[int | None]] = {"a": [1, 1, 0, 0], "b": [1, 1, 1, 1]}
    table = shown({"before": of(MARKS, 1, 4), "after": of(judged_all, 1, 4)})
    assert "arithmetic, held-out problems" in table
    assert max(map(len, table.splitlines())) <= 80
    assert [cell.split()[0] for cell in cells(table, "greedy pass@1")] == ["66.7%", "100.0%"]
    assert [cell.split()[0] for cell in cells(table, "sampled pass@4 (n=4, T=1)")] == ["50.0%", "100.0%"]
    assert (table.count("(1 left out)"), table.count("(2 left out)")) == (2, 1)  # greedy and pass@1; pass@4
    assert "left out: problems with fewer than k judged responses" in " ".join(table.split())
    assert cells(table, "problems") == ["4", "2"]
    assert cells(table, "judged / unjudged") == ["13 / 7", "10 / 0"]
    assert cells(table, "truncated") == ["0.0% / 0.0%", "0.0% / 0.0%"]
    assert cells(table, "mean length, tokens") == ["4.0 / 4.0", "4.0 / 4.0"]


def test_a_table_where_all_was_judged_has_no_word_of_what_was_left_out() -> None:
    assert "left out" not in shown({"m": of({"a": [1, 0, 0, 1]}, 1)})


def test_a_heading_is_no_markup_and_a_long_one_hides_no_number() -> None:
    name = "/some/very/long/path/to/runs/[red]quickstart-17/final/and/further/down"
    table = shown({name: of(MARKS, 1)})
    assert "[red]" in table
    assert "33.3% [16.7%, 50.0%]" in table
