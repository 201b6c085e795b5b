"""Calls of a candidate's functions over pipes, and test scripts whose calls are carried to it."""

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from reasonrl_code.records import Call, Ending, Limits, Program, text_of
from reasonrl_code.sandbox.inside import plain
from reasonrl_code.sandbox.launch import Server
from reasonrl_code.sandbox.running import Running

_MESSAGE = 2000  # characters of what a program says that are passed on
_RAISED: dict[str, Ending] = {"MemoryError": "memory", "PermissionError": "blocked"}
_GONE = "it ended before it replied"


class Candidate(Running):
    """A process that holds a program and answers calls of its functions."""

    def __init__(self, server: Server, program: Program, limits: Limits) -> None:
        super().__init__(server, limits, line({"do": "calls", "source": program.source}))

    def call(self, function: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
        """Call one, and end the process.

        Raises:
            SandboxError: the sandbox broke.
        """
        answer = self.answer(function, plain.encode(tuple(args)), plain.encode(dict(kwargs)), changes=False)
        self.kill()
        seen: dict[str, Any] = {"stderr": self.stderr, "use": self.use}
        if answer is None:
            ending, detail = self.unanswered()
            return Call(ending, detail=detail, **seen)
        if "not_plain" in answer:
            return Call("fail", detail=f"it returned {answer['not_plain']}", **seen)
        if "error" in answer:
            kind = answer["error"]["type"]
            return Call(raised(kind), detail=f"{kind}: {answer['error']['message']}", **seen)
        return Call("pass", value=plain.decode(answer["value"]), **seen)

    def answer(self, function: str, args: Any, kwargs: Any, *, changes: bool) -> dict[str, Any] | None:
        """Its reply to one call, checked to be one; None if there is none.

        Args:
            args, kwargs: in plain form.
            changes: is the form of the arguments after the call wanted?
        """
        nonce = secrets.token_hex(16)
        request = {"nonce": nonce, "function": function, "args": args, "kwargs": kwargs, "changes": changes}
        self.ask(line(request))
        reply = self.reply()
        if reply is None:
            return None
        try:
            return _checked(json.loads(reply), nonce, changes)
        except (ValueError, RecursionError):
            self.fault = self.fault or ("fail", "a reply that is none")
            return None

    def unanswered(self) -> tuple[Ending, str]:
        """Why there was no reply; known once it has ended."""
        ending, detail = self.ending()
        return ("fail", _GONE) if ending == "pass" else (ending, detail)


def relay(test: Running, candidate: Candidate) -> Call:
    """Carry the calls of a test script to the candidate until the script ends.

    Raises:
        SandboxError: the sandbox broke.
    """
    last = ""
    while (sent := test.reply()) is not None:
        message = json.loads(sent)  # of our own code: the script's process never held the candidate's
        if "call" not in message:
            candidate.kill()
            return _judged(message, candidate, last)
        answer = candidate.answer(message["call"], message["args"], message["kwargs"], changes=True)
        last = f"{message['call']} was given {_shown(message['args'])}, returned {_returned(answer)}"
        if answer is None:
            test.kill()
            candidate.kill()
            ending, detail = candidate.unanswered()
            return Call(ending, detail=detail, stderr=candidate.stderr, use=candidate.use)
        test.ask(line(answer))
    test.kill()
    candidate.kill()
    ending, detail = test.ending()
    return Call(ending if ending != "pass" else "infra", detail=f"the test script: {detail or _GONE}", use=test.use)


def beside(running: Running, nonce: str) -> Call:
    """How a script ended that ran in the candidate's own process."""
    sent = running.reply()
    running.kill()
    seen: dict[str, Any] = {"weak": True, "stderr": running.stderr, "use": running.use}
    try:
        message = json.loads(sent) if sent is not None else None
        if type(message) is dict and message.get("nonce") == nonce:
            if message.get("done") is True:
                return Call("pass", **seen)
            if "failed" in message:
                return Call("fail", detail=str(message["failed"])[:_MESSAGE], **seen)
            error = message["error"]
            return Call(raised(error["type"]), detail=f"{error['type']}: {error['message']}"[:_MESSAGE], **seen)
    except (ValueError, TypeError, KeyError, RecursionError):
        pass  # forged: as none
    ending, detail = running.ending()
    return Call("fail" if ending == "pass" else ending, detail=detail or _GONE, **seen)


def raised(kind: str) -> Ending:
    """How a test ends whose program raised an exception of this type."""
    return _RAISED.get(kind, "error")


def line(message: Mapping[str, Any]) -> bytes:
    """A message to a process in the sandbox."""
    return json.dumps({"seed": 0, **message}, separators=(",", ":")).encode() + b"\n"


def _judged(message: dict[str, Any], candidate: Candidate, last: str) -> Call:
    seen: dict[str, Any] = {"stderr": candidate.stderr, "use": candidate.use}
    if "not_plain" in message:
        return Call("fail", plain=False, detail=message["not_plain"], **seen)
    if "failed" in message:
        return Call("fail", detail=f"{message['failed']}; {last}"[:_MESSAGE], **seen)
    if "error" in message:
        error = message["error"]
        detail = f"{error['type']}: {error['message']} in: {message['line']}; {last}"[:_MESSAGE]
        return Call(raised(error["type"]), detail=detail, **seen)
    if message["calls"] == 0:
        return Call("fail", detail="the test never called the program", **seen)
    return Call("pass", **seen)


def _checked(reply: Any, nonce: str, changes: bool) -> dict[str, Any]:
    """A reply with nothing in it but what a reply may hold, in forms made anew.

    Raises:
        ValueError: it is no reply to this call.
    """
    if type(reply) is not dict or reply.get("nonce") != nonce:
        raise ValueError("no reply to this call")
    if "not_plain" in reply:
        return {"not_plain": str(reply["not_plain"])[:_MESSAGE]}
    if "error" in reply:
        error = reply["error"]
        if type(error) is not dict:
            raise ValueError("no error")
        return {"error": {name: str(error.get(name))[:_MESSAGE] for name in ("type", "base", "message")}}
    try:
        checked = {"value": plain.encode(plain.decode(reply.get("value")))}
        for name in ("args", "kwargs") if changes else ():
            checked[name] = plain.encode(plain.decode(reply.get(name)))
    except plain.NotPlainError as error:
        raise ValueError(str(error)) from None
    return checked


def _shown(form: Any) -> str:
    return text_of(plain.decode(form))[:500]


def _returned(answer: dict[str, Any] | None) -> str:
    if answer is None:
        return "nothing: it ended"
    if "error" in answer:
        return f"nothing: it raised {answer['error']['type']}"
    return _shown(answer["value"]) if "value" in answer else str(answer.get("not_plain"))
