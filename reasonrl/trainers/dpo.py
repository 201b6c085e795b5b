"""DPO on pairs from files, after Rafailov et al. 2023 (arXiv 2305.18290), §4: a reference that stays, one loss a pair.

What changes from step to step is the policy, its optimiser and the step's number: the pairs of a step are a function of
seed and step, and the reference's log-probabilities are known before the first.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence

from reasonrl.config import DPOConfig
from reasonrl.errors import ReasonRLError
from reasonrl.models.load import Policy
from reasonrl.models.prompt import prompt_ids, response_ids
from reasonrl.pairs.read import Preference, Preferences
from reasonrl.tracking import Tracker
from reasonrl.trainers.preferences import PreferenceLoss, TokenPair
from reasonrl.trainers.session import Session
from reasonrl.trainers.sft import epoch_indices
from reasonrl.types import Message


def train_dpo(
    config: DPOConfig,
    pairs: Sequence[TokenPair],
    loss: PreferenceLoss,
    session: Session,
    tracker: Tracker,
    *,
    seed: int,
    done: int = 0,
    after_step: Callable[[int], None] = lambda step: None,
) -> None:
    """Minimise the mean loss of each step's pairs.

    Args:
        config: steps and batch size.
        pairs: with their reference log-probabilities, the same on every process.
        loss: of a pair.
        session, tracker: how the model is updated, and where metrics go.
        seed: of the order of pairs.
        done: steps that are taken already.
        after_step: called with the number of each finished step.

    Raises:
        ReasonRLError: too many updates in a row were not finite.
    """
    rank, world = session.accelerator.process_index, session.accelerator.num_processes
    metrics: dict[str, float] = {}
    for step in range(done + 1, config.steps + 1):
        started = time.monotonic()
        batch = [pairs[at] for at in epoch_indices(len(pairs), (step - 1) * config.batch_size, config.batch_size, seed)]
        update = session.update(loss.shares(batch[rank::world], len(batch)))
        seconds = time.monotonic() - started
        tokens = sum(len(pair.chosen_ids) + len(pair.rejected_ids) for pair in batch)
        metrics = loss.metrics(session) | {
            "loss": update.loss,
            "grad_norm": update.grad_norm,
            "learning_rate": update.learning_rate,
            "skipped_updates": float(session.skipped),
            "response_length": tokens / (2 * len(batch)),
            "tokens_per_second": tokens / seconds,
            "seconds": seconds,
        }
        tracker.log(step, metrics)
        after_step(step)
    warn_of_fall(metrics, tracker)


def warn_of_fall(metrics: dict[str, float], tracker: Tracker) -> None:
    """Say it where both responses of a pair have become less likely: what grows is then neither of them."""
    if metrics.get("both_fell"):
        tracker.console.print(
            "chosen and rejected responses are both less likely than under the reference (both_fell): raise beta, "
            "lower the learning rate, or take pairs that are less alike",
            highlight=False,
            soft_wrap=True,
        )


def drawn(config: DPOConfig, steps: int, pairs: int, seed: int) -> list[int]:
    """The places of the pairs that the first steps take, each once, in order."""
    return sorted(set(epoch_indices(pairs, 0, min(pairs, steps * config.batch_size), seed)))


def tokenised(preferences: Preferences, policy: Policy, longest_prompt: int | None) -> list[TokenPair]:
    """The pairs as token ids; those that do not fit are added to what was skipped.

    Args:
        preferences: as read.
        policy: its tokenizer, and the longest sequence it takes.
        longest_prompt: of a pair, in tokens.

    Raises:
        ReasonRLError: none fits, or a chat meets a tokenizer without a template.
    """
    found: list[TokenPair] = []
    skipped: Counter[str] = preferences.skipped
    for one in preferences.pairs:
        pair = token_pair(one, policy)
        longest = max(len(pair.chosen_ids), len(pair.rejected_ids))
        if longest_prompt is not None and len(pair.prompt_ids) > longest_prompt:
            skipped[f"the prompt is beyond task.max_prompt_tokens {longest_prompt}"] += 1
        elif policy.max_positions is not None and len(pair.prompt_ids) + longest > policy.max_positions:
            skipped[f"prompt and response are beyond the model's {policy.max_positions} positions"] += 1
        elif pair.chosen_ids == pair.rejected_ids:
            skipped["chosen and rejected have the same tokens"] += 1
        else:
            found.append(pair)
    preferences.pairs = preferences.pairs[: len(found)]
    if not found:
        raise ReasonRLError(f"algorithm.pairs: no pair fits; {preferences.line()}")
    return found


def token_pair(one: Preference, policy: Policy) -> TokenPair:
    """A pair as token ids; a chat that ends with the assistant's words is one whose turn is still open."""
    opened = isinstance(one.prompt, tuple) and one.prompt[-1]["role"] == "assistant"
    asked: str | tuple[Message, ...] = one.prompt[:-1] if opened else one.prompt
    prompt = prompt_ids(asked, policy.tokenizer)
    if opened:
        assert not isinstance(one.prompt, str)
        prompt += tuple(policy.tokenizer(one.prompt[-1]["content"], add_special_tokens=False)["input_ids"])
    eos = policy.eos_ids[0]
    chosen, rejected = (response_ids(text, policy.tokenizer, eos) for text in (one.chosen, one.rejected))
    return TokenPair(prompt, chosen, rejected)
