"""A place to run a program that one does not trust, and to ask it questions."""

from reasonrl_code.sandbox.doctor import diagnose
from reasonrl_code.sandbox.opening import open_sandbox

__all__ = ["diagnose", "open_sandbox"]
