"""Is a task fit for use? Its rows, references, verifiers, prompts and duplicates, before any model is trained on it."""

from reasonrl.checking.check import check
from reasonrl.checking.records import CheckReport, Example, Finding, SplitReport, Spread, Tried

__all__ = ["CheckReport", "Example", "Finding", "SplitReport", "Spread", "Tried", "check"]
