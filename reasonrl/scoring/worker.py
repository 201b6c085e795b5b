"""The worker process: `python -m reasonrl.scoring.worker FD PARENT`; loads its verifiers, then checks one at a time.

FD is its end of a socket pair, the only channel to the parent: trusted pickles come in, lines of JSON go out. Standard
output is turned to standard error, so that a verifier may print. The worker dies with its parent even in the middle
of a check that never returns: by PR_SET_PDEATHSIG on Linux, elsewhere by the end of file once the check is over.
"""

import json
import os
import pickle
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import BinaryIO

from reasonrl.processes import die_with
from reasonrl.scoring.wire import audit_verdict, current_error, encode_verdict, error_verdict
from reasonrl.types import Response
from reasonrl.verifier import Verifier


def main() -> None:
    """Serve checks until the parent closes the channel."""
    descriptor, parent = int(sys.argv[1]), int(sys.argv[2])
    die_with(parent)
    with suppress(OSError):  # standard error may be closed; then what verifiers print goes nowhere
        os.dup2(2, 1)
    channel = socket.socket(fileno=descriptor)
    channel.set_inheritable(False)  # processes a verifier starts must not hold the channel open
    with suppress(EOFError, OSError, pickle.UnpicklingError), channel.makefile("rb") as stream:
        path, pythonpath, pickled = pickle.load(stream)
        _restore_environment(path, pythonpath)
        verifiers = _load(pickled, channel)
        if verifiers is not None:
            _serve(verifiers, stream, channel)
    os._exit(0)  # threads that a verifier left behind must not keep the process


def _restore_environment(path: list[str], pythonpath: str | None) -> None:
    """What is importable in the parent is importable here; PYTHONPATH, which got us this far, is the user's again."""
    sys.path[:] = path
    if pythonpath is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = pythonpath


def _load(pickled: Mapping[int, tuple[str, bytes]], channel: socket.socket) -> dict[int, Verifier] | None:
    """The verifiers, imported and warmed up, and the parent told; None if one fails, and the parent told which."""
    verifiers: dict[int, Verifier] = {}
    for index, (name, class_and_options) in pickled.items():
        _send(channel, json.dumps(["starting", name]).encode())
        try:
            verifier_class, options = pickle.loads(class_and_options)
            verifiers[index] = verifier_class(options)
            verifiers[index].warm_up()
        except BaseException:  # noqa: BLE001  SystemExit from a plugin's import is a failure like any other
            _send(channel, json.dumps(["failed", current_error()]).encode())
            return None
    _send(channel, b'["ready"]')
    return verifiers


def _serve(verifiers: Mapping[int, Verifier], stream: BinaryIO, channel: socket.socket) -> None:
    pid = os.getpid()
    while True:
        number, index, problem, response = pickle.load(stream)
        verdict = _judge(verifiers[index], problem, response)
        if os.getpid() != pid:
            os._exit(1)  # a verifier forked and let its child return: only the worker itself answers
        _send(channel, b'["verdict", %d, %b]' % (number, verdict))


def _judge(verifier: Verifier, problem: bytes, response: Response | None) -> bytes:
    try:
        unpickled = pickle.loads(problem)
        verdict = audit_verdict(verifier, unpickled) if response is None else verifier.verify(unpickled, response)
        return encode_verdict(verdict)
    except BaseException:  # noqa: BLE001  whatever a verifier raises means "could not be judged", SystemExit included
        return encode_verdict(error_verdict(current_error()))


def _send(channel: socket.socket, line: bytes) -> None:
    channel.sendall(line + b"\n")


if __name__ == "__main__":
    main()
