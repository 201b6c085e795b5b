"""What tests of steps share: texts that are hard to cut, and what a span stands for."""

from collections.abc import Iterable

from hypothesis import strategies as st

from reasonrl.steps import Span

REPLACEMENT = "�"
# What is hard to cut: emoji, joined and as flags, letters of three bytes, marks on letters, and what is invisible.
PIECES = [
    *"ab.,1= \n", "\n\n", "  ", "Step 2:", "🙂", "👩\u200d👩\u200d👧", "🇩🇪", "\u200d", "你", "好，", "é", "e\u0301",
    "\u0301", "ü", "\t", REPLACEMENT, "'s", " 's", "def add", "\r\n",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), max_size=90).map("".join)


def spans(text: str, found: Iterable[Span]) -> list[str]:
    return [text[span.start : span.end] for span in found]
