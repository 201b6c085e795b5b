"""The exceptions a user is meant to read: they say what is wrong, or why it ended, and what to do about it."""


class ReasonRLError(Exception):
    """A fault of the input, the installation or the run, in words; the command line prints it without a traceback."""


class Interrupted(ReasonRLError):
    """A run ended because it was asked to: no fault, and it can be resumed.

    Args:
        message: where it stopped, and how to go on.
        signal: the number of the signal that asked.
    """

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.signal = signal

    @property
    def exit_code(self) -> int:
        """What a shell expects of a program ended by that signal: 130 after Ctrl-C, 143 after SIGTERM."""
        return 128 + self.signal
