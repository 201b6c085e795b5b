"""Mixtures: several tasks, each with its own verifiers; every fault names the mixture's YAML and the part."""

import json
from pathlib import Path
from typing import Any

import pytest

from reasonrl import ReasonRLError, Response, tasks
from reasonrl.scoring import Scorer
from reasonrl.scoring.resolve import check_problems, resolve
from reasonrl.tasks import Mixture
from reasonrl.tasks.mixture import even_shares

PART = """\
name: NAME
dataset: {data_files: {train: FILE}, hold_out: 1}
prompt: {template: "{{ q }}"}
reference: {column: a}
demonstration: "{{ a }}"
verifiers: VERIFIERS
"""
MIXTURE = """\
name: both
mixture:
- {task: words.yaml, weight: 3}
- {task: letters.yaml}
sampling: {max_tokens: 9}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, verifiers, rows in (
        ("words", "[{name: exact}]", [{"q": f"w{i}", "a": "word"} for i in range(4)]),
        ("letters", "[{name: choice}, {name: exact, weight: 0.5}]", [{"q": f"l{i}", "a": "B"} for i in range(3)]),
    ):
        data = tmp_path / f"{name}.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        text = PART.replace("NAME", name).replace("FILE", str(data)).replace("VERIFIERS", verifiers)
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def mixture(folder: Path, text: str = MIXTURE) -> Mixture:
    (folder / "both.yaml").write_text(text)
    loaded = tasks.load(str(folder / "both.yaml"))
    assert isinstance(loaded, Mixture)
    return loaded


def test_problems_of_all_parts_carry_their_task(folder: Path) -> None:
    both = mixture(folder)
    assert [(p.id, p.task) for p in both.problems("train")] == [
        *[(f"words/train-{i}", "words") for i in (1, 2, 3)],
        *[(f"letters/train-{i}", "letters") for i in (1, 2)],
    ]
    assert [p.id for p in both.problems("eval")] == ["words/eval-0", "letters/eval-0"]
    assert [p.id for p in both.problems("train", 2)] == ["words/train-1", "letters/train-1"]
    assert [(part.name, weight) for part, weight in both.parts] == [("words", 3.0), ("letters", 1.0)]
    assert both.sampling.max_tokens == 9
    assert both.splits() == ["train", "eval"]


@pytest.mark.parametrize(
    ("total", "limits", "shares"),
    [
        (7, [9, 9], [4, 3]),
        (8, [9, 9, 9], [3, 3, 2]),
        (1, [9, 9], [1, 0]),
        (7, [2, 9], [2, 5]),
        (7, [9, 2], [5, 2]),
        (7, [1, 0, 2], [1, 0, 2]),
        (7, [], []),
    ],
)
def test_rows_are_shared_out_evenly(total: int, limits: list[int], shares: list[int]) -> None:
    assert even_shares(total, limits) == shares


def test_so_many_rows_are_so_many_in_all(folder: Path) -> None:
    both = mixture(folder)
    assert [p.id for p in both.problems("train", 3)] == ["words/train-1", "words/train-2", "letters/train-1"]
    assert len(both.problems("train", 99)) == 5


def test_each_problem_is_judged_by_the_verifiers_of_its_own_task(folder: Path) -> None:
    both = mixture(folder)
    verifiers, problems = resolve(both), both.problems("train")
    check_problems(verifiers, problems)
    with Scorer(verifiers, workers=1) as scorer:
        assert scorer.audit(problems) == []
        for problem in problems:
            scorer.submit(problem.id, problem, Response("(B)"))
        scored: Any = scorer.collect()
    word, letter = scored["words/train-1"], scored["letters/train-1"]
    assert [v.name for v in word.verifiers] == ["exact"]
    assert [v.name for v in letter.verifiers] == ["choice", "exact"]
    assert (word.reward, word.correct) == (0.0, False)
    assert (letter.reward, letter.correct) == (1.0, True), "the choice is right; (B) is not exactly B"


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("letters.yaml", "none.yaml", "both.yaml:4: "),
        ("letters.yaml", "gsm", "both.yaml:4: no task is named 'gsm'; did you mean"),
        ("letters.yaml", "words.yaml", "both.yaml: mixture: two tasks are named 'words'"),
        ("letters.yaml", "both.yaml", "both.yaml is a mixture itself; name its tasks here"),
        ("weight: 3", "weight: 0", "both.yaml:3: mixture.0.weight: expected more than 0.0, not 0"),
        ("weight: 3", "wait: 3", "both.yaml:3: mixture.0.wait: unknown key; did you mean 'weight'?"),
    ],
)
def test_a_fault_of_a_part_names_its_line(folder: Path, old: str, new: str, fault: str) -> None:
    with pytest.raises(ReasonRLError) as caught:
        mixture(folder, MIXTURE.replace(old, new))
    assert fault in str(caught.value)


def test_files_are_given_to_a_part_not_to_the_mixture(folder: Path) -> None:
    other = folder / "other.jsonl"
    other.write_text('{"q": "x", "a": "y"}\n')
    both = mixture(folder, MIXTURE.replace("weight: 3", f"weight: 3, data_files: {{eval: {other}}}"))
    assert [p.reference for p in both.problems("eval")] == ["y", "B"]
    with pytest.raises(ReasonRLError, match="both is a mixture; give files under its tasks"):
        tasks.load(str(folder / "both.yaml"), {"train": "x.jsonl"})
