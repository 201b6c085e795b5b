"""Honest programs of many kinds: the sandbox lets them do what a program may do."""

from collections.abc import Iterator
from typing import Any

import pytest
from sandboxes import needs_compiler, needs_sandbox

from reasonrl_code.records import Limits, Program
from reasonrl_code.sandbox.box import Sandbox

pytestmark = needs_sandbox
LIMITS = Limits()

PROGRAMS = {
    "input": ("a, b = map(int, input().split())\nprint(a + b)", "3 4\n", "7\n"),
    "stdin lines": ("import sys\nprint(sum(int(line) for line in sys.stdin))", "1\n2\n3", "6\n"),
    "stdin buffer": ("import sys\nprint(len(sys.stdin.buffer.read()))", "héllo", "6\n"),
    "descriptor 0": ("import os\nprint(os.read(0, 100))", "ab", "b'ab'\n"),
    "open(0)": ("print(open(0).read().upper())", "ab", "AB\n"),
    "no input": ("print(1)", "", "1\n"),
    "unread input": ("print(1)", "x" * 5_000_000, "1\n"),
    "much input": ("import sys\nprint(sys.stdin.read().count('x'))", "x" * 5_000_000, "5000000\n"),
    "much output": ("print('x' * 5_000_000)", "", "x" * 5_000_000 + "\n"),
    "main guard": ("def main():\n    print('m')\nif __name__ == '__main__':\n    main()", "", "m\n"),
    "exit 0": ("import sys\nprint(1)\nsys.exit(0)", "", "1\n"),
    "quit": ("print(1)\nquit()", "", "1\n"),
    "unflushed": ("import sys\nsys.stdout.write('x')", "", "x"),
    "atexit": ("import atexit\natexit.register(print, 'bye')\nprint('hi')", "", "hi\nbye\n"),
    "threads": (
        "import threading\nout = []\nts = [threading.Thread(target=out.append, args=(i,)) for i in range(8)]\n"
        "[t.start() for t in ts]\n[t.join() for t in ts]\nprint(sorted(out))",
        "",
        "[0, 1, 2, 3, 4, 5, 6, 7]\n",
    ),
    "a pool": (
        "from multiprocessing import Pool\nif __name__ == '__main__':\n    with Pool(2) as pool:\n"
        "        print(pool.map(abs, [-1, -2]))",
        "",
        "[1, 2]\n",
    ),
    "executor": (
        "from concurrent.futures import ThreadPoolExecutor\nprint(list(ThreadPoolExecutor(2).map(abs, [-1])))",
        "",
        "[1]\n",
    ),
    "subprocess": (
        "import subprocess\nprint(subprocess.run(['echo', 'x'], capture_output=True, text=True).stdout)", "", "x\n\n"
    ),
    "asyncio": ("import asyncio\nasync def f():\n    return 3\nprint(asyncio.run(f()))", "", "3\n"),
    "temporary files": (
        "import tempfile\nwith tempfile.NamedTemporaryFile('w+') as f:\n    f.write('x')\n    f.seek(0)\n    print(f.read())",
        "",
        "x\n",
    ),
    "working folder": ("open('x', 'w').write('y')\nprint(open('x').read())", "", "y\n"),
    "recursion": (
        "import sys\nsys.setrecursionlimit(100000)\ndef f(n):\n    return n and 1 + f(n - 1)\nprint(f(50000))", "", "50000\n"
    ),
    "a big stack in a thread": (
        "import sys, threading\nsys.setrecursionlimit(10**6)\nthreading.stack_size(64 << 20)\n"
        "def f(n):\n    return n and 1 + f(n - 1)\nt = threading.Thread(target=lambda: print(f(20000)))\nt.start()\nt.join()",
        "",
        "20000\n",
    ),
    "a hundred megabytes": ("print(len(bytearray(100 << 20)))", "", "104857600\n"),
    "inspect": ("import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f))", "", "def f():\n    return 1\n\n"),
    "pickle": (
        "import pickle\nclass A:\n    x = 1\nprint(pickle.loads(pickle.dumps(A())).x)", "", "1\n"
    ),
    "dataclass": ("from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\nprint(A(1))", "", "A(x=1)\n"),
    "alarm": (
        "import signal\ndef h(*a):\n    raise TimeoutError\nsignal.signal(signal.SIGALRM, h)\nsignal.setitimer(0, 0.01)\n"
        "try:\n    while True:\n        pass\nexcept TimeoutError:\n    print('t')",
        "",
        "t\n",
    ),
    "exec": ("exec('print(eval(\"1+1\"))')", "", "2\n"),
    "numpy": ("import numpy\nprint(numpy.arange(4).reshape(2, 2).sum())", "", "6\n"),
    "a module that was not loaded": ("import sqlite3, wave, xml.dom.minidom\nprint('ok')", "", "ok\n"),
    "encodings": ("print('界'.encode('utf-16').decode('utf-16'), 'é'.encode('latin-1'))", "", "界 b'\\xe9'\n"),
    "big integers": ("print(2 ** 5000 % 10 ** 9)", "", f"{2**5000 % 10**9}\n"),
    "standard error": ("import sys\nprint('note', file=sys.stderr)\nprint(1)", "", "1\n"),
}  # fmt: skip


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox("bwrap-pool", ["numpy"]) as opened:
        yield opened


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_on_standard_input(sandbox: Sandbox, name: str) -> None:
    source, given, expected = PROGRAMS[name]
    run = sandbox.run(Program(source), given, LIMITS)
    assert (run.ending, run.output) == ("pass", expected), (run.detail, run.stderr)


def test_the_same_program_gives_the_same_output(sandbox: Sandbox) -> None:
    source = "import random\nprint({'a', 'b', 'c', 'd'}, random.random(), hash('x'))"
    outputs = {sandbox.run(Program(source), "", LIMITS).output for _ in range(3)}
    assert len(outputs) == 1


VALUES: list[Any] = [
    None, True, 0, -5, 10**40, 10**2000, 0.1, float("inf"), "", "é界\ud800", b"\x00\xff", 1 + 2j, [], [1, [2, (3,)]],
    (), (1, "a"), {1, 2}, frozenset({1}), {"a": 1, (1, 2): [3]}, range(3), {1: {2: {3: None}}},
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_comes_back_as_it_went(sandbox: Sandbox, value: Any) -> None:
    call = sandbox.call(Program("def f(x):\n    return x"), "f", [value], {}, LIMITS)
    assert call.ending == "pass", call.detail
    assert type(call.value) is type(value)
    assert call.value == value


@pytest.mark.parametrize(
    ("source", "function", "args", "value"),
    [
        ("def f(a, b=2, *, c=3):\n    return [a, b, c]", "f", [1], [1, 2, 9]),
        ("class Solution:\n    def two(self, x, c):\n        return x + c", "Solution.two", [1], 10),
        ("import collections\ndef f(x, c):\n    return collections.Counter(x)", "f", ["aab"], {"a": 2, "b": 1}),
        ("import numpy\ndef f(x, c):\n    return numpy.int64(x)", "f", [5], 5),
        ("def f(x, c):\n    return map(abs, x)", "f", [[-1, 2]], [1, 2]),
        ("import re\ndef f(x, c):\n    return re.search('b', x)", "f", ["ab"], (1, 2)),
        ("f = lambda x, c: x * 2", "f", ["ab"], "abab"),
        ("print('noise')\ndef f(x, c):\n    print('noise')\n    return x", "f", [1], 1),
        ("if __name__ == '__main__':\n    input()\ndef f(x, c):\n    return x", "f", [1], 1),
    ],
)
def test_a_function(sandbox: Sandbox, source: str, function: str, args: list[Any], value: Any) -> None:
    call = sandbox.call(Program(source), function, args, {"c": 9}, LIMITS)
    assert (call.ending, call.value) == ("pass", value), (call.detail, call.stderr)


@pytest.mark.parametrize(
    ("source", "ending", "detail"),
    [
        ("def f(x):\n    return x +", "error", "SyntaxError"),
        ("def f(x):\n    raise KeyError('k')", "error", "KeyError: 'k'"),
        ("def f():\n    return 1", "error", "TypeError"),
        ("def f(x):\n    return f(x)", "error", "RecursionError"),
        ("def f(x):\n    return [0] * 10**9", "memory", "MemoryError"),
        ("def f(x):\n    open('/usr/x', 'w')", "error", "OSError"),
        ("import os\ndef f(x):\n    os.setuid(0)", "blocked", "PermissionError"),
        ("g = 1", "error", "KeyError"),
    ],
)
def test_a_function_that_breaks(sandbox: Sandbox, source: str, ending: str, detail: str) -> None:
    call = sandbox.call(Program(source), "f", [1], {}, LIMITS)
    assert call.ending == ending
    assert detail in call.detail


@pytest.mark.parametrize(
    ("source", "code", "setup", "ending"),
    [
        ("def f(x):\n    return sorted(x)", "assert f([2, 1]) == [1, 2]\nassert f([]) == []", "", "pass"),
        ("def f(x):\n    return x", "assert f([2, 1]) == [1, 2]", "", "fail"),
        ("def f(x):\n    x.append(1)", "a = []\nf(a)\nassert a == [1]", "", "pass"),
        ("def f(x):\n    x['k'] = 1", "a = {}\nf(a)\nassert a == {'k': 1}", "", "pass"),
        ("def f(x):\n    raise ValueError('no')", "try:\n    f(1)\nexcept ValueError:\n    pass", "", "pass"),
        ("def f(x):\n    raise ValueError('no')", "assert f(1)", "", "error"),
        ("class E(Exception):\n    pass\ndef f(x):\n    raise E", "assert f(1)", "", "error"),
        ("def f(x):\n    return x / 3", "assert abs(f(1) - third) < 1e-9", "third = 1 / 3", "pass"),
        ("def f(x):\n    return x", "import math\nassert all(f(i) == i for i in range(200))", "", "pass"),
        ("def f(x):\n    return x", "assert True", "", "fail"),
        ("def f(g):\n    return g(2)", "assert f(lambda x: x + 1) == 3", "", "pass"),
        ("def f(g):\n    return g(3)", "assert f(lambda x: x + 1) == 3", "", "fail"),
        ("while True:\n    pass", "assert f(1)", "", "timeout"),
    ],
)
def test_a_script(sandbox: Sandbox, source: str, code: str, setup: str, ending: str) -> None:
    call = sandbox.script(Program(source), code, ["f"], setup, Limits(seconds=0.3 if ending == "timeout" else 1.0))
    assert call.ending == ending, (call.detail, call.stderr)
    assert call.weak == ("lambda" in code)  # a function cannot be carried to the program


SUM = '#include <cstdio>\nint main() { long a, b; std::scanf("%ld%ld", &a, &b); std::printf("%ld\\n", a + b); }\n'


@needs_compiler
def test_a_program_in_cpp(sandbox: Sandbox) -> None:
    run = sandbox.run(Program(SUM, "cpp"), "3 4\n", LIMITS)
    assert (run.ending, run.output) == ("pass", "7\n"), run.detail
    assert sandbox.run(Program(SUM, "cpp"), "-1 1\n", LIMITS).output == "0\n"


@needs_compiler
@pytest.mark.parametrize(
    ("source", "ending", "detail"),
    [
        ("int main( {", "error", "it does not compile"),
        ("int main() { return 3; }", "error", "exit code 3"),
        ("int main() { for (;;); }", "timeout", "more than"),
        ("int main() { int *p = 0; return *p; }", "error", "killed by signal"),
        ("#include <cstdio>\nint main() { std::putchar('7'); }", "pass", ""),
    ],
)
def test_a_program_in_cpp_that_breaks(sandbox: Sandbox, source: str, ending: str, detail: str) -> None:
    run = sandbox.run(Program(source, "cpp"), "", Limits(seconds=0.3))
    assert run.ending == ending
    assert detail in run.detail
