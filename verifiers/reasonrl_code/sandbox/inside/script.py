"""Test code of a data set, and the stand-ins through which it calls a candidate that lives in another process."""

import builtins
import json
import traceback

import plain

_TEST = "<test>"
_QUIET = (StopIteration, StopAsyncIteration)


class CandidateError(Exception):
    """What the candidate raised, where it is no exception of Python's own."""


class NoReplyError(BaseException):
    """The candidate's process is gone; the test code must not catch it."""


class NotPlainCallError(BaseException):
    """An argument cannot be carried between the processes; the test code must not catch it."""


def run(setup, code, namespace, stubs=()):
    """Execute the setup and the code.

    Returns:
        {"done": true}, or {"failed": …} for an assertion, {"error": …} for another exception, {"not_plain": …}.
    """
    try:
        exec(compile(setup, "<setup>", "exec", dont_inherit=True), namespace)
        namespace.update(stubs)
        exec(compile(code, _TEST, "exec", dont_inherit=True), namespace)
    except NotPlainCallError as error:
        return {"not_plain": str(error)}
    except AssertionError as error:
        return {"failed": _line(error, code) or str(error)}
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001  what the test raises is its result
        traceback.print_exc()
        return {"error": described(error), "line": _line(error, code)}
    return {"done": True}


def described(error):
    """An exception as plain data; `base` names the nearest of its classes that is Python's own."""
    base = next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")
    return {"type": type(error).__name__, "base": base, "message": str(error)[:2000]}


def _line(error, code):
    """The line of the test that raised it."""
    lines = code.splitlines()
    numbers = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _TEST]
    return lines[numbers[-1] - 1].strip()[:500] if numbers and numbers[-1] <= len(lines) else ""


class Caller:
    """Carries calls to the candidate.

    Args:
        requests: a stream of lines, from which the replies are read.
        send: takes a message.
    """

    def __init__(self, requests, send):
        self.calls = 0
        self._replies = requests
        self._send = send

    def stub(self, name):
        """A function that stands for the candidate's of this name."""

        def call(*args, **kwargs):
            return self._call(name, args, kwargs)

        call.__name__ = name
        return call

    def _call(self, name, args, kwargs):
        self.calls += 1
        try:
            message = {"call": name, "args": plain.encode(args), "kwargs": plain.encode(kwargs)}
        except plain.NotPlainError as error:
            raise NotPlainCallError(str(error)) from None
        self._send(message)
        line = self._replies.readline()
        if not line:
            raise NoReplyError
        reply = json.loads(line)
        if "not_plain" in reply:  # for the candidate to answer for: it must not choose where the test runs
            raise AssertionError(f"{name} returned {reply['not_plain']}")
        if "error" in reply:
            raise _exception(reply["error"])
        for given, changed in zip(args, plain.decode(reply["args"]), strict=True):
            _change(given, changed)
        for name, changed in plain.decode(reply["kwargs"]).items():
            _change(kwargs[name], changed)
        return plain.decode(reply["value"])


def _exception(error):
    kind = getattr(builtins, error["base"], None)
    # StopIteration would end a loop of the test over `map(f, inputs)` without a word.
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, _QUIET):
        try:
            return kind(error["message"])
        except TypeError:  # one that takes several arguments, as UnicodeDecodeError does
            pass
    return CandidateError(f"{error['type']}: {error['message']}")


def _change(given, changed):
    """Do to an argument what the candidate did to its copy."""
    if type(given) in (list, bytearray):
        given[:] = changed
    elif type(given) in (dict, set):
        given.clear()
        given.update(changed)
