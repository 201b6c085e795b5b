"""math: is the answer mathematically equal to the reference? And math_verify, the library of that name as it is."""

from reasonrl import Verifier, hookimpl
from reasonrl_math.library import MathVerify
from reasonrl_math.verifier import Math

__all__ = ["Math", "MathVerify", "reasonrl_verifiers"]


@hookimpl
def reasonrl_verifiers() -> list[type[Verifier]]:
    """The math verifiers bundled with reasonrl."""
    return [Math, MathVerify]
