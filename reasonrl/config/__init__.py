"""A run YAML as typed records: every number one may change between runs, with what it means and its limits."""

from reasonrl.config.critic_free import (
    AdvantageConfig,
    CISPOConfig,
    CriticFreeConfig,
    DAPOConfig,
    DrGRPOConfig,
    GRPOConfig,
    GSPOConfig,
    ProcessConfig,
    ReinforcePPBaselineConfig,
    ReinforcePPConfig,
    RLOOConfig,
)
from reasonrl.config.model import LoRAConfig, ModelConfig, TinyModelConfig
from reasonrl.config.optimizer import OptimizerConfig, SFTConfig
from reasonrl.config.policy import ImportanceConfig, KLConfig, PolicyConfig, RolloutConfig, UpdatesConfig
from reasonrl.config.ppo import CriticConfig, PenaltyConfig, PPOConfig
from reasonrl.config.preference import DPOConfig, OnlineDPOConfig, PreferenceConfig
from reasonrl.config.run import (
    CheckpointConfig,
    EngineConfig,
    EvaluationConfig,
    GuardConfig,
    RunConfig,
    TaskRef,
    VerificationConfig,
    load,
    save,
    to_yaml,
)
from reasonrl.config.scorers import ProcessRewardModelConfig, RewardModelConfig, ScorerConfig
from reasonrl.config.trpo import TRPOConfig

__all__ = [
    "AdvantageConfig",
    "CISPOConfig",
    "CheckpointConfig",
    "CriticConfig",
    "CriticFreeConfig",
    "DAPOConfig",
    "DPOConfig",
    "DrGRPOConfig",
    "EngineConfig",
    "EvaluationConfig",
    "GRPOConfig",
    "GSPOConfig",
    "GuardConfig",
    "ImportanceConfig",
    "KLConfig",
    "LoRAConfig",
    "ModelConfig",
    "OnlineDPOConfig",
    "OptimizerConfig",
    "PPOConfig",
    "PenaltyConfig",
    "PolicyConfig",
    "PreferenceConfig",
    "ProcessConfig",
    "ProcessRewardModelConfig",
    "RLOOConfig",
    "ReinforcePPBaselineConfig",
    "ReinforcePPConfig",
    "RewardModelConfig",
    "RolloutConfig",
    "RunConfig",
    "SFTConfig",
    "ScorerConfig",
    "TRPOConfig",
    "TaskRef",
    "TinyModelConfig",
    "UpdatesConfig",
    "VerificationConfig",
    "load",
    "save",
    "to_yaml",
]
