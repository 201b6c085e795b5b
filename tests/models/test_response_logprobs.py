"""Scores of response tokens: shared, plain, packed and one-by-one forwards are one and the same, gradients too."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from small_models import full_logits, model_of
from torch import Tensor

from reasonrl.batch import Batch, Row, collate
from reasonrl.models.forward import can_share_prompt
from reasonrl.models.logprobs import response_logprobs

SHARING = ["llama", "qwen2", "qwen3", "gpt2"]
FAMILIES = [*SHARING, "gemma2"]
# Groups of uneven size, prompts and responses of many lengths, a response of one token, rows not sorted by group.
ROWS = [
    Row((3, 4, 5, 6, 7, 8, 9), (10, 11, 12, 13, 1), group=7), Row((10, 11), (5,), group=2),
    Row((3, 4, 5, 6, 7, 8, 9), (14, 3, 1), group=7), Row((5,), (6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 1), group=4),
    Row((10, 11), (12, 1), group=2), Row((3, 4, 5, 6, 7, 8, 9), (10, 11, 12, 4), group=7),
]  # fmt: skip
WEIGHTS = torch.linspace(-1, 1, sum(len(row.response_ids) for row in ROWS), dtype=torch.float64)


def one_by_one(model: Any, rows: Sequence[Row], temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probabilities (N,) and entropies (N,), from unpadded forwards of the model itself."""
    log_p = [(full_logits(model, r.prompt_ids, r.response_ids) / temperature).log_softmax(-1) for r in rows]
    chosen = [lp[range(len(r.response_ids)), r.response_ids] for lp, r in zip(log_p, rows, strict=True)]
    return torch.cat(chosen), torch.cat([-(lp.exp() * lp).sum(-1) for lp in log_p])


def gradients(model: Any, values: Tensor) -> dict[str, Tensor]:
    """Of a weighted sum of the values (N,), by every parameter."""
    model.zero_grad()
    (values * WEIGHTS.to(values.dtype)).sum().backward()  # type: ignore[no-untyped-call]
    return {name: p.grad.clone() for name, p in model.named_parameters()}


def assert_close(got: dict[str, Tensor], wanted: dict[str, Tensor], tolerance: float) -> None:
    assert got.keys() == wanted.keys()
    for name, gradient in wanted.items():
        assert gradient.abs().max() > 0
        assert (got[name] - gradient).norm() <= tolerance * gradient.norm(), name


def scored(model: Any, batch: Batch, **settings: Any) -> Tensor:
    """Log-probabilities (N,) of the real tokens."""
    given = {"temperature": 1.0, "share_prompt": True} | settings
    return response_logprobs(model, batch, **given).logprobs[batch.response_mask.bool()]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.4])
@pytest.mark.parametrize("family", FAMILIES)
def test_all_ways_agree(family: str, temperature: float, dtype: torch.dtype) -> None:
    # All but GPT-2 compute norms and rotations in float32, whatever the type of the weights.
    tolerance = {torch.float32: 1e-5, torch.float64: 1e-10 if family == "gpt2" else 1e-6}[dtype]
    model, batch = model_of(family, dtype=dtype), collate(ROWS, pad_id=0)
    wanted, entropy = one_by_one(model, ROWS, temperature)
    wanted_gradients = gradients(model, wanted)
    for way in ("shared", "plain", "packed") if family in SHARING else ("plain", "packed"):
        for chunk in (2**26, 3 * 17):
            scores = response_logprobs(
                model, batch, temperature=temperature, share_prompt=way == "shared", packed=way == "packed",
                logits_chunk=chunk, entropy=True,
            )  # fmt: skip
            mask = batch.response_mask.bool()
            assert scores.entropy is not None
            torch.testing.assert_close(scores.logprobs[mask], wanted, rtol=tolerance, atol=10 * tolerance)
            torch.testing.assert_close(scores.entropy[mask], entropy, rtol=tolerance, atol=10 * tolerance)
            assert not scores.entropy.requires_grad
            assert not scores.logprobs[~mask].any()
            assert not scores.entropy[~mask].any()
            assert_close(gradients(model, scores.logprobs[mask]), wanted_gradients, tolerance)


@pytest.mark.parametrize("family", SHARING)
def test_eager_attention_agrees(family: str) -> None:
    batch = collate(ROWS, pad_id=0)
    wanted, _ = one_by_one(model_of(family), ROWS, 1.0)
    torch.testing.assert_close(scored(model_of(family, attention="eager"), batch), wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("family", "share_prompt"), [*((f, True) for f in SHARING), *((f, False) for f in FAMILIES)])
def test_what_the_masks_hide_does_not_matter(family: str, share_prompt: bool) -> None:
    model, rows = model_of(family), [replace(row, old_logprobs=(-1.0,) * len(row.response_ids)) for row in ROWS]
    values, found = [], []
    for pad_id in (0, 1, 13):
        got = scored(model, collate(rows, pad_id), share_prompt=share_prompt)
        values.append(got)
        found.append(gradients(model, got))
    # The padding id's own embedding, too, must have no gradient from padding.
    for got, gradient in zip(values[1:], found[1:], strict=True):
        torch.testing.assert_close(got, values[0], rtol=1e-5, atol=1e-5)
        assert_close(gradient, found[0], 1e-5)


def test_responses_of_one_token_need_no_second_forward() -> None:
    model, rows = model_of("llama"), [Row((3, 4, 5), (6,), group=0), Row((3, 4, 5), (1,), group=0)]
    forwards = []
    model.base_model.register_forward_hook(lambda *_: forwards.append(1))
    got = scored(model, collate(rows, pad_id=0))
    assert len(forwards) == 1
    torch.testing.assert_close(got, one_by_one(model, rows, 1.0)[0], rtol=1e-5, atol=1e-5)


def test_a_shared_prompt_is_computed_once() -> None:
    model, seen = model_of("llama"), []
    model.base_model.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    scored(model, collate(ROWS, pad_id=0))
    assert seen == [(3, 7), (6, 10)]


def test_padding_stays_within_the_models_positions() -> None:
    # Absolute positions: the short response's padding would stand beyond the last of them.
    model = model_of("gpt2")
    rows = [Row(tuple(range(3, 13)) * 6, (4, 1), group=0), Row((3,), tuple(range(3, 13)) * 6, group=1)]
    for share_prompt in (True, False):
        got = scored(model, collate(rows, pad_id=0), share_prompt=share_prompt)
        torch.testing.assert_close(got, one_by_one(model, rows, 1.0)[0], rtol=1e-4, atol=1e-4)


def test_logits_exist_chunk_by_chunk_only() -> None:
    model, batch, sizes = model_of("llama"), collate(ROWS, pad_id=0), []
    model.get_output_embeddings().register_forward_hook(lambda module, args, out: sizes.append(out.numel()))
    scored(model, batch, logits_chunk=100).sum().backward()  # type: ignore[no-untyped-call]
    assert max(sizes) == 5 * 17  # five tokens: the most whole ones that fit
    assert len(sizes) == 2 * 6  # forward, and again in backward
    sizes.clear()
    scored(model, batch, logits_chunk=1)
    assert max(sizes) == 17
    sizes.clear()
    with torch.no_grad():
        scored(model, batch, logits_chunk=100)
    assert len(sizes) == 6


def test_an_impossible_token_adds_nothing_to_the_entropy() -> None:
    model, batch = model_of("qwen2"), collate(ROWS, pad_id=0)
    wanted = response_logprobs(model, batch, temperature=1.0, share_prompt=True, entropy=True)
    # As families do that pad their vocabulary: more rows in the head, of tokens that can never come.
    model.lm_head.register_forward_hook(
        lambda module, args, out: torch.cat([out, torch.full_like(out[:, :2], -torch.inf)], dim=-1)
    )
    got = response_logprobs(model, batch, temperature=1.0, share_prompt=True, entropy=True)
    torch.testing.assert_close(got.entropy, wanted.entropy)
    torch.testing.assert_close(got.logprobs, wanted.logprobs)


@pytest.mark.parametrize("temperature", [0.0, -1.0])
def test_a_temperature_that_is_not_positive_is_an_error(temperature: float) -> None:
    with pytest.raises(ValueError, match="positive temperature"):
        scored(model_of("llama"), collate(ROWS, pad_id=0), temperature=temperature)


def test_which_models_share_the_prompt() -> None:
    assert all(can_share_prompt(model_of(family)) for family in SHARING)
    assert not can_share_prompt(model_of("gemma2"))
    model = model_of("llama")
    model.gradient_checkpointing_enable()
    assert not can_share_prompt(model)


def test_gradient_checkpointing_takes_the_plain_path() -> None:
    model, batch = model_of("llama"), collate(ROWS, pad_id=0)
    wanted, _ = one_by_one(model, ROWS, 1.0)
    wanted_gradients = gradients(model, wanted)
    model.gradient_checkpointing_enable()
    model.train()
    layers = []
    model.model.layers[0].input_layernorm.register_forward_hook(lambda *_: layers.append(1))
    got = scored(model, batch, share_prompt=False)
    assert_close(gradients(model, got), wanted_gradients, 1e-5)
    assert len(layers) == 2  # the layer was computed again in backward
