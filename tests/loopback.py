"""An HTTP server on loopback whose answers a test writes, one after another; the last one serves the rest."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[["Handler", Any], None]


class Handler(BaseHTTPRequestHandler):
    """Keeps what it is asked, and answers as the test says."""

    server: "Loopback"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            number = len(self.server.asked)
            self.server.asked.append((self.path, body, self.headers.get("Authorization")))
        answers = self.server.answers
        answers[min(number, len(answers) - 1)](self, body)

    def reply(self, content: bytes, status: int = 200, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content) if length is None else length))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


class Loopback(ThreadingHTTPServer):
    """The server, and what it was asked: (path, body, Authorization) each."""

    daemon_threads = True

    def __init__(self, answers: list[Answer]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.asked, self.lock = answers, [], threading.Lock()  # type: ignore[var-annotated]
        self.stopped = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_: Any) -> None:
        """A client that has gone is what some tests are about."""


@contextmanager
def loopback(*answers: Answer) -> Iterator[Loopback]:
    """A running server."""
    server = Loopback(list(answers))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stopped.set()
        server.shutdown()
        server.server_close()
        thread.join()


def says(value: Any, status: int = 200) -> Answer:
    """An answer that is the same whatever was asked."""
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return lambda handler, _: handler.reply(content, status)


def hangs(handler: Handler, _: Any) -> None:
    """Says nothing until the test is over."""
    handler.server.stopped.wait(30)


def drips(handler: Handler, _: Any) -> None:
    """A byte now and then, so that no single read is late."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    while not handler.server.stopped.wait(0.02):
        handler.wfile.write(b" ")
        handler.wfile.flush()


def breaks_off(handler: Handler, _: Any) -> None:
    """Half of what it promises."""
    handler.reply(b'{"rewards": [1.0', length=1000)
    handler.close_connection = True


def closes(handler: Handler, _: Any) -> None:
    """Not a word."""
    handler.close_connection = True
