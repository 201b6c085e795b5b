"""Rows of LiveCodeBench → suites of tests: private cases are read without unpickling them."""

import base64
import json
import pickle
import zlib
from pathlib import Path
from typing import Any

import pytest
from code_suites import suite

from reasonrl_code.records import CallTest, StdioTest
from reasonrl_code.suite import Unreadable

FUNCTIONAL = {"input": '[1, 2]\n"x"', "output": "true", "testtype": "functional"}
STDIN = {"input": "1\n", "output": "2\n", "testtype": "stdin"}
STARTER = "class Solution:\n    def go(self, xs: List[int], s: str) -> bool:\n"


def private(cases: Any, dump: Any = pickle.dumps) -> str:
    return base64.b64encode(zlib.compress(dump(json.dumps(cases)))).decode()


@pytest.mark.parametrize("dump", [lambda x, n=n: pickle.dumps(x, n) for n in range(1, 6)])
def test_private_cases_of_livecodebench_are_read_without_unpickling(dump: Any) -> None:
    found = suite("livecodebench", public_test_cases=json.dumps([STDIN]), private_test_cases=private([STDIN], dump))
    assert found.tests == (StdioTest("1\n", "2\n"),) * 2
    assert found.entry_point == ""


def test_private_cases_beyond_ascii() -> None:
    case = {"input": "é世", "output": "x" * 100_000, "testtype": "stdin"}
    text = json.dumps([case], ensure_ascii=False)
    packed = base64.b64encode(zlib.compress(pickle.dumps(text))).decode()
    assert suite("livecodebench", private_test_cases=packed).tests == (StdioTest("é世", "x" * 100_000),)


def test_functional_cases_call_a_method() -> None:
    found = suite(
        "livecodebench",
        public_test_cases=json.dumps([FUNCTIONAL]),
        private_test_cases=json.dumps([FUNCTIONAL]),
        metadata='{"func_name": "go"}',
        starter_code=STARTER,
    )
    assert found.tests == (CallTest("Solution.go", ([1, 2], "x"), True),) * 2
    assert found.entry_point == "Solution"
    assert "from typing import *" in found.header


class Bomb:
    """Unpickling it would leave a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def test_a_pickle_that_is_more_than_a_text_is_a_fault_and_runs_nothing(tmp_path: Path) -> None:
    packed = base64.b64encode(zlib.compress(pickle.dumps(Bomb(tmp_path / "ran")))).decode()
    with pytest.raises(Unreadable, match="opcode"):
        suite("livecodebench", private_test_cases=packed)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ({}, "there is no test"),
        ({"public_test_cases": "[]", "private_test_cases": ""}, "there is no test"),
        ({"private_test_cases": "not base64!"}, "neither JSON nor"),
        ({"private_test_cases": base64.b64encode(b"x" * 99).decode()}, "neither JSON nor"),
        ({"private_test_cases": private([STDIN])[:-20] + "AAAA"}, "cut off|neither"),
        ({"private_test_cases": base64.b64encode(zlib.compress(pickle.dumps(["a", "b"]))).decode()}, "opcode"),
        ({"private_test_cases": base64.b64encode(zlib.compress(b"\x80")).decode()}, "no pickle"),
        ({"private_test_cases": base64.b64encode(zlib.compress(pickle.dumps("[")) ).decode()}, "no JSON"),
        ({"public_test_cases": json.dumps([STDIN | {"testtype": "x"}])}, "must be stdin or functional"),
        ({"public_test_cases": json.dumps([FUNCTIONAL])}, "func_name"),
        ({"public_test_cases": json.dumps([FUNCTIONAL]), "metadata": '{"func_name": "go"}'}, "'starter_code' lacks"),
        (
            {"public_test_cases": json.dumps([FUNCTIONAL | {"output": "tru"}]), "metadata": '{"func_name": "go"}'},
            "must be JSON",
        ),
    ],
)  # fmt: skip
def test_rows_of_livecodebench_that_cannot_be_read(columns: dict[str, Any], fault: str) -> None:
    with pytest.raises(Unreadable, match=fault):
        suite("livecodebench", **columns)
