"""LoRA: it begins as the base, only adapters move, a reference shares the base, and adapters are saved."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from pydantic import ValidationError
from small_lora import FAMILIES, IDS, TINY, loaded, logprobs, lora_policy, stir
from small_models import model_of
from torch import Tensor
from transformers import AutoModelForCausalLM

from reasonrl import ReasonRLError
from reasonrl.config import LoRAConfig, ModelConfig
from reasonrl.models.forward import can_share_prompt
from reasonrl.models.load import checkpoint_weights, count_parameters, load_policy, reference_of, save_policy
from reasonrl.models.lora import adapted_layers


def frozen(model: Any) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters() if not p.requires_grad}


# --- at the beginning ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_it_begins_as_the_base_exactly(family: str, checkpointing: bool, tmp_path: Path) -> None:
    model = lora_policy(family, tmp_path, gradient_checkpointing=checkpointing).model
    assert type(model) is type(model_of(family))
    assert torch.equal(model(input_ids=IDS).logits, model_of(family)(input_ids=IDS).logits)
    assert can_share_prompt(model) == (can_share_prompt(model_of(family)) and not checkpointing)


def test_only_adapters_are_trained_and_each_linear_layer_but_the_head_has_one(tmp_path: Path) -> None:
    model = lora_policy("qwen2", tmp_path).model
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    layers = [f"model.layers.{i}.{part}" for i in range(2) for part in (
        "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
        "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
    )]  # fmt: skip
    assert trained == {f"{layer}.lora_{part}.default.weight" for layer in layers for part in "AB"}
    # Rank 3, layers of 24 → 24, 12, 12, 24 in attention (two key heads of 6), 24 → 40, 40, 40 → 24 in the MLP.
    assert count_parameters(model, trained=True) == 2 * 3 * (48 + 36 + 36 + 48 + 64 + 64 + 64)
    assert count_parameters(model) == count_parameters(model_of("qwen2")) + count_parameters(model, trained=True)


def test_adapters_are_their_seed() -> None:
    config, state = ModelConfig(tiny=TINY, lora=LoRAConfig(rank=2)), torch.get_rng_state()
    first, again, other = (load_policy(config, seed).model for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), state)
    name = "model.layers.0.mlp.up_proj.lora_A.default.weight"
    assert torch.equal(first.get_parameter(name), again.get_parameter(name))
    assert not torch.equal(first.get_parameter(name), other.get_parameter(name))
    plain = load_policy(ModelConfig(tiny=TINY), 3).model
    assert torch.equal(logprobs(first), logprobs(plain))  # the seed draws the same tiny model as without


def test_gradients_are_the_same_with_activations_recomputed(tmp_path: Path) -> None:
    found = []
    for checkpointing in (False, True):
        model = lora_policy("llama", tmp_path, gradient_checkpointing=checkpointing).model
        stir(model)
        model.train(checkpointing)
        logprobs(model)[0, :, 3].sum().backward()  # type: ignore[no-untyped-call]
        found.append([p.grad for p in model.parameters() if p.requires_grad])
    assert all(grad is not None and grad.abs().max() > 0 for grad in found[0])
    torch.testing.assert_close(*found)


# --- training, references --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_an_update_moves_the_policy_and_not_the_base(family: str, tmp_path: Path) -> None:
    model = lora_policy(family, tmp_path).model
    base, before = frozen(model), logprobs(model).detach()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.05)
    for _ in range(2):
        (-logprobs(model)[0, :, 5].sum()).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
    assert (logprobs(model)[0, :, 5] - before[0, :, 5]).sum() > 0.5
    after = frozen(model)
    assert base.keys() == after.keys()
    assert all(torch.equal(base[name], after[name]) for name in base)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_reference_shares_the_base_and_stays_where_it_was(family: str, tmp_path: Path) -> None:
    model = lora_policy(family, tmp_path).model
    stir(model)  # as a warm start does
    reference = reference_of(model)
    then = logprobs(model).detach()
    assert torch.equal(logprobs(reference), then)
    own = dict(model.named_parameters())
    for name, parameter in reference.named_parameters():
        assert not parameter.requires_grad
        assert (parameter is own[name]) == (not own[name].requires_grad)
    stir(model, seed=2)
    assert torch.equal(logprobs(reference), then)
    assert not torch.allclose(logprobs(model), then, atol=0.1)
    later = reference_of(model)
    assert torch.equal(logprobs(later), logprobs(model))
    assert count_parameters(model, trained=True) > 0


# --- saved -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_saved_loads_with_transformers_and_its_adapter_with_peft(family: str, tmp_path: Path) -> None:
    policy = lora_policy(family, tmp_path)
    stir(policy.model)
    expected = logprobs(policy.model)
    save_policy(policy, tmp_path / "final")
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "final")
    assert not adapted_layers(merged)
    assert dict(merged.named_parameters()).keys() == dict(model_of(family).named_parameters()).keys()
    torch.testing.assert_close(logprobs(merged), expected, rtol=0, atol=1e-5)
    assert torch.equal(logprobs(policy.model), expected)
    base = AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    with_adapter = PeftModel.from_pretrained(base, tmp_path / "final" / "adapter")
    assert torch.equal(logprobs(with_adapter), expected)
    settings = json.loads((tmp_path / "final" / "adapter" / "adapter_config.json").read_text())
    assert (settings["r"], settings["lora_alpha"], settings["task_type"]) == (3, 5, "CAUSAL_LM")
    assert settings["base_model_name_or_path"] == str(tmp_path / "base")
    assert policy.model.peft_config["default"].inference_mode is False
    again = load_policy(ModelConfig(path=str(tmp_path / "final")), 0).model
    assert all(parameter.requires_grad for parameter in again.parameters())


# --- targets ---------------------------------------------------------------------------------------------------------


def test_named_targets_alone_have_adapters(tmp_path: Path) -> None:
    targets = ("q_proj", "layers.1.mlp.up_proj", "lm_head")  # the head of this one is its own
    model = lora_policy("qwen2", tmp_path, lora=LoRAConfig(rank=3, targets=targets)).model
    assert set(adapted_layers(model)) == {
        "model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj", "model.layers.1.mlp.up_proj", "lm_head",
    }  # fmt: skip
    assert torch.equal(logprobs(model), logprobs(model_of("qwen2")))
    stir(model.double())
    plain = loaded("qwen2", dict(checkpoint_weights(model)))
    torch.testing.assert_close(logprobs(plain), logprobs(model), rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (
            ("q_proj", "nowhere", "proj"),
            r"has no linear layer named 'nowhere', 'proj'; there are: q_proj, .*, down_proj$",
        ),
        (("embed_tokens",), r"has no linear layer named 'embed_tokens'; there are: q_proj"),
        (("lm_head",), r"the weight of lm_head is also that of the input embedding \(tied\)"),
    ],
)
def test_targets_that_cannot_be_adapted_are_errors(targets: tuple[str, ...], message: str) -> None:
    with pytest.raises(ReasonRLError, match=rf"model\.lora\.targets: .*{message}"):
        load_policy(ModelConfig(tiny=TINY, lora=LoRAConfig(targets=targets)), 0)


@pytest.mark.parametrize("fault", [{"rank": 0}, {"alpha": 0}, {"targets": []}, {"targets": "some"}, {"dropout": 0.1}])
def test_settings_out_of_range_are_errors(fault: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        LoRAConfig(**fault)
