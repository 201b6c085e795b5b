"""What tests of the engine share: an engine around a small model, requests of several prompts, rollouts by key."""

from collections.abc import Iterator, Sequence
from typing import Any

from small_models import EOS, PAD, policy_of

from reasonrl.models.heads import logits
from reasonrl.rollout.engine import Request, sample_seed
from reasonrl.rollout.huggingface import HuggingFaceEngine
from reasonrl.types import Rollout

PROMPTS = [(3, 4, 5, 6, 7, 8, 9), (10, 11), (5,), (12, 13, 3, 4, 9), (7, 8, 14, 15, 16)]


def engine_of(family: str = "llama", *, eos_ids: Sequence[int] = (EOS,), **settings: Any) -> HuggingFaceEngine:
    model_settings = {key: settings.pop(key) for key in ("dtype", "attention", "seed") if key in settings}
    policy = policy_of(family, **model_settings)
    return HuggingFaceEngine(policy.model, policy.tokenizer, eos_ids=eos_ids, pad_id=PAD, logits=logits, **settings)


def requests_of(samples: int = 3) -> list[Request]:
    return [
        Request(f"p{i}", prompt, tuple(sample_seed(0, 1, f"p{i}", j) for j in range(samples)))
        for i, prompt in enumerate(PROMPTS)
    ]


def by_key(rollouts: Iterator[Rollout]) -> dict[tuple[str, int], Rollout]:
    found = {(r.problem_id, r.sample): r for r in rollouts}
    return dict(sorted(found.items()))


def ids_of(rollouts: dict[tuple[str, int], Rollout]) -> dict[tuple[str, int], tuple[int, ...]]:
    return {key: rollout.response_ids for key, rollout in rollouts.items()}
