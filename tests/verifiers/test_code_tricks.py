"""Tricks on the judge itself, and honest programs at the edge of what Python allows: each was once judged wrongly."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from sandboxes import needs_sandbox

from reasonrl import Problem, Response, Verdict
from reasonrl_code.asserts import on_copies
from reasonrl_code.compare import same_value
from reasonrl_code.program import fenced_blocks
from reasonrl_code.records import Limits, Program
from reasonrl_code.sandbox.inside import plain
from reasonrl_code.verifier import Code, CodeOptions

LOOSE = "assert abs(f(3) - 9) < 1e-6"
LONG = 10**6000
SEND = """
import json, os, sys
def send(value):
    frame = sys._getframe()
    while type(frame.f_locals.get("request", {}).get("nonce")) is not str:
        frame = frame.f_back
    reply = {"nonce": frame.f_locals["request"]["nonce"], "value": value, "args": ["tuple", 3], "kwargs": ["dict"]}
    data = json.dumps(reply).encode() + b"\\n"
    while data:
        data = data[os.write(4, data):]
    os._exit(0)
"""
COLLIDING = "same = [i * (2**61 - 1) for i in range(5000)]\npairs = [['list', key, 0] for key in same]\n"
OR_FAIL = "else:\n    assert False"


@pytest.fixture(scope="module")
def code() -> Iterator[Code]:
    code = Code(CodeOptions(seconds=2))
    code.warm_up()
    yield code
    code.close()


def judged(code: Code, test: dict[str, Any] | str, source: str) -> Verdict:
    """The verdict on one test: an assertion, or a dict of the neutral form."""
    tests = [{"type": "assert", "code": test} if isinstance(test, str) else test]
    return code.verify(Problem("p", "", metadata={"tests": tests}), Response(f"```python\n{source}\n```"))


def call(*args: Any, expected: Any) -> dict[str, Any]:
    return {"type": "call", "fn": "f", "args": list(args), "expected": expected}


def prints(output: str, given: str = "") -> dict[str, Any]:
    return {"type": "stdio", "input": given, "output": output}


@needs_sandbox
@pytest.mark.parametrize(
    ("test", "source", "reason"),
    [
        # An exception that ends a loop of the test quietly.
        ("for got, want in zip(map(f, [1]), [1]): assert got == want", "def f(x):\n    raise StopIteration", "error"),
        (
            "assert all(map(lambda x: f(x) == x * x, [1, 2]))",
            "class S(StopIteration):\n    pass\ndef f(x):\n    raise S",
            "error",
        ),
        ("assert next(filter(f, [1]), 9) == 9", "def f(x):\n    raise StopIteration", "error"),
        # A class of the program's choice, named as one that the test wants.
        (
            f"try:\n    f(3)\nexcept ValueError:\n    pass\n{OR_FAIL}",
            "class ValueError(Exception):\n    pass\ndef f(x):\n    raise ValueError",
            "error",
        ),
        # Values that cannot be compared, or written.
        (call(3, expected=9), "from decimal import Decimal\ndef f(x):\n    return Decimal('sNaN')", "wrong"),
        (call(3, expected=[9]), "from decimal import Decimal\ndef f(x):\n    return [Decimal('sNaN')]", "wrong"),
        (LOOSE, "def f(x):\n    return 10**6000", "wrong"),
        (call(3, expected=9), "def f(x):\n    raise ValueError(chr(0xd800))", "error"),
        # Replies that would cost the judge much time to read.
        (call(3, expected=9), SEND + "def f(x):\n    send(['Fraction', '1e50000000', '0x1'])", "wrong"),
        (call(3, expected=9), SEND + "def f(x):\n    send(['Fraction', 'f' * 10**6, 'd' * 10**6])", "wrong"),
        (call(3, expected=9), SEND + COLLIDING + "def f(x):\n    send(['set', *same])", "wrong"),
        (call(3, expected=9), SEND + COLLIDING + "def f(x):\n    send(['dict', *pairs])", "wrong"),
        # Changed arguments of another kind than were given.
        ("a = [3]\nassert f(a) == 9", SEND + "def f(x):\n    send(3)", "error"),
        # Output that is no text, or ends too late.
        (prints("7\n"), "print('7\\0')", "wrong"),
        (prints("7\n"), "import os\nos.write(1, b'7\\xff\\n')", "wrong"),
        (prints("7\n"), "print(7)\nraise SystemExit(1)", "error"),
        # State kept between the calls of a script, and between tests.
        ("assert [f(3), f(3)] == [9, 9]", "seen = [9]\ndef f(x):\n    return seen.pop() if seen else 0", "wrong"),
        (prints("7\n", "7\n"), "if __name__ != '__main__':\n    print(input())", "wrong"),
    ],
)  # fmt: skip
def test_a_trick_does_not_score(code: Code, test: dict[str, Any] | str, source: str, reason: str) -> None:
    verdict = judged(code, test, source)
    assert (verdict.reward, verdict.reason) == (0, reason), verdict.evidence


COUNT = "def f(n):\n    return n and 1 + f(n - 1)\n"


@needs_sandbox
@pytest.mark.parametrize(
    ("test", "source"),
    [
        # An exception of a class derived from the one that the test wants.
        (
            f"try:\n    f(3)\nexcept ValueError as error:\n    assert str(error) == 'no'\n{OR_FAIL}",
            "class Bad(ValueError):\n    pass\ndef f(x):\n    raise Bad('no')",
        ),
        (f"try:\n    f(3)\nexcept ValueError:\n    pass\n{OR_FAIL}", "import json\ndef f(x):\n    json.loads('{')"),
        # Arguments changed in place, by whatever way they are given.
        ("a = [2, 1]\nf(x=a)\nassert a == [1, 2]", "def f(x):\n    x.sort()"),
        ("a = {1}\nf(a)\nassert a == {1, 2}", "def f(x):\n    x.add(2)"),
        ("a = bytearray(b'a')\nf(a)\nassert a == bytearray(b'ab')", "def f(x):\n    x.append(98)"),
        # As deep, as long and as large as a plain interpreter, or an older one, allows.
        (prints("980\n"), COUNT + "print(f(980))"),
        (call(980, expected=980), COUNT),
        ("assert f(980) - 980 == 0", COUNT),
        (prints("1" + "0" * 5000 + "\n"), "print(10**5000)"),
        (prints("1\n", "1" + "0" * 5000), "print(int(input()) % 9)"),
        (call(3, expected=LONG), "def f(x):\n    return 10**6000"),
        ("assert f(x=10**6000) - 1 == 10**6000", "def f(x):\n    return x + 1"),
        (prints("1\n"), "import resource\nresource.setrlimit(resource.RLIMIT_STACK, (-1, -1))\nprint(1)"),
        (prints("1\n"), "import threading as t\nt.stack_size(2**27)\nt.Thread(target=print, args=(1,)).start()"),
        (call(expected=list(range(100_000))), "def f():\n    return list(range(100_000))"),
        (call(expected="a\0é"), "def f():\n    return 'a\\0\\xe9'"),
        # Standard input at its end.
        (call(3, expected=9), "try:\n    input()\nexcept EOFError:\n    def f(x): return 9"),
        (call(3, expected=9), "import sys\nassert sys.stdin.read() == ''\ndef f(x): return 9"),
        (call(3, expected="candidate"), "def f(x):\n    return __name__"),
    ],
)  # fmt: skip
def test_an_honest_program_passes(code: Code, test: dict[str, Any] | str, source: str) -> None:
    assert judged(code, test, source).reason == "correct"


@needs_sandbox
def test_very_many_small_tests(code: Code) -> None:
    tests = [call(n, expected=n * n) for n in range(80)]
    verdict = code.verify(
        Problem("p", "", metadata={"tests": tests}), Response("```python\ndef f(x): return x * x\n```")
    )
    assert (verdict.reason, verdict.evidence["passed"]) == ("correct", 80)


@needs_sandbox
@pytest.mark.parametrize(
    ("source", "ending"),
    [("def f(x):\n    return sorted(x)", "pass"), ("def f(x):\n    x.clear()\n    return x", "fail")],
)
def test_a_program_cannot_empty_what_the_reference_is_given(code: Code, source: str, ending: str) -> None:
    """The form of EvalPlus: the reference gets the same objects after the program."""
    test = (
        "def reference(x):\n    return sorted(x)\nfor given in [[[2, 1]]]:\n    assert f(*given) == reference(*given)\n"
    )
    sandbox = code._opened()
    assert sandbox.script(Program(source), on_copies("f") + test, ["f"], "", Limits()).ending == ending


def test_signalling_nans_equal_nothing() -> None:
    nan = plain.decode(["Decimal", "sNaN"])
    assert not same_value(1, nan)
    assert not same_value({"a": 1.5}, {"a": nan})


@pytest.mark.parametrize("kind", ["set", "frozenset", "dict"])
def test_keys_of_one_hash_are_refused_only_where_they_are_many(kind: str) -> None:
    def form(count: int, factor: int) -> list[Any]:
        keys = [["int", hex(at * factor)] for at in range(count)]
        return [kind, *(["list", key, 0] if kind == "dict" else key for key in keys)]

    assert len(plain.decode(form(5000, 1))) == 5000
    assert len(plain.decode(form(100, 2**61 - 1))) == 100
    with pytest.raises(ValueError, match="same hash"):
        plain.decode(form(5000, 2**61 - 1))


@pytest.mark.parametrize("value", [Fraction(1, 3), Fraction(-7, 2**9000), Fraction(10**5000, 3)])
def test_fractions_go_and_come_back(value: Fraction) -> None:
    assert plain.decode(plain.encode(value)) == value


def test_fractions_of_too_many_digits_are_not_plain() -> None:
    with pytest.raises(plain.NotPlainError, match="digits"):
        plain.encode(Fraction(2**50_000 - 1, 3))


def test_lines_of_many_spaces_are_read_in_a_moment() -> None:
    text = " " * 200_000 + "```python\nx\n```\n" + "1" * 200_000 + "\n" + "- " + "\t" * 200_000
    assert [block.source for block in fenced_blocks(text)] == ["x\n"]
