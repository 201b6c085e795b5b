"""Sizes as one reads them."""


def shown(size: int) -> str:
    """Bytes in the largest binary unit that they fill: 1.5 GiB, 30 MiB, 12 KiB."""
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"
