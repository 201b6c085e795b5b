"""The JSON in which verdicts come back from a worker, written there and checked here.

A worker has read text of a model, so nothing it sends is unpickled: a reply is one line of JSON, and every field of it
is checked before it becomes a `Verdict`.
"""

import json
import operator
import traceback
from collections.abc import Mapping
from typing import Any, NoReturn

from reasonrl.types import Problem
from reasonrl.verifier import StepReward, Verdict, Verifier

EVIDENCE_LIMIT = 10_000  # characters of JSON, all entries together
TRACEBACK_TAIL = 2_000  # characters


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number here")


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  evidence is for reports: an object that cannot be shown must not cost the verdict
        return f"<{type(value).__name__} that cannot be shown>"


# Made once: json.loads and json.dumps make theirs anew at each call that has options, which is half of their time.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_ENCODER = json.JSONEncoder(allow_nan=False, default=_repr, ensure_ascii=False)


def error_verdict(error: str) -> Verdict:
    """The verdict of a verifier that broke: unjudged, with its `current_error`."""
    return Verdict(None, "error", evidence={"error": error})


def audit_verdict(verifier: Verifier, problem: Problem) -> Verdict:
    """An audit in the form of a verdict: "usable", or "unusable" with the fault as evidence."""
    fault = verifier.audit(problem)
    return Verdict(1.0, "usable") if fault is None else Verdict(None, "unusable", evidence={"fault": fault})


def current_error() -> str:
    """The end of the traceback of the exception being handled; never raises, whatever its `__str__` does."""
    try:
        return traceback.format_exc().strip()[-TRACEBACK_TAIL:]
    except Exception:  # noqa: BLE001  a hostile __str__ may raise anything
        return "an exception whose text cannot be shown"


def encode_verdict(verdict: object) -> bytes:
    """A verifier's verdict → JSON on one line; evidence that is no JSON becomes its repr and is cut to a sane size.

    Raises:
        TypeError, ValueError: it is no `Verdict`, or one with a field of the wrong type or a reward that is not finite.
    """
    if not isinstance(verdict, Verdict):
        raise TypeError(f"verify must return a Verdict, not {type(verdict).__name__}")
    if not isinstance(verdict.reason, str):
        raise TypeError(f"the reason of a verdict must be text, not {type(verdict.reason).__name__}")
    reward = None if verdict.reward is None else float(verdict.reward)
    steps = [[operator.index(s.start), operator.index(s.end), float(s.reward)] for s in verdict.steps]
    head = _ENCODER.encode([reward, verdict.reason, steps])
    # A lone surrogate, which a model can write as an escape, becomes "?": files of verdicts are UTF-8.
    return f"{head[:-1]}, {_evidence_json(verdict.evidence)}]".encode("utf-8", "replace")


def decode_verdict(fields: object) -> Verdict:
    """What `encode_verdict` wrote, parsed → a verdict.

    Raises:
        ValueError: it is anything else.
    """
    match fields:
        case [None | float() | int() as reward, str(reason), list(steps), dict(evidence)] if type(reward) is not bool:
            try:
                rewarded = tuple(_decode_step(step) for step in steps)
                return Verdict(None if reward is None else float(reward), reason, rewarded, evidence)
            except OverflowError as error:
                raise ValueError(str(error)) from error
    raise ValueError("not a verdict")


def _decode_step(fields: object) -> StepReward:
    match fields:
        case [int(start), int(end), float(reward)] if bool not in (type(start), type(end)):
            return StepReward(start, end, reward)
    raise ValueError("not a step reward")


def parse_line(line: bytes | bytearray) -> Any:
    """One line of a worker → the JSON it is.

    Raises:
        ValueError: it is no JSON, or holds NaN, an infinity, or nesting too deep to parse.
    """
    try:
        return _DECODER.decode(line.decode())
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _evidence_json(evidence: Mapping[str, Any]) -> str:
    text = _dumps(dict(evidence))
    if text is not None and len(text) <= EVIDENCE_LIMIT:
        return text
    kept: dict[str, Any] = {}
    room = EVIDENCE_LIMIT
    for count, (key, value) in enumerate(evidence.items()):
        if room <= 0:
            kept["…"] = f"{len(evidence) - count} more entries were cut"
            break
        name = str(key)[:room]
        kept[name], size = _fitted(value, room - len(name))
        room -= size + len(name)
    return _ENCODER.encode(kept)


def _fitted(value: Any, room: int) -> tuple[Any, int]:
    """The value as it is if it is JSON of at most `room` characters, else the beginning of its text; and its size."""
    text = _dumps(value)
    if text is None:
        text = _repr(value)
    elif len(text) <= room:
        return json.loads(text), len(text)
    elif isinstance(value, str):
        text = value
    return (text, len(text)) if len(text) <= room else (text[: max(room, 0)] + "…", room)


def _dumps(value: object) -> str | None:
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):
        return None
