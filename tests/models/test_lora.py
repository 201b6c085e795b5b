"""LoRA: it begins as the base, only adapters move, and W + (alpha / rank)·B·A is handed on under its old name."""

import json
import mmap
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from pydantic import ValidationError
from safetensors.torch import load_file
from small_models import CHARACTERS, EOS, PAD, full_logits, model_of, policy_of
from torch import Tensor
from transformers import AutoModelForCausalLM, MixtralConfig
from transformers.core_model_loading import Chunk, WeightConverter

from reasonrl import ReasonRLError
from reasonrl.config import LoRAConfig, ModelConfig, TinyModelConfig
from reasonrl.evaluation.engines import huggingface_engine
from reasonrl.models import load
from reasonrl.models.forward import can_share_prompt
from reasonrl.models.load import Policy, checkpoint_weights, count_parameters, load_policy, reference_of, save_policy
from reasonrl.models.lora import adapted_layers, add_adapters, merged_weight
from reasonrl.rollout.engine import Request, Sampling
from reasonrl.rollout.shared_weights import SharedWeights

# Tied and not, biases, grouped heads, capped logits, weights kept as (inputs, outputs).
FAMILIES = ["llama", "qwen2", "gpt2", "gemma2"]
IDS = torch.tensor([[3, 4, 5, 6, 7, 8, 9, 3]])
TINY = TinyModelConfig(characters=CHARACTERS, hidden_size=16, intermediate_size=24, layers=1, heads=2, max_positions=32)


def lora_policy(family: str, folder: Path, *, seed: int = 0, **model: Any) -> Policy:
    """The family's random model with adapters on every linear layer, loaded as a run loads it."""
    base = folder / "base"
    if not base.exists():
        save_policy(policy_of(family), base)
    return load_policy(ModelConfig(**({"path": str(base), "lora": LoRAConfig(rank=3, alpha=5)} | model)), seed)


def stir(model: Any, seed: int = 1, scale: float = 0.3) -> None:
    """Draw every adapter anew: logits then are far from those of the base."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(scale * torch.randn(parameter.shape, generator=generator))


def logprobs(model: Any) -> Tensor:
    scores: Tensor = model(input_ids=IDS).logits
    return scores.log_softmax(-1)


def frozen(model: Any) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters() if not p.requires_grad}


def loaded(family: str, weights: Mapping[str, Tensor]) -> Any:
    """A plain model with these weights; its own were others."""
    model = model_of(family, seed=7).to(next(iter(weights.values())).dtype)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected
    assert set(missing) <= ({"lm_head.weight"} if model.config.tie_word_embeddings else set())
    return model


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


# --- merged ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "name", "expected"),
    [
        # W + 5/2·B·A with B = (2, ½)ᵀ and A = (1, −1): 5/2·[[2, −2], [½, −½]] = [[5, −5], [1¼, −1¼]].
        ("llama", "model.layers.0.mlp.up_proj", [[6.0, -3.0], [4.25, 2.75]]),
        # (inputs, outputs): the update turned.
        ("gpt2", "transformer.h.0.mlp.c_fc", [[6.0, 3.25], [-2.0, 2.75]]),
    ],
)
def test_a_merged_weight_by_hand(family: str, name: str, expected: list[list[float]]) -> None:
    model = model_of(family)
    add_adapters(model, LoRAConfig(rank=2, alpha=5), 0)
    layer = model.get_submodule(name)
    down, up = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    with torch.no_grad():
        for parameter in (layer.base_layer.weight, down, up):
            parameter.zero_()
        layer.base_layer.weight[:2, :2] = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        down[0, :2], up[:2, 0] = torch.tensor([1.0, -1.0]), torch.tensor([2.0, 0.5])
    merged = merged_weight(layer)
    assert merged[:2, :2].tolist() == expected
    assert merged.count_nonzero() == 4


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-5), (torch.float64, 1e-11)])
def test_merged_weights_in_a_plain_model_compute_the_same(
    family: str, dtype: torch.dtype, close: float, tmp_path: Path
) -> None:
    model = lora_policy(family, tmp_path).model.to(dtype)
    stir(model)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    weights = dict(checkpoint_weights(model))
    assert weights.keys() == dict(checkpoint_weights(model_of(family))).keys()
    plain = loaded(family, weights)
    torch.testing.assert_close(logprobs(plain), logprobs(model), rtol=0, atol=close)
    assert not torch.allclose(logprobs(plain), logprobs(model_of(family).to(dtype)), atol=0.1)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert not any(weight.requires_grad for name, weight in weights.items() if "proj" in name)


def test_half_precision_is_merged_in_single_and_its_adapters_are_single(tmp_path: Path) -> None:
    model = lora_policy("llama", tmp_path, dtype="bfloat16").model
    assert {p.dtype for p in model.parameters() if p.requires_grad} == {torch.float32}
    assert model.dtype == torch.bfloat16
    assert torch.equal(logprobs(model), logprobs(lora_policy("llama", tmp_path, dtype="bfloat16", lora=None).model))
    stir(model)
    layer = model.get_submodule("model.layers.1.self_attn.q_proj")
    exact = layer.base_layer.weight.double() + 5 / 3 * (
        layer.lora_B["default"].weight.double() @ layer.lora_A["default"].weight.double()
    )
    assert torch.equal(merged_weight(layer), exact.bfloat16())
    assert {weight.dtype for _, weight in checkpoint_weights(model)} == {torch.bfloat16}


def test_a_mixture_of_experts_keeps_its_experts_and_comes_under_the_names_of_its_checkpoint(tmp_path: Path) -> None:
    config = MixtralConfig(
        vocab_size=17, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, num_experts_per_tok=1, num_local_experts=3, initializer_range=0.4,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config).eval()
    plain = dict(checkpoint_weights(model))
    add_adapters(model, LoRAConfig(rank=3), 0)
    assert {name.rpartition(".")[2] for name in adapted_layers(model)} == {"q_proj", "k_proj", "v_proj", "o_proj"}
    stir(model)
    save_policy(Policy(policy_of("llama").tokenizer, (EOS,), PAD, None, model), tmp_path)
    saved, given = load_file(tmp_path / "model.safetensors"), dict(checkpoint_weights(model))
    assert given.keys() == saved.keys() == plain.keys()
    assert all(torch.equal(given[name], saved[name]) for name in saved)
    assert {name for name in plain if not torch.equal(plain[name], given[name])} == {
        f"model.layers.{i}.self_attn.{part}_proj.weight" for i in range(2) for part in "qkvo"
    }
    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    torch.testing.assert_close(logprobs(again), logprobs(model), rtol=0, atol=1e-5)


def test_what_a_checkpoint_has_in_other_pieces_is_merged_before_it_is_cut(tmp_path: Path) -> None:
    model = lora_policy("llama", tmp_path).model
    stir(model)
    merged = dict(checkpoint_weights(model))
    model._weight_conversions = [
        WeightConverter(
            source_patterns="mlp.gate_up_proj.weight",
            target_patterns=["mlp.gate_proj.weight", "mlp.up_proj.weight"],
            operations=[Chunk(dim=0)],
        )
    ]
    together = dict(checkpoint_weights(model))
    for i in range(2):
        gate, up = (merged.pop(f"model.layers.{i}.mlp.{part}_proj.weight") for part in ("gate", "up"))
        assert torch.equal(together.pop(f"model.layers.{i}.mlp.gate_up_proj.weight"), torch.cat([gate, up]))
    assert together.keys() == merged.keys()
    assert all(torch.equal(together[name], merged[name]) for name in merged)


def test_no_two_merged_matrices_are_held_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = lora_policy("llama", tmp_path).model
    stir(model)
    alive: list[weakref.ref[Tensor]] = []

    def tracked(layer: Any) -> Tensor:
        assert sum(one() is not None for one in alive) <= 1  # the one before, which the reader is about to leave
        merged = merged_weight(layer)
        alive.append(weakref.ref(merged))
        return merged

    expected = {name: weight.detach() for name, weight in checkpoint_weights(model)}
    monkeypatch.setattr(load, "merged_weight", tracked)
    shared = SharedWeights(torch.float32)
    try:
        for _ in range(2):  # laying them out, and afterwards
            shared.write(checkpoint_weights(model))
        assert len(alive) == 2 * len(adapted_layers(model)) == 28
        with shared.path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as memory:
            for one in shared.tensors:
                flat = torch.frombuffer(memory, dtype=torch.float32, count=one.count, offset=one.offset).clone()
                assert torch.equal(flat.view(one.shape), expected.pop(one.name))
        assert not expected
    finally:
        shared.close()


def test_the_model_samples_with_its_adapters(tmp_path: Path) -> None:
    policy = lora_policy("qwen2", tmp_path)
    stir(policy.model)
    engine = huggingface_engine(policy, 8)
    engine.sync(policy.model.named_parameters(), 1)
    (rollout,) = engine.sample([Request("p", (3, 4, 5), (0,))], Sampling(max_tokens=12))
    with torch.no_grad():
        expected = full_logits(loaded("qwen2", dict(checkpoint_weights(policy.model))), (3, 4, 5), rollout.response_ids)
    own = expected.log_softmax(-1)[range(len(rollout.response_ids)), rollout.response_ids]
    torch.testing.assert_close(torch.tensor(rollout.logprobs), own, rtol=0, atol=1e-5)


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
