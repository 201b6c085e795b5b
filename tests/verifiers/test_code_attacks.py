"""Attacks on the sandbox, all of them run inside it: not one scores, and the machine is as it was."""

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from code_attacks import BOMBS, DAEMON, EXITS, FORGERIES, OBJECTS, PATCHES, READERS, SYSTEM_CALLS
from sandboxes import needs_sandbox

from reasonrl_code.records import Limits, Program
from reasonrl_code.sandbox.box import Sandbox

pytestmark = needs_sandbox

LIMITS = Limits(seconds=0.3, memory=256 * 2**20, output=2**20, files=16 * 2**20, processes=16)


class Short(Limits):
    """For programs that only a clock ends."""

    wall = 0.6


SHORT = Short(**asdict(LIMITS))
SECRET = secrets.token_hex(12)
SCORING = {**EXITS, **OBJECTS, **PATCHES, **FORGERIES, **READERS}


@pytest.fixture(scope="module", params=["bwrap-pool", "bwrap"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Each tier that is chosen by itself."""
    with Sandbox(request.param) as opened:
        yield opened


@pytest.fixture(scope="module", autouse=True)
def _machine() -> Iterator[None]:
    """After all the attacks the machine is as it was."""
    inviting = Path(tempfile.mkdtemp(prefix="inviting-"))
    inviting.chmod(0o777)
    (inviting / "reward.txt").write_text("0")
    (inviting / "reward.txt").chmod(0o666)
    before = machine(inviting)
    yield
    assert machine(inviting) == before
    shutil.rmtree(inviting)


@pytest.fixture(scope="module")
def warm() -> Iterator[Sandbox]:
    with Sandbox("bwrap-pool") as opened:
        yield opened


def machine(inviting: Path) -> dict[str, object]:
    """What a program that got out could have changed."""
    return {
        "mounts": Path("/proc/self/mounts").read_text(),
        "environment": {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"},
        "files": {str(path): path.read_text() for path in inviting.iterdir()},
        "left": [path for path in ("/tmp/left", "/dev/shm/left", "/tmp/result.json") if os.path.exists(path)],
        "name": os.uname().nodename,
    }


@pytest.mark.parametrize("attack", SCORING)
def test_an_attack_on_a_call_does_not_score(warm: Sandbox, attack: str) -> None:
    call = warm.call(Program(SCORING[attack]), "f", [7], {}, LIMITS)
    assert call.ending != "infra", call.detail
    assert SECRET not in repr(call.value)  # the one value that would score


@pytest.mark.parametrize("attack", SCORING)
def test_an_attack_on_a_test_script_does_not_score(warm: Sandbox, attack: str) -> None:
    code = f"assert f(7) == {SECRET!r}"
    call = warm.script(Program(SCORING[attack]), code, ["f"], f"expected = {SECRET!r}", LIMITS)
    assert call.ending not in ("pass", "infra"), call.detail
    assert not call.weak or call.ending != "pass"


@pytest.mark.parametrize("attack", ["at import", "in the call", "equal to all", "frames", "with the nonce"])
def test_both_tiers_hold(sandbox: Sandbox, attack: str) -> None:
    call = sandbox.script(Program(SCORING[attack]), f"assert f(7) == {SECRET!r}", ["f"], "", LIMITS)
    assert call.ending not in ("pass", "infra"), call.detail


def test_no_system_call_of_the_list_works(sandbox: Sandbox) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers are those of x86_64")
    run = sandbox.run(Program(SYSTEM_CALLS), "", LIMITS)
    assert (run.ending, run.output) == ("pass", "[]\n"), run.detail


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_ends_as_it_should(warm: Sandbox, bomb: str) -> None:
    program, endings = BOMBS[bomb]
    run = warm.run(Program(program), "", SHORT if endings == {"timeout"} else LIMITS)
    assert run.ending in endings, run
    assert warm.processes() == QUIET
    assert warm.run(Program("print(input())"), "still here\n", LIMITS).output == "still here\n"


QUIET = 3  # bubblewrap outside and inside, and the server


def test_a_daemon_dies_with_its_program(warm: Sandbox) -> None:
    run = warm.run(Program(DAEMON), "", LIMITS)
    assert (run.ending, run.output) == ("pass", "done\n")
    assert warm.processes() == QUIET


def test_one_program_leaves_nothing_for_the_next(warm: Sandbox) -> None:
    leave = (
        "import os, builtins, json, sys\nopen('/tmp/left', 'w').write('x')\nopen('/dev/shm/left', 'w').write('x')\n"
        "os.environ['LEFT'] = 'x'\nbuiltins.LEFT = 1\njson.LEFT = 1\nsys.path.append('LEFT')\nprint('left')"
    )
    look = (
        "import os, builtins, json, sys\nprint([os.path.exists('/tmp/left'), os.path.exists('/dev/shm/left'),\n"
        "'LEFT' in os.environ, hasattr(builtins, 'LEFT'), hasattr(json, 'LEFT'), 'LEFT' in sys.path])"
    )
    assert warm.run(Program(leave), "", LIMITS).output == "left\n"
    assert warm.run(Program(look), "", LIMITS).output == f"{[False] * 6}\n"


SEARCH = """
import ctypes, os
libc = ctypes.CDLL(None)
libc.write.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
libc.sbrk.restype = ctypes.c_void_p
def f(start):
    out, into = os.pipe()
    seen, pages, needle = set(), 0, start.encode()
    end = libc.sbrk(0)
    for first, last in ((end - (8 << 20), end), (id([]) - (32 << 20), id([]) + (32 << 20))):
        for page in range(first & ~4095, last, 4096):
            if libc.write(into, page, 4096) != 4096:  # not mapped: no crash, this way
                continue
            pages += 1
            data = os.read(out, 4096)
            at = data.find(needle)
            while at >= 0:
                seen.add(data[at : at + 24].decode(errors="replace"))
                at = data.find(needle, at + 1)
    return [pages, sorted(seen)]
"""


def test_nothing_of_earlier_tests_is_in_the_memory_of_a_later_program(warm: Sandbox) -> None:
    """Test scripts hold expected values, and run in forks of the same server: nothing of them may be inherited."""
    code = f"assert f({SECRET!r}) == {SECRET!r}"
    passing = warm.script(Program("def f(x):\n    return x"), code, ["f"], "", LIMITS)
    assert passing.ending == "pass"
    call = warm.call(Program(SEARCH), "f", [SECRET[:10]], {}, LIMITS)
    pages, seen = call.value
    assert pages > 1000  # it did look at its own memory
    assert seen  # and found what it was given there
    assert not [text for text in seen if text.startswith(SECRET[:14])]


def test_a_program_has_no_descriptor_but_its_three(warm: Sandbox) -> None:
    program = (
        "import os\nopen_ones = []\nfor n in range(5000):\n    try:\n        os.fstat(n)\n        open_ones.append(n)\n"
        "    except OSError:\n        pass\nprint(open_ones)"
    )
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(400)]  # so that the server's own are numbered high
    try:
        with Sandbox("bwrap-pool") as crowded:
            assert crowded.run(Program(program), "", LIMITS).output == "[0, 1, 2]\n"
    finally:
        for descriptor in held:
            os.close(descriptor)


def test_a_reply_written_before_the_call_is_none(warm: Sandbox) -> None:
    """Without the nonce of the call it would count for the call's own."""
    early = 'import os\nos.write(4, b\'{"nonce": "0", "value": 49}\\n\')\ndef f(x):\n    return -1'
    call = warm.call(Program(early), "f", [7], {}, LIMITS)
    assert (call.ending, call.value) == ("fail", None)
