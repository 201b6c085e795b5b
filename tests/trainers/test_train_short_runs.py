"""Short runs of `reasonrl train` with verifiers made here: what settings do, and what stops a run."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from small_runs import DEBUG, metrics, offered, reset_accelerate, silent
from transformers import AutoModelForCausalLM

from reasonrl import Problem, ReasonRLError, Response, Verdict, Verifier, config, store
from reasonrl.models.load import load_policy, reference_of
from reasonrl.models.logprobs import response_logprobs
from reasonrl.plugins import installed
from reasonrl.trainers import policy, run, updates
from reasonrl.trainers.sample import Sample
from reasonrl.trainers.updates import update_once

SMALL = ("warm_start=null", "evaluation.rows=1", "evaluation.samples=1", "evaluation.k=[1]", "evaluation.every=0")


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    """Each run may ask accelerate for another precision."""
    reset_accelerate()
    yield
    reset_accelerate()


class Sevens(Verifier):
    """The share of sevens among a response's characters: easy to learn."""

    name = "sevens"
    isolation = "inline"

    def verify(self, problem: Problem, response: Response) -> Verdict:
        return Verdict(response.text.count("7") / max(1, response.tokens), "counted")


class Same(Verifier):
    """The same reward for everything."""

    name = "same"
    isolation = "inline"

    def verify(self, problem: Problem, response: Response) -> Verdict:
        return Verdict(0.3, "same")


class Tiring(Verifier):
    """Judges the batches of an evaluation, greedy and sampled, and breaks on the next."""

    name = "tiring"
    isolation = "inline"

    def warm_up(self) -> None:
        self.batches = 0

    def verify_batch(self, pairs: Sequence[tuple[Problem, Response]]) -> list[Verdict]:
        self.batches += 1
        if self.batches > 2:
            raise RuntimeError("no more of this")
        return [Verdict(1.0, "correct") for _ in pairs]

    def verify(self, problem: Problem, response: Response) -> Verdict:
        raise NotImplementedError


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the config of a short run with one of these verifiers."""
    for verifier in (Sevens, Same, Tiring):
        for name, source in offered(verifier).items():
            monkeypatch.setitem(installed().verifiers, name, source)

    def make(verifier: str, *overrides: str) -> config.RunConfig:
        task = {
            "name": verifier,
            "generator": {"name": "arithmetic", "options": {"digits": 1, "eval_rows": 10}},
            "prompt": {"template": "{{ question }}"},
            "verifiers": [{"name": verifier}],
            "sampling": {"max_tokens": 6},
        }
        path = tmp_path / f"{verifier}.yaml"
        path.write_text(yaml.safe_dump(task))
        return config.load(DEBUG, [f"task={path}", f"runs={tmp_path / 'runs'}", *SMALL, *overrides])

    return make


def test_where_all_rewards_agree_no_weight_changes(small: Any) -> None:
    wanted = small("same", "algorithm.steps=2", "algorithm.kl.coefficient=0", "algorithm.optimizer.weight_decay=0.1")
    folder = run.train(wanted, silent())
    final = AutoModelForCausalLM.from_pretrained(folder / "final").state_dict()
    start = load_policy(wanted.model, wanted.seed).model.state_dict()
    assert start.keys() == final.keys()
    assert all(torch.equal(start[name], final[name]) for name in start)
    lines = metrics(folder, "grpo")
    assert [line["groups_that_agree"] for line in lines] == [1.0, 1.0]
    assert [line["updates"] for line in lines] == [0.0, 0.0]
    assert [line["reward"] for line in lines] == pytest.approx([0.3, 0.3])


@pytest.mark.parametrize("epochs", [1, 2])
def test_without_kl_no_reference_is_loaded_and_no_logprobs_are_computed_again(
    small: Any, monkeypatch: pytest.MonkeyPatch, epochs: int
) -> None:
    copies = without_gradient = 0

    def copied(model: Any) -> Any:
        nonlocal copies
        copies += 1
        return reference_of(model)

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal without_gradient
        without_gradient += not torch.is_grad_enabled()
        return response_logprobs(*args, **kwargs)

    monkeypatch.setattr(run, "reference_of", copied)
    monkeypatch.setattr(policy, "response_logprobs", counted)
    counts = []
    for coefficient in (0.0, 0.1):
        penalty = f"algorithm.kl.coefficient={coefficient}"
        folder = run.train(
            small("sevens", "algorithm.steps=2", f"algorithm.epochs={epochs}", "algorithm.minibatches=1", penalty),
            silent(),
        )
        counts.append((copies, without_gradient))
        second = metrics(folder, "grpo")[1]
        assert (second["kl"] == second["approx_kl"]) == (coefficient == 0)
        # With one update a step the policy is the one that sampled.
        assert (second["approx_kl"] < 1e-9) == (epochs == 1)
    assert counts[0] == (0, 0)
    assert counts[1] == (1, 2), "the reference, once a step"


def test_every_epoch_cuts_the_groups_into_minibatches_anew(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[frozenset[int]] = []

    def recorded(run: Any, session: Any, minibatch: Sequence[Sample], *others: Any) -> Any:
        assert len(minibatch) == 4 * len({s.row.group for s in minibatch})
        seen.append(frozenset(s.row.group for s in minibatch))
        return update_once(run, session, minibatch, *others)

    monkeypatch.setattr(updates, "update_once", recorded)
    run.train(small("sevens", "algorithm.steps=2", "algorithm.epochs=3", "algorithm.minibatches=2"), silent())
    assert len(seen) == 12
    for first, second in zip(seen[::2], seen[1::2], strict=True):
        assert (len(first), first | second) == (3, frozenset(range(6)))
    assert len(set(seen)) > 4


def test_too_many_unjudged_stop_the_run_and_name_the_verifier(small: Any) -> None:
    with pytest.raises(ReasonRLError, match=r"(?s)24 of 24 responses .*'tiring' gave the reason 'error'.*no more of"):
        run.train(small("tiring"), silent())


def test_with_all_of_them_allowed_the_run_goes_on(small: Any) -> None:
    folder = run.train(small("tiring", "verification.max_unjudged=1", "algorithm.steps=1"), silent())
    [line] = metrics(folder, "grpo")
    assert (line["unjudged"], line["updates"], line["reward"]) == (24, 0, 0)
    rows = store.read(folder / "rollouts" / "step-000001.parquet")
    assert {(row["reward"], row["advantage"], row["reason"]) for row in rows} == {(None, None, "error")}


@pytest.mark.parametrize(
    "overrides",
    [
        ["precision=bf16"],
        ["model.dtype=bfloat16"],
        ["model.gradient_checkpointing=true"],
        ["model.share_prompt=false", "model.logits_chunk=40"],
        ["algorithm.micro_batch_tokens=1", "engine.max_batch=4"],
    ],
)
def test_settings_that_cost_or_spare_memory_all_train(small: Any, overrides: list[str]) -> None:
    lines = metrics(run.train(small("sevens", "algorithm.steps=2", *overrides), silent()), "grpo")
    assert all(math.isfinite(value) for line in lines for value in line.values())
    assert [line["updates"] for line in lines] == [2, 2]
    # In bfloat16 other tokens are sampled; what spares memory in float32 changes no number.
    if "bf" not in overrides[0]:
        plain = metrics(run.train(small("sevens", "algorithm.steps=2"), silent()), "grpo")
        for line, other in zip(lines, plain, strict=True):
            for name in ("reward", "policy_loss", "grad_norm", "entropy", "approx_kl"):
                assert line[name] == pytest.approx(other[name], rel=1e-3, abs=1e-6)


def test_overrides_reach_the_trainer(small: Any) -> None:
    numbers = {"steps": 1, "group_size": 3, "problems_per_step": 2, "minibatches": 1}
    overrides = [f"algorithm.{name}={value}" for name, value in numbers.items()] + ["sampling.max_tokens=4"]
    folder = run.train(small("sevens", *overrides, "seed=3"), silent())
    rows = store.read(folder / "rollouts" / "step-000001.parquet")
    assert len(rows) == 6
    assert max(row["response_tokens"] for row in rows) <= 4
    other = run.train(small("sevens", *overrides, "seed=4"), silent())
    assert [row["seed"] for row in rows] != [
        row["seed"] for row in store.read(other / "rollouts" / "step-000001.parquet")
    ]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("algorithm.problems_per_step=1000", r"there are only \d+ training problems"),
        ("sampling.max_tokens=64", "beyond the model's 64 positions"),
        ("sampling.temperature=0", "all responses of a group would be the same"),
        ("sampling.top_p=0.9", "samples from the whole distribution"),
        ("sampling.min_p=0.1", "set sampling.top_p to 1, and sampling.top_k and sampling.min_p to 0"),
    ],
)
def test_a_run_that_cannot_begin_leaves_no_folder(small: Any, tmp_path: Path, override: str, message: str) -> None:
    overrides = ["algorithm.minibatches=1"] if "problems" in override else []
    with pytest.raises(ReasonRLError, match=message):
        run.train(small("sevens", override, *overrides), silent())
    assert not (tmp_path / "runs").exists()
