"""Policies: where they come from, what is refused, and that what is saved loads elsewhere."""

from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import CHARACTERS, EOS, MAX_POSITIONS, PAD, model_of, policy_of, tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer, CohereConfig, GPT2Config, GPT2LMHeadModel, GraniteConfig

from reasonrl import ReasonRLError
from reasonrl.config import ModelConfig, TinyModelConfig
from reasonrl.models.heads import check_head, logits
from reasonrl.models.load import load_policy, reference_of, save_policy

TINY = TinyModelConfig(
    characters=CHARACTERS, hidden_size=16, intermediate_size=24, layers=1, heads=2, max_positions=MAX_POSITIONS
)
IDS = torch.tensor([[3, 4, 5, 6, 7]])


def saved(tmp_path: Path, family: str = "qwen2") -> Path:
    save_policy(policy_of(family), tmp_path)
    return tmp_path


# --- the head --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["llama", "qwen2", "gpt2", "gemma2"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_logits_are_the_models_own(family: str, dtype: torch.dtype) -> None:
    model = model_of(family, dtype=dtype)
    check_head(model)
    if dtype != torch.bfloat16:
        hidden = model.base_model(input_ids=IDS).last_hidden_state
        torch.testing.assert_close(logits(model, hidden), model(input_ids=IDS).logits)


@pytest.mark.parametrize(
    "config",
    [
        GraniteConfig(vocab_size=17, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
                      logits_scaling=8.0, initializer_range=0.4, pad_token_id=PAD, bos_token_id=None, eos_token_id=EOS),
        CohereConfig(vocab_size=17, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
                     logit_scale=0.25, initializer_range=0.4, pad_token_id=PAD, bos_token_id=None, eos_token_id=EOS),
    ],
    ids=["granite", "cohere"],
)  # fmt: skip
def test_scaled_logits_are_known(config: Any) -> None:
    model = AutoModelForCausalLM.from_config(config).eval()
    check_head(model)
    hidden = model.base_model(input_ids=IDS).last_hidden_state
    torch.testing.assert_close(logits(model, hidden), model(input_ids=IDS).logits)
    plain = model.get_output_embeddings()(hidden)
    assert not torch.allclose(plain, logits(model, hidden))


def test_an_unknown_head_is_refused() -> None:
    class Shifted(GPT2LMHeadModel):  # type: ignore[misc]
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            output = super().forward(*args, **kwargs)
            output.logits = output.logits + 0.5
            return output

    model = Shifted(GPT2Config(vocab_size=17, n_embd=8, n_layer=1, n_head=2)).eval()  # dropout is random
    with pytest.raises(ReasonRLError, match=r"Shifted changes its logits .*difference 0\.5"):
        check_head(model)


# --- tiny models -----------------------------------------------------------------------------------------------------


def test_a_tiny_model_is_its_seed() -> None:
    state = torch.get_rng_state()
    first, again, other = (load_policy(ModelConfig(tiny=TINY), seed).model.state_dict() for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["model.embed_tokens.weight"], other["model.embed_tokens.weight"])


def test_a_tiny_policy() -> None:
    policy = load_policy(ModelConfig(tiny=TINY, dtype="bfloat16", attention="eager"), 0)
    assert (policy.pad_id, policy.eos_ids, policy.max_positions) == (PAD, (EOS,), MAX_POSITIONS)
    assert policy.model.dtype == torch.bfloat16
    assert policy.model.config._attn_implementation == "eager"
    assert policy.model.lm_head.weight is policy.model.model.embed_tokens.weight
    assert not policy.model.training


def test_every_character_is_one_token_and_comes_back() -> None:
    ids = tokenizer()(CHARACTERS)["input_ids"]
    assert ids == list(range(3, 3 + len(CHARACTERS)))
    assert tokenizer().decode([*ids, EOS, PAD], skip_special_tokens=True) == CHARACTERS
    assert tokenizer()("1 \n?")["input_ids"] == [4, 2, 2, 2]  # unknown: id 2


# --- saved and loaded ------------------------------------------------------------------------------------------------


def test_what_is_saved_loads_with_transformers(tmp_path: Path) -> None:
    policy = load_policy(ModelConfig(tiny=TINY), 0)
    save_policy(policy, tmp_path)
    model, text = AutoModelForCausalLM.from_pretrained(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    torch.testing.assert_close(model(input_ids=IDS).logits, policy.model(input_ids=IDS).logits)
    assert text("12+34=,:")["input_ids"] == policy.tokenizer("12+34=,:")["input_ids"]
    assert text.decode([4, 5, EOS], skip_special_tokens=True) == "12"
    assert model.generation_config.eos_token_id == EOS


def test_a_saved_policy_is_loaded(tmp_path: Path) -> None:
    policy = load_policy(ModelConfig(path=str(saved(tmp_path))), 0)
    torch.testing.assert_close(policy.model(input_ids=IDS).logits, model_of("qwen2")(input_ids=IDS).logits)
    assert (policy.pad_id, policy.eos_ids, policy.max_positions) == (PAD, (EOS,), MAX_POSITIONS)


def test_a_model_may_have_several_end_ids(tmp_path: Path) -> None:
    policy = policy_of("llama")
    policy.model.generation_config.eos_token_id = [7, 9]
    save_policy(policy, tmp_path)
    assert load_policy(ModelConfig(path=str(tmp_path)), 0).eos_ids == (7, 9, EOS)


def test_without_padding_the_end_id_pads(tmp_path: Path) -> None:
    policy = policy_of("llama")
    policy.tokenizer.pad_token = None
    save_policy(policy, tmp_path)
    assert load_policy(ModelConfig(path=str(tmp_path)), 0).pad_id == EOS


def test_without_an_end_id_no_response_would_end(tmp_path: Path) -> None:
    policy = policy_of("llama")
    policy.tokenizer.eos_token = None
    policy.model.config.eos_token_id = policy.model.generation_config.eos_token_id = None
    save_policy(policy, tmp_path)
    with pytest.raises(ReasonRLError, match="no end-of-sequence token"):
        load_policy(ModelConfig(path=str(tmp_path)), 0)


def test_dropout_is_off_in_training_mode_too(tmp_path: Path) -> None:
    policy = policy_of("gpt2")
    assert policy.model.config.attn_pdrop > 0
    save_policy(policy, tmp_path)
    model = load_policy(ModelConfig(path=str(tmp_path)), 0).model
    quiet = model(input_ids=IDS).logits
    torch.testing.assert_close(model.train()(input_ids=IDS).logits, quiet)


def test_gradient_checkpointing_is_switched_on() -> None:
    assert load_policy(ModelConfig(tiny=TINY, gradient_checkpointing=True), 0).model.is_gradient_checkpointing


@pytest.mark.parametrize("path", ["/nowhere/at/all", "./nowhere", "nowhere"])
def test_a_missing_folder_is_an_error(path: str) -> None:
    with pytest.raises(ReasonRLError, match=f"there is no folder {path}"):
        load_policy(ModelConfig(path=path), 0)


def test_a_folder_without_a_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ReasonRLError, match=r"model\.path: cannot load"):
        load_policy(ModelConfig(path=str(tmp_path)), 0)


def test_a_reference_is_a_frozen_copy() -> None:
    model = model_of("llama")
    reference = reference_of(model)
    before = reference(input_ids=IDS).logits
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    torch.testing.assert_close(reference(input_ids=IDS).logits, before)
    assert not any(parameter.requires_grad for parameter in reference.parameters())
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert reference.lm_head.weight is reference.model.embed_tokens.weight
