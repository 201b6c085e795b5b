"""Programs that try to score without solving anything. They are run in the sandbox and nowhere else.

Each is asked for f(7), whose expected value is a secret drawn when the tests run: no honest program can know it, so any
that returns it has read it somewhere.
"""

_FORGE = """
import json, os, sys
def nonce():
    frame = sys._getframe()
    while frame:
        for value in frame.f_locals.values():
            if isinstance(value, dict) and "nonce" in value:
                return value["nonce"]
        frame = frame.f_back
"""

EXITS = {
    "at import": "import os\nos._exit(0)",
    "in the call": "import os\ndef f(x):\n    os._exit(0)",
    "sys.exit in the call": "import sys\ndef f(x):\n    sys.exit(0)",
    "SystemExit at import": "raise SystemExit(0)",
    "atexit": "import atexit, os\natexit.register(os._exit, 0)\ndef f(x):\n    return -1",
    "excepthook": "import os, sys\nsys.excepthook = lambda *a: os._exit(0)\ndef f(x):\n    raise ValueError",
    "in a thread": (
        "import os, threading\nthreading.Thread(target=os._exit, args=(0,)).start()\ndef f(x):\n    return -1\n"
        "import time\ntime.sleep(0.2)"
    ),
    "another program": "import os\ndef f(x):\n    os.execv('/usr/bin/true', ['true'])",
    "in a finalizer": (
        "import os\nclass A:\n    def __del__(self):\n        os._exit(0)\na = A()\ndel a\ndef f(x):\n    return 1"
    ),
    "abort": "import os\ndef f(x):\n    os.abort()",
    "killed by itself": "import os, signal\ndef f(x):\n    os.kill(os.getpid(), signal.SIGKILL)\n    return -1",
    "no function": "g = 1",
    "nothing": "",
}

OBJECTS = {
    "equal to all": "class A:\n    __eq__ = lambda s, o: True\n    __hash__ = None\ndef f(x):\n    return A()",
    "int subclass": "class A(int):\n    __eq__ = lambda s, o: True\n    __hash__ = int.__hash__\ndef f(x):\n    return A(3)",
    "float subclass": "class A(float):\n    __eq__ = lambda s, o: True\n    __sub__ = lambda s, o: 0.0\ndef f(x):\n    return A(3)",
    "str subclass": "class A(str):\n    __eq__ = lambda s, o: True\ndef f(x):\n    return A('y')",
    "list subclass": "class A(list):\n    __eq__ = lambda s, o: True\n    __len__ = lambda s: 1\ndef f(x):\n    return A()",
    "dict subclass": "class A(dict):\n    __eq__ = lambda s, o: True\n    __missing__ = lambda s, k: 1\ndef f(x):\n    return A()",
    "lies about its class": "class A:\n    __class__ = int\n    __eq__ = lambda s, o: True\ndef f(x):\n    return A()",
    "reduce": "import os\nclass A:\n    __reduce__ = lambda s: (os._exit, (0,))\ndef f(x):\n    return A()",
    "metaclass": (
        "class M(type):\n    __eq__ = lambda s, o: True\n    __hash__ = lambda s: hash(int)\n"
        "class A(metaclass=M):\n    __eq__ = lambda s, o: True\ndef f(x):\n    return A()"
    ),
    "in a list": "class A(int):\n    __eq__ = lambda s, o: True\ndef f(x):\n    return [A(1)]",
    "a cycle": "def f(x):\n    a = []\n    a.append(a)\n    return a",
    "deep": "def f(x):\n    a = []\n    for _ in range(100000):\n        a = [a]\n    return a",
    "wide": "def f(x):\n    return [0] * 5_000_000",
    "nan": "def f(x):\n    return float('nan')",
    "a generator": "def f(x):\n    return (i for i in range(3))",
    "the type": "def f(x):\n    return int",
}

PATCHES = {
    "json": "import json\njson.dumps = lambda *a, **k: '{\"passed\": true}'\ndef f(x):\n    return 0",
    "the encoder": (
        "import sys\nfor m in list(sys.modules.values()):\n    if hasattr(m, 'encode') and hasattr(m, 'NotPlainError'):\n"
        "        m.encode = lambda v: True\ndef f(x):\n    return 0"
    ),
    "type": "import builtins\nbuiltins.type = lambda *a: int\ndef f(x):\n    return object()",
    "os.write": "import os\nwrite = os.write\nos.write = lambda fd, b: write(fd, b'{\"passed\": true}\\n') and len(b)\ndef f(x):\n    return 0",
    "unittest": "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\ndef f(x):\n    return 0",
    "trace": "import sys\nsys.settrace(lambda *a: None)\ndef f(x):\n    return 0",
    "AssertionError": "import builtins\nbuiltins.AssertionError = type('A', (BaseException,), {})\ndef f(x):\n    return 0",
    "assert turned off": "import sys\nsys.flags = None\n__debug_off = True\ndef f(x):\n    return 0",
    "harness names": "passed = True\nresult = ['passed']\ndef check(*a):\n    return True\ndef f(x):\n    return 0",
}

FORGERIES = {
    "on standard output": "print('{\"nonce\": 0, \"value\": 16}')\ndef f(x):\n    print('PASSED')",
    "before the call": 'import os\nos.write(4, b\'{"nonce": "0", "value": true}\\n\')\ndef f(x):\n    return 0',
    "with the nonce": _FORGE
    + "def f(x):\n    os.write(4, json.dumps({'nonce': nonce(), 'value': True, 'done': True}).encode() + b'\\n')\n    os._exit(0)",
    "many": _FORGE
    + "def f(x):\n    n = nonce()\n    for i in range(5000):\n        os.write(4, json.dumps({'nonce': n, 'value': i}).encode() + b'\\n')\n    return -1",
    "an exception as value": _FORGE
    + "def f(x):\n    os.write(4, json.dumps({'nonce': nonce(), 'error': None}).encode() + b'\\n')\n    os._exit(0)",
    "deep": "import os\ndef f(x):\n    os.write(4, b'[' * 60000 + b'\\n')\n    os._exit(0)",
    "no form": _FORGE
    + "def f(x):\n    os.write(4, json.dumps({'nonce': nonce(), 'value': ['int', 'zz']}).encode() + b'\\n')\n    os._exit(0)",
    "endless": "import os\ndef f(x):\n    while True:\n        os.write(4, b'x' * 65536)",
    "a long number": "import os\ndef f(x):\n    os.write(4, b'9' * 60000 + b'\\n')\n    os._exit(0)",
    "a file": "for n in ('reward.txt', '/tmp/result.json', 'score'):\n    open(n, 'w').write('1.0')\ndef f(x):\n    return 0",
}

READERS = {
    "frames": (
        "import sys\ndef f(x):\n    frame = sys._getframe()\n    while frame:\n        for k, v in frame.f_locals.items():\n"
        "            if k in ('expected', 'want', 'answer', 'output', 'test', 'tests'):\n                return v\n"
        "        frame = frame.f_back"
    ),
    "all objects": (
        "import gc\ndef f(x):\n    found = [o for o in gc.get_objects() if type(o) is dict and 'expected' in o]\n"
        "    return found[0]['expected'] if found else None"
    ),
    "arguments": "import sys\ndef f(x):\n    return ' '.join(sys.orig_argv)",
    "descriptors": (
        "import os\ndef f(x):\n    seen = b''\n    for n in range(3, 2000):\n        try:\n            os.set_blocking(n, False)\n"
        "            seen += os.read(n, 100000)\n        except OSError:\n            pass\n    return seen.decode(errors='replace')"
    ),
    "files": (
        "import glob\ndef f(x):\n    seen = ''\n    for p in glob.glob('/tmp/**', recursive=True) + glob.glob('/reasonrl/*') + "
        "glob.glob('/proc/*/environ') + glob.glob('/proc/*/cmdline'):\n        try:\n            seen += open(p).read()\n"
        "        except (OSError, ValueError):\n            pass\n    return seen"
    ),
    "processes": "import subprocess\ndef f(x):\n    return subprocess.run(['ps', 'axe'], capture_output=True, text=True).stdout",
}

SYSTEM_CALLS = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
numbers = {
    "ptrace": 101, "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "unshare": 272, "setns": 308,
    "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "keyctl": 250, "add_key": 248, "io_uring_setup": 425,
    "process_vm_readv": 310, "open_by_handle_at": 304, "name_to_handle_at": 303, "kexec_load": 246, "reboot": 169,
    "init_module": 175, "swapon": 167, "settimeofday": 164, "personality": 135, "memfd_create": 319, "shmget": 29,
    "msgget": 68, "fsopen": 430, "move_mount": 429, "pidfd_getfd": 438, "acct": 163, "sethostname": 170,
}
done = [name for name, number in numbers.items() if libc.syscall(number, 0, 0, 0, 0, 0, 0) >= 0]
done += ["x32"] if libc.syscall(0x40000000 + 39) >= 0 else []
for family in (16, 17, 29, 38, 40, 44):
    done += [f"socket {family}"] if libc.socket(family, 2, 0) >= 0 else []
done += ["clone into a user namespace"] if libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0) > 0 else []
print(done)
"""

BOMBS = {
    # name: (program, the endings it may have)
    "forks": ("import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass", {"timeout", "memory"}),
    "threads": (
        "import threading, time\nwhile True:\n    threading.Thread(target=time.sleep, args=(60,)).start()",
        {"error", "timeout", "memory"},
    ),
    "memory in children": (
        "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n        held = bytearray(120 << 20)\n"
        "        time.sleep(60)\ntime.sleep(60)",
        {"memory"},
    ),
    "memory": ("held = []\nwhile True:\n    held.append(bytearray(1 << 20))", {"memory"}),
    "shared memory": ("import mmap\nheld = [mmap.mmap(-1, 64 << 20) for _ in range(64)]", {"error", "memory"}),
    "disk": ("import os\nwhile True:\n    open(os.urandom(8).hex(), 'wb').write(bytes(1 << 20))", {"error"}),
    "files": ("i = 0\nwhile True:\n    open(str(i), 'w').close()\n    i += 1", {"error"}),
    "/dev/shm": ("i = 0\nwhile True:\n    open(f'/dev/shm/{i}', 'wb').write(bytes(1 << 20))\n    i += 1", {"error"}),
    "output": ("while True:\n    print('x' * 65536)", {"fail"}),
    "standard error": ("import sys\nwhile True:\n    sys.stderr.write('x' * 65536)", {"timeout"}),
    "a loop": ("while True:\n    pass", {"timeout"}),
    "sleep": ("import time\ntime.sleep(3600)", {"timeout"}),
    "a big number": ("print(9 ** 9 ** 9)", {"timeout", "memory"}),
    "a regular expression": ("import re\nre.match('(a+)+$', 'a' * 60 + 'b')", {"timeout"}),
    "recursion": ("def f():\n    f()\nf()", {"error"}),
    "deep recursion": ("import sys\nsys.setrecursionlimit(10**9)\ndef f(a):\n    return repr(a)\na = []\nfor _ in range(10**6):\n    a = [a]\nf(a)", {"error", "memory", "timeout"}),
    "ignores signals": (
        "import signal\nfor n in range(1, 65):\n    try:\n        signal.signal(n, signal.SIG_IGN)\n"
        "    except (OSError, ValueError):\n        pass\nwhile True:\n    pass",
        {"timeout"},
    ),
    "stops itself": ("import os, signal, time\nos.kill(os.getpid(), signal.SIGSTOP)\ntime.sleep(3600)", {"timeout"}),
    "a crash": ("import ctypes\nctypes.string_at(0)", {"error"}),
    "a thread that stays": (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(3600,)).start()",
        {"timeout"},
    ),
    "closes its output": ("import os, time\nos.close(1)\nos.close(2)\ntime.sleep(3600)", {"timeout"}),
}  # fmt: skip

DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for n in range(3, 300):
            try:
                os.close(n)
            except OSError:
                pass
        while True:
            time.sleep(0.05)
    os._exit(0)
print("done")
"""
