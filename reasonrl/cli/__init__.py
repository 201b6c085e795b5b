"""The command line: one file per command; each parses, calls, prints."""

from reasonrl.cli.main import main

__all__ = ["main"]
