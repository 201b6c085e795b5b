"""DPO: loss and gradient of plain, separate forwards, however pairs are cut; reference, metrics, learning."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from pairs_by_hand import PAIRS, config, plain_delta, preference_loss, referenced, scoring, summed
from small_models import policy_of
from small_runs import accelerator, kept_gradients, relative_difference, silent, tiny_policy
from torch import Tensor

from reasonrl import ReasonRLError
from reasonrl.config import DPOConfig, LoRAConfig
from reasonrl.models.load import Policy
from reasonrl.models.lora import adapted_layers, adapters_off, without_adapters
from reasonrl.pairs.read import Preference, Preferences
from reasonrl.tracking import Tracker
from reasonrl.trainers.dpo import drawn, tokenised, train_dpo
from reasonrl.trainers.preferences import TokenPair, pair_batches
from reasonrl.trainers.reference import fingerprint, with_cached_reference, with_reference
from reasonrl.trainers.session import Session
from reasonrl.types import Message

LOSSES: dict[str, dict[str, Any]] = {
    "dpo": {"beta": 0.3},
    "conservative": {"beta": 0.3, "label_smoothing": 0.2},
    "ipo": {"loss": "ipo", "beta": 0.5},
    "hinge": {"loss": "hinge", "beta": 0.05},
    "normalised": {"beta": 0.7, "length_normalised": True},
}


def plain_loss(name: str, delta: Tensor) -> Tensor:
    sigmoid = torch.nn.functional.logsigmoid
    if name == "conservative":
        return -0.8 * sigmoid(0.3 * delta) - 0.2 * sigmoid(-0.3 * delta)
    if name == "ipo":
        return (delta - 1.0) ** 2  # 1/(2·0.5)
    if name == "hinge":
        return (1 - 0.05 * delta).clamp(min=0)
    return -sigmoid((0.7 if name == "normalised" else 0.3) * delta)


def updated(
    policy: Policy, given: DPOConfig, pairs: list[TokenPair], **settings: Any
) -> tuple[dict[str, float], dict[str, Tensor]]:
    """The metrics and gradients of one update on all pairs."""
    session = Session(policy.model, accelerator(), given.optimizer, 10)
    loss = preference_loss(policy, given, **settings)
    with kept_gradients(session) as gradients:
        update = session.update(loss.shares(pairs, len(pairs)))
    return loss.metrics(session) | {"update": update.loss}, gradients


@pytest.mark.parametrize("share_prompt", [True, False])
@pytest.mark.parametrize("family", ["llama", "qwen2", "gpt2"])
@pytest.mark.parametrize("name", LOSSES)
def test_loss_and_gradient_are_those_of_separate_forwards(family: str, name: str, share_prompt: bool) -> None:
    """Chosen and rejected see their prompt, computed once, and not each other."""
    policy = policy_of(family)
    pairs = referenced(policy_of(family, seed=1).model)
    deltas = [plain_delta(policy.model, pair, normalised=name == "normalised") for pair in pairs]
    expected = torch.stack([plain_loss(name, delta) for delta in deltas]).mean()
    expected.backward()  # type: ignore[no-untyped-call]
    gradients = {n: p.grad.clone() for n, p in policy.model.named_parameters()}
    policy.model.zero_grad()
    metrics, found = updated(policy, config(**LOSSES[name]), pairs, share_prompt=share_prompt)
    assert metrics["update"] == pytest.approx(expected.item(), rel=1e-5)
    assert metrics["loss"] == pytest.approx(expected.item(), rel=1e-5)
    assert relative_difference(found, gradients) < 1e-4


@pytest.mark.parametrize("max_tokens", [1, 20, 40])
def test_an_update_is_the_same_however_its_pairs_are_cut(max_tokens: int) -> None:
    pairs = referenced(tiny_policy(1).model)
    whole, expected = updated(tiny_policy(), config(), pairs)
    cut, found = updated(tiny_policy(), config(), pairs, max_tokens=max_tokens)
    assert cut == pytest.approx(whole, rel=1e-5)
    assert relative_difference(found, expected) < 1e-5
    batches = pair_batches(pairs, scoring(tiny_policy(), max_tokens=max_tokens))
    assert len(batches) > 1
    assert sorted(at for places in batches for at in places) == list(range(len(pairs)))


def test_what_is_measured_is_what_it_is_called() -> None:
    policy, pairs = tiny_policy(), referenced(tiny_policy(1).model)
    metrics, _ = updated(tiny_policy(), config(beta=0.2), pairs)
    with torch.no_grad():
        chosen = [float(summed(policy.model, p.prompt_ids, p.chosen_ids)) for p in pairs]
        rejected = [float(summed(policy.model, p.prompt_ids, p.rejected_ids)) for p in pairs]
    rewards = [0.2 * (c - p.ref_chosen) for c, p in zip(chosen, pairs, strict=True)]
    lost = [0.2 * (r - p.ref_rejected) for r, p in zip(rejected, pairs, strict=True)]
    margins = [won - gone for won, gone in zip(rewards, lost, strict=True)]
    assert metrics["logprob_chosen"] == pytest.approx(sum(chosen) / 5, rel=1e-4)
    assert metrics["logprob_rejected"] == pytest.approx(sum(rejected) / 5, rel=1e-4)
    assert metrics["reward_chosen"] == pytest.approx(sum(rewards) / 5, rel=1e-3, abs=1e-5)
    assert metrics["reward_rejected"] == pytest.approx(sum(lost) / 5, rel=1e-3, abs=1e-5)
    assert metrics["margin"] == pytest.approx(sum(margins) / 5, rel=1e-3, abs=1e-5)
    assert metrics["accuracy"] == sum(margin > 0 for margin in margins) / 5
    assert metrics["both_fell"] == float(sum(rewards) < 0 and sum(lost) < 0)


def test_at_the_reference_the_loss_is_log_2_and_nothing_has_fallen() -> None:
    policy = tiny_policy()
    session = Session(policy.model, accelerator(), config().optimizer, 10)
    pairs = with_reference(policy.model, PAIRS, scoring(policy), session)
    metrics, _ = updated(policy, config(), pairs)
    assert metrics["loss"] == pytest.approx(math.log(2), abs=1e-6)
    assert metrics["both_fell"] == 0
    assert [p.ref_chosen for p in pairs] == pytest.approx(
        [p.ref_chosen for p in referenced(policy_of_same())], rel=1e-4
    )


def policy_of_same() -> Any:
    return tiny_policy().model


def trained(policy: Policy, folder: Path, pairs: list[TokenPair], **settings: Any) -> tuple[list[dict[str, Any]], str]:
    """The lines of metrics of a run, and what it said."""
    given = config(**settings)
    console = silent()
    tracker = Tracker(folder / "metrics.jsonl", console)
    session = Session(policy.model, accelerator(), given.optimizer, given.steps)
    train_dpo(given, pairs, preference_loss(policy, given), session, tracker, seed=0)
    tracker.close()
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return lines, console.file.getvalue()  # type: ignore[attr-defined]


def test_it_learns_to_prefer_what_is_chosen(tmp_path: Path) -> None:
    policy = tiny_policy(scale=1.0)
    pairs = referenced(policy.model)
    lines, _ = trained(policy, tmp_path, pairs, steps=30, optimizer={"learning_rate": 1e-2})
    assert lines[0]["loss"] == pytest.approx(math.log(2), abs=1e-6)
    assert lines[-1]["loss"] < 0.3
    assert lines[-1]["accuracy"] == 1
    assert lines[-1]["margin"] > 1
    assert lines[-1]["learning_rate"] == 1e-2
    deltas = [plain_delta(policy.model, pair).item() for pair in pairs]
    assert min(deltas) > 0, "also outside the trainer's own measure"


def test_a_fall_of_both_is_flagged(tmp_path: Path) -> None:
    """Here from the start: the reference finds both likelier than the policy does."""
    policy = tiny_policy(scale=1.0)
    too_high = [TokenPair(p.prompt_ids, p.chosen_ids, p.rejected_ids, -0.5, -0.5) for p in PAIRS]
    lines, said = trained(policy, tmp_path, too_high)
    assert [line["both_fell"] for line in lines] == [1, 1]
    assert "(both_fell): raise beta" in " ".join(said.split())


def test_the_references_of_pairs_are_computed_once_and_kept(tmp_path: Path) -> None:
    policy = tiny_policy()
    session, given = Session(policy.model, accelerator(), config().optimizer, 1), scoring(policy)

    def known(pairs: list[TokenPair] = PAIRS) -> tuple[list[TokenPair], bool]:
        return with_cached_reference(policy.model, policy.model.state_dict(), pairs, given, session, tmp_path)

    first, cached = known()
    assert not cached
    assert known() == (first, True)
    assert len(list(tmp_path.iterdir())) == 1
    assert not known(PAIRS[:4])[1], "other pairs"
    with torch.no_grad():
        next(iter(policy.model.parameters())).add_(1e-3)
    assert not known()[1], "another model"
    for file in tmp_path.iterdir():
        file.write_bytes(b"damaged")
    again, cached = known()
    assert not cached
    assert again[0].ref_chosen != first[0].ref_chosen


@pytest.mark.parametrize(
    "change",
    [{"prompt_ids": (4, 4, 5, 6, 7)}, {"chosen_ids": (8, 9, 10)}, {"rejected_ids": (11, 2)}],
)
def test_a_fingerprint_is_of_every_token(change: dict[str, Any]) -> None:
    policy = tiny_policy()
    given, state = scoring(policy), policy.model.state_dict()
    other = [TokenPair(**({"prompt_ids": PAIRS[0].prompt_ids, "chosen_ids": PAIRS[0].chosen_ids,
                           "rejected_ids": PAIRS[0].rejected_ids} | change)), *PAIRS[1:]]  # fmt: skip
    assert fingerprint(policy.model, state, PAIRS, given) != fingerprint(policy.model, state, other, given)
    assert fingerprint(policy.model, state, PAIRS, given) == fingerprint(tiny_policy().model, state, PAIRS, given)


def test_with_lora_the_reference_is_the_model_with_its_adapters_off() -> None:
    policy = tiny_policy(lora=LoRAConfig(rank=2))
    bare = tiny_policy()
    state = without_adapters(policy.model, policy.model.state_dict())
    bare.model.load_state_dict(state, strict=False)
    with torch.no_grad():
        for layer in adapted_layers(policy.model).values():
            layer.lora_B["default"].weight.normal_()  # as after training
    session = Session(policy.model, accelerator(), config().optimizer, 1)
    expected = with_reference(bare.model, PAIRS, scoring(policy), session)
    apart = with_reference(policy.model, PAIRS, scoring(policy), session)
    with adapters_off(policy.model):
        found = with_reference(policy.model, PAIRS, scoring(policy), session)
    assert [p.ref_chosen for p in found] == pytest.approx([p.ref_chosen for p in expected], rel=1e-5)
    assert [p.ref_chosen for p in apart] != pytest.approx([p.ref_chosen for p in expected], rel=1e-2)
    trained_now = [name for name, p in policy.model.named_parameters() if p.requires_grad]
    assert trained_now
    assert all("lora_" in name for name in trained_now), "switched on again, they are trained again"


def test_what_does_not_fit_is_counted() -> None:
    policy = tiny_policy()  # 48 positions
    given = Preferences(
        [
            Preference("1+2=", "3", "4"),
            Preference("1+2+3+4=", "10", "11"),
            Preference("1+2=", "3" * 60, "4"),
            Preference("1+2=", "x", "y"),  # both unknown characters
        ]
    )
    [pair] = tokenised(given, policy, longest_prompt=5)
    assert len(pair.prompt_ids) == 4
    assert pair.chosen_ids[-1] == pair.rejected_ids[-1] == policy.eos_ids[0]
    assert given.line() == (
        "3 of 4 pairs are left out: the prompt is beyond task.max_prompt_tokens 5 (1), prompt and response are beyond "
        "the model's 48 positions (1), chosen and rejected have the same tokens (1)"
    )


def test_if_none_fits_it_is_said_in_one_line() -> None:
    with pytest.raises(ReasonRLError, match=r"algorithm.pairs: no pair fits; 1 of 1 pairs are left out: the prompt"):
        tokenised(Preferences([Preference("1+2+3=", "6", "7")]), tiny_policy(), longest_prompt=3)


def test_an_assistants_open_turn_goes_before_the_response() -> None:
    policy = tiny_policy()
    policy.tokenizer.chat_template = (
        "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}:{% endif %}"
    )
    messages: tuple[Message, ...] = ({"role": "user", "content": "1+2"}, {"role": "assistant", "content": "=="})
    [pair] = tokenised(Preferences([Preference(messages, "3", "4")]), policy, None)
    assert policy.tokenizer.decode(pair.prompt_ids).replace(" ", "") == "1+2:=="


@pytest.mark.parametrize(("steps", "expected"), [(1, 4), (2, 8), (3, 10), (50, 10)])
def test_the_pairs_drawn_are_those_of_the_steps(steps: int, expected: int) -> None:
    found = drawn(config(batch_size=4), steps, 10, seed=0)
    assert len(set(found)) == len(found) == expected
    assert drawn(config(batch_size=4), 1, 10, seed=1) != drawn(config(batch_size=4), 1, 10, seed=0)


def test_smoothing_belongs_to_dpo() -> None:
    with pytest.raises(ValueError, match="label_smoothing belongs to the loss dpo"):
        config(loss="ipo", label_smoothing=0.1)
