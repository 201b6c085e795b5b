"""Files of preference pairs, ours and the ecosystem's: `prompt`, `chosen`, `rejected` as texts or chat messages."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from reasonrl.columns import names
from reasonrl.examples import left_out, read_examples
from reasonrl.pairs.candidates import Prompt
from reasonrl.types import Message

EMPTY, IDENTICAL = "chosen or rejected is empty", "chosen and rejected are the same"
_RESPONSE = "a text, or chat messages that end with one of the assistant"


@dataclass(frozen=True)
class Preference:
    """Two responses to one prompt, the first of which is preferred.

    Attributes:
        margin: by how much, where the pair says so.
    """

    prompt: Prompt
    chosen: str
    rejected: str
    margin: float | None = None


@dataclass
class Preferences:
    """What files of pairs hold.

    Attributes:
        pairs: those that can be used, in order.
        skipped: how many cannot, by the reason.
    """

    pairs: list[Preference] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    def line(self) -> str:
        """What was skipped, in one line."""
        return left_out(self.skipped, len(self.pairs), "pairs")


def read_preferences(files: Sequence[str | Path]) -> Preferences:
    """The pairs of files (JSON Lines, JSON, CSV, Parquet), as TRL names and forms them.

    chosen and rejected are texts, or chat messages; without a prompt, or where they begin with it as in conversations,
    it is what both begin with. Pairs that teach nothing, with an empty response or two that are the same, are counted.

    Raises:
        ReasonRLError: a file has no such columns, a value of another kind, or there is no pair to learn from.
    """
    return Preferences(*read_examples(files, _with_margin, _useless, kind="pairs", lacking="pair"))


def _with_margin(row: Mapping[str, Any]) -> Preference:
    return replace(preference_of(row), margin=_margin(row.get("margin")))


def _useless(pair: Preference) -> str | None:
    if not pair.chosen.strip() or not pair.rejected.strip():
        return EMPTY
    return IDENTICAL if pair.chosen == pair.rejected else None


def preference_of(row: Mapping[str, Any]) -> Preference:
    """A pair from a row.

    Raises:
        ValueError: a column is missing, or holds something else.
    """
    for column in ("chosen", "rejected"):
        if column not in row:
            raise ValueError(f"no column {column!r}; the data has: {names(row)}")
    prompt, chosen, rejected = row.get("prompt"), row["chosen"], row["rejected"]
    if _conversation(chosen) and _conversation(rejected):
        return _of_chats(prompt, _messages(chosen, "chosen"), _messages(rejected, "rejected"))
    for column, text in (("chosen", chosen), ("rejected", rejected)):
        if text is not None and not isinstance(text, str):
            raise ValueError(f"{column} holds {text!r:.80}, expected {_RESPONSE}")
    chosen, rejected = chosen or "", rejected or ""
    if prompt is None:
        prompt, chosen, rejected = _common_text(chosen, rejected)
    return Preference(_prompt(prompt), chosen, rejected)


def _of_chats(prompt: Any, chosen: Sequence[Message], rejected: Sequence[Message]) -> Preference:
    """A pair of chats, which may begin with their prompt."""
    before: Prompt = () if prompt is None or isinstance(prompt, str) else _prompt(prompt)
    if prompt is None or (isinstance(prompt, str) and chosen and chosen[0]["role"] != "assistant"):
        before = tuple(
            one for one, _ in takewhile(lambda both: both[0] == both[1], zip(chosen, rejected, strict=False))
        )
        if before and len(before) == min(len(chosen), len(rejected)):
            before = before[:-1]  # the same answer twice: it is the answer all the same
        if not before:
            raise ValueError("chosen and rejected have no first message in common, which would be their prompt")
        chosen, rejected = chosen[len(before) :], rejected[len(before) :]
    elif isinstance(prompt, str):
        before = prompt
    better, worse = _answers(chosen, rejected)
    return Preference(before, better, worse)


def _answers(chosen: Sequence[Message], rejected: Sequence[Message]) -> Iterator[str]:
    for column, messages in (("chosen", chosen), ("rejected", rejected)):
        if len(messages) != 1 or messages[0]["role"] != "assistant":
            roles = ", ".join(one["role"] for one in messages) or "none"
            raise ValueError(
                f"{column} holds messages of these roles behind the prompt: {roles}; expected one of the assistant"
            )
        yield messages[0]["content"]


def _common_text(chosen: str, rejected: str) -> tuple[str, str, str]:
    """What two texts begin with, and what is left of each. A blank before a word belongs to the word."""
    length = sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(chosen, rejected, strict=False)))
    if length and chosen[length - 1] == " ":
        length -= 1
    if not length:
        raise ValueError("there is no column 'prompt', and chosen and rejected do not begin alike")
    return chosen[:length], chosen[length:], rejected[length:]


def _margin(value: Any) -> float | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ValueError(f"margin holds {value!r:.80}, expected a number")
    return value if value is None else float(value)


def _prompt(value: Any) -> Prompt:
    if isinstance(value, str):
        if not value:
            raise ValueError("prompt is empty")
        return value
    if not _conversation(value):
        raise ValueError(f"prompt holds {value!r:.80}, expected a text or chat messages")
    return tuple(_messages(value, "prompt"))


def _conversation(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _messages(value: list[dict[str, Any]], column: str) -> list[Message]:
    for one in value:
        if not isinstance(one.get("role"), str) or not isinstance(one.get("content"), str):
            raise ValueError(f"{column} holds {one!r:.80}, expected a message with role and content, both texts")
    return [{"role": one["role"], "content": one["content"]} for one in value]
