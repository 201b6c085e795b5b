"""Any soup of pieces of LaTeX is read and compared, or refused, without an error and in little time."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reasonrl_math.bounds import too_large
from reasonrl_math.compare import same
from reasonrl_math.parse import parse
from reasonrl_math.tree import NoValue, Unreadable

PIECES = [
    *r"{}()[]|!^_+-*/=<>,;:%'0123579.xyneik ", r"\frac", r"\sqrt", r"\pm ", r"\cup ", r"\le ", r"\infty ", r"\{", r"\}",
    r"\text{ cm}", r"\text{ and }", r"\sin ", r"\log_", r"\binom", r"\sum_{k=1}^{9}", r"\overline{3}", r"\pi ", "1000",
    r"\lfloor ", r"\rfloor ", r"^\circ", r"\mathbb{R}", r"\begin{pmatrix}", r"\end{pmatrix}", "&", r"\\", r"\in ",
]  # fmt: skip
REFERENCES = ["3", "x^2+1", "(1,2)", r"\{1,2\}", "[0,3)", "x=5", r"15\text{ cm}", "2,3", r"\sqrt{2}", "x<4"]
LONGEST = 10.0  # seconds for all comparisons, on a busy machine


def compared(text: str) -> None:
    for reference in REFERENCES:
        try:
            same(parse(reference), parse(text))
        except (NoValue, Unreadable):
            continue


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=12).map("".join))
@settings(deadline=None, max_examples=300)
def test_soup(text: str) -> None:
    if too_large(text) is None:
        start = time.monotonic()
        compared(text)
        assert time.monotonic() - start < LONGEST


@pytest.mark.parametrize("text", [r"i*{\pm i\}", r"\pi x=i", r"\binom.\overline{3}", r"i!>2y\le 2", r"\pm ii\log_7e"])
def test_soup_that_once_broke_it(text: str) -> None:
    compared(text)
