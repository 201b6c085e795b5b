"""math: is the answer mathematically equal to the reference? Built on math-verify."""

from reasonrl import Verifier, hookimpl
from reasonrl_math.verifier import Math

__all__ = ["Math", "reasonrl_verifiers"]


@hookimpl
def reasonrl_verifiers() -> list[type[Verifier]]:
    """The math verifier bundled with reasonrl."""
    return [Math]
