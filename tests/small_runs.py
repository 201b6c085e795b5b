"""What tests of training share: a tiny policy, responses with rewards set by hand, a GRPO or PPO run around them."""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from rich.console import Console
from torch import Tensor

from reasonrl.config import CriticConfig, CriticFreeConfig, ModelConfig, OptimizerConfig, PPOConfig, TinyModelConfig
from reasonrl.evaluation.engines import huggingface_engine
from reasonrl.evaluation.evaluate import Judged
from reasonrl.models.critic import Critic, CriticModule, load_critic
from reasonrl.models.load import Policy, load_policy
from reasonrl.plugins import VerifierSource
from reasonrl.rollout.engine import Engine, Sampling
from reasonrl.scoring import Scored, WeightedVerifier
from reasonrl.trainers.coefficients import Coefficient
from reasonrl.trainers.experience import samples_of, with_group_advantages
from reasonrl.trainers.grpo import loss
from reasonrl.trainers.metrics import TokenStats
from reasonrl.trainers.objective import Objective, objective_of
from reasonrl.trainers.policy import PolicyRun
from reasonrl.trainers.ppo import PPO
from reasonrl.trainers.sample import Sample
from reasonrl.trainers.session import Session, Update
from reasonrl.trainers.updates import update_once
from reasonrl.types import FinishReason, Problem, Response, Rollout
from reasonrl.verifier import StepReward, Verdict, Verifier, VerifierOptions

ROOT = Path(__file__).parents[1]
DEBUG = str(ROOT / "configs" / "debug" / "grpo.yaml")
CHARACTERS = "0123456789+=,:"
NO_CLIPPING = OptimizerConfig(learning_rate=1e-3, max_grad_norm=1e9)


def tiny_policy(seed: int = 0, *, scale: float = 8.0, **model: Any) -> Policy:
    """A Llama of two layers, its weights scaled up from their initial 0.02 so that its distributions are not flat."""
    tiny = TinyModelConfig(
        characters=CHARACTERS, hidden_size=16, intermediate_size=24, layers=2, heads=2, max_positions=48
    )
    policy = load_policy(ModelConfig(tiny=tiny, **model), seed)
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if "norm" not in name:
                parameter.mul_(scale)
    policy.model.eval()
    return policy


def accelerator(precision: str = "no") -> Accelerator:
    """An accelerator on the CPU, whatever precision an earlier test asked for."""
    reset_accelerate()
    return Accelerator(mixed_precision=precision, cpu=True)


def reset_accelerate() -> None:
    """accelerate keeps the precision of the first accelerator for the whole process; forget it."""
    AcceleratorState._reset_state()


class Rule(Verifier):
    """Stands for the verifier of responses whose verdict is set by hand."""

    name = "rule"

    def verify(self, problem: Problem, response: Response) -> Verdict:
        raise NotImplementedError


RULE = WeightedVerifier(Rule, VerifierOptions(), 1.0, "1")


def judged(
    position: int,
    sample: int,
    response_ids: Sequence[int],
    reward: float | None,
    *,
    logprobs: Sequence[float] | None = None,
    finish_reason: FinishReason = "stop",
) -> Judged:
    """A response to the problem at a position of the batch; the prompt's length depends on the position."""
    prompt_ids = tuple(3 + (5 * position + k) % 14 for k in range(2 + position % 3))
    rollout = Rollout(
        problem_id=f"p{position}",
        sample=sample,
        prompt_ids=prompt_ids,
        response_ids=tuple(response_ids),
        logprobs=tuple(logprobs) if logprobs is not None else (-1.0,) * len(response_ids),
        text="",
        finish_reason=finish_reason,
        version=0,
        seed=0,
    )
    verdict = Verdict(reward, "error" if reward is None else "given")
    correct = None if reward is None else reward >= 1
    return Judged(Problem(f"p{position}", "", None), rollout, Scored((RULE,), (verdict,), reward, correct))


def stepped(one: Judged, text: str, *by_verifier: Sequence[tuple[int, float]], weights: Sequence[float] = ()) -> Judged:
    """A response with a text, and with the steps that each verifier rewards: where each ends, and its reward."""
    weights = weights or [1.0] * len(by_verifier)
    verifiers = tuple(replace(RULE, weight=weight) for weight in weights)
    verdicts = tuple(
        replace(one.scored.verdicts[0], steps=tuple(StepReward(0, end, reward) for end, reward in steps))
        for steps in by_verifier
    )
    scored = replace(one.scored, verifiers=verifiers, verdicts=verdicts)
    return replace(one, rollout=replace(one.rollout, text=text), scored=scored)


GRPO = PolicyRun[CriticFreeConfig]


def grpo_run(
    config: CriticFreeConfig, policy: Policy, *, reference: Any = None, max_tokens: int = 8, temperature: float = 1.0,
    session: Session | None = None, **parts: Any,
) -> GRPO:  # fmt: skip
    """A GRPO run for tests that call its parts; what they do not use is None."""
    given: dict[str, Any] = {
        "share_prompt": True, "logits_chunk": 2**26, "problems": None, "engine": None, "sync": None, "scorer": None,
        "max_unjudged": 1.0, "beta": Coefficient(config.kl.coefficient), "tracker": None, "rollouts": None, "seed": 0,
    }  # fmt: skip
    return PolicyRun(
        config=config,
        policy=policy,
        reference=reference,
        sampling=Sampling(temperature=temperature, max_tokens=max_tokens),
        session=session or Session(policy.model, accelerator(), config.optimizer, 100),
        **(given | parts),
    )


def with_advantages(run: GRPO, responses: Sequence[Judged], positions: Sequence[int]) -> list[Sample]:
    """Responses, group after group, as they come to the updates but for a π_old of the trainer's."""
    return with_group_advantages(run, samples_of(run, responses, positions))


def grpo_objective(run: GRPO) -> Objective:
    return objective_of(run.config, reference=run.reference is not None, corrects_sampler=run.corrects_sampler)


def token_stats(run: GRPO) -> TokenStats:
    return grpo_objective(run).stats


def update(run: GRPO, samples: Sequence[Sample], stats: TokenStats) -> Update | None:
    """One optimiser step on all of these samples."""
    return update_once(run, run.session, samples, partial(loss, run, grpo_objective(run), stats))


def ppo_run(
    config: PPOConfig, policy: Policy, critic: Critic, *, reference: Any = None, session: Session | None = None,
    critic_session: Session | None = None, **parts: Any,
) -> PPO:  # fmt: skip
    """A PPO run for tests that call its parts, with sessions on one process unless they are given."""
    head = list(critic.head.parameters()) if critic.shared else []
    own = None if critic.shared else critic_session
    if own is None and not critic.shared:
        own = Session(CriticModule(critic), accelerator(), config.critic.optimizer, 100)
    session = session or Session(policy.model, accelerator(), config.optimizer, 100, head)
    run: Any = grpo_run(config, policy, reference=reference, session=session, **parts)  # type: ignore[arg-type]
    return PPO(run, critic, own, Coefficient(config.penalty.coefficient))


def new_critic(policy: Policy, **settings: Any) -> Critic:
    """The critic that a run with this policy begins with."""
    return load_critic(CriticConfig.model_validate(settings), policy, "float32", "sdpa")


def engine_of(policy: Policy) -> Engine:
    return huggingface_engine(policy, 64)


@contextmanager
def kept_gradients(session: Session, head: Mapping[str, Tensor] = MappingProxyType({})) -> Iterator[dict[str, Tensor]]:
    """The gradients of the updates inside, by parameter; those of the last one, after clipping.

    `head` names what is trained with the session's model and is none of it.
    """
    kept: dict[str, Tensor] = {}

    def keep(*_: Any) -> None:
        named = dict(session.model.named_parameters()) | dict(head)
        kept.update({n: p.grad.clone() for n, p in named.items() if p.grad is not None})

    hook = session.optimizer.register_step_pre_hook(keep)
    try:
        yield kept
    finally:
        hook.remove()


def weights_of(model: Any) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def relative_difference(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> float:
    """The largest over parameters of ‖a − b‖ / ‖b‖, a norm of all parameters taken where b's own is tiny."""
    assert first.keys() == second.keys()
    overall = torch.stack([b.norm() for b in second.values()]).max()
    return max(float((first[n] - b).norm() / max(b.norm(), 1e-3 * overall)) for n, b in second.items())


def offered(verifier: type[Verifier]) -> Mapping[str, VerifierSource]:
    """A verifier as a plugin would offer it: for `monkeypatch.setitem(installed().verifiers, …)`."""
    return {verifier.name: VerifierSource(verifier, "test", "test", "1.0")}


def metrics(folder: Path, phase: str) -> list[dict[str, Any]]:
    """The lines of a run's metrics of one phase."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k != "phase"} for line in lines if line["phase"] == phase]


def silent() -> Console:
    return Console(file=io.StringIO(), width=120)
