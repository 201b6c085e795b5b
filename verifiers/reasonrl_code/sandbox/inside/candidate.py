"""The candidate's process, once confined: read the job, and do it.

Nothing that happens here after the candidate's first line is believed outside. Jobs are lines of JSON.
"""

import atexit
import builtins
import json
import os
import random
import subprocess
import sys
import threading
import traceback
import types

import plain
import script

_MAIN = "main.py"
_FRAMES = 20  # below the first one of a program


def run(job, replies, folder):
    """Do the one job that can be read from `job`; never returns.

    A program run on standard input gets neither descriptor: it speaks by its output and its exit code.
    """
    requests = open(job, "rb")  # noqa: SIM115  lives as long as the process
    request = json.loads(requests.readline())
    random.seed(request["seed"])
    sys.setrecursionlimit(sys.getrecursionlimit() + _FRAMES)
    sys.set_int_max_str_digits(0)  # the limit of CPU time bounds that, too
    what = request["do"]
    if what in ("program", "native"):
        requests.close()
        os.close(replies)
    code = _exit_code(lambda: _DO[what](request, requests, replies, folder))
    os._exit(code)


def _program(request, requests, replies, folder):
    _load(request["source"], "__main__", folder)


def _calls(request, requests, replies, folder):
    namespace = _load(request["source"], "candidate", folder)
    for line in requests:
        _reply(replies, _answer(namespace, json.loads(line)))


def _beside(request, requests, replies, folder):
    """A test script in the candidate's own process: only what cannot be tested from outside."""
    namespace = _load(request["source"], "candidate", folder)
    _reply(replies, {"nonce": request["nonce"], **script.run(request["setup"], request["code"], dict(namespace))})


def _script(request, requests, replies, folder):
    """A test script alone; the calls it makes are answered from outside."""
    caller = script.Caller(requests, lambda message: _reply(replies, message))
    namespace = {name: caller.stub(name) for name in request["names"]}
    result = script.run(request["setup"], request["code"], {"__name__": "test"}, namespace)
    _reply(replies, {**result, "calls": caller.calls})


def _compile(request, requests, replies, folder):
    with open(os.path.join(folder, request["file"]), "w", encoding="utf-8", errors="surrogatepass") as file:
        file.write(request["source"])
    code = subprocess.run(request["command"], stdin=subprocess.DEVNULL).returncode
    if code == 0:
        with open(os.path.join(folder, request["binary"]), "rb") as file:
            _reply(replies, {"binary": file.read().hex()})
    sys.exit(code)


def _native(request, requests, replies, folder):
    path = os.path.join(folder, request["binary"])
    with open(path, "wb") as file:
        file.write(bytes.fromhex(request["content"]))
    os.chmod(path, 0o700)
    os.execv(path, [path])


_DO = {
    "program": _program,
    "calls": _calls,
    "beside": _beside,
    "script": _script,
    "compile": _compile,
    "native": _native,
}


def _load(source, name, folder):
    """Execute the source as a module; its namespace."""
    path = os.path.join(folder, _MAIN)
    with open(path, "w", encoding="utf-8", errors="surrogatepass") as file:  # for tracebacks and inspect
        file.write(source)
    sys.argv = [_MAIN]
    sys.path.insert(0, folder)
    module = types.ModuleType(name)
    module.__file__ = path
    module.__builtins__ = builtins
    sys.modules[name] = module
    exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
    return module.__dict__


def _answer(namespace, request):
    reply = {"nonce": request["nonce"]}
    try:
        args, kwargs = plain.decode(request["args"]), plain.decode(request["kwargs"])
        value = _function(namespace, request["function"])(*args, **kwargs)
        changed = {"args": plain.encode(args), "kwargs": plain.encode(kwargs)} if request["changes"] else {}
        return {**reply, "value": plain.encode(value), **changed}
    except plain.NotPlainError as error:
        return {**reply, "not_plain": str(error)}
    except Exception as error:  # noqa: BLE001  what the program raises is its answer
        traceback.print_exc()
        return {**reply, "error": script.described(error)}


def _function(namespace, name):
    owner, _, method = name.partition(".")
    return getattr(namespace[owner](), method) if method else namespace[owner]


def _reply(replies, message):
    line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
    while line:
        line = line[os.write(replies, line) :]


def _exit_code(job):
    """Do it and end as an interpreter does: report what was raised, join threads, run exit functions, flush."""
    code = _outcome(job)
    return max(code, _outcome(threading._shutdown), _outcome(atexit._run_exitfuncs), _outcome(_flush))


def _flush():
    sys.stdout.flush()
    sys.stderr.flush()


def _outcome(job):
    try:
        job()
    except SystemExit as exit:
        if exit.code is None or isinstance(exit.code, int):
            return (exit.code or 0) & 0xFF
        print(exit.code, file=sys.stderr, flush=True)
        return 1
    except BaseException:  # noqa: BLE001  as the interpreter does at its top
        traceback.print_exc()
        return 1
    return 0
