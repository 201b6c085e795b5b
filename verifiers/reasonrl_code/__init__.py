"""code: does the program of a response pass the tests of its row? Run in a sandbox, decided outside it."""

from reasonrl import Verifier, hookimpl
from reasonrl_code.verifier import Code

__all__ = ["Code", "reasonrl_verifiers"]


@hookimpl
def reasonrl_verifiers() -> list[type[Verifier]]:
    """The code verifier bundled with reasonrl."""
    return [Code]
