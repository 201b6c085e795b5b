"""Whole runs of supervised fine-tuning: packed as padded, with a chat template, refused where a model cannot."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_models import EOS, PAD, VOCABULARY, tokenizer
from small_runs import DEBUG, reset_accelerate, silent, tiny_policy
from transformers import MambaConfig, MambaForCausalLM

from reasonrl import Problem, ReasonRLError, config
from reasonrl.trainers import run
from reasonrl.trainers.data import demonstrated
from reasonrl.types import Message

SFT = (
    "{name: sft, steps: 4, batch_size: 12, micro_batch_tokens: 96, optimizer: {learning_rate: 0.01}, packing: PACKING}"
)
QUICK = ("warm_start=null", "evaluation={rows: 2, samples: 1, k: [1]}")
TEMPLATE = (
    "{% for message in messages %}{{ message.role | length }}:{{ message.content }}"
    "{% if message.role == 'assistant' %}{{ eos_token }}{% else %},{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}9:{% endif %}"
)


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    reset_accelerate()
    yield
    reset_accelerate()


def trained(runs: Path, *overrides: str) -> tuple[Path, list[dict[str, Any]]]:
    """A run's folder, and its steps of supervised fine-tuning."""
    folder = run.train(config.load(DEBUG, [f"runs={runs}", *overrides]), silent())
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return folder, [line for line in lines if line["phase"] in ("sft", "warm start")]


@pytest.mark.parametrize("lora", [(), ("model.lora.rank=4",)])
def test_a_packed_run_is_the_padded_one(tmp_path: Path, lora: tuple[str, ...]) -> None:
    (_, padded), (_, packed) = (
        trained(tmp_path, *QUICK, *lora, f"algorithm={SFT.replace('PACKING', packing)}")
        for packing in ("false", "true")
    )
    assert len(padded) == len(packed) == 4
    assert padded[0]["loss"] - padded[-1]["loss"] > 0.01
    for ours, theirs in zip(packed, padded, strict=True):
        for name in ("loss", "grad_norm"):
            assert ours[name] == pytest.approx(theirs[name], rel=1e-4)


def test_a_packed_warm_start_is_the_padded_one(tmp_path: Path) -> None:
    short = ("warm_start.steps=3", "algorithm.steps=1", "evaluation={rows: 2, samples: 1, k: [1]}")
    (_, padded), (_, packed) = (trained(tmp_path, *short, f"warm_start.packing={on}") for on in ("false", "true"))
    assert [line["loss"] for line in packed] == pytest.approx([line["loss"] for line in padded], rel=1e-4)
    assert len(packed) == 3


@pytest.mark.parametrize("phase", ["algorithm", "warm_start"])
def test_a_model_that_cannot_pack_is_refused_before_there_is_a_run(tmp_path: Path, phase: str) -> None:
    ids = {"vocab_size": VOCABULARY, "pad_token_id": PAD, "bos_token_id": None, "eos_token_id": EOS}
    MambaForCausalLM(MambaConfig(hidden_size=32, num_hidden_layers=2, state_size=4, **ids)).save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    model = f"model={{path: {tmp_path}, attention: eager}}"
    with pytest.raises(ReasonRLError, match=r"MambaForCausalLM cannot be trained on packed .*; set packing: false"):
        trained(tmp_path / "runs", *QUICK, model, f"{phase}={SFT.replace('PACKING', 'true')}")
    assert not (tmp_path / "runs").exists()


def test_a_chat_demonstration_is_what_the_template_makes_of_the_whole_conversation() -> None:
    made = tokenizer()
    made.chat_template = TEMPLATE
    messages: tuple[Message, ...] = ({"role": "system", "content": "7"}, {"role": "user", "content": "1+2="})
    prompt, response = demonstrated(Problem("p", messages, None), "3", replace(tiny_policy(), tokenizer=made))
    assert made.decode(list(prompt)) == "6:7,4:1+2=,9:"
    assert response == (made.convert_tokens_to_ids("3"), EOS)  # only this is learnt: the mask of a row is its response
    whole = made.apply_chat_template([*messages, {"role": "assistant", "content": "3"}], return_dict=True)["input_ids"]
    assert list(prompt + response) == whole


def test_a_chat_task_is_fine_tuned_through_its_template(tmp_path: Path) -> None:
    made = tokenizer()
    made.chat_template = TEMPLATE
    policy = tiny_policy()
    policy.model.save_pretrained(tmp_path / "model")
    made.save_pretrained(tmp_path / "model")
    (tmp_path / "rows.jsonl").write_text("".join(f'{{"q": "{a}+1=", "w": "{a + 1}"}}\n' for a in range(8)))
    (tmp_path / "chat.yaml").write_text(
        f"name: chat\ndataset: {{data_files: {{train: {tmp_path / 'rows.jsonl'}}}, hold_out: 2}}\n"
        'prompt: {chat: true, template: "{{ q }}"}\nreference: {column: w}\ndemonstration: "{{ w }}"\n'
        "verifiers: [{name: exact}]\nsampling: {max_tokens: 4}\n"
    )
    given = (f"task={tmp_path / 'chat.yaml'}", f"model={{path: {tmp_path / 'model'}}}")
    steps = f"algorithm={SFT.replace('PACKING', 'true').replace('steps: 4', 'steps: 30')}"
    _, lines = trained(tmp_path / "runs", *QUICK, *given, steps)
    assert lines[0]["response_length"] == 2  # a digit and the end: nothing of the template is learnt
    assert lines[-1]["loss"] < lines[0]["loss"] / 4
