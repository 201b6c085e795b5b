"""reward_model with a model of its own: what the model reads, what its score is worth, and what is not judged."""

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from reward_models import saved, tokenizer
from small_models import MAX_POSITIONS

from reasonrl import Message, Problem, ReasonRLError, Response, Verdict
from reasonrl.models import reward
from reasonrl.models.reward import load_reward_model
from reasonrl.plugins import installed
from reasonrl.scoring import Scorer, WeightedVerifier
from reasonrl_reward_model import RewardModelOptions, RewardModelVerifier

CHAT = Problem("chat", (Message(role="system", content="add"), Message(role="user", content="1+1")))
TEXT = Problem("text", "1+1=")


def verifier(folder: Path, **options: Any) -> RewardModelVerifier:
    return RewardModelVerifier(RewardModelOptions(model=str(folder), device="cpu", **options))


def score_of(model: Any, text: str) -> float:
    """The model's own forward on a text alone."""
    return float(model(input_ids=torch.tensor([tokenizer()(text)["input_ids"]])).logits[0, 0])


@pytest.mark.parametrize("batch_size", [1, 3, 16])
def test_the_reward_is_the_model_s_own_score_of_prompt_and_response(tmp_path: Path, batch_size: int) -> None:
    model = saved(tmp_path)
    responses = ["2", "a longer one: 2", "", "3\n\n4", "2"]
    chat = "system:add<eos>user:1+1<eos>assistant:"
    expected = [score_of(model, f"{chat}{text}<eos>") for text in responses]
    expected += [score_of(model, f"1+1={text}") for text in responses]
    pairs = [(problem, Response(text)) for problem in (CHAT, TEXT) for text in responses]
    found = verifier(tmp_path, batch_size=batch_size).verify_batch(pairs)
    assert [one.reward for one in found] == pytest.approx(expected, abs=1e-4)
    assert {one.reason for one in found} == {"scored"}
    assert [one.evidence["score"] for one in found] == [one.reward for one in found]
    assert len({round(one, 3) for one in expected}) == 8, "the model tells them apart"


@pytest.mark.parametrize(
    ("options", "rewards"),
    [
        ({}, [-3.0, 0.0, 5.0]),
        ({"mean": 1.0, "std": 2.0}, [-2.0, -0.5, 2.0]),
        ({"clip": [-1.0, 2.5]}, [-1.0, 0.0, 2.5]),
        ({"squash": "sigmoid"}, [1 / (1 + math.e**3), 0.5, 1 / (1 + math.e**-5)]),
        ({"mean": 1.0, "std": 2.0, "squash": "sigmoid", "clip": [0.3, 0.8]}, [0.3, 1 / (1 + math.e**0.5), 0.8]),
    ],
)
def test_normalised_then_squashed_then_clipped(options: dict[str, Any], rewards: list[float]) -> None:
    given = RewardModelOptions.model_validate({"model": "m", **options})
    assert [given.reward(score) for score in (-3.0, 0.0, 5.0)] == pytest.approx(rewards, abs=1e-12)
    assert math.isfinite(given.reward(-1e308))
    assert math.isfinite(given.reward(1e308))


def test_what_does_not_fit_is_unjudged_and_never_cut(tmp_path: Path) -> None:
    model = saved(tmp_path)
    room = MAX_POSITIONS - len("1+1=")
    fits, beyond = "2" * room, "2" * (room + 1)
    found = verifier(tmp_path).verify_batch([(TEXT, Response(text)) for text in (beyond, fits, "2")])
    assert found[0] == Verdict(None, "too_long", evidence={"tokens": MAX_POSITIONS + 1, "context": MAX_POSITIONS})
    assert found[1].reward == pytest.approx(score_of(model, "1+1=" + fits), abs=1e-4)
    assert found[2].reward == pytest.approx(score_of(model, "1+1=2"), abs=1e-4)
    assert verifier(tmp_path, max_tokens=5).verify(TEXT, Response("22")).reason == "too_long"
    assert verifier(tmp_path, max_tokens=5).verify(TEXT, Response("2")).reason == "scored"


def test_a_score_that_is_not_finite_is_unjudged(tmp_path: Path) -> None:
    broken = saved(tmp_path)
    broken.score.weight[:] = float("nan")
    broken.save_pretrained(tmp_path)
    found = verifier(tmp_path).verify(TEXT, Response("2"))
    assert (found.reward, found.reason, found.evidence) == (None, "not_finite", {"score": "nan"})


def test_an_audit_finds_prompts_that_no_response_can_be_scored_to(tmp_path: Path) -> None:
    saved(tmp_path, words=tokenizer(chat=False))
    one = verifier(tmp_path)
    assert one.audit(TEXT) is None
    assert one.audit(Problem("p", "1" * 65)) == "the prompt has 65 tokens, and the reward model takes 64"
    assert "no chat template" in str(one.audit(CHAT))


def test_a_scorer_loads_the_model_once_and_refuses_an_untrained_one_at_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = saved(tmp_path)
    loads = []

    def load(path: str, **settings: Any) -> Any:
        loads.append(path)
        return load_reward_model(path, **settings)

    monkeypatch.setattr(reward, "load_reward_model", load)
    options = installed().options("reward_model", {"model": str(tmp_path), "device": "cpu"})
    weighted = WeightedVerifier(installed().verifier("reward_model").verifier, options, 2.0, "1")
    with Scorer([weighted]) as scorer:
        assert len(loads) == 1, "before anything is submitted"
        for batch in range(3):
            scorer.submit(batch, TEXT, Response(str(batch)))
            [scored] = scorer.collect().values()
            assert scored.reward == pytest.approx(2 * score_of(model, f"1+1={batch}"), abs=1e-4)
    assert len(loads) == 1
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ReasonRLError, match="verifier reward_model: model: cannot load"):
        Scorer([weighted])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give either `model`"),
        ({"model": "m", "remote": {"url": "http://h"}}, "give either `model`"),
        ({"remote": {"url": "http://h"}, "device": "cpu", "max_tokens": 3}, "not told device, max_tokens"),
        ({"model": "m", "clip": [1, 1]}, "give two numbers, the lower one first"),
        ({"model": "m", "std": 0}, "greater than 0"),
        ({"model": "m", "dtype": "float16"}, "dtype"),
        ({"remote": {"url": "ftp://h"}}, "must begin with http"),
        ({"remote": {"url": "http://h:x"}}, "Port"),
        ({"remote": {"url": "http://h", "api": "grpc"}}, "api"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RewardModelOptions.model_validate(options)


def test_the_plugins_cost_no_torch_until_a_model_is_loaded() -> None:
    code = "import sys, reasonrl_reward_model, reasonrl_prm; print(*{'torch', 'transformers'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == ""
