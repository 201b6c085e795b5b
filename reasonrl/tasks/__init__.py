"""A task YAML → problems with prompt and reference, demonstrations, verifiers with weights, sampling defaults."""

from reasonrl.tasks.config import MixtureConfig, SamplingConfig, TaskConfig, VerifierConfig
from reasonrl.tasks.loading import load, names, read
from reasonrl.tasks.mixture import Mixture
from reasonrl.tasks.task import Task

__all__ = [
    "Mixture",
    "MixtureConfig",
    "SamplingConfig",
    "Task",
    "TaskConfig",
    "VerifierConfig",
    "load",
    "names",
    "read",
]
