"""Where the bundled task and run YAMLs are: inside the wheel, or at the root of a checkout."""

from pathlib import Path

_PACKAGE = Path(__file__).parent


def bundled(folder: str) -> Path:
    """The folder of bundled YAMLs: `tasks` or `configs`."""
    in_wheel = _PACKAGE / "_data" / folder
    return in_wheel if in_wheel.is_dir() else _PACKAGE.parent / folder
