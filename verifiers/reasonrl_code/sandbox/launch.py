"""Start the fork-server behind the walls of a tier, and hand tests to it."""

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from reasonrl import ReasonRLError
from reasonrl_code.records import Limits
from reasonrl_code.sandbox.tiers import Tier

INSTALL = "install bubblewrap (Debian, Ubuntu: apt-get install bubblewrap; Fedora: dnf install bubblewrap)"
_INSIDE = Path(__file__).parent / "inside"
_START = 30.0  # seconds until a server must be ready
_REAP = 10.0  # seconds until a killed server must be gone
_DEVICES = ("null", "zero", "full", "random", "urandom")
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",  # the same program gives the same output
    "PYTHONIOENCODING": "utf-8:surrogateescape",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}
_MANY_IDS = 2**30  # above what accounts and containers use
_FEW_IDS = 60000


class Server:
    """A fork-server. It dies with the thread that started it, and with it all that runs in it.

    Args:
        tier: what to put around it.
        packages: names of importable packages that programs may import, besides the standard library.
        files: bytes of the temporary folder, where it is made with the server and not for each test.

    Raises:
        ReasonRLError: bubblewrap is missing, the kernel refuses something, or a package is not installed.
    """

    def __init__(self, tier: Tier, packages: Sequence[str], files: int = Limits.files) -> None:
        self.tier = tier
        self._folder = None if tier.bubblewrap else _public_folder()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the server
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self._process = self._start(theirs.fileno(), packages, files)
            self._channel.settimeout(_START)
            if self._channel.recv(16) != b"ready":
                raise OSError("it ended")
        except OSError as error:
            words = self._last_words() or str(error)
            self.close()
            raise ReasonRLError(f"the sandbox {tier.name!r} does not start: {words}") from error
        except BaseException:
            self.close()
            raise

    def _start(self, descriptor: int, packages: Sequence[str], files: int) -> subprocess.Popen[bytes]:
        settings = {
            "socket": descriptor,
            "warm": self.tier.warm,
            "namespaces": self.tier.namespaces,
            "landlock": self.tier.landlock,
            "seccomp": self.tier.seccomp,
            "alone": not self.tier.namespaces,
            "bubblewrap": self.tier.bubblewrap,
            "uid": _own_uid() if os.geteuid() == 0 else None,
            "folder": self._folder or "/tmp",
            "files": files,
        }
        found = _folders_of(packages)
        command = _in_bubblewrap(settings, found) if self._folder is None else _bare(settings, found, self._folder)
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._log,
            pass_fds=(descriptor,),
            env={} if self.tier.bubblewrap else _ENVIRONMENT,  # pid 1 in the sandbox shows this to everybody there
            cwd="/",
        )

    @property
    def pid(self) -> int:
        """The process outside that all others of the sandbox descend from."""
        return self._process.pid

    def hand(self, limits: Limits, descriptors: Sequence[int]) -> None:
        """Have one test run; returns at once.

        Args:
            limits: of the test.
            descriptors: standard input, output, error, job, replies, status, lifeline.

        Raises:
            ReasonRLError: the server is gone.
        """
        fields = {**asdict(limits), "cpu": max(1, round(limits.seconds + 0.5))}
        try:
            socket.send_fds(self._channel, [json.dumps(fields).encode()], list(descriptors))
        except OSError as error:
            raise ReasonRLError(f"the sandbox {self.tier.name!r} is gone: {self._last_words() or error}") from error

    def close(self) -> None:
        """Kill it, and with it all that it runs."""
        self._channel.close()
        if hasattr(self, "_process"):
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_REAP)
        self._log.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _last_words(self) -> str:
        with suppress(subprocess.TimeoutExpired, AttributeError):
            self._process.wait(1)
        self._log.seek(0)
        return self._log.read()[-2000:].decode(errors="replace").strip()


def _public_folder() -> str:
    """A temporary folder that programs under another user id can pass through."""
    folder = tempfile.mkdtemp(prefix="reasonrl-code-")
    os.chmod(folder, 0o755)
    return folder


def _own_uid() -> int:
    """A user id that no other process on the machine has, for root to run programs under.

    The kernel counts a user's processes over all sandboxes, and does not limit root's: one id for each of our own.

    Raises:
        ReasonRLError: this user namespace has no id to spare.
    """
    mapped = [tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()]
    for candidate in (_MANY_IDS + os.getpid(), _FEW_IDS + os.getpid() % 5000):
        if any(start <= candidate < start + length for start, _, length in mapped):
            return candidate
    raise ReasonRLError("the user namespace of this process maps no user id that programs could run under")


def _folders_of(packages: Sequence[str]) -> list[Path]:
    """The folders of importable packages, and of the libraries they bundle beside them.

    Raises:
        ReasonRLError: one is not installed.
    """
    found: list[Path] = []
    for name in packages:
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            raise ReasonRLError(f"package {name!r}, which programs may import, is not installed")
        folder = Path(next(iter(spec.submodule_search_locations))).resolve()
        found += [one for one in (folder, folder.with_name(f"{name}.libs")) if one.exists()]
    return found


def _python() -> list[str]:
    """The interpreter below our virtual environment, without user and site packages, leaving no byte code behind."""
    return [os.path.realpath(sys.executable), "-s", "-S", "-P", "-B", "-X", "utf8"]


def _bare(settings: Mapping[str, object], packages: Sequence[Path], folder: str) -> list[str]:
    links = Path(folder) / "packages"
    links.mkdir()
    for package in packages:
        (links / package.name).symlink_to(package)
    readable = ["/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", os.path.realpath(sys.base_prefix)]
    readable += ["/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", str(_INSIDE), str(links)]
    settings = {**settings, "packages": [str(links)], "readable": [*readable, *map(str, packages)]}
    return [*_python(), str(_INSIDE / "server.py"), json.dumps(settings)]


def _in_bubblewrap(settings: Mapping[str, object], packages: Sequence[Path]) -> list[str]:
    """The command line: a file system that holds /usr and the interpreter, all of it read-only, and nothing else."""
    program = shutil.which("bwrap")
    if program is None:
        raise ReasonRLError(f"bubblewrap (bwrap) is not installed: {INSTALL}")
    command = [program, "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if os.geteuid() != 0:
        command += ["--unshare-user", "--uid", "1000", "--gid", "1000"]
    command += ["--die-with-parent", "--new-session", "--hostname", "sandbox", "--cap-drop", "ALL"]
    for capability in _capabilities(settings):
        command += ["--cap-add", capability]
    command += ["--ro-bind", "/usr", "/usr", "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    for name in ("/bin", "/lib", "/lib64"):
        if os.path.islink(name):
            command += ["--symlink", os.readlink(name), name]
        elif os.path.isdir(name):
            command += ["--ro-bind", name, name]
    base = os.path.realpath(sys.base_prefix)
    for folder in [*reversed(Path(base).parents), "/dev", "/packages"]:
        if str(folder) != "/" and not str(folder).startswith("/usr"):
            command += ["--dir", str(folder)]  # else bubblewrap makes it for root alone
    if not base.startswith("/usr/") and base != "/usr":
        command += ["--ro-bind", base, base]
    for hidden in _installed_packages(base):
        command += ["--tmpfs", hidden, "--remount-ro", hidden]
    for device in _DEVICES:
        command += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
    command += ["--perms", "1777", "--size", str(settings["files"]), "--tmpfs", "/tmp"]
    command += ["--symlink", "/tmp", "/dev/shm", "--ro-bind", str(_INSIDE), "/reasonrl"]
    for package in packages:
        command += ["--ro-bind", str(package), f"/packages/{package.name}"]
    command += ["--remount-ro", "/", "--chdir", "/"]
    for name, value in _ENVIRONMENT.items():
        command += ["--setenv", name, value]
    return [*command, *_python(), "/reasonrl/server.py", json.dumps({**settings, "packages": ["/packages"]})]


def _capabilities(settings: Mapping[str, object]) -> list[str]:
    """What the server, never a program, may do: make namespaces, and run programs as another user."""
    namespaces = ["CAP_SYS_ADMIN", "CAP_SETPCAP"] if settings["namespaces"] else []
    return namespaces + ([] if settings["uid"] is None else ["CAP_SETUID", "CAP_SETGID", "CAP_KILL"])


def _installed_packages(base: str) -> list[str]:
    """Folders below what is bound that hold third-party packages: some bring tests and solutions along."""
    roots = {Path(base), Path("/usr"), Path("/usr/local")}
    found = {folder for root in roots for folder in root.glob("lib/python3*/*-packages")}
    return sorted(str(folder) for folder in found if folder.is_dir())
