"""The verifier `prm`: a process reward model's reward of each step of a response."""

from reasonrl import Verifier, hookimpl
from reasonrl_prm.options import PRMOptions
from reasonrl_prm.verifier import PRM

__all__ = ["PRM", "PRMOptions", "reasonrl_verifiers"]


@hookimpl
def reasonrl_verifiers() -> list[type[Verifier]]:
    """The process reward model bundled with reasonrl."""
    return [PRM]
