"""`reasonrl compare` on evaluations stored as runs and evaluations store them: figures by hand, and what is refused."""

import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_in_process import Program, program_of
from small_runs import RULE

from reasonrl import Problem, ReasonRLError, Verdict, store
from reasonrl.evaluation.compare import PRIOR, compare
from reasonrl.evaluation.evaluate import Judged, records
from reasonrl.evaluation.stored import read_evaluation
from reasonrl.scoring.records import weigh
from reasonrl.types import Rollout

Marks = dict[str, list[int | None]]

# Of four responses right: A 2, 0, 4, 1, none judged; B 3, 2, 4, 0, 4.
A: Marks = {"a": [1, 1, 0, 0], "b": [0, 0, 0, 0], "c": [1] * 4, "d": [1, 0, 0, 0], "e": [None] * 4, "z": [1, 1, 1, 1]}
B: Marks = {"a": [1, 1, 1, 0], "b": [1, 1, 0, 0], "c": [1] * 4, "d": [0] * 4, "e": [1] * 4, "y": [0, 0, 0, 0]}
C: Marks = {"a": [1, 0], "b": [0, None], "c": [1, 1], "d": [0, 1], "e": [1, 1]}


def rows(marks: Marks, temperature: float, prompt: str = "q", reference: str = "r") -> list[dict[str, Any]]:
    judged = [
        Judged(
            Problem(problem, f"{prompt} {problem}", f"{reference} {problem}"),
            Rollout(problem, sample, (1,), (2,), (0.0,), "x", "stop", 0, 0),
            weigh([RULE], [Verdict(None if mark is None else float(mark), "said")]),
        )
        for problem, given in marks.items()
        for sample, mark in enumerate(given)
    ]
    return records(judged, step=0, temperature=temperature)


def stored(folder: Path, marks: Marks, place: str = "rollouts.parquet", **asked: str) -> Path:
    """An evaluation with these sampled responses, and as greedy one to each problem the first of them."""
    first: Marks = {problem: given[:1] for problem, given in marks.items()}
    store.write(folder / place, rows(first, 0.0, **asked) + rows(marks, 1.0, **asked))
    return folder


def test_two_by_hand(tmp_path: Path) -> None:
    found = compare([stored(tmp_path / "A", A), stored(tmp_path / "B", B)])
    # In common and judged: a, b, c, d. Differences 1/4, 1/2, 0, −1/4, of sum 1/2: of the eight signs of 1, 2 and 1
    # quarters |±1 ±2 ±1| is at least 2 in six.
    assert (found.responses, found.problems, found.unjudged, found.prompts_differ) == ("sampled", 4, 1, 0)
    assert [one.pass_at_1.value for one in found.runs] == pytest.approx([7 / 16, 9 / 16])
    assert [one.evaluated for one in found.runs] == [6, 6]
    one = found.difference
    assert one is not None
    assert [one.value, one.p_value] == pytest.approx([1 / 8, 6 / 8])
    assert one.exact
    assert (one.better, one.equal, one.worse) == (2, 1, 1)
    assert -0.25 <= one.low < one.value < one.high <= 0.5
    assert found.runs[0].ability is None
    turned = compare([tmp_path / "B", tmp_path / "A"]).difference
    assert turned is not None
    assert [turned.value, turned.p_value] == pytest.approx([-1 / 8, 6 / 8])
    assert (turned.better, turned.worse) == (1, 2)


def test_a_run_is_compared_with_itself(tmp_path: Path) -> None:
    found = compare([stored(tmp_path / "A", A), tmp_path / "A"]).difference
    assert found is not None
    assert (found.value, found.low, found.high, found.p_value, found.equal) == (0, 0, 0, 1, 5)


def test_greedy_responses_are_mcnemar_s(tmp_path: Path) -> None:
    both: Marks = {"r": [1], "s": [0]}
    some: Marks = both | {f"p{n}": [1, 0] for n in range(8)} | {f"q{n}": [0, 1] for n in range(2)}
    other: Marks = both | {f"p{n}": [0, 1] for n in range(8)} | {f"q{n}": [1, 0] for n in range(2)}
    found = compare([stored(tmp_path / "A", some), stored(tmp_path / "B", other)], greedy=True)
    assert found.responses == "greedy"
    assert found.difference is not None
    assert found.difference.p_value == pytest.approx(2 * sum(math.comb(10, k) for k in (8, 9, 10)) / 2**10)
    assert found.difference.value == pytest.approx((2 - 8) / 12)


def test_three_have_abilities(tmp_path: Path) -> None:
    folders = [stored(tmp_path / name, marks) for name, marks in (("A", A), ("B", B), ("C", C))]
    found = compare(folders)
    assert found.problems == 4
    assert found.difference is None
    abilities = [one.ability for one in found.runs]
    assert all(one is not None and one.low < one.value < one.high for one in abilities)
    values = [one.value for one in abilities if one is not None]
    assert sum(values) == pytest.approx(0, abs=1e-9)
    # Where the likelihood is largest, each run's expected wins are its wins.
    share = [[1 / 2, 0, 1, 1 / 4], [3 / 4, 1 / 2, 1, 0], [1 / 2, 0, 1, 1 / 2]]
    wins = [[sum(p * (1 - q) for p, q in zip(one, other, strict=True)) + PRIOR for other in share] for one in share]
    for i in range(3):
        others = [j for j in range(3) if j != i]
        expected = sum((wins[i][j] + wins[j][i]) / (1 + math.exp(values[j] - values[i])) for j in others)
        assert expected == pytest.approx(sum(wins[i][j] for j in others), abs=1e-6)


def test_more_problems_make_abilities_surer(tmp_path: Path) -> None:
    def width(times: int) -> float:
        many = [{f"{p}{n}": marks for p, marks in one.items() for n in range(times)} for one in (A, B, C)]
        folders = [stored(tmp_path / f"{times}-{n}", one) for n, one in enumerate(many)]
        ability = compare(folders).runs[0].ability
        assert ability is not None
        return ability.high - ability.low

    assert width(120) == pytest.approx(width(30) / 2, rel=0.05)


def test_a_run_s_evaluation_is_the_one_after_training_or_the_one_that_is_named(tmp_path: Path) -> None:
    run = tmp_path / "run"
    stored(run, A, "eval/before.parquet")
    stored(run, B, "eval/after.parquet")
    (run / "eval" / "before.json").write_text("{}")
    (run / "rollouts").mkdir()
    evaluation = stored(tmp_path / "e", A)
    (evaluation / "report.json").write_text("{}")
    for named, expected in [
        (run, 1 / 8), (run / "eval" / "before.json", 0.0), (run / "eval" / "before.parquet", 0.0),
        (run / "eval" / "after.parquet", 1 / 8),
    ]:  # fmt: skip
        found = compare([evaluation, named]).difference
        assert found is not None
        assert found.value == pytest.approx(expected)
    for named in (evaluation / "report.json", evaluation / "rollouts.parquet"):
        assert read_evaluation(named, greedy=False).file == evaluation / "rollouts.parquet"


def test_other_words_are_said_and_other_problems_refused(tmp_path: Path) -> None:
    first = stored(tmp_path / "A", A)
    assert compare([first, stored(tmp_path / "B", B, prompt="Q")]).prompts_differ == 4
    with pytest.raises(ReasonRLError, match=r"problem 'a' is not the same one: its reference is 'r a' .* 's a'"):
        compare([first, stored(tmp_path / "C", B, reference="s")])


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    first = stored(tmp_path / "A", A)
    unfinished = stored(tmp_path / "run", A, "eval/before.parquet")
    (tmp_path / "odd.parquet").write_bytes(b"no parquet")
    pq.write_table(pa.table({"problem_id": ["a"]}), tmp_path / "foreign.parquet")
    (tmp_path / "lost.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    store.write(tmp_path / "sampled" / "rollouts.parquet", rows(A, 1.0))
    for other, message in [
        (stored(tmp_path / "D", {"other": [1]}), "no problem in common: .*A has a, b, c …; .*D has other …"),
        (stored(tmp_path / "E", {"a": [None], "e": [1]}), "none of the 2 problems in common has a judged response"),
        (tmp_path / "nowhere", "there is no file or folder"),
        (tmp_path / "odd.parquet", "cannot be read as rollouts"),
        (tmp_path / "foreign.parquet", "foreign.parquet: .*(prompt|missing)"),
        (tmp_path / "lost.json", "there is no lost.parquet"),
        (tmp_path / "empty", "give the folder of an evaluation"),
        (unfinished, r"name one of .*eval/before\.parquet"),
    ]:
        with pytest.raises(ReasonRLError, match=message):
            compare([first, other])
    with pytest.raises(ReasonRLError, match="no greedy responses; it has sampled ones: leave out --greedy"):
        compare([first, tmp_path / "sampled"], greedy=True)
    with pytest.raises(ReasonRLError, match="two runs or more"):
        compare([first])


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    monkeypatch.setenv("COLUMNS", "200")
    return program_of(monkeypatch, capsys)


def test_the_command_says_it_in_words_and_in_json(tmp_path: Path, program: Program) -> None:
    runs = [str(stored(tmp_path / name, marks)) for name, marks in (("A", A), ("B", B), ("C", C))]
    ended = program("compare", *runs[:2])
    assert ended.code == 0
    assert "4 problems in common, sampled responses" in ended.out
    assert f"{runs[1]} less {runs[0]}: +12.5% [" in ended.out
    assert "p = 0.75 (exact sign-flip test, paired by problem)" in ended.out
    assert "better on 2, equal on 1, worse on 1" in ended.out
    assert "1 further problems in common have no judged response" in ended.out
    ended = program("compare", *runs, "--json", "-")
    found = json.loads(ended.out)
    assert [one["name"] for one in found["runs"]] == runs
    assert found["difference"] is None
    assert sum(one["ability"]["value"] for one in found["runs"]) == pytest.approx(0, abs=1e-9)
    assert "ability" in ended.err
    ended = program("compare", runs[0], "--json", str(tmp_path / "x.json"))
    assert (ended.code, ended.err.strip()) == (2, "error: comparing takes two runs or more")
    assert program("compare", *runs[:2], "--greedy", "--json", str(tmp_path / "x.json")).code == 0
    assert json.loads((tmp_path / "x.json").read_text())["responses"] == "greedy"
