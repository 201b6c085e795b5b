"""`reasonrl check`: shipped runs, and one that is broken in each way; exit codes and the JSON."""

import json
import shutil
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
from cli_in_process import Program, program_of
from small_runs import DEBUG, ROOT, RULE, offered

from reasonrl import config
from reasonrl.models.load import policy_without_weights
from reasonrl.plugins import installed
from reasonrl.preflight.memory import phases
from reasonrl.preflight.records import Data
from reasonrl.preflight.shapes import Sizes
from reasonrl.rollout.engine import Sampling
from reasonrl.verifier import Diagnosis

ONLINE = str(ROOT / "configs" / "debug" / "online_dpo.yaml")
Usage = namedtuple("Usage", ["total", "used", "free"])


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Program:
    monkeypatch.chdir(tmp_path)
    return program_of(monkeypatch, capsys)


def report_of(program: Program, *arguments: str, code: int) -> dict[str, Any]:
    ended = program("check", *arguments, "--rows", "8", "--json", "-")
    assert ended.code == code, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    assert found["passed"] is (code == 0)
    return found


def faults(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["section"], one["what"]) for one in report["findings"] if one["fault"]]


def test_a_shipped_run_is_fit_and_all_is_told(program: Program) -> None:
    ended = program("check", DEBUG, "--rows", "8")
    assert ended.code == 0, ended.err
    for text in (
        "a step: 6 problems × 4 responses = 24 responses",
        "its updates: 1 epoch × 2 minibatches = 2, each of 3 problems: 12 responses",
        "the run: 3 steps × 24 = 72 responses, at most 72 × 16 = 1,152 response tokens",
        "18 drawn of 80 problems: 0.225 epochs over them",
        "warm start: 1,280 drawn of 80: 16 epochs over them",
        "3 evaluations of 21 responses: a greedy one and 2 sampled for each of 7 problems",
        "debug, train: 8 problems of 8 rows looked at; 8 of 8 references usable",
        "limits: task.max_prompt_tokens none, sampling.max_tokens 16, the model 64 positions",
        "train: 8 looked at, tokens min 4, median 4, p95 4, max 4",
        "minimise over θ, in each of 2 updates a step",
        "fit, 0 warnings",
    ):
        assert text in ended.out, text
    assert not Path("runs").exists()


def test_the_json_adds_up(program: Program) -> None:
    report = report_of(program, ONLINE, code=0)
    memory, disk = report["memory"], report["disk"]
    assert report["engine"]["parameters"] == 1_027_584
    by_name = {phase["name"]: phase for phase in memory["phases"]}
    assert list(by_name) == ["warm start", "evaluation", "sampling", "update", "optimiser step"]
    weights = 4 * 1_027_584
    assert by_name["update"]["parts"]["weights"] == weights
    assert by_name["update"]["parts"]["reference"] == weights
    assert by_name["update"]["parts"]["optimiser state"] == 2 * weights
    # 256 responses in a batch; 3 layers, keys and values of 192 numbers; 6 + 26 - 1 positions
    assert by_name["sampling"]["parts"]["KV cache"] == 256 * 3 * 2 * 192 * 4 * 31
    assert (memory["largest"], by_name["update"]["dominating"]) == ("update", "activations")
    assert memory["peak"] == memory["process"] + by_name["update"]["total"]
    # the end of the warm start and that of training: parameters and two moments, each
    assert (disk["checkpoints"], disk["final"]) == (6 * weights, weights)
    assert disk["needed"] == disk["checkpoints"] + disk["final"] + disk["rollouts"]


def test_an_unusable_config_has_no_report(program: Program, tmp_path: Path) -> None:
    text = Path(DEBUG).read_text().replace("steps: 3", "stepz: 3")
    (tmp_path / "run.yaml").write_text(text)
    ended = program("check", "run.yaml")
    line = next(at for at, one in enumerate(text.splitlines(), 1) if "stepz" in one)
    assert ended.code == 2
    assert f"run.yaml:{line}" in ended.err
    assert "did you mean 'steps'" in ended.err
    assert program("check", DEBUG, "task=nosuch").code == 2
    assert program("check", DEBUG, "sampling.top_k=3").code == 2
    (tmp_path / "scorer.yaml").write_text(
        "name: scorer\nmodel: {tiny: {characters: '01'}}\n"
        "algorithm: {name: reward_model, pairs: p.jsonl, steps: 1, batch_size: 1}\n"
    )
    ended = program("check", "scorer.yaml")
    assert (ended.code, "one of reward_model has none" in " ".join(ended.err.split())) == (2, True), ended.err
    assert "there is no folder no" in program("check", DEBUG, "--json", "no/r.json").err


def test_references_that_cannot_be_used(program: Program, tmp_path: Path) -> None:
    rows = "".join(json.dumps({"q": f"{n}+1=", "a": answer}) + "\n" for n, answer in enumerate(["1", "two", "3", "4"]))
    for split in ("train", "eval"):
        (tmp_path / f"{split}.jsonl").write_text(rows.replace("+1=", "+1=" if split == "train" else "+0="))
    (tmp_path / "sums.yaml").write_text(
        f"name: sums\ndescription: sums\ndataset: {{data_files: {{train: {tmp_path}/train.jsonl, "
        f"eval: {tmp_path}/eval.jsonl}}}}\n"
        "prompt: {template: '{{ q }}'}\nreference: {column: a}\ndemonstration: '{{ a }}'\n"
        "verifiers: [{name: arithmetic_steps}]\nsampling: {max_tokens: 8}\n"
    )
    report = report_of(program, DEBUG, f"task={tmp_path}/sums.yaml", code=1)
    assert ("task", "train: problems whose reference a verifier cannot use: 1") in faults(report)
    assert (report["check"]["splits"][0]["audited"], report["check"]["splits"][0]["usable"]) == (4, 3)


@pytest.mark.parametrize(
    ("override", "fault"),
    [
        (
            "sampling.max_tokens=61",
            "train: 8 of 8 prompts, of up to 4 tokens, do not fit the model's 64 positions together with "
            "sampling.max_tokens 61",
        ),
        (
            "task.max_prompt_tokens=3",
            "train: 8 of 8 prompts are beyond task.max_prompt_tokens 3 and would be left out",
        ),
    ],
)
def test_prompts_beyond_a_limit(program: Program, override: str, fault: str) -> None:
    assert ("prompts", fault) in faults(report_of(program, DEBUG, override, code=1))


def test_a_prompt_and_response_of_just_the_models_length_fit(program: Program) -> None:
    assert faults(report_of(program, DEBUG, "sampling.max_tokens=60", code=0)) == []


def test_a_disk_too_small(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(2**20, 0, 2**20))
    found = faults(report_of(program, DEBUG, "runs=elsewhere", code=1))
    assert [section for section, _ in found] == ["disk"]
    assert "elsewhere, where 1 MiB are free" in found[0][1]


def test_a_verifier_without_what_it_needs(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    class Boxed(RULE.verifier):  # type: ignore[name-defined,misc]
        name = "arithmetic_steps"
        Options = installed().verifiers["arithmetic_steps"].verifier.Options

        @classmethod
        def diagnose(cls) -> list[Diagnosis]:
            return [Diagnosis("", "programs are judged", False, seen="no bubblewrap")]

    monkeypatch.setitem(installed().verifiers, "arithmetic_steps", offered(Boxed)["arithmetic_steps"])
    report = report_of(program, DEBUG, code=1)
    assert ("verifiers", "arithmetic_steps: programs are judged: no bubblewrap") in faults(report)


def test_a_model_too_large_names_what_to_lower(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reasonrl.preflight.machine.available", lambda: 2**20)
    ended = program("check", ONLINE, "--rows", "2")
    assert ended.code == 1
    assert "most of it is activations" in ended.out
    assert "→ lower algorithm.micro_batch_tokens" in ended.out


def test_recomputed_activations_are_not_held() -> None:
    def activations(*overrides: str) -> int:
        run = config.load("quickstart", overrides)
        policy = policy_without_weights(run.model)
        found = phases(
            run, policy, Sizes(6, 26), Sampling(temperature=1.0, max_tokens=26), "huggingface", Data(100, 10)
        )
        return found[-2].parts["activations"]

    assert activations("model.gradient_checkpointing=true") < 0.6 * activations("model.share_prompt=false")
