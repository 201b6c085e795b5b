"""The fork-server: `python server.py SETTINGS`; forks a confined process for each test, reports its end.

It holds no program, no input and no expected value: what a test is about goes by pipes from the outside straight to
the process that needs it, so that nothing of it is left in memory that a later fork inherits. Each message on its
socket is one test: the limits as JSON, and seven file descriptors.
"""

import _sitebuiltins  # what the module site, which is not imported, would put into builtins
import builtins
import gc
import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import cage  # with this folder first in the path
import candidate

_STANDARD, _STATUS, _LIFELINE = 5, 5, 6  # of a test's descriptors: five for its process, two for the server
_DESCRIPTORS = 7
_USUAL = (
    "__future__", "array", "bisect", "calendar", "cmath", "collections.abc", "contextlib", "copy", "dataclasses",
    "datetime", "decimal", "enum", "fractions", "functools", "hashlib", "heapq", "inspect", "itertools", "math",
    "numbers", "operator", "queue", "random", "re", "statistics", "string", "struct", "textwrap", "threading", "time",
    "traceback", "typing", "unicodedata",
)  # fmt: skip


def main():
    """Serve until the other end of the socket closes."""
    settings = json.loads(sys.argv[1])
    for name in _USUAL if settings["warm"] else ():
        __import__(name)
    builtins.exit, builtins.quit = _sitebuiltins.Quitter("exit", ""), _sitebuiltins.Quitter("quit", "")
    del sys.argv[1:]
    sys.path[:] = [entry for entry in sys.path if entry != os.path.dirname(os.path.abspath(__file__))]
    sys.path += settings["packages"]
    cage.prepare(settings)
    channel = socket.socket(fileno=settings["socket"])
    gc.collect()
    gc.freeze()  # what is here now stays shared with the forks
    channel.send(b"ready")
    Server(settings, channel).serve()


class Server:
    """Waits for tests, for their ends, and for those whose lifeline closes: a timeout, or whoever asked is dead."""

    def __init__(self, settings, channel):
        self._settings, self._channel = settings, channel
        self._poll = select.poll()
        self._poll.register(channel, select.POLLIN)
        self._tests = {}  # by each of its two descriptors that are watched: its end, its lifeline

    def serve(self):
        """Until the socket closes; what then runs is killed with this process."""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor != self._channel.fileno():
                    if descriptor in self._tests:  # not ended by the event before
                        self._ended(self._tests[descriptor], descriptor)
                elif not self._begin():
                    return

    def _begin(self):
        message, descriptors, _, _ = socket.recv_fds(self._channel, 65536, _DESCRIPTORS)
        if not message:
            return False
        limits = json.loads(message)
        folder = cage.folder(self._settings)
        pid = cage.fork(self._settings)
        if pid == 0:
            cage.enter(self._settings, limits, descriptors[:_STANDARD], descriptors[_STATUS], folder, candidate.run)
        for descriptor in descriptors[:_STANDARD]:
            os.close(descriptor)
        test = _Test(pid, folder, descriptors[_STATUS], descriptors[_LIFELINE])
        for watched in (test.end, test.lifeline):
            self._tests[watched] = test
            self._poll.register(watched, select.POLLIN)
        return True

    def _ended(self, test, descriptor):
        if descriptor == test.lifeline:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(test.end, signal.SIGKILL)
        _, code, usage = os.wait4(test.pid, 0)
        used = {"cpu": usage.ru_utime + usage.ru_stime, "memory": usage.ru_maxrss * 1024}
        for watched in (test.end, test.lifeline):
            del self._tests[watched]
            self._poll.unregister(watched)
            os.close(watched)
        if self._settings["alone"]:
            cage.clear(self._settings, test.folder, {other.pid for other in self._tests.values()})
        with suppress(BrokenPipeError):  # nobody wants to know any more
            cage.tell(test.status, {"code": os.waitstatus_to_exitcode(code), **used})
        os.close(test.status)


class _Test:
    def __init__(self, pid, folder, status, lifeline):
        self.pid, self.folder, self.status, self.lifeline = pid, folder, status, lifeline
        self.end = os.pidfd_open(pid)


if __name__ == "__main__":
    main()
