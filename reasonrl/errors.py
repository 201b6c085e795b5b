"""The one exception a user is meant to read: it says what is wrong and what to do about it."""


class ReasonRLError(Exception):
    """A fault of the input, the installation or the run, in words; the command line prints it without a traceback."""
