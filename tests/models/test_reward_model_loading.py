"""Reward models: each score is that of one text alone, whatever stands beside it in a batch; no head is random."""

from pathlib import Path
from typing import Any

import pytest
import torch
from reward_models import saved, tokenizer
from safetensors.torch import load_file, save_file
from small_models import EOS, MAX_POSITIONS, policy_of
from small_runs import new_critic
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForSequenceClassification

from reasonrl import Message, ReasonRLError
from reasonrl.models.prompt import conversation_ids
from reasonrl.models.reward import batches, load_reward_model, padded

ROWS = [(5, 6, 7), (8,), (9, 10, 11, 12, 13, 14, 15), (5, 6), (20, 21, 22, 23)]


def alone(model: Any, row: tuple[int, ...]) -> float:
    """The score of one text, from the hidden state of its last token."""
    hidden = model.base_model(input_ids=torch.tensor([row])).last_hidden_state[0, -1]
    return float(model.score(hidden)[0])


@pytest.mark.parametrize("pad", [0, None], ids=["padding", "no_padding"])
@pytest.mark.parametrize("family", ["llama", "qwen2", "gpt2"])
def test_a_score_is_that_of_the_last_token_of_the_text_alone(tmp_path: Path, family: str, pad: int | None) -> None:
    model = saved(tmp_path, family, pad_token_id=pad)
    loaded = load_reward_model(str(tmp_path), device="cpu")
    assert loaded.reads_last
    expected = [alone(model, row) for row in ROWS]
    assert expected == pytest.approx([float(model(input_ids=torch.tensor([row])).logits[0, 0]) for row in ROWS])
    assert len({round(one, 3) for one in expected}) == len(ROWS)
    for size in (1, 2, 16):
        assert loaded.scores(ROWS, size) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("pad", [EOS, None, 0])
def test_an_end_of_sequence_that_is_also_padding_is_still_the_last_token(tmp_path: Path, pad: int | None) -> None:
    model = saved(tmp_path, pad_token_id=pad)
    rows = [(5, 6, EOS), (7, 8, 9, 10, EOS), (11, EOS, EOS)]
    expected = [alone(model, row) for row in rows]
    assert load_reward_model(str(tmp_path), device="cpu").scores(rows, 8) == pytest.approx(expected, abs=1e-4)
    if pad == EOS:  # transformers reads the token before, which is why we do not ask it
        ids, _ = padded(rows[:1], EOS, torch.device("cpu"))
        assert float(model(input_ids=ids).logits[0, 0]) == pytest.approx(alone(model, (5, 6)), abs=1e-4)
        assert abs(alone(model, (5, 6)) - expected[0]) > 1e-2


def test_a_model_that_reads_its_first_token_has_its_own_way(tmp_path: Path) -> None:
    model = saved(tmp_path, "bert")
    loaded = load_reward_model(str(tmp_path), device="cpu")
    assert not loaded.reads_last
    expected = [float(model(input_ids=torch.tensor([row])).logits[0, 0]) for row in ROWS]
    assert len({round(one, 3) for one in expected}) == len(ROWS)
    assert loaded.scores(ROWS, 16) == pytest.approx(expected, abs=1e-4)


def test_half_precision_is_near(tmp_path: Path) -> None:
    model = saved(tmp_path)
    loaded = load_reward_model(str(tmp_path), device="cpu", dtype="bfloat16")
    assert loaded.model.dtype == torch.bfloat16
    assert loaded.scores(ROWS, 2) == pytest.approx([alone(model, row) for row in ROWS], abs=0.3)


@pytest.mark.parametrize(("auto", "missing"), [(AutoModelForCausalLM, "score.weight"), (AutoModel, "score.weight")])
def test_a_head_that_was_never_trained_is_refused(tmp_path: Path, auto: Any, missing: str) -> None:
    saved(tmp_path, auto=auto)
    with pytest.raises(ReasonRLError, match=rf"^reward: .* without {missing}, which LlamaForSequenceClassification"):
        load_reward_model(str(tmp_path), key="reward")


def test_a_critic_s_head_that_is_not_in_the_checkpoint_is_refused(tmp_path: Path) -> None:
    saved(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["score.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ReasonRLError, match=r"algorithm.critic.path: .*without score.weight"):
        new_critic(policy_of("llama"), path=str(tmp_path))


def test_what_else_is_refused(tmp_path: Path) -> None:
    saved(tmp_path / "two", num_labels=2)
    with pytest.raises(ReasonRLError, match="gives 2 logits for a text"):
        load_reward_model(str(tmp_path / "two"))
    saved(tmp_path / "one")
    with pytest.raises(ReasonRLError, match="there is no folder /nowhere"):
        load_reward_model("/nowhere")
    with pytest.raises(ReasonRLError, match="there is no device 'gpu' here"):
        load_reward_model(str(tmp_path / "one"), device="gpu")
    with pytest.raises(ReasonRLError, match=f"the model takes {MAX_POSITIONS} tokens, not 65"):
        load_reward_model(str(tmp_path / "one"), context=65)
    assert load_reward_model(str(tmp_path / "one"), context=9, device="cpu").context == 9


def test_a_model_that_changes_its_score_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = saved(tmp_path)
    own = type(model).forward

    def doubled(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = own(self, *args, **kwargs)
        found.logits = 2 * found.logits + 1
        return found

    monkeypatch.setattr(type(model), "forward", doubled)
    with pytest.raises(ReasonRLError, match="is not that of its last token"):
        load_reward_model(str(tmp_path), device="cpu")


def test_batches_hold_every_row_once_and_longest_first() -> None:
    assert list(batches(ROWS, 2)) == [[2, 4], [0, 3], [1]]
    ids, mask = padded([(5, 6), (7,)], 3, torch.device("cpu"))
    assert (ids.tolist(), mask.tolist()) == ([[5, 6], [7, 3]], [[1, 1], [1, 0]])


def test_a_conversation_is_the_prompt_and_the_response_as_one_text() -> None:
    words = tokenizer()
    chat = (Message(role="user", content="1+1"),)
    assert words.decode(conversation_ids(chat, "2", words)) == "user:1+1<eos>assistant:2<eos>"
    assert words.decode(conversation_ids("1+1=", "2", words)) == "1+1=2"
    words.chat_template = None
    with pytest.raises(ReasonRLError, match=r"no chat template; set prompt\.chat: false"):
        conversation_ids(chat, "2", words)


def test_the_class_that_transformers_would_load_is_the_one_we_refuse_to_trust(tmp_path: Path) -> None:
    """The trap itself: transformers gives a causal checkpoint a random head, another one at each load."""
    saved(tmp_path, auto=AutoModelForCausalLM)
    first, second = (AutoModelForSequenceClassification.from_pretrained(tmp_path, num_labels=1) for _ in range(2))
    assert not torch.equal(first.score.weight, second.score.weight)
