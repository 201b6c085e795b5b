"""What a run optimises, as formulas with its numbers put in, and where that is not its paper's. Imports no torch."""

from reasonrl.explain.sections import explain
from reasonrl.explain.text import Section

__all__ = ["Section", "explain"]
