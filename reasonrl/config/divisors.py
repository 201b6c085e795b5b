"""Sizes that divide, for messages about sizes that do not."""


def divisors(number: int) -> str:
    """1 … number, those that divide it, as text."""
    return ", ".join(str(divisor) for divisor in range(1, number + 1) if number % divisor == 0)
