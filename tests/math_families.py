"""What the tests of the families of answers share: a verdict through the tree alone, and numbers to draw."""

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st

from reasonrl_math import equality
from reasonrl_math.equality import Policy

examples = settings(deadline=None, max_examples=60, phases=[Phase.explicit, Phase.generate])
fractions = st.fractions(-50, 50, max_denominator=60)
numbers = st.integers(-60, 60)


def right(reference: str, answer: str, **policy: str) -> bool:
    """The verdict without the shortcut for equal texts, which would hide the parser, and without math-verify."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(equality, "same_text", lambda reference, answer: False)
        ruling = equality.judge(reference, answer, Policy(**policy))  # type: ignore[arg-type]
    assert ruling.rule != "math-verify", (reference, answer)
    return ruling.right
