"""Rows that are left out of a split: counted, and the first one named, since nothing may be left out in silence."""

from dataclasses import dataclass

from reasonrl.errors import ReasonRLError
from reasonrl.generators import Split

_FAULTS, _SHARE = 10, 0.1  # of a stream: so many faulty rows, or this share of those read, do not stop a run


@dataclass
class LeftOut:
    """How many rows of a task's split were left out, of those read so far.

    Attributes:
        task, split: whose rows.
        read: rows read so far; of a further epoch, again.
        rows: of these, left out.
        faults: of these, left out for a fault, and not for a limit that was asked for.
        first: the first row left out, and why.
        first_fault: the first with a fault, and which.
    """

    task: str
    split: Split
    read: int = 0
    rows: int = 0
    faults: int = 0
    first: str = ""
    first_fault: str = ""

    def add(self, index: int, reason: str) -> None:
        """Count a row that is left out for a limit that was asked for."""
        self.rows += 1
        self.first = self.first or f"row {index}: {reason}"

    def add_fault(self, index: int, error: ReasonRLError) -> None:
        """Count a row that is left out for a fault."""
        reason = str(error).partition(f"row {index}: ")[2] or str(error)  # most messages begin with file and row
        self.add(index, reason)
        self.faults += 1
        self.first_fault = self.first_fault or f"row {index}: {reason}"

    def check(self) -> None:
        """Are the faults still the exception?

        Raises:
            ReasonRLError: they are not; shows the first one, and how many there are.
        """
        if self.faults > max(_FAULTS, _SHARE * self.read):
            raise ReasonRLError(
                f"{self.task}: {self.faults} of the first {self.read} rows of the {self.split} split cannot be used; "
                f"the first: {self.first_fault}; leave such rows out with dataset.where, or however many there are "
                "with dataset.skip_faulty: true"
            )

    def line(self) -> str:
        """It all in one line."""
        return f"{self.task}: {self.rows} of {self.read} rows left out of the {self.split} split (first: {self.first})"
