"""jinja2 templates over a row. A template may come with a task from a stranger, so it runs in a sandbox."""

from collections.abc import Mapping
from typing import Any

import jinja2

from reasonrl.tasks.budget import rendering
from reasonrl.tasks.sandbox import Sandbox

_LONGEST = 1_000_000  # characters of what is rendered
_JINJA = Sandbox()


def checked(text: str) -> str:
    """The text, if it is a template.

    Raises:
        ValueError: it is none; says what is wrong and on which of its lines.
    """
    try:
        _JINJA.template(text)
    except jinja2.TemplateSyntaxError as error:
        raise ValueError(f"{error.message} (line {error.lineno} of the template)") from None
    except (RecursionError, SyntaxError, MemoryError):  # of Python, which compiles what jinja2 makes of it
        raise ValueError("the template is nested too deeply") from None
    return text


class Template:
    """A compiled template."""

    def __init__(self, text: str) -> None:
        self._template = _JINJA.template(text)

    def render(self, row: Mapping[str, Any]) -> str:
        """The text for a row.

        Raises:
            ValueError: an expression of the template fails on this row, reaches for what it must not, does too much
                (`reasonrl.tasks.budget`), or the text is longer than a million characters.
        """
        try:
            with rendering():
                return self._rendered(row)
        except Exception as error:  # noqa: BLE001  a template runs expressions, which may raise anything
            raise ValueError(str(error) or type(error).__name__) from None

    def _rendered(self, row: Mapping[str, Any]) -> str:
        pieces, length = [], 0
        for piece in self._template.generate(row):
            length += len(piece)
            if length > _LONGEST:
                raise ValueError(f"renders to more than {_LONGEST:,} characters")
            pieces.append(piece)
        return "".join(pieces)
