"""Lines behind a title, as `reasonrl check` and `reasonrl explain` print them."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

_WIDTH = 12  # of the column with the titles


def show_titled(title: str, lines: Sequence[str], console: Console) -> None:
    """Print lines, the title before the first; one too long for that on a line of its own."""
    if len(title) >= _WIDTH:
        console.print(Text(title, "cyan"), soft_wrap=True)
        title = ""
    for line in lines:
        console.print(Text.assemble((f"{title:<{_WIDTH}}", "cyan"), line), soft_wrap=True)
        title = ""
