"""Rows laid end to end: none sees another, nothing is padded, and a model that cannot keep them apart is refused."""

from typing import Any

import pytest
import torch
from small_models import COMMON, EOS, PAD, VOCABULARY, full_logits, model_of
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    FalconConfig,
    Lfm2Config,
    MambaConfig,
    OPTConfig,
    PreTrainedConfig,
    Qwen3NextConfig,
)

from reasonrl import ReasonRLError
from reasonrl.batch import Row, collate
from reasonrl.models.forward import check_packing
from reasonrl.models.logprobs import response_logprobs

FAMILIES = ["llama", "qwen2", "qwen3", "gpt2", "gemma2"]
IDS = {"vocab_size": VOCABULARY, "pad_token_id": PAD, "bos_token_id": None, "eos_token_id": EOS}
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
HALVES = {"intermediate_size": 48, "num_key_value_heads": 2}
LINEAR = {
    "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "shared_expert_intermediate_size": 8,
    "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
}  # fmt: skip
# A recurrent state, convolutions, linear attention, positions that are counted by the model, and by a bias.
LEAKING: dict[str, PreTrainedConfig] = {
    "mamba": MambaConfig(hidden_size=32, num_hidden_layers=2, state_size=4, **IDS),
    "lfm2": Lfm2Config(**SIZES, **HALVES, **COMMON, layer_types=["conv", "full_attention"]),
    "qwen3_next": Qwen3NextConfig(
        **SIZES, **HALVES, **IDS, **LINEAR, head_dim=8, layer_types=["linear_attention", "full_attention"]
    ),
    "opt": OPTConfig(ffn_dim=48, word_embed_proj_dim=32, max_position_embeddings=64, **SIZES, **IDS),
    "falcon": FalconConfig(alibi=True, **SIZES, **IDS),
}
ROWS = [
    Row((3, 4, 5), (6, 7, 8, 9, 10, 11, EOS), group=0), Row((5,), (6,), group=1), Row((10, 11), (12, EOS), group=2),
    Row((12, 13, 14, 15, 16, 3, 4, 5), (5, 4, 3), group=3),
]  # fmt: skip


def logprobs(model: Any, rows: list[Row]) -> list[Tensor]:
    """Packed; those of each row by themselves."""
    batch = collate(rows, PAD)
    scores = response_logprobs(model, batch, temperature=1.0, share_prompt=False, packed=True).logprobs
    return [line[mask.bool()] for line, mask in zip(scores, batch.response_mask, strict=True)]


def alone(model: Any, row: Row) -> Tensor:
    scores = full_logits(model, row.prompt_ids, row.response_ids).log_softmax(-1)
    return scores[range(len(row.response_ids)), row.response_ids]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FAMILIES)
def test_no_row_sees_another(family: str, attention: str) -> None:
    model = model_of(family, dtype=torch.float64, attention=attention)
    before = logprobs(model, ROWS)
    for changed in range(len(ROWS)):
        others = list(ROWS)
        others[changed] = Row((16, 3), (14, 14, 13, 16, 3), group=changed)  # of another length, too
        after = logprobs(model, others)
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            if index != changed:
                torch.testing.assert_close(new, old, rtol=1e-5, atol=1e-5)


def test_nothing_is_padded_and_positions_restart() -> None:
    model, seen = model_of("llama"), []
    model.base_model.register_forward_pre_hook(lambda module, args, kwargs: seen.append(kwargs), with_kwargs=True)
    logprobs(model, ROWS)
    (given,) = seen
    fed = [list(row.prompt_ids + row.response_ids[:-1]) for row in ROWS]
    assert given["input_ids"].tolist() == [[token for ids in fed for token in ids]]
    assert given["position_ids"].tolist() == [[position for ids in fed for position in range(len(ids))]]


def test_a_row_may_be_longer_than_the_models_positions() -> None:
    model = model_of("gpt2")  # 64 positions
    rows = [Row(tuple(range(3, 13)) * 4, (4, 5, EOS), group=group) for group in range(3)]
    for got in logprobs(model, rows):
        torch.testing.assert_close(got, alone(model, rows[0]), rtol=1e-4, atol=1e-4)


def test_activations_may_be_recomputed() -> None:
    model = model_of("llama")
    torch.cat(logprobs(model, ROWS)).sum().backward()  # type: ignore[no-untyped-call]
    wanted = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    model.gradient_checkpointing_enable()
    model.train()
    torch.cat(logprobs(model, ROWS)).sum().backward()  # type: ignore[no-untyped-call]
    for name, p in model.named_parameters():
        torch.testing.assert_close(p.grad, wanted[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("family", FAMILIES)
def test_models_that_keep_rows_apart_pass(family: str, dtype: torch.dtype) -> None:
    check_packing(model_of(family, dtype=dtype))
    with torch.autocast("cpu", torch.bfloat16):
        check_packing(model_of(family))


@pytest.mark.parametrize("name", LEAKING)
def test_models_that_cannot_are_refused(name: str) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(LEAKING[name], attn_implementation="eager").eval()
    with pytest.raises(ReasonRLError, match=rf"{type(model).__name__} cannot .* packed .*; set packing: false"):
        check_packing(model)


def test_a_model_that_ignores_where_positions_restart_is_refused() -> None:
    model = model_of("llama")
    model.base_model.register_forward_pre_hook(
        lambda module, args, kwargs: (args, kwargs | {"position_ids": None}), with_kwargs=True
    )
    with pytest.raises(ReasonRLError, match="LlamaForCausalLM cannot"):
        check_packing(model)
