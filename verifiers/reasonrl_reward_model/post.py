"""One JSON request to a server: a deadline for the whole of it, and further tries where it failed for now."""

import json
import socket
import threading
import time
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

_ANSWER_LIMIT = 2**26  # bytes
_SHOWN = 500  # characters of an answer in a message
_FOR_NOW = {408, 429}  # and all of 5xx


class Failure(Exception):
    """A request came to nothing; the text says why.

    Attributes:
        passing: may it be otherwise the next time?
    """

    def __init__(self, text: str, *, passing: bool) -> None:
        super().__init__(text)
        self.passing = passing


def post(url: str, body: Any, *, token: str | None, timeout: float, retries: int, backoff: float) -> Any:
    """The JSON that a server answers.

    Args:
        url: http or https; proxies in the environment are not used.
        body: sent as JSON.
        token: a bearer token, if one is wanted.
        timeout: seconds for one try, from connecting to the last byte.
        retries, backoff: how many further tries, and the seconds before the first; they double.

    Raises:
        Failure: of the last try.
    """
    for again in range(retries + 1):
        try:
            return _once(url, body, token, timeout)
        except Failure as failure:
            if not failure.passing or again == retries:
                tries = f" ({again + 1} tries)" if again else ""
                raise Failure(f"{failure}{tries}", passing=failure.passing) from None
        time.sleep(backoff * 2**again)
    raise AssertionError("a request is tried at least once")


def _once(url: str, body: Any, token: str | None, timeout: float) -> Any:
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout)
    headers = {"Content-Type": "application/json"} | ({} if token is None else {"Authorization": f"Bearer {token}"})
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    started = time.monotonic()
    guard = None
    try:
        connection.connect()
        # The timeout of a socket is for each of its reads: a server that sends a byte now and then would never be late.
        guard = threading.Timer(max(0.0, timeout - (time.monotonic() - started)), _cut, (connection.sock,))
        guard.daemon = True
        guard.start()
        connection.request("POST", path, json.dumps(body).encode(), headers)
        answer = connection.getresponse()
        status, content = answer.status, answer.read(_ANSWER_LIMIT + 1)
        # `length` is what was promised and did not come
        whole = not answer.length or len(content) > _ANSWER_LIMIT
    except (OSError, HTTPException) as error:
        raise Failure(_why(error, url, timeout, started), passing=True) from None
    finally:
        if guard is not None:
            guard.cancel()
        connection.close()
    if time.monotonic() - started >= timeout or not whole:
        raise Failure(_why(None, url, timeout, started), passing=True)
    return _read(url, status, content)


def _cut(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _why(error: Exception | None, url: str, timeout: float, started: float) -> str:
    if isinstance(error, TimeoutError) or time.monotonic() - started >= timeout:
        return f"{url}: no whole answer within {timeout:g} s"
    return f"{url}: {type(error).__name__ + ': ' + str(error) if error else 'the answer was cut off'}"


def _read(url: str, status: int, content: bytes) -> Any:
    text = content[: 4 * _SHOWN].decode(errors="replace")[:_SHOWN]
    if status != 200:
        raise Failure(f"{url}: status {status}: {text}", passing=status in _FOR_NOW or status >= 500)
    if len(content) > _ANSWER_LIMIT:
        raise Failure(f"{url}: the answer is longer than {_ANSWER_LIMIT} bytes", passing=False)
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise Failure(f"{url}: the answer is no JSON: {text}", passing=False) from None
