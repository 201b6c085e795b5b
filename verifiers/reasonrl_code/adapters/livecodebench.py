"""LiveCodeBench: `public_test_cases` and `private_test_cases` of {input, output, testtype}, `metadata`, `starter_code`.

The private ones are JSON, or base64 of zlib of a pickle of JSON text. Nothing is unpickled: the pickle's opcodes are
read, and only those that make one text are allowed.
"""

import base64
import binascii
import json
import pickletools
import zlib
from typing import Any

from reasonrl import Problem
from reasonrl_code.adapters.columns import decoded, entries, optional_text, shown
from reasonrl_code.adapters.stdio import lines
from reasonrl_code.headers import COMMON
from reasonrl_code.records import CallTest, StdioTest, Test
from reasonrl_code.suite import Suite, Unreadable

LARGEST = 2**29  # bytes of test cases once unpacked; the largest of the set have some 200 MB
TEXTS = {"BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"}
AROUND = {"PROTO", "FRAME", "MEMOIZE", "BINPUT", "LONG_BINPUT", "STOP"}


def livecodebench(problem: Problem) -> Suite:
    """The suite of a row of code_generation or code_generation_lite."""
    about = decoded(problem.metadata.get("metadata"), "metadata") or {}
    name = about.get("func_name") if isinstance(about, dict) else None
    cases = entries(decoded(problem.metadata.get("public_test_cases"), "public_test_cases"), "public_test_cases")
    cases += entries(_private(problem.metadata.get("private_test_cases")), "private_test_cases")
    if not cases:
        raise Unreadable("there is no test in public_test_cases or private_test_cases")
    tests = tuple(_test(case, name) for case in cases)
    method = any(isinstance(test, CallTest) for test in tests)
    starter = optional_text(problem, "starter_code")
    if method and "class Solution" not in starter:
        raise Unreadable(f"functional tests call a method of Solution, which 'starter_code' lacks: {shown(starter)}")
    return Suite(tests, "Solution" if method else "", header=COMMON)


def text_of_pickle(data: bytes) -> str:
    """The one text that a pickle holds, read from its opcodes without running them.

    Raises:
        Unreadable: it holds anything else.
    """
    found: list[str] = []
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name in TEXTS:
                found.append(str(argument))
            elif opcode.name not in AROUND:
                raise Unreadable(f"'private_test_cases': the pickle has the opcode {opcode.name}, not only a text")
    except (ValueError, UnicodeDecodeError) as error:
        if isinstance(error, Unreadable):
            raise
        raise Unreadable(f"'private_test_cases' is no pickle: {error}") from error
    if len(found) != 1:
        raise Unreadable(f"'private_test_cases': the pickle has {len(found)} texts, not one")
    return found[0]


def _private(value: Any) -> Any:
    if not isinstance(value, str) or value.lstrip()[:1] in ("[", ""):
        return decoded(value, "private_test_cases")
    try:
        unpack = zlib.decompressobj()
        data = unpack.decompress(base64.b64decode(value, validate=True), LARGEST)
    except (binascii.Error, zlib.error) as error:
        raise Unreadable(f"'private_test_cases' is neither JSON nor base64 of zlib: {error}") from error
    if not unpack.eof:
        raise Unreadable(f"'private_test_cases' is cut off, or larger than {LARGEST} bytes")
    return decoded(text_of_pickle(data), "private_test_cases")


def _test(case: Any, name: Any) -> Test:
    kind, given, output = case.get("testtype"), case.get("input"), case.get("output")
    if kind == "stdin":
        return StdioTest(lines(given, "input"), lines(output, "output"))
    if kind != "functional":
        raise Unreadable(f"'testtype' must be stdin or functional, not {shown(kind)}")
    if not isinstance(name, str) or not name.isidentifier():
        raise Unreadable(f"functional tests need func_name in 'metadata', not {shown(name)}")
    try:
        args = tuple(json.loads(line) for line in lines(given, "input").split("\n") if line.strip())
        return CallTest(f"Solution.{name}", args, json.loads(lines(output, "output")))
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"a functional test's input and output must be JSON: {error}") from error
