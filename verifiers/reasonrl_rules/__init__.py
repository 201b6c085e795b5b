"""Small rules without model or library: exact, choice, format, length, pattern, arithmetic_steps, countdown."""

from reasonrl import Verifier, hookimpl
from reasonrl_rules.arithmetic_steps import ArithmeticSteps
from reasonrl_rules.choice import Choice
from reasonrl_rules.countdown import Countdown
from reasonrl_rules.exact import Exact
from reasonrl_rules.format import Format
from reasonrl_rules.length import Length
from reasonrl_rules.pattern import Pattern

__all__ = ["ArithmeticSteps", "Choice", "Countdown", "Exact", "Format", "Length", "Pattern", "reasonrl_verifiers"]


@hookimpl
def reasonrl_verifiers() -> list[type[Verifier]]:
    """The rules bundled with reasonrl."""
    return [Exact, Choice, Format, Length, Pattern, ArithmeticSteps, Countdown]
