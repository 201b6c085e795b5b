"""Confine a process: namespaces, a folder of its own, limits, a user without rights, no privileges, fewer system calls.

Where there are namespaces, the candidate's process is pid 1 of its own: as it ends, the kernel kills all that it
started. Its pid is then 1, and it inherits orphans.
"""

import fcntl
import json
import os
import resource
import shutil
import signal
import tempfile
from contextlib import suppress

import kernel
import seccomp

_JOB, _REPLIES, _STATUS = 3, 4, 5  # where the candidate's process finds them
_OPEN_FILES = 256
_ALL_FILES = 2**20  # above any descriptor: the server's own may have a high number
_STACK = 64 * 2**20
_FAILED = 70  # exit code of a process that could not do its job


def prepare(settings):
    """What is done once, in the server.

    Raises:
        OSError: the kernel refuses.
    """
    kernel.forbid_new_privileges()
    if settings["seccomp"] and not settings["alone"]:
        seccomp.assembled(None)
    if not settings["bubblewrap"]:
        kernel.adopt_orphans()


def folder(settings):
    """The path of the next test's folder."""
    if settings["bubblewrap"]:
        return "/tmp"
    path = tempfile.mkdtemp(prefix="test-", dir=settings["folder"])
    os.chown(path, _owner(settings), -1)
    return path


def clear(settings, path, spared):
    """Kill what a test left and remove its folder, where no namespace of its own ended with it.

    Args:
        spared: the pids of other tests.
    """
    if settings["bubblewrap"]:
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)  # all in this pid namespace but its first process and this one
    else:
        kernel.kill_children_but(spared)
        shutil.rmtree(path, ignore_errors=True)


def fork(settings):
    """As `os.fork`; the child has namespaces of its own if the tier says so."""
    return kernel.fork_into_namespaces() if settings["namespaces"] else os.fork()


def tell(status, message):
    """Write a report for the outside. The candidate never has this descriptor."""
    os.write(status, json.dumps(message).encode() + b"\n")


def enter(settings, limits, descriptors, status, folder, run):
    """In the fork: confine this process and run the job; never returns.

    Args:
        descriptors: standard input, output and error, job, replies.
        status: where to report that the process could not be confined.
        run: given the job's and the replies' descriptor, and the folder.
    """
    try:
        os.setsid()
        _arrange([*descriptors, status])
        os.umask(0o077)
        os.environ["HOME"] = os.environ["TMPDIR"] = folder
        if settings["namespaces"]:
            kernel.mount_private_folder(folder, limits["files"], _owner(settings))
        _limit(limits)
        _become_nobody(settings)
        os.chdir(folder)  # its owner's alone
        if settings["landlock"]:
            kernel.restrict_files(settings["readable"], [folder, "/dev/null"])
        if settings["seccomp"]:
            seccomp.install(settings["alone"])
    except BaseException as error:  # noqa: BLE001  whatever it is, it must be said and end this process
        tell(_STATUS, {"broken": f"{type(error).__name__}: {error}"[:1000]})
        os._exit(_FAILED)
    os.close(_STATUS)
    try:
        run(_JOB, _REPLIES, folder)
    finally:
        os._exit(_FAILED)


def _owner(settings):
    return os.getuid() if settings["uid"] is None else settings["uid"]


def _become_nobody(settings):
    if settings["uid"] is not None:
        os.setgroups([])
        os.setresgid(*[settings["uid"]] * 3)
        os.setresuid(*[settings["uid"]] * 3)
    kernel.die_with_parent()  # after the change of user, which forgets it
    kernel.give_up_capabilities()


def _arrange(descriptors):
    """Make them descriptors 0, 1, 2, … and close all others."""
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 64) for descriptor in descriptors]
    for number, descriptor in enumerate(high):
        os.dup2(descriptor, number, inheritable=number <= 2)
    os.closerange(len(descriptors), _ALL_FILES)


def _limit(limits):
    resource.setrlimit(resource.RLIMIT_CPU, (limits["cpu"], limits["cpu"] + 1))  # SIGXCPU first: it can be told apart
    for name, value in (
        ("AS", limits["memory"]),
        ("FSIZE", limits["files"]),
        ("NPROC", limits["processes"]),
        ("NOFILE", _OPEN_FILES),
        ("STACK", _STACK),
        ("CORE", 0),
        ("MEMLOCK", 0),
        ("MSGQUEUE", 0),
    ):
        number = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(number)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        # Competitors raise their stack's limit, often to infinity; what bounds it is that of the memory.
        resource.setrlimit(number, (value, hard if name == "STACK" else value))
