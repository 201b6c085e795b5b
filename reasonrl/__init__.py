"""reasonrl: reinforcement learning for reasoning, with rewards one can trust. The public face; imports no torch."""

from reasonrl.errors import ReasonRLError
from reasonrl.plugins import hookimpl
from reasonrl.types import Message, Problem, Response, Rollout
from reasonrl.verifier import Diagnosis, StepReward, Verdict, Verifier, VerifierOptions

__version__ = "0.1.0"

__all__ = [
    "Diagnosis",
    "Message",
    "Problem",
    "ReasonRLError",
    "Response",
    "Rollout",
    "StepReward",
    "Verdict",
    "Verifier",
    "VerifierOptions",
    "hookimpl",
]
