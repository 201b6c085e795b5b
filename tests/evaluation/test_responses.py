"""Responses from files: every form and shape, put in order; and what a user is told when a line is at fault."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reasonrl import ReasonRLError
from reasonrl.evaluation.responses import GivenResponse, read_responses
from reasonrl.types import Problem, Response

PROBLEMS = [Problem(name, "q", "r") for name in ("b", "a", "7")]
KNOWN = ["b", "a", "7", "later"]


def jsonl(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(path: Path, problems: list[Problem] = PROBLEMS) -> list[tuple[str, int, str]]:
    return [(one.problem.id, one.sample, one.text) for one in read_responses(path, problems, KNOWN)]


def fault(path: Path) -> str:
    with pytest.raises(ReasonRLError) as caught:
        read_responses(path, PROBLEMS, KNOWN)
    assert str(path) in str(caught.value)
    return str(caught.value).replace(str(path), "FILE")


ROWS: list[dict[str, Any]] = [
    {"problem_id": "a", "response": "first", "tokens": 4},
    {"problem_id": "b", "response": "x, \"y\"\nz", "tokens": 2},
    {"problem_id": "a", "response": "second", "tokens": 5},
]  # fmt: skip
IN_ORDER = [("b", 0, 'x, "y"\nz'), ("a", 0, "first"), ("a", 1, "second")]


def test_lines_of_one_problem_are_its_samples_in_every_form_of_file(tmp_path: Path) -> None:
    text = "".join(json.dumps(row) + "\n" for row in ROWS)
    quoted = [",".join('"' + str(value).replace('"', '""') + '"' for value in row.values()) for row in ROWS]
    jsonl(tmp_path / "r.jsonl", *ROWS)
    (tmp_path / "r.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "r.json").write_text(json.dumps(ROWS))
    (tmp_path / "r.csv").write_text("\n".join(["problem_id,response,tokens", *quoted, ""]))
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "r.parquet")
    files = sorted(tmp_path.iterdir())
    assert len(files) == 5
    for file in files:
        assert read(file) == IN_ORDER, file
        assert [one.tokens for one in read_responses(file, PROBLEMS, KNOWN)] == [2, 4, 5], file


def test_a_line_may_hold_all_samples_and_what_else_is_known_of_each(tmp_path: Path) -> None:
    file = jsonl(
        tmp_path / "r.jsonl",
        {"id": 7, "responses": ["u", "v"], "response_tokens": [3, 4], "finish_reason": ["stop", "length"]},
        {"id": "b", "responses": ["w"], "response_tokens": [None], "finish_reason": ["eos"]},
        {"id": "a", "responses": []},
    )
    assert read_responses(file, PROBLEMS, KNOWN) == [
        GivenResponse(PROBLEMS[0], 0, "w", None, "eos", None),
        GivenResponse(PROBLEMS[2], 0, "u", 3, "stop", None),
        GivenResponse(PROBLEMS[2], 1, "v", 4, "length", None),
    ]
    assert [one.response for one in read_responses(file, PROBLEMS, KNOWN)] == [
        Response("w", 0, "stop"),
        Response("u", 3, "stop"),
        Response("v", 4, "length"),
    ]


def test_temperature_0_is_greedy_and_its_samples_are_counted_apart(tmp_path: Path) -> None:
    file = jsonl(
        tmp_path / "r.jsonl",
        {"id": "b", "response": "s", "temperature": 0.7},
        {"id": "b", "response": "g", "temperature": 0.0},
        {"id": "b", "response": "t", "temperature": None},
    )
    found = read_responses(file, PROBLEMS, KNOWN)
    assert [(one.text, one.sample, one.greedy) for one in found] == [("g", 0, True), ("s", 0, False), ("t", 1, False)]


def test_without_ids_line_i_answers_problem_i(tmp_path: Path) -> None:
    file = jsonl(tmp_path / "r.jsonl", *({"responses": [f"{n}", "z"]} for n in range(3)))
    assert read(file) == [(p, j, t) for n, p in enumerate(("b", "a", "7")) for j, t in enumerate((str(n), "z"))]


def test_lines_of_problems_not_asked_for_are_passed_over(tmp_path: Path) -> None:
    file = jsonl(tmp_path / "r.jsonl", *({"id": name, "response": name} for name in ("later", "a", "7")))
    assert read(file, PROBLEMS[:2]) == [("a", 0, "a")]
    with pytest.raises(ReasonRLError, match="no line answers one of the 1 problems asked for; raise --rows"):
        read(file, PROBLEMS[:1])


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([{"id": "b", "response": "x"}, {"id": "latr", "response": "x"}],
         "FILE: line 2: id: the task has no problem 'latr'; did you mean 'later'?"),
        ([{"id": "#####", "response": "x"}], "they are named like 'b'. Without a column `problem_id` or `id`, line i"),
        ([{"id": "b", "response": "x"}, {"id": None, "response": "x"}], "FILE: line 2: id: column 'id' holds None"),
        ([{"id": "b", "completion": "x", "score": 1}],
         "FILE: no column `response` (a text) or `responses` (a list of texts); rename the one that holds them; the "
         "file has: completion, id, score"),
        ([{"id": "b", "response": "x", "responses": ["y"]}], "FILE: has both `response` and `responses`; leave one"),
        ([{"id": "b", "response": "x"}, {"id": "a", "response": 3}], "FILE: line 2: response holds 3, expected text"),
        ([{"id": "b", "response": "x"}, {"id": "a"}], "FILE: line 2: response holds nothing, expected text"),
        ([{"id": "b", "responses": ["x", None]}], "FILE: line 1: responses holds nothing, expected text"),
        ([{"id": "b", "responses": "x"}], "FILE: line 1: responses holds 'x', expected a list of texts"),
        ([{"id": "b", "response": "x", "tokens": "many"}],
         "FILE: line 1: tokens holds 'many', expected a number; rename it if it is something else"),
        ([{"id": "b", "response": "x", "tokens": [5, 6]}], "FILE: line 1: tokens is a list of 2; the line has 1 resp"),
        ([{"id": "b", "response": "x", "temperature": -1}], "FILE: line 1: temperature holds -1, expected a number"),
        ([{"id": "b", "response": "x", "finish_reason": 2}], "FILE: line 1: finish_reason holds 2, expected text"),
        ([{"response": "x"}] * 2, "FILE: has 2 lines, and there are 3 problems; add a column `problem_id`"),
        ([{"response": "x"}] * 4, "FILE: has 4 lines, and there are 3 problems; add a column `problem_id`"),
        ([], "FILE: is empty; expected a line with a `response` for each problem"),
    ],
)  # fmt: skip
def test_a_fault_names_file_line_and_cure(tmp_path: Path, rows: list[dict[str, Any]], expected: str) -> None:
    assert expected in fault(jsonl(tmp_path / "r.jsonl", *rows))


def test_a_cell_of_csv_is_text_and_an_empty_one_says_nothing_of_tokens(tmp_path: Path) -> None:
    file = tmp_path / "r.csv"
    file.write_text("id,response,tokens,finish_reason,temperature\nb,007,3,length,0\na,,,,\n7,2024-08-01,5,stop,0.7\n")
    assert read_responses(file, PROBLEMS, KNOWN) == [
        GivenResponse(PROBLEMS[0], 0, "007", 3, "length", 0.0),
        GivenResponse(PROBLEMS[1], 0, "", None, None, None),
        GivenResponse(PROBLEMS[2], 0, "2024-08-01", 5, "stop", 0.7),
    ]


def test_a_response_that_looks_like_a_date_stays_text(tmp_path: Path) -> None:
    dates = ["2024-08-01T00:00:00", "2024-08-01", "10:30"]
    file = jsonl(tmp_path / "r.jsonl", *({"response": text} for text in dates))
    assert [text for _, _, text in read(file)] == dates


def test_the_line_of_a_fault_is_the_line_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text('{"id": "b", "response": "x"}\n\n{"id": "a", "response": 3}\n')
    assert fault(tmp_path / "r.jsonl").startswith("FILE: line 3: response holds 3, expected text; give it in JSON, in")
    (tmp_path / "r.csv").write_text('id,response\nb,"1\n2"\nz,3\n')
    assert fault(tmp_path / "r.csv").startswith("FILE: line 4: id: the task has no problem 'z'")
    (tmp_path / "r.json").write_text('[{"id": "b", "response": "x"}, {"id": "a", "response": 3}]')
    assert fault(tmp_path / "r.json").startswith("FILE: row 1: response holds 3, expected text")


def test_a_file_that_is_not_there_or_no_such_form(tmp_path: Path) -> None:
    assert fault(tmp_path / "r.jsonl").startswith("there is no file FILE (looked for in ")
    (tmp_path / "r.txt").write_text("x")
    assert "ends in none of .json" in fault(tmp_path / "r.txt")
    (tmp_path / "r.jsonl").write_text('{"id": "b", "response": \n')
    assert fault(tmp_path / "r.jsonl").startswith("FILE:1: not JSON: ")
