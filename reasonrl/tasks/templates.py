"""jinja2 templates over a row. A template may come with a task from a stranger, so it runs in a sandbox."""

from collections.abc import Mapping
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment


def _empty_if_none(value: Any) -> Any:
    return "" if value is None else value


# A column that is not there is an error; one without a value renders as nothing.
_JINJA = ImmutableSandboxedEnvironment(
    undefined=jinja2.StrictUndefined, keep_trailing_newline=True, finalize=_empty_if_none
)


def checked(text: str) -> str:
    """The text, if it is a template.

    Raises:
        ValueError: it is none; says what is wrong and on which of its lines.
    """
    try:
        _JINJA.from_string(text)
    except jinja2.TemplateSyntaxError as error:
        raise ValueError(f"{error.message} (line {error.lineno} of the template)") from None
    return text


class Template:
    """A compiled template."""

    def __init__(self, text: str) -> None:
        self._template = _JINJA.from_string(text)

    def render(self, row: Mapping[str, Any]) -> str:
        """The text for a row.

        Raises:
            ValueError: an expression of the template fails on this row, or reaches for what it must not.
        """
        try:
            return self._template.render(row)
        except Exception as error:  # noqa: BLE001  a template runs expressions, which may raise anything
            raise ValueError(str(error) or type(error).__name__) from None
