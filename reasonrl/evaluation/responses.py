"""Responses that come from a file, such as other systems' outputs or our own rollouts, put to the task's problems."""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from reasonrl import rowfiles
from reasonrl.columns import names
from reasonrl.errors import ReasonRLError
from reasonrl.generators import Row
from reasonrl.tasks.references import text_of
from reasonrl.types import Problem, Response

_IDS = ("problem_id", "id")
_TOKENS = ("response_tokens", "tokens")


@dataclass(frozen=True)
class GivenResponse:
    """A response from a file.

    Attributes:
        problem, sample: which problem, and which of its greedy or of its sampled responses, in the order of the file.
        text: the response.
        tokens, finish_reason, temperature: None where the file does not say.
    """

    problem: Problem
    sample: int
    text: str
    tokens: int | None
    finish_reason: str | None
    temperature: float | None

    @property
    def greedy(self) -> bool:
        """Does the file say that it was not sampled?"""
        return self.temperature == 0

    @property
    def response(self) -> Response:
        """What a verifier gets to see."""
        return Response(self.text, self.tokens or 0, "length" if self.finish_reason == "length" else "stop")


@dataclass(frozen=True)
class _Columns:
    """The columns of a file that are read; None where it has no such one."""

    id: str | None
    response: str
    tokens: str | None
    finish_reason: str | None
    temperature: str | None


def read_responses(file: Path, problems: Sequence[Problem], known: Collection[str]) -> list[GivenResponse]:
    """The responses of a file to these problems: greedy ones first, in order of problem and sample.

    A line has a `response`, or `responses` (a list), and names its problem by `problem_id` or `id`; without such a
    column line i belongs to problem i. `response_tokens` or `tokens`, `finish_reason` and `temperature` are read if
    they are there.

    Args:
        file: JSON, JSON Lines, CSV (each also gzipped) or Parquet.
        problems: those wanted.
        known: the ids of all problems there are; lines of others than those wanted are passed over.

    Raises:
        ReasonRLError: the file cannot be read, has no response, or a line is at fault; names line and cure.
    """
    given = list(_given(file, problems, known))
    if not given:
        raise ReasonRLError(f"{file}: no line answers one of the {len(problems)} problems asked for; raise --rows")
    order = {problem.id: position for position, problem in enumerate(problems)}
    return sorted(given, key=lambda one: (not one.greedy, order[one.problem.id], one.sample))


def _given(file: Path, problems: Sequence[Problem], known: Collection[str]) -> Iterator[GivenResponse]:
    wanted = {problem.id: problem for problem in problems}
    samples: Counter[tuple[str, bool]] = Counter()
    columns: _Columns | None = None
    lines = 0
    for index, (at, row) in enumerate(rowfiles.read(file)):
        lines, place = index + 1, f"{file}: {at}"
        columns = columns or _columns(row, file)
        if columns.id is None:
            problem = problems[index] if index < len(problems) else None  # more lines than problems: see below
        else:
            problem = wanted.get(_known_id(row, columns.id, known, place))
        if problem is None:
            continue
        for text, tokens, finish_reason, temperature in _responses(row, columns, place):
            kind = problem.id, temperature == 0
            yield GivenResponse(problem, samples[kind], text, tokens, finish_reason, temperature)
            samples[kind] += 1
    _check_lines(file, lines, len(problems), columns)


def _columns(row: Row, file: Path) -> _Columns:
    found = [column for column in ("response", "responses") if column in row]
    if not found:
        raise ReasonRLError(
            f"{file}: no column `response` (a text) or `responses` (a list of texts); rename the one that holds them; "
            f"the file has: {names(row)}"
        )
    if len(found) == 2:
        raise ReasonRLError(f"{file}: has both `response` and `responses`; leave one of them out")

    def first_of(*columns: str) -> str | None:
        return next((column for column in columns if column in row), None)

    return _Columns(first_of(*_IDS), found[0], first_of(*_TOKENS), first_of("finish_reason"), first_of("temperature"))


def _known_id(row: Row, column: str, known: Collection[str], place: str) -> str:
    try:
        name = text_of(row, column, column)
    except ValueError as error:
        raise ReasonRLError(f"{place}: {error}") from None
    if name in known:
        return name
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"they are named like {next(iter(known))!r}."
    raise ReasonRLError(
        f"{place}: {column}: the task has no problem {name!r}; {hint} Without a column "
        "`problem_id` or `id`, line i belongs to problem i"
    )


def _check_lines(file: Path, lines: int, problems: int, columns: _Columns | None) -> None:
    if columns is None:
        raise ReasonRLError(f"{file}: is empty; expected a line with a `response` for each problem")
    if columns.id is None and lines != problems:
        raise ReasonRLError(
            f"{file}: has {lines} lines, and there are {problems} problems; add a column `problem_id` that says which "
            "line belongs to which"
        )


def _responses(row: Row, columns: _Columns, place: str) -> Iterator[tuple[str, int | None, str | None, float | None]]:
    """Text, tokens, finish reason and temperature of each response of a line."""
    value = row.get(columns.response)
    texts = value if columns.response == "responses" else [value]
    if not isinstance(texts, list):
        raise ReasonRLError(f"{place}: responses holds {_shown(texts)}, expected a list of texts")
    beside = (
        _each(row, column, len(texts), place) for column in (columns.tokens, columns.finish_reason, columns.temperature)
    )
    for text, tokens, finish_reason, temperature in zip(texts, *beside, strict=True):
        if not isinstance(text, str):
            raise ReasonRLError(
                f"{place}: {columns.response} holds {_shown(text)}, expected text; give it in JSON, in quotation marks"
            )
        if not isinstance(finish_reason, str | None):
            raise ReasonRLError(f"{place}: finish_reason holds {_shown(finish_reason)}, expected text, as in length")
        length = _number(tokens, columns.tokens, place)
        yield text, None if length is None else int(length), finish_reason, _number(temperature, "temperature", place)


def _each(row: Row, column: str | None, responses: int, place: str) -> list[Any]:
    """What an optional column says of each response of a line: one value for all of them, or a list."""
    value = None if column is None else row.get(column)
    if not isinstance(value, list):
        return [None if value == "" else value] * responses  # an empty cell of CSV says nothing
    if len(value) != responses:
        raise ReasonRLError(f"{place}: {column} is a list of {len(value)}; the line has {responses} responses")
    return value


def _number(value: Any, column: str | None, place: str) -> float | None:
    number = value
    if isinstance(value, str):  # as everything is in CSV
        with suppress(ValueError):
            number = float(value)
    if number is None or (isinstance(number, int | float) and 0 <= number < math.inf):
        return number
    raise ReasonRLError(
        f"{place}: {column} holds {_shown(value)}, expected a number; rename it if it is something else"
    )


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(value)[:80]
