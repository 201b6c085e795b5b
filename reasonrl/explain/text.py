"""How formulas are written: sections of lines, and numbers as short as they are exact."""

from dataclasses import dataclass

from pydantic import BaseModel


@dataclass(frozen=True)
class Section:
    """A title, and the lines that stand under it."""

    title: str
    lines: tuple[str, ...]


def number(value: float) -> str:
    """Ten significant digits at most, without trailing zeros: 0.02, 1e-6, 1.28."""
    mantissa, sign, exponent = f"{value:.10g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if sign else mantissa


def share(value: float) -> str:
    """A share in per cent, to four digits: 10 %, 33.33 %."""
    return f"{value * 100:.4g} %"


def count(items: int, one: str, many: str = "") -> str:
    """1 epoch, 2 epochs, 25,600 responses."""
    return f"{items:,} {one if items == 1 else many or one + 's'}"


def factor(value: float, symbol: str) -> str:
    """`0.02·KL`; without a factor of 1."""
    return symbol if value == 1 else f"{number(value)}·{symbol}"


def shown(value: object) -> str:
    """A value of the config as its YAML would have it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, BaseModel):
        return f"{{{', '.join(f'{key}: {shown(getattr(value, key))}' for key in type(value).model_fields)}}}"
    return str(value)
