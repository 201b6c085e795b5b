"""What TRPO cannot train it refuses, in words, before a run has a folder or a sample."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from plain_grpo import responses_of
from plain_trpo import config, improve, in_loss, plain_kl, policy_of, run_of, samples_of
from pydantic import ValidationError
from small_runs import DEBUG, accelerator, reset_accelerate, silent, tiny_policy, weights_of
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from reasonrl import ReasonRLError
from reasonrl import config as run_config
from reasonrl.config import LoRAConfig, TRPOConfig
from reasonrl.models.lora import adapted_layers
from reasonrl.rollout.huggingface import HuggingFaceEngine
from reasonrl.trainers import run, trpo

LORA = LoRAConfig(rank=2)


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    reset_accelerate()
    yield
    reset_accelerate()


def refusal(model: Any, precision: str = "no") -> str:
    with pytest.raises(ReasonRLError, match=r"TRPO cannot train this model: .*, or choose another algorithm") as caught:
        trpo.check(model, accelerator(precision))
    return str(caught.value)


@pytest.mark.parametrize("given", [{}, {"lora": LORA}], ids=["all weights", "lora"])
def test_what_can_be_differentiated_twice_is_not_refused(given: dict[str, Any]) -> None:
    trpo.check(policy_of(**given).model, accelerator())


@pytest.mark.parametrize("given", [{}, {"lora": LORA}], ids=["all weights", "lora"])
def test_attention_without_a_second_derivative(given: dict[str, Any]) -> None:
    assert "its attention, sdpa, has no second derivative; set model.attention=eager" in refusal(
        tiny_policy(attention="sdpa", **given).model
    )


def test_sdpa_has_none_indeed() -> None:
    """Or it would be refused for nothing."""
    model = tiny_policy(attention="sdpa").model
    scores = model(input_ids=torch.tensor([[3, 4, 5]])).logits
    first = torch.autograd.grad(scores.logsumexp(-1).sum(), list(model.parameters()), create_graph=True)
    with pytest.raises(RuntimeError, match=r"derivative for .*attention.* is not implemented"):
        torch.autograd.grad(first[0].square().sum(), list(model.parameters()))


def test_weights_in_bfloat16() -> None:
    assert "set model.dtype=float32" in refusal(policy_of(dtype="bfloat16").model)


@pytest.mark.parametrize("given", [{}, {"lora": LORA}], ids=["all weights", "lora"])
def test_mixed_precision(given: dict[str, Any]) -> None:
    assert re.search("computes in bfloat16, .*precision=no", refusal(policy_of(**given).model, "bf16"))


def test_gradient_checkpointing() -> None:
    assert "set model.gradient_checkpointing=false" in refusal(policy_of(gradient_checkpointing=True).model)


@pytest.mark.parametrize("lora", [None, LORA])
def test_quantised_weights_with_adapters_or_without(lora: Any) -> None:
    model = policy_of(lora=lora).model
    model.is_quantized = True
    assert re.search("quantised.* load it unquantised", refusal(model))


def test_adapters_over_weights_in_bfloat16() -> None:
    trpo.check(policy_of(lora=LORA).model, accelerator())
    assert "computes in bfloat16" in refusal(policy_of(lora=LORA, dtype="bfloat16").model)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Any]:
    """A mesh of this process."""
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        yield init_device_mesh("cpu", (1,))
    finally:
        distributed.destroy_process_group()


def test_sharded_parameters(alone: Any) -> None:
    prepared = accelerator()
    model = policy_of().model
    fully_shard(model, mesh=alone)
    with pytest.raises(ReasonRLError, match=r"its parameters are sharded, .* train it unsharded, or choose"):
        trpo.check(model, prepared)


def trpo_yaml(folder: Path, model: str) -> str:
    keys = "name: trpo, steps: 1, problems_per_step: 2"
    path = folder / "trpo.yaml"
    path.write_text(f"extends: {DEBUG}\nmodel: {model}\nalgorithm: {{{keys}}}\n")
    return str(path)


@pytest.mark.parametrize(
    ("model", "words"), [("{}", "set model.attention=eager"), ("{dtype: bfloat16}", "set model.dtype=float32")]
)
def test_a_run_that_cannot_begin_samples_nothing_and_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, words: str
) -> None:
    def sampled(*_: Any) -> Any:
        raise AssertionError("it sampled")

    monkeypatch.setattr(HuggingFaceEngine, "sample", sampled)
    wanted = run_config.load(trpo_yaml(tmp_path, model), [f"runs={tmp_path / 'runs'}"])
    with pytest.raises(ReasonRLError, match=words):
        run.train(wanted, silent())
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max_kl", 0), ("damping", -0.1), ("cg_iterations", 0), ("fisher_share", 0), ("fisher_share", 1.1),
        ("backtracks", -1), ("shrink", 0), ("shrink", 1),
        ("cg_tolerance", 1),  # it would end before its first iteration: no step, ever
    ],
)  # fmt: skip
def test_numbers_that_cannot_work(key: str, value: float) -> None:
    with pytest.raises(ValidationError, match=key):
        TRPOConfig.model_validate({"steps": 1, "problems_per_step": 1, key: value})


def test_with_lora_only_adapters_move() -> None:
    policy, old = policy_of(lora=LORA), policy_of().model
    responses = responses_of(policy)
    before, training = weights_of(policy.model), run_of(policy, config())
    found = improve(training, samples_of(training, responses))
    assert found["updates"] == 1
    assert found["trust_kl"] == pytest.approx(plain_kl(policy.model, old, in_loss(responses, config())), rel=1e-3)
    trained = {name for name, p in policy.model.named_parameters() if p.requires_grad}
    moved = {name for name, now in weights_of(policy.model).items() if not torch.equal(before[name], now)}
    # B is 0 at first, and as long as it is nothing depends on A
    assert moved == {name for name in trained if "lora_B" in name}
    assert len(moved) == len(adapted_layers(policy.model)) == 14
