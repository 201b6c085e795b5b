"""The system calls that Python's `os` has not: namespaces, mounts, capabilities, Landlock, prctl."""

import ctypes
import os
import struct

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWPID = 0x00020000, 0x08000000, 0x20000000
_SIGCHLD = 17
_MS_NOSUID, _MS_NODEV, _MS_REC, _MS_PRIVATE = 2, 4, 1 << 14, 1 << 18
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER = 1, 24, 36
_PR_SET_NO_NEW_PRIVS = 38
_SIGKILL = 9
_CLONE = {"x86_64": 56, "aarch64": 220}
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION_3 = 0x20080522
_CAPABILITIES = 64
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read a file, read a directory
_ALL_OF_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_OF_A_FILE = 1 << 0 | 1 << 1 | 1 << 2  # execute, write, read
_CONNECT_AND_BIND = 3  # LANDLOCK_ACCESS_NET_BIND_TCP | …_CONNECT_TCP

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def fork_into_namespaces():
    """Fork; the child is pid 1 of a pid namespace of its own and has mounts and System V objects of its own.

    `unshare` and then `os.fork` would need one process more.

    Raises:
        OSError: the kernel refuses.
    """
    machine = os.uname().machine
    flags = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID | _SIGCHLD
    pid = _call(_libc.syscall, "clone", _CLONE[machine], flags, 0, 0, 0, 0)
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    return pid


def mount_private_folder(path, size, owner):
    """A new empty tmpfs of `size` bytes at `path`, seen by this mount namespace alone.

    Raises:
        OSError: the kernel refuses.
    """
    _call(_libc.mount, "mount", b"none", b"/", None, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), None)
    options = f"size={size},nr_inodes=10000,mode=0700,uid={owner},gid={owner}".encode()
    flags = ctypes.c_ulong(_MS_NOSUID | _MS_NODEV)
    _call(_libc.mount, "mount", b"tmpfs", os.fsencode(path), b"tmpfs", flags, options)


def die_with_parent():
    """Be killed as the parent dies."""
    _call(_libc.prctl, "prctl", _PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)


def adopt_orphans():
    """Become the parent of what descendants leave behind."""
    _call(_libc.prctl, "prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_children_but(spared):
    """Kill all children of this process and theirs, but for some pids, where no pid namespace does it."""
    own = f"/proc/self/task/{os.getpid()}/children"
    while True:
        with open(own) as children:
            pids = {int(pid) for pid in children.read().split()} - spared
        if not pids:
            return
        for pid in pids:
            os.kill(pid, _SIGKILL)
        for pid in pids:  # what they leave behind becomes ours before the wait is over
            os.waitpid(pid, 0)


def forbid_new_privileges():
    """Executing a file gives no privilege from now on, and no capability can be had again."""
    _call(_libc.prctl, "prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for capability in range(_CAPABILITIES):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails where there is none to drop


def give_up_capabilities():
    """Keep none of the capabilities this process has."""
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    _call(_libc.syscall, "capset", _CAPSET[os.uname().machine], header, bytes(24))


def restrict_files(readable, writable):
    """Landlock: from now on only files below these folders can be reached; no TCP where the kernel can forbid it.

    Raises:
        OSError: the kernel has no Landlock, or refuses.
    """
    version = _call(_libc.syscall, "landlock_create_ruleset", _CREATE_RULESET, None, 0, 1)
    handled = _ALL_OF_VERSION[min(version, 5)]
    rules = struct.pack("QQ", handled, _CONNECT_AND_BIND) if version >= 4 else struct.pack("Q", handled)
    ruleset = _call(_libc.syscall, "landlock_create_ruleset", _CREATE_RULESET, rules, len(rules), 0)
    for folders, access in ((readable, _READ), (writable, handled)):
        for folder in filter(os.path.exists, folders):
            _allow(ruleset, folder, access & handled)
    _call(_libc.syscall, "landlock_restrict_self", _RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _allow(ruleset, path, access):
    if not os.path.isdir(path):
        access &= _OF_A_FILE
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        _call(_libc.syscall, "landlock_add_rule", _ADD_RULE, ruleset, 1, struct.pack("=Qi", access, descriptor), 0)
    finally:
        os.close(descriptor)


def _call(function, name, *arguments):
    result = function(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result
