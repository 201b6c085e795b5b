"""A whole run with LoRA, with either engine: vLLM gets what is merged, and would be found out if it got another."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from rich.console import Console
from small_runs import DEBUG, reset_accelerate
from transformers import AutoModelForCausalLM
from vllm_engines import needs_vllm

from reasonrl import ReasonRLError
from reasonrl import config as run_config
from reasonrl.models.load import load_policy
from reasonrl.models.lora import adapted_layers, without_adapters
from reasonrl.trainers import run

STEPS = 2
OVERRIDES = (
    "model.tiny.hidden_size=64", "model.tiny.heads=2",  # heads of 32 numbers, the smallest that vLLM takes
    "model.lora.rank=4", f"algorithm.steps={STEPS}", "algorithm.optimizer.learning_rate=0.02", "evaluation.every=0",
    "engine.probe_every=1", "engine.kv_cache_gib=1",
)  # fmt: skip
IDS = torch.tensor([[3, 4, 5, 6, 7, 8]])


@dataclass
class Trained:
    """A run that has ended: what it wrote and said, its policy, and what its probe found once it had ended.

    Attributes:
        mean: |log μ − log π| after the run's last sync, None where the engine samples with the model itself.
        complaints: the probe's, of other weights that were sent in place of the merged ones.
        mended: as `mean`, after the merged ones were sent again.
    """

    config: run_config.RunConfig
    engine: str
    folder: Path = Path()
    said: str = ""
    model: Any = None
    mean: float | None = None
    complaints: dict[str, str] = field(default_factory=dict)
    mended: float | None = None


def probe_others(parts: Any, trained: Trained) -> None:
    """Send the base without its adapters, and the adapters added without their scale: both must be found out."""
    trained.mean = parts.sync.check()
    model = parts.policy.model
    base = {name: weight.detach() for name, weight in without_adapters(model, dict(model.named_parameters())).items()}
    unscaled = dict(base)
    for name, layer in adapted_layers(model).items():
        update = layer.lora_B["default"].weight @ layer.lora_A["default"].weight
        unscaled[f"{name}.weight"] = layer.base_layer.weight + update.detach()
    for name, weights in (("base", base), ("unscaled", unscaled)):
        parts.engine.sync(iter(weights.items()), 99)
        with pytest.raises(ReasonRLError) as raised:
            parts.sync.check()
        trained.complaints[name] = str(raised.value)
    parts.sync(STEPS)
    trained.mended = parts.sync.check()


@pytest.fixture(scope="module", params=["huggingface", pytest.param("vllm", marks=needs_vllm)])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    """A run of two steps after a warm start, with a probe after every sync, and more probes before it closes."""
    runs, phases = tmp_path_factory.mktemp("runs"), run.run_phases
    overrides = [*OVERRIDES, f"engine.name={request.param}", f"runs={runs}"]
    result = Trained(run_config.load(DEBUG, overrides), request.param)

    def and_probe(parts: Any) -> Any:
        reports = phases(parts)
        result.model = parts.policy.model
        if parts.engine.keeps_copy:
            probe_others(parts, result)
        return reports

    console = Console(width=160, record=True, quiet=False, file=(runs / "said.txt").open("w"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "run_phases", and_probe)
        reset_accelerate()
        result.folder = run.train(result.config, console)
        result.said = console.export_text()
        console.file.close()
        yield result
    reset_accelerate()


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(input_ids=IDS).logits
    return found


def base_model(trained: Trained) -> Any:
    """The tiny model that the run's seed draws."""
    return load_policy(trained.config.model.model_copy(update={"lora": None}), trained.config.seed).model


def test_a_run_trains_its_adapters_alone(trained: Trained) -> None:
    lines = [json.loads(line) for line in (trained.folder / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["phase"] == "grpo"]
    assert [line["step"] for line in steps] == [1, STEPS]
    for line in steps:
        assert line["grad_norm"] > 0
        assert line["updates"] == 2
        assert all(math.isfinite(value) for name, value in line.items() if name != "phase")
    own = dict(base_model(trained).named_parameters())
    kept = without_adapters(trained.model, dict(trained.model.named_parameters()))
    assert kept.keys() == own.keys()
    assert all(torch.equal(kept[name], own[name]) for name in own)
    assert all(layer.lora_B["default"].weight.count_nonzero() for layer in adapted_layers(trained.model).values())


def test_it_says_how_many_parameters_it_trains(trained: Trained) -> None:
    # Two layers of rank 4: 4 projections of 64 → 64, and 3 between 64 and 96. The model: 17 embeddings, 5 norms.
    trained_ones = 2 * 4 * (4 * (64 + 64) + 3 * (64 + 96))
    total = trained_ones + 17 * 64 + 5 * 64 + 2 * (4 * 64 * 64 + 3 * 64 * 96)
    assert f"lora      {trained_ones:,} of {total:,} parameters are trained\n" in trained.said


def test_the_final_model_is_merged_and_its_adapter_lies_beside_it(trained: Trained) -> None:
    final, expected = trained.folder / "final", logits(trained.model)
    torch.testing.assert_close(logits(AutoModelForCausalLM.from_pretrained(final)), expected, rtol=0, atol=1e-4)
    with_adapter = PeftModel.from_pretrained(base_model(trained), final / "adapter")
    torch.testing.assert_close(logits(with_adapter), expected, rtol=0, atol=1e-4)
    assert not torch.allclose(logits(base_model(trained)), expected, atol=0.1)


def test_vllm_samples_from_the_merged_weights_and_others_are_found_out(trained: Trained) -> None:
    if trained.engine == "huggingface":
        assert trained.mean is None  # there is nothing to compare: it samples with the model itself
        return
    assert trained.mean is not None
    assert trained.mended is not None
    assert max(trained.mean, trained.mended) < 1e-4
    assert trained.complaints.keys() == {"base", "unscaled"}
    for complaint in trained.complaints.values():
        assert "the engine does not sample from the policy's weights" in complaint
