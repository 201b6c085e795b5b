"""Reward models and process reward models: loss and gradient of plain forwards, however examples are cut or spread."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from scorers_by_hand import EXAMPLES, PAIRS, SOLUTIONS, TINY, loss, scorer
from small_runs import accelerator, kept_gradients, relative_difference
from torch import Tensor
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification
from two_process_launch import launch_two
from two_processes_scorers import CASES, steps

from reasonrl import ReasonRLError
from reasonrl.config import LoRAConfig, ModelConfig
from reasonrl.models.load import load_policy, save_policy
from reasonrl.models.trainable_scorer import load_scorer
from reasonrl.trainers.scorers import held_out_prompts

NAMES = pytest.mark.parametrize("name", EXAMPLES)
_AUTO = {
    "reward_model": AutoModelForSequenceClassification,
    "process_reward_model": AutoModelForTokenClassification,
}


def plain(name: str, model: Any) -> Tensor:
    """The loss of all examples, each in a forward of the model's own."""
    if name == "reward_model":
        losses = []
        for pair in PAIRS:
            chosen, rejected = (
                model(input_ids=torch.tensor([ids])).logits[0, 0] for ids in (pair.chosen_ids, pair.rejected_ids)
            )
            losses.append((1 + (rejected - chosen + pair.margin).exp()).log() + 0.01 * (chosen + rejected) ** 2)
        return torch.stack(losses).mean()
    losses = []
    for one in SOLUTIONS:
        said = model(input_ids=torch.tensor([one.ids])).logits[0, list(one.ends)].softmax(-1)
        for (bad, good), label in zip(said, one.labels, strict=True):
            losses.append(-label * good.log() - (1 - label) * bad.log())
    return torch.stack(losses).mean()


@NAMES
@pytest.mark.parametrize("max_tokens", [1, 16, 1000])
def test_loss_and_gradient_are_those_of_separate_forwards(name: str, max_tokens: int) -> None:
    model = scorer(name).model
    expected = plain(name, model)
    expected.backward()  # type: ignore[no-untyped-call]
    gradients = {n: p.grad.clone() for n, p in model.named_parameters()}
    used = loss(name, scorer(name), accelerator(), micro_batch_tokens=max_tokens)
    assert len(used.batches(EXAMPLES[name])) == {1: 5, 16: 4 if name == "reward_model" else 3, 1000: 1}[max_tokens]
    with kept_gradients(used.session) as found:
        update = used.session.update(used.shares(EXAMPLES[name], sum(map(used.units, EXAMPLES[name]))))
    assert update.loss == pytest.approx(expected.item(), rel=1e-5)
    assert relative_difference(found, gradients) < 1e-4
    assert gradients["score.weight"].norm() > 0


@NAMES
@pytest.mark.parametrize("max_tokens", [1, 1000])
def test_a_report_is_of_plain_forwards(name: str, max_tokens: int) -> None:
    made = scorer(name)
    report = loss(name, made, accelerator(), micro_batch_tokens=max_tokens).measure(EXAMPLES[name])
    with torch.no_grad():
        assert report["loss"] == pytest.approx(plain(name, made.model).item(), rel=1e-4)
        if name == "reward_model":
            scores = [
                [float(made.model(input_ids=torch.tensor([ids])).logits) for ids in (p.chosen_ids, p.rejected_ids)]
                for p in PAIRS
            ]
            assert report["margin"] == pytest.approx(sum(c - r for c, r in scores) / 5, abs=1e-5)
            assert report["accuracy"] == sum(c > r for c, r in scores) / 5


def test_reports_by_hand() -> None:
    pairs = loss("reward_model", scorer("reward_model"), accelerator())
    report = pairs.report([[(2.0, 2.0 - math.log(3), 0.1)], [(0.0, math.log(3), 0.3)]])
    # Both are ranked with a probability of 3/4; one is right.
    assert report["accuracy"] == 0.5
    assert report["margin"] == pytest.approx(0, abs=1e-12)
    assert report["calibration_error"] == pytest.approx(0.25)
    assert report["loss"] == pytest.approx(0.2)
    solutions = loss("process_reward_model", scorer("process_reward_model"), accelerator())
    report = solutions.report(
        [[(0.9, 1.0, 0.0), (0.2, 0.0, 0.0)], [(0.8, 1.0, 0.0), (0.4, 1.0, 0.0)], [(0.6, 1.0, 0.0)]]
    )
    assert report["accuracy"] == 4 / 5
    assert report["roc_auc"] == 1
    assert (report["first_error_accuracy"], report["no_error_accuracy"]) == (1, 0.5)
    assert report["f1"] == pytest.approx(2 / 3)
    assert (report["steps"], report["solutions"]) == (5, 3)


@NAMES
def test_what_is_saved_scores_the_same_and_can_learn_on(name: str, tmp_path: Path) -> None:
    """From a policy's checkpoint with a new head; what then is saved keeps its head."""
    save_policy(load_policy(ModelConfig(tiny=TINY), 3), tmp_path / "policy")
    labels = 1 if name == "reward_model" else 2
    made = load_scorer(ModelConfig(path=str(tmp_path / "policy")), labels, seed=5)
    again = load_scorer(ModelConfig(path=str(tmp_path / "policy")), labels, seed=5)
    assert torch.equal(made.model.score.weight, again.model.score.weight)
    made.save(tmp_path / "final")
    loaded, info = _AUTO[name].from_pretrained(tmp_path / "final", output_loading_info=True)
    assert not info["missing_keys"]
    assert loaded.config.num_labels == labels
    ids = torch.tensor([[3, 4, 5]])
    assert torch.allclose(loaded(input_ids=ids).logits, made.model(input_ids=ids).logits, atol=1e-6)
    on = load_scorer(ModelConfig(path=str(tmp_path / "final")), labels, seed=9)
    assert torch.equal(on.model.score.weight, made.model.score.weight)
    with pytest.raises(ReasonRLError, match=r"ForTokenClassification|ForSequenceClassification"):
        load_scorer(ModelConfig(path=str(tmp_path / "final")), 3 - labels, seed=9)


@NAMES
def test_with_lora_adapters_and_head_learn_and_are_saved_merged(name: str, tmp_path: Path) -> None:
    made = scorer(name, lora=LoRAConfig(rank=2))
    trained = {n for n, p in made.model.named_parameters() if p.requires_grad}
    assert {n for n in trained if "lora_" not in n} <= {"score.weight", "score.bias"}
    assert "score.weight" in trained
    used = loss(name, made, accelerator(), optimizer={"learning_rate": 0.005})
    before = used.measure(EXAMPLES[name])["loss"]
    for _ in range(3):
        used.session.update(used.shares(EXAMPLES[name], sum(map(used.units, EXAMPLES[name]))))
    assert used.measure(EXAMPLES[name])["loss"] < before
    made.save(tmp_path)
    loaded = _AUTO[name].from_pretrained(tmp_path)
    ids = torch.tensor([[3, 4, 5]])
    assert torch.allclose(loaded(input_ids=ids).logits, made.model(input_ids=ids).logits, atol=1e-5)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of the two processes found."""
    folder = tmp_path_factory.mktemp("found")
    launch_two("two_processes_scorers.py", folder, [0, 0])
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1)]


@pytest.mark.parametrize("case", CASES)
def test_two_processes_are_one(found: list[dict[str, Any]], case: str) -> None:
    assert [one["processes"] for one in found] == [2, 2]
    expected = steps(accelerator(), *CASES[case])
    for one in (each[case] for each in found):
        for line, other in zip(one["lines"], expected["lines"], strict=True):
            assert line["grad_norm"] > 0
            for key in line.keys() - {"seconds", "tokens_per_second"}:
                assert line[key] == pytest.approx(other[key], rel=1e-4, abs=1e-6), key
        for report, other in zip(one["reports"], expected["reports"], strict=True):
            assert report == pytest.approx(other, rel=1e-4, abs=1e-5)
        for parameter, weights in expected["weights"].items():
            assert one["weights"][parameter] == pytest.approx(weights, rel=1e-4, abs=1e-5), parameter


def test_prompts_are_held_out_whole_and_by_the_seed() -> None:
    prompts = [f"q{n % 10}" for n in range(40)]
    out = held_out_prompts(prompts, 0.2, seed=0)
    assert len(out) == 2
    assert out < set(prompts)
    assert held_out_prompts(list(reversed(prompts)), 0.2, seed=0) == out
    assert held_out_prompts(prompts, 0.2, seed=1) != out
    assert len(held_out_prompts(prompts, 0.01, seed=0)) == 1
