"""Online DPO: the pairs of a step's responses, and whole runs, online and on files of pairs."""

import json
from pathlib import Path
from typing import Any

import pytest
from small_runs import ROOT, judged, reset_accelerate, silent

from reasonrl import ReasonRLError, config, store
from reasonrl.batch import Row
from reasonrl.config import OnlineDPOConfig
from reasonrl.evaluation.evaluate import Judged
from reasonrl.trainers import run
from reasonrl.trainers.online_dpo import minibatches, pairs_of
from reasonrl.trainers.sample import Sample


def settings(**given: Any) -> OnlineDPOConfig:
    return OnlineDPOConfig.model_validate({"steps": 1, "problems_per_step": 4, "pairs_per_problem": 4} | given)


def sample(position: int, number: int, ids: tuple[int, ...], reward: float | None, *, counted: bool = True) -> Sample:
    one = judged(position, number, ids, reward)
    one = Judged(one.problem, type(one.rollout)(**vars(one.rollout) | {"text": str(ids)}), one.scored)
    row = Row(one.rollout.prompt_ids, one.rollout.response_ids, group=position)
    return Sample(one, row, outcome=reward or 0.0, counted=counted and reward is not None)


SAMPLES = [
    sample(0, 0, (3, 1), 1.0),
    sample(0, 1, (4, 5, 1), 0.0),
    sample(0, 2, (6,), None),
    sample(0, 3, (7, 7, 7), 0.0, counted=False),  # cut at the limit, and masked
    sample(1, 0, (8, 1), 1.0),
    sample(1, 1, (9, 1), 1.0),
    sample(2, 0, (10, 1), 0.5),
    sample(2, 1, (11, 1), 0.0),
]


def test_a_steps_pairs_are_its_own_token_ids() -> None:
    """Right above wrong, of one problem; nothing unjudged, masked, or of a problem whose responses agree."""
    [pair] = pairs_of(SAMPLES, settings(), "0/1")
    assert (pair.prompt_ids, pair.chosen_ids, pair.rejected_ids) == (SAMPLES[0].row.prompt_ids, (3, 1), (4, 5, 1))


def test_a_margin_pairs_graded_rewards() -> None:
    found = pairs_of(SAMPLES, settings(margin=0.4), "0/1")
    assert [(pair.chosen_ids, pair.rejected_ids) for pair in found] == [((3, 1), (4, 5, 1)), ((10, 1), (11, 1))]


def test_at_most_so_many_of_a_problem() -> None:
    many = [sample(0, n, (3 + n, 1), float(n % 2)) for n in range(8)]
    assert len(pairs_of(many, settings(pairs_per_problem=3), "0/1")) == 3
    assert len(pairs_of(many, settings(pairs_per_problem=100), "0/1")) == 16
    assert pairs_of(many, settings(), "0/1") == pairs_of(many, settings(), "0/1") != pairs_of(many, settings(), "0/2")


@pytest.mark.parametrize("pairs", [0, 1, 5])
def test_every_pair_is_in_one_minibatch_of_an_epoch(pairs: int) -> None:
    cuts = minibatches(settings(minibatches=2), pairs, 0, 1, 0)
    assert len(cuts) == 2
    assert sorted(at for cut in cuts for at in cut) == list(range(pairs))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"group_size": 1}, "a pair is of two responses"),
        ({"minibatches": 3}, "does not divide by minibatches"),
        ({"overlong_buffer": 0.2}, "set margin, or overlong_buffer to null"),
    ],
)
def test_what_makes_no_pairs_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        settings(**given)


def trained(tmp_path: Path, *overrides: str) -> Path:
    reset_accelerate()
    path = str(ROOT / "configs" / "debug" / "grpo.yaml")
    return run.train(config.load(path, [f"runs={tmp_path}", "engine=huggingface", *overrides]), silent())


def lines_of(folder: Path, phase: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["phase"] == phase]


ONLINE = (
    "algorithm={name: online_dpo, steps: 2, problems_per_step: 6, group_size: 4, minibatches: 2, "
    "optimizer: {learning_rate: 1.0e-3}}"
)


@pytest.mark.parametrize("more", [(), ("algorithm.reference=step", "model.lora={rank: 2}"), ("model.lora={rank: 2}",)])
def test_an_online_run_leaves_what_every_run_leaves(tmp_path: Path, more: tuple[str, ...]) -> None:
    folder = trained(tmp_path, ONLINE, "warm_start.steps=3", *more)
    lines = lines_of(folder, "online_dpo")
    assert [line["step"] for line in lines] == [1, 2]
    for line in lines:
        rows = store.read(folder / "rollouts" / f"step-{line['step']:06d}.parquet")
        assert len(rows) == 24
        assert {
            "reward",
            "pass_rate",
            "pairs",
            "margin",
            "logprob_chosen",
            "learning_rate",
            "seconds/pairs",
        } <= line.keys()
    assert (folder / "final" / "model.safetensors").is_file()
    assert (folder / "eval" / "after.json").is_file()


def test_a_run_on_a_file_of_pairs_evaluates_and_saves(tmp_path: Path) -> None:
    rows = [
        {"prompt": f"{a}+{b}=", "chosen": f"{a + b}", "rejected": f"{a + b + 1}"}
        for a in range(1, 5)
        for b in range(1, 5)
    ]
    file = tmp_path / "pairs.jsonl"
    faulty = [{"prompt": "1+1=", "chosen": "", "rejected": "3"}, {"prompt": "1+" * 40, "chosen": "1", "rejected": "2"}]
    file.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *faulty]))
    algorithm = f"algorithm={{name: dpo, pairs: {file}, steps: 4, batch_size: 8, optimizer: {{learning_rate: 1.0e-3}}}}"
    console = silent()
    reset_accelerate()
    path = str(ROOT / "configs" / "debug" / "grpo.yaml")
    given = [f"runs={tmp_path}", algorithm, "warm_start.steps=3", "evaluation.every=2", "task.max_prompt_tokens=20"]
    folder = run.train(config.load(path, given), console)
    said = " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]
    assert "2 of 18 pairs are left out: chosen or rejected is empty (1), the prompt is beyond" in said
    assert "reference log-probabilities of 16 pairs: computed once" in said
    lines = lines_of(folder, "dpo")
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert lines[0]["loss"] == pytest.approx(0.6931, abs=1e-3)
    assert lines[-1]["loss"] < lines[0]["loss"]
    assert {path.name for path in (folder / "eval").glob("*.json")} == {"before.json", "step-000002.json", "after.json"}
    assert (folder / "final" / "model.safetensors").is_file()
    assert len(list((tmp_path / "references").glob("reference-*.safetensors"))) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"prompt": "1+1=", "chosen": "2"}\n', "no column 'rejected'"),
        ('{"prompt": "1+1=", "chosen": "2", "rejected": "2"}\n', "no pair to learn from"),
        (f'{{"prompt": "{"1+" * 60}", "chosen": "2", "rejected": "3"}}\n', "algorithm.pairs: no pair fits"),
    ],
)
def test_a_file_without_pairs_is_refused_before_a_folder_is_made(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text(text)
    with pytest.raises(ReasonRLError, match=message) as error:
        trained(tmp_path / "runs", f"algorithm={{name: dpo, pairs: [{file}], steps: 1, batch_size: 1}}")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "runs").exists()
