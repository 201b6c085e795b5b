"""The tasks whose rows reasonrl makes itself: their prompts, and a judge that tells right from wrong on their rows."""

from functools import lru_cache

import pytest

from reasonrl import Problem, Response, plugins, tasks
from reasonrl.generators import Split
from reasonrl.tasks import Task

NAMES = [
    "arithmetic",
    "chains",
    "countdown_generated",
    "knights_and_knaves",
    "labelled_chains",
]  # tiny_code: tests/verifiers/test_code_tasks.py


@lru_cache
def loaded(name: str) -> Task:
    task = tasks.load(name)
    assert isinstance(task, Task)
    return task


@lru_cache
def problems(name: str, split: Split) -> list[Problem]:
    return loaded(name).problems(split)


def user_prompt(problem: Problem) -> str:
    return problem.prompt if isinstance(problem.prompt, str) else problem.prompt[-1]["content"]


@pytest.mark.parametrize("name", NAMES)
def test_the_judge_accepts_a_right_response_and_refuses_a_wrong_one(name: str) -> None:
    entry = loaded(name).verifiers[0]
    judge = plugins.installed().verifier(entry.name).verifier(plugins.installed().options(entry.name, entry.options))
    for split in ("train", "eval"):
        for problem in problems(name, split)[:50]:
            right, wrong = judge.right_response(problem), judge.wrong_response(problem)
            assert right is not None
            assert wrong is not None
            assert judge.audit(problem) is None
            assert judge.verify(problem, Response(right)).reward == 1, (problem, right)
            assert judge.verify(problem, Response(wrong)).reward == 0, (problem, wrong)


@pytest.mark.parametrize("name", NAMES)
def test_no_prompt_is_on_both_sides(name: str) -> None:
    train, held_out = problems(name, "train"), problems(name, "eval")
    assert not {user_prompt(problem) for problem in train} & {user_prompt(problem) for problem in held_out}
    assert not {problem.id for problem in train} & {problem.id for problem in held_out}
    assert len({problem.id for problem in train}) == len(train)


@pytest.mark.parametrize("name", ["chains", "countdown_generated"])
def test_the_demonstrations_satisfy_every_verifier(name: str) -> None:
    task = loaded(name)
    for entry in task.verifiers:
        options = plugins.installed().options(entry.name, entry.options)
        verifier = plugins.installed().verifier(entry.name).verifier(options)
        for problem, demonstration in task.demonstrations()[:100]:
            assert verifier.verify(problem, Response(demonstration)).reward == 1, demonstration


def test_the_steps_are_numbered_from_0() -> None:
    text = user_prompt(problems("labelled_chains", "eval")[0])
    lines = text.splitlines()
    assert lines[3].startswith("Step 0: ")
    assert lines[4].startswith("Step 1: ")
    assert "\n\nWhich step is the first wrong one?" in text


def test_saying_that_all_is_right_does_not_pay() -> None:
    references = [problem.reference for problem in problems("labelled_chains", "eval")]
    assert 0.3 < references.count("-1") / len(references) < 0.5


def test_the_countdown_prompt_shows_the_numbers_and_the_target() -> None:
    problem = problems("countdown_generated", "eval")[0]
    numbers = ", ".join(map(str, problem.metadata["nums"]))
    assert f"the numbers {numbers}, make an expression that equals {problem.reference}." in user_prompt(problem)
