"""What tests of training reward models share: tiny scorers, examples in token ids, their losses."""

from typing import Any

from accelerate import Accelerator

from reasonrl.config import ModelConfig, ProcessRewardModelConfig, RewardModelConfig, TinyModelConfig
from reasonrl.models.trainable_scorer import TrainableScorer, load_scorer
from reasonrl.trainers.process_reward_model import LabelledIds
from reasonrl.trainers.reward_model import ScoredPair
from reasonrl.trainers.scorer_runs import loss_of
from reasonrl.trainers.scorers import ScorerLoss
from reasonrl.trainers.session import Session

TINY = TinyModelConfig(
    characters="0123456789+=,:", hidden_size=16, intermediate_size=24, layers=2, heads=2, max_positions=48
)
PAIRS = [
    ScoredPair("a", (3, 4, 5, 6), (3, 4, 5), 0.5),
    ScoredPair("b", (7, 8), (7, 9, 10, 11, 12, 13), 0.0),
    ScoredPair("c", (3, 6, 9, 4, 7, 8, 5), (3, 6, 9, 7), 1.0),
    ScoredPair("d", (14, 5, 1), (14, 5, 2), 0.25),
    ScoredPair("e", (9, 10), (9,), 0.0),
]
SOLUTIONS = [
    LabelledIds("a", (3, 4, 5, 6, 7), (2, 4), (1.0, 0.0)),
    LabelledIds("b", (8, 9, 10), (2,), (0.25,)),
    LabelledIds("c", (3, 5, 7, 9, 11, 13, 15, 4, 6), (1, 3, 8), (1.0, 1.0, 1.0)),
    LabelledIds("d", (16, 15), (1,), (0.0,)),
    LabelledIds("e", (4, 6, 5, 7), (1, 2, 3), (1.0, 0.75, 0.0)),
]
EXAMPLES: dict[str, list[Any]] = {"reward_model": PAIRS, "process_reward_model": SOLUTIONS}


def config(name: str, **settings: Any) -> RewardModelConfig | ProcessRewardModelConfig:
    """A config with sizes for the examples above."""
    given = {"steps": 2, "batch_size": 5, "optimizer": {"learning_rate": 1e-3, "max_grad_norm": 1e9}} | settings
    if name == "reward_model":
        return RewardModelConfig.model_validate({"pairs": "pairs.jsonl", "center": 0.01, "margin": True} | given)
    return ProcessRewardModelConfig.model_validate({"labels": "steps.jsonl"} | given)


def scorer(name: str, seed: int = 0, **model: Any) -> TrainableScorer:
    """A tiny one, made on the spot."""
    return load_scorer(ModelConfig(tiny=TINY, **model), 1 if name == "reward_model" else 2, seed)


def loss(name: str, made: TrainableScorer, on: Accelerator, **settings: Any) -> ScorerLoss[Any]:
    given = config(name, **settings)
    return loss_of(given, made, Session(made.model, on, given.optimizer, given.steps))
