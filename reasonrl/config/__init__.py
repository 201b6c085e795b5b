"""A run YAML as typed records: every number one may change between runs, with what it means and its limits."""

from reasonrl.config.algorithms import GRPOConfig, ImportanceConfig, KLConfig, OptimizerConfig, SFTConfig
from reasonrl.config.model import ModelConfig, TinyModelConfig
from reasonrl.config.run import (
    EngineConfig,
    EvaluationConfig,
    RunConfig,
    TaskRef,
    VerificationConfig,
    load,
    save,
    to_yaml,
)

__all__ = [
    "EngineConfig",
    "EvaluationConfig",
    "GRPOConfig",
    "ImportanceConfig",
    "KLConfig",
    "ModelConfig",
    "OptimizerConfig",
    "RunConfig",
    "SFTConfig",
    "TaskRef",
    "TinyModelConfig",
    "VerificationConfig",
    "load",
    "save",
    "to_yaml",
]
