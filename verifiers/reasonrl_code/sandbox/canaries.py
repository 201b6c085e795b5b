"""The self-test: programs that try to get out, run before any other, and again by `reasonrl verifiers doctor`."""

import os
import secrets
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

from reasonrl_code.records import Limits, Program, Run
from reasonrl_code.sandbox.box import Sandbox
from reasonrl_code.sandbox.tiers import TierName

_LIMITS = Limits(seconds=5.0, memory=256 * 2**20)
_LAST = "no process is left"
_VARIABLE = "REASONRL_CANARY_TOKEN"


@dataclass(frozen=True)
class Bait:
    """What a program could find outside: a secret in a file and in the environment, a server, a process."""

    secret: str
    file: str
    port: int
    name: str
    pid: int


@dataclass(frozen=True)
class Canary:
    """One promise of the sandbox, and the program that tries it.

    Attributes:
        name: of the promise.
        source: given the bait, the program; it prints "held", or what it could do.
        ending: how it must end: "pass" with that output, or broken by a limit.
    """

    name: str
    source: Callable[[Bait], str]
    ending: str = "pass"


@dataclass(frozen=True)
class Finding:
    """Whether a promise held on this machine, and if not, what was seen."""

    name: str
    held: bool
    seen: str = ""


def examine(sandbox: Sandbox) -> list[Finding]:
    """Try every promise of the sandbox."""
    with _baited() as bait:
        before = sandbox.processes()
        findings = [_tried(sandbox, canary, bait) for canary in CANARIES]
        left = sandbox.processes() - before
    held = left == 0
    return [*findings, Finding(_LAST, held, "" if held else f"{left} processes are left")]


def required(tier: TierName) -> set[str]:
    """The promises a tier must keep to be used."""
    return ({canary.name for canary in CANARIES} | {_LAST}) - _NOT_PROMISED[tier]


def _tried(sandbox: Sandbox, canary: Canary, bait: Bait) -> Finding:
    run = sandbox.run(Program(canary.source(bait)), "", _LIMITS)
    if canary.ending != "pass":
        held = run.ending == canary.ending
        return Finding(canary.name, held, "" if held else _seen(run))
    held = run.ending == "pass" and run.output.strip() == "held" and bait.secret not in run.stderr
    return Finding(canary.name, held, "" if held else _seen(run))


def _seen(run: Run) -> str:
    return f"{run.ending}: {run.output.strip()[-200:]} {run.detail}".strip()


@contextmanager
def _baited() -> Iterator[Bait]:
    secret = secrets.token_hex(8)
    name = f"reasonrl-canary-{secrets.token_hex(4)}"
    with (
        tempfile.NamedTemporaryFile("w", suffix=".canary") as file,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as unix,
        mock.patch.dict(os.environ, {_VARIABLE: secret}),
    ):
        file.write(secret)
        file.flush()
        os.chmod(file.name, 0o644)
        unix.bind(f"\0{name}")
        unix.listen()
        yield Bait(secret, file.name, server.getsockname()[1], name, os.getpid())


def _files(bait: Bait) -> str:
    return f"""
import os
seen = []
for path in ({bait.file!r}, "/etc/passwd", "/etc/hostname", "/proc/1/environ", "/proc/self/environ", "/root/.profile"):
    try:
        if open(path, "rb").read():
            seen.append(path)
    except OSError:
        pass
for folder in ("/home", "/var", "/srv", "/mnt", "/proc", "/sys", "/run"):
    try:
        seen += [folder] if os.listdir(folder) else []
    except OSError:
        pass
print(seen or "held")
"""


def _environment(bait: Bait) -> str:
    return f"""
import os
print([name for name in os.environ if {_VARIABLE!r} in name] or "held")
"""


def _network(bait: Bait) -> str:
    return f"""
import socket
seen = []
for family, address in ((socket.AF_INET, ("127.0.0.1", {bait.port})), (socket.AF_UNIX, "\\0{bait.name}")):
    try:
        socket.socket(family).connect(address)
        seen.append(address)
    except OSError:
        pass
try:
    socket.socket(40, socket.SOCK_STREAM)  # AF_VSOCK, which no network namespace bounds
    seen.append("vsock")
except OSError:
    pass
print(seen or "held")
"""


def _processes(bait: Bait) -> str:
    return f"""
import os, time
made = 0
for _ in range({4 * _LIMITS.processes}):
    try:
        child = os.fork()
    except OSError:
        break
    if child == 0:
        os.setsid()
        time.sleep(60)
    made += 1
print("held" if made <= {_LIMITS.processes} else f"made {{made}} processes")
"""


def _signals(bait: Bait) -> str:
    return f"""
import os
seen = []
for pid in ({bait.pid}, os.getppid()):
    try:
        if pid > 1:
            os.kill(pid, 0)
            seen.append(pid)
    except OSError:
        pass
print(seen or "held")
"""


def _privileges(bait: Bait) -> str:
    return """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
seen = [] if os.getuid() else ["root"]
for flags in (0x10000000, 0x20000000, 0x40000000):
    seen += [] if libc.unshare(flags) else [f"unshare {flags:#x}"]
seen += [] if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) else ["mount"]
seen += [] if libc.ptrace(16, 1, 0, 0) else ["ptrace"]
try:
    os.setuid(0)
    seen.append("setuid")
except OSError:
    pass
print(seen or "held")
"""


def _writes(bait: Bait) -> str:
    return """
import os
seen = []
for folder in ("/", "/usr", "/usr/lib", "/dev", "/packages", "/reasonrl", os.path.dirname(os.__file__)):
    path = os.path.join(folder, "canary")
    try:
        open(path, "w").close()
        os.remove(path)
        seen.append(folder)
    except OSError:
        pass
if os.path.exists(os.path.expanduser("~/left")):
    seen.append("a file of the program before")
open(os.path.expanduser("~/left"), "w").close()
print(seen or "held")
"""


def _disk(bait: Bait) -> str:
    return f"""
import os
written = 0
try:
    for name in "abcdef":
        with open(os.path.expanduser("~/" + name), "wb", buffering=0) as file:
            for _ in range({_LIMITS.files} // 2**20):
                written += file.write(bytes(2**20))
except OSError:
    pass
print("held" if written <= {_LIMITS.files} else f"wrote {{written}} bytes")
"""


def _memory(bait: Bait) -> str:
    return f"bytearray({_LIMITS.memory})"


CANARIES = (
    Canary("files of the machine are out of sight", _files),
    Canary("the environment is empty", _environment),
    Canary("there is no network", _network),
    Canary("processes are limited", _processes),
    Canary("no signal leaves", _signals),
    Canary("there are no privileges", _privileges),
    Canary("nothing is written outside", _writes),
    Canary("the next program finds nothing of it", _writes),
    Canary("disk space is limited", _disk),
    Canary("memory is limited", _memory, ending="memory"),
)
_NOT_PROMISED: dict[TierName, set[str]] = {
    "bwrap-pool": set(),
    "bwrap": set(),
    "landlock": {"disk space is limited", "there is no network"},
    "unsafe-subprocess": {canary.name for canary in CANARIES if canary.ending == "pass"},
}
