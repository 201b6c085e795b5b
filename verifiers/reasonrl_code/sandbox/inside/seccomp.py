"""A seccomp filter, assembled by hand: what the candidate's processes may not ask of the kernel.

A deny-list: all that makes namespaces, mounts, traces other processes, loads code into the kernel or escapes the
limits. Numbers: Linux UAPI, asm/unistd_64.h and asm-generic/unistd.h.
"""

import ctypes
import errno
import functools
import os
import struct

_PR_SET_SECCOMP, _FILTER = 22, 2
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _JUMP_EQUAL, _JUMP_GREATER, _JUMP_SET, _RETURN, _AND = 0x20, 0x15, 0x25, 0x45, 0x06, 0x54
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_NAMESPACES = 0x7E020000 | 0x80  # CLONE_NEW{CGROUP,UTS,IPC,USER,PID,NET,NS} and NEWTIME
_FAMILIES = (1, 2, 10)  # unix, inet, inet6; AF_VSOCK and AF_ALG know no network namespace
_STREAM, _KIND = 1, 0xF
_FAST_OPEN = 0x20000000

_ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_DENIED = {
    # name: (x86_64, aarch64)
    "ptrace": (101, 117), "syslog": (103, 116), "setdomainname": (171, 162), "sethostname": (170, 161),
    "pivot_root": (155, 41), "chroot": (161, 51), "mount": (165, 40), "umount2": (166, 39), "swapon": (167, 224),
    "swapoff": (168, 225), "reboot": (169, 142), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "clock_adjtime": (305, 266), "adjtimex": (159, 171), "acct": (163, 89), "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "init_module": (175, 105), "delete_module": (176, 106), "finit_module": (313, 273), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "unshare": (272, 97), "setns": (308, 268), "perf_event_open": (298, 241), "bpf": (321, 280),
    "userfaultfd": (323, 282), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "kcmp": (312, 272), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "fanotify_init": (300, 262), "fanotify_mark": (301, 263),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "pidfd_getfd": (438, 438), "mount_setattr": (442, 442),
    "personality": (135, 92), "lookup_dcookie": (212, 18), "mbind": (237, 235), "move_pages": (279, 239),
    "migrate_pages": (256, 238), "set_mempolicy": (238, 237), "vmsplice": (278, 75),
    # memory that RLIMIT_AS and the size of the temporary folder do not see
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "msgget": (68, 186),
    "semget": (64, 190),
}  # fmt: skip
_CLONE, _CLONE3, _SOCKET = {"x86_64": 56, "aarch64": 220}, 435, {"x86_64": 41, "aarch64": 198}
_CONNECT, _BIND, _SENDTO = ({"x86_64": x, "aarch64": a} for x, a in ((42, 203), (49, 200), (44, 206)))
_SENDMSG, _SENDMMSG = ({"x86_64": x, "aarch64": a} for x, a in ((46, 211), (307, 269)))
_KILLS = {"x86_64": (62, 129, 297, 424, 200), "aarch64": (129, 138, 240, 424, 130)}  # kill, …, tkill
_TGKILL = {"x86_64": 234, "aarch64": 131}


def install(alone):
    """Filter this process and its children from now on. It must have no-new-privs.

    Args:
        alone: there are no pid and network namespaces around it: let it signal nobody but itself and reach no network.

    Raises:
        OSError: the kernel refuses the filter, or the machine is neither x86_64 nor aarch64.
    """
    program = assembled(os.getpid() if alone else None)
    buffer = ctypes.create_string_buffer(program)
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _FILTER, ctypes.create_string_buffer(header), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the kernel refuses the seccomp filter")


@functools.cache
def assembled(alone):
    """The filter; `alone` is None or the process that `install` is called in. Calling it early saves time later.

    Raises:
        OSError: the machine is neither x86_64 nor aarch64.
    """
    machine = os.uname().machine
    if machine not in _ARCHES:
        raise OSError(errno.ENOSYS, f"no seccomp filter is written for {machine}")
    return b"".join(_program(machine, alone))


def _instruction(code, operand, when_true=0, when_false=0):
    return struct.pack("HBBI", code, when_true, when_false, operand)


def _load(offset):
    return _instruction(_LOAD, offset)


def _argument(index):
    return _load(_ARGUMENTS + 8 * index)  # the low half: both machines are little-endian


def _return(value):
    return _instruction(_RETURN, value)


def _refuse(error):
    return _return(_ERRNO | error)


def _program(machine, alone):
    yield _load(_ARCH)
    yield _instruction(_JUMP_EQUAL, _ARCHES[machine], 1, 0)
    yield _return(_KILL)
    yield _load(_NUMBER)
    if machine == "x86_64":  # the x32 numbers would be a way around the list
        yield _instruction(_JUMP_GREATER, 0x3FFFFFFF, 0, 1)
        yield _refuse(errno.ENOSYS)
    column = list(_ARCHES).index(machine)
    for numbers in _DENIED.values():
        yield from _when(numbers[column], [_refuse(errno.EPERM)])
    yield from _when(_CLONE3, [_refuse(errno.ENOSYS)])  # its flags are in memory; libc falls back to clone
    yield from _when(_CLONE[machine], [_argument(0), *_if_set(_NAMESPACES, errno.EPERM), _return(_ALLOW)])
    family = [_instruction(_JUMP_EQUAL, one, len(_FAMILIES) - at, 0) for at, one in enumerate(_FAMILIES)]
    known = [_argument(0), *family, _refuse(errno.EAFNOSUPPORT)]
    yield from _when(_SOCKET[machine], [*known, *(_only_streams() if alone else []), _return(_ALLOW)])
    if alone:
        yield from _alone(machine, alone)
    yield _return(_ALLOW)


def _alone(machine, process):
    """No network, and signals to itself alone."""
    for number in (_CONNECT[machine], _BIND[machine]):
        yield from _when(number, [_refuse(errno.EACCES)])
    yield from _when(_SENDMMSG[machine], [_refuse(errno.EACCES)])
    yield from _when(_SENDMSG[machine], [_argument(2), *_if_set(_FAST_OPEN, errno.EACCES), _return(_ALLOW)])
    addressed = [_argument(4), _instruction(_JUMP_EQUAL, 0, 1, 0), _refuse(errno.EACCES)]
    yield from _when(_SENDTO[machine], [*addressed, _return(_ALLOW)])
    for number in _KILLS[machine]:
        yield from _when(number, [_refuse(errno.EPERM)])
    mine = [_argument(0), _instruction(_JUMP_EQUAL, process, 1, 0), _refuse(errno.EPERM)]
    yield from _when(_TGKILL[machine], [*mine, _return(_ALLOW)])


def _only_streams():
    return [
        _argument(1),
        _instruction(_AND, _KIND),
        _instruction(_JUMP_EQUAL, _STREAM, 1, 0),
        _refuse(errno.EACCES),
    ]


def _if_set(bits, error):
    return [_instruction(_JUMP_SET, bits, 0, 1), _refuse(error)]


def _when(number, body):
    """Run the body if the number of the call, in the accumulator, is this one; the body must return or fall through."""
    yield _instruction(_JUMP_EQUAL, number, 0, len(body))
    yield from body
