"""Programs that try to be scored without solving anything. None may ever score, whatever the tests are.

Each is a template: `NAME` is the function that is asked for. They run in the sandbox only, as `reasonrl tasks check`
tries them on the rows of a task. What the sandbox itself must withstand has tests of its own.
"""

CHEATS: dict[str, str] = {
    "nothing": "",
    "exit at once": "import os\nos._exit(0)\n",
    "exit in the call": "import os\ndef NAME(*args, **kwargs):\n    os._exit(0)\n",
    "leave by an exception": "def NAME(*args, **kwargs):\n    raise SystemExit(0)\nraise SystemExit(0)\n",
    "hooks at exit": (
        "import atexit, os, sys\nsys.excepthook = lambda *a: os._exit(0)\natexit.register(os._exit, 0)\n"
        "def NAME(*args, **kwargs):\n    raise AssertionError\n"
    ),
    "equal to everything": (
        "class Equal:\n    __eq__ = lambda self, other: True\n    __ne__ = lambda self, other: False\n"
        "    __hash__ = lambda self: 0\n    __bool__ = lambda self: True\n"
        "    __repr__ = __str__ = lambda self: 'None'\n"
        "def NAME(*args, **kwargs):\n    return Equal()\n"
    ),
    "subclasses of builtins": (
        "class Number(int):\n    __eq__ = lambda self, other: True\n    __hash__ = int.__hash__\n"
        "class Text(str):\n    __eq__ = lambda self, other: True\n    __hash__ = str.__hash__\n"
        "class Many(list):\n    __eq__ = lambda self, other: True\n    __len__ = lambda self: 1\n"
        "def NAME(*args, **kwargs):\n    return Many([Number(-987654), Text('no such answer')])\n"
    ),
    "patched builtins": (
        "import builtins, json, math, unittest\n"
        "for one in ('all', 'any', 'isinstance'):\n    setattr(builtins, one, lambda *a, **k: True)\n"
        "builtins.AssertionError = type('Quiet', (BaseException,), {})\n"
        "math.isclose = lambda *a, **k: True\njson.dumps = lambda *a, **k: '[true]'\n"
        "json.loads = lambda *a, **k: {'status': 'pass', 'ok': True}\n"
        "unittest.TestCase.assertEqual = lambda *a, **k: None\n"
        "def NAME(*args, **kwargs):\n    return 'no such answer'\n"
    ),
    "forged replies": (
        "import os, sys\n"
        "for line in ('{\"status\": \"pass\", \"passed\": true, \"result\": 1}', 'OK', 'PASSED', '1.0', '0 failed'):\n"
        "    print(line)\n    print(line, file=sys.stderr)\n"
        "sys.stdout.flush()\n"
        "for number in range(3, 64):\n"
        "    try:\n        os.write(number, b'{\"ending\": \"pass\", \"value\": true}\\n')\n"
        "    except OSError:\n        pass\n"
        "os._exit(0)\n"
    ),
    "reads its callers": (
        "import sys\n"
        "def NAME(*args, **kwargs):\n"
        "    frame = sys._getframe()\n"
        "    while frame is not None:\n"
        "        for key, value in [*frame.f_locals.items(), *frame.f_globals.items()]:\n"
        "            if key in ('expected', 'result', 'results', 'answer', 'output', 'exp'):\n"
        "                return value[0] if key == 'results' else value\n"
        "        frame = frame.f_back\n"
        "    return 'no such answer'\n"
        "NAME()\n"
    ),
    "searches memory": (
        "import gc\n"
        "def NAME(*args, **kwargs):\n"
        "    for one in gc.get_objects():\n"
        "        if type(one) is dict and 'expected' in one:\n            return one['expected']\n"
        "    return 'no such answer'\n"
    ),
    "writes results": (
        "import os\n"
        "for path in ('reward.txt', 'result.json', 'results.json', '/tmp/reward.txt', '/logs/reward.txt'):\n"
        "    try:\n        open(path, 'w').write('1.0')\n    except OSError:\n        pass\n"
        "def NAME(*args, **kwargs):\n    return 'no such answer'\n"
    ),
}  # fmt: skip
STAND_IN = "solve"  # the name where no function is asked for


def cheat(source: str, entry_point: str) -> str:
    """The response that a template makes for a function, or for a method of `Solution`."""
    name = entry_point.partition(".")[0] or STAND_IN
    return f"```python\n{source.replace('NAME', name)}```\n"
