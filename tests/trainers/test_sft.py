"""Supervised fine-tuning: the plain cross-entropy of response tokens, in whatever micro-batches."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import NO_CLIPPING, accelerator, kept_gradients, relative_difference, silent, tiny_policy
from torch import Tensor

from reasonrl.batch import Row
from reasonrl.config import SFTConfig
from reasonrl.models.load import Policy
from reasonrl.tracking import Tracker
from reasonrl.trainers.session import Session
from reasonrl.trainers.sft import epoch_indices, train_sft


def demonstrations() -> list[Row]:
    draw = random.Random(0)

    def ids(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw.randrange(3, 17) for _ in range(draw.randint(low, high)))

    return [Row(ids(1, 5), ids(1, 8), group=index) for index in range(6)]


def trained(path: Path, policy: Policy, **settings: Any) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The last line of metrics, and the gradients of the last update."""
    config = SFTConfig.model_validate({"steps": 1, "batch_size": 6, "optimizer": NO_CLIPPING} | settings)
    session = Session(policy.model, accelerator(), config.optimizer, config.steps)
    tracker = Tracker(path, silent())
    with kept_gradients(session) as gradients:
        train_sft(config, [(demonstrations(), 1.0)], policy, session, tracker, logits_chunk=2**26, seed=0)
    tracker.close()
    return json.loads(path.read_text().splitlines()[-1]), gradients


@pytest.mark.parametrize("packing", [False, True])
@pytest.mark.parametrize("micro_batch_tokens", [1, 20, 10_000])
def test_loss_and_gradient_are_those_of_one_by_one_cross_entropy(
    tmp_path: Path, micro_batch_tokens: int, packing: bool
) -> None:
    policy = tiny_policy()
    rows = demonstrations()
    total = torch.zeros(())
    for row in rows:
        logits = policy.model(input_ids=torch.tensor([row.prompt_ids + row.response_ids])).logits[0]
        scores = logits[len(row.prompt_ids) - 1 : -1]
        total = total + torch.nn.functional.cross_entropy(scores, torch.tensor(row.response_ids), reduction="sum")
    mean = total / sum(len(row.response_ids) for row in rows)
    mean.backward()  # type: ignore[no-untyped-call]
    expected = {n: p.grad.clone() for n, p in policy.model.named_parameters()}
    policy.model.zero_grad()
    metrics, gradients = trained(tmp_path / "m.jsonl", policy, micro_batch_tokens=micro_batch_tokens, packing=packing)
    assert metrics["loss"] == pytest.approx(mean.item(), rel=1e-5)
    assert relative_difference(gradients, expected) < 1e-5


@pytest.mark.parametrize("packing", [False, True])
def test_packing_fills_a_forward_with_what_padding_took(tmp_path: Path, packing: bool) -> None:
    policy, seen = tiny_policy(), []
    policy.model.base_model.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    tokens = sum(len(row.prompt_ids) + len(row.response_ids) for row in demonstrations())
    trained(tmp_path / "m.jsonl", policy, micro_batch_tokens=tokens, packing=packing)
    if packing:
        assert seen == [(1, tokens - 6)]  # all but the last token of each
    else:
        assert sum(rows for rows, _ in seen) == 6
        assert len(seen) > 1


def test_demonstrations_of_two_tasks_are_not_one_group(tmp_path: Path) -> None:
    config, policy = SFTConfig(steps=1, batch_size=8), tiny_policy()
    session = Session(policy.model, accelerator(), config.optimizer, 1)
    # Each task counts its rows from 0, and a batch of 8 draws each of the four twice.
    tasks = [([Row(prompt, (4, index + 5), group=index) for index in (0, 1)], 1.0) for prompt in [(3,), (8, 9)]]
    tracker = Tracker(tmp_path / "m.jsonl", silent())
    train_sft(config, tasks, policy, session, tracker, logits_chunk=2**26, seed=0)
    tracker.close()
    assert session.done == 1


def test_it_learns_its_demonstrations(tmp_path: Path) -> None:
    metrics, _ = trained(tmp_path / "m.jsonl", tiny_policy(scale=1.0), steps=60, optimizer={"learning_rate": 0.02})
    lines = [json.loads(line) for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, 61))
    assert lines[0]["loss"] > 2.5
    assert metrics["loss"] < 0.7


def test_every_epoch_takes_every_demonstration_once() -> None:
    taken = [i for step in range(1, 6) for i in epoch_indices(5, 3 * (step - 1), 3, seed=0)]  # 15: three epochs of five
    assert Counter(taken) == dict.fromkeys(range(5), 3)
    assert sorted(taken[:5]) == sorted(taken[5:10]) == list(range(5))
    assert taken[:5] != taken[5:10]


def test_a_batch_larger_than_the_data_takes_some_twice() -> None:
    assert Counter(epoch_indices(2, 0, 5, seed=0)).most_common()[0][1] == 3
