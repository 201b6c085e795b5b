"""LoRA merged: W + (alpha / rank)·B·A is handed on under its old name, and sampled from."""

import mmap
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from small_lora import FAMILIES, loaded, logprobs, lora_policy, stir
from small_models import EOS, PAD, full_logits, model_of, policy_of
from torch import Tensor
from transformers import AutoModelForCausalLM, MixtralConfig
from transformers.core_model_loading import Chunk, WeightConverter

from reasonrl.config import LoRAConfig
from reasonrl.evaluation.engines import huggingface_engine
from reasonrl.models import load
from reasonrl.models.load import Policy, checkpoint_weights, save_policy
from reasonrl.models.lora import adapted_layers, add_adapters, merged_weight
from reasonrl.rollout.engine import Request, Sampling
from reasonrl.rollout.shared_weights import SharedWeights


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
    with torch.random.fork_rng():
        torch.manual_seed(0)
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
    torch.testing.assert_close(logprobs(again), logprobs(model), rtol=0, atol=1e-4)  # some are beyond −10


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
