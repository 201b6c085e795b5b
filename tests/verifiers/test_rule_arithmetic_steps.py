"""arithmetic_steps with a worked solution: an equation earns its reward where it stands there, too."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reasonrl import Problem, Response, Verdict, tasks
from reasonrl.evaluation.breakdown import breakdowns
from reasonrl.evaluation.evaluate import Judged
from reasonrl.generators.addition import ArithmeticOptions, arithmetic
from reasonrl.scoring.records import weigh
from reasonrl.scoring.resolve import check_problems, resolve
from reasonrl.tasks import Task
from reasonrl.types import Rollout
from reasonrl_rules import ArithmeticSteps
from reasonrl_rules.arithmetic_steps import ArithmeticStepsOptions
from reasonrl_rules.equations import find_equations

SOLUTION = "7+9+0=16,4+8+1=13:136"  # of 47+89


def judged(response: str, solution: str | None = SOLUTION) -> Verdict:
    """With that worked solution, or with none."""
    verifier = ArithmeticSteps(ArithmeticStepsOptions(answer=":", solution="solution" if solution else None))
    return verifier.verify(Problem("p", "47+89=", "136", {"solution": solution}), Response(response))


def rewards(verdict: Verdict) -> list[float]:
    return [step.reward for step in verdict.steps]


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (SOLUTION, [1, 1]),
        ("7 + 9 + 0 = 16, 4 + 8 + 1 = 13: 136", [1, 1]),
        ("7+9+0=16,4+8+0=12:126", [1, 0]),  # a carry forgotten: both equations are true
        ("7+9+0=15,4+8+1=13:135", [0, 1]),  # false
        ("1+1=2,1+1=2,1+1=2:136", [0, 0, 0]),  # true and idle
        ("7+9+0=16,7+9+0=16,4+8+1=13:136", [1, 0, 0]),  # said twice: once is enough
        ("7+9+0=16,4+8+1=13,4+8+1=13:136", [1, 1, 0]),
        ("4+8+1=13:136", [0]),  # out of place
        ("9+7+0=16,4+8+1=13:136", [0, 1]),
        ("7+9+0=7+9+0,4+8+1=4+8+1:136", [0, 0]),  # true, but nothing is worked out
        ("7+9+0=16,4+8+1=13:136\n1+1=2", [1, 1]),  # what is behind the answer is no step
        (":136", []),
    ],
)
def test_steps_are_those_of_the_worked_solution(response: str, expected: list[float]) -> None:
    assert rewards(judged(response)) == expected


@pytest.mark.parametrize(
    ("response", "solution", "expected"),
    [
        ("2.50 * 1000 = 2,500; 10/4=2.5", "2.5×1,000=2500, 10÷4=2.50", [1, 1]),
        ("0.5+.5=1.0", "00.50 + 0.5 = 1", [1]),
        ("10/4=5/2", "10/4=2.5", [0]),
        ("(2+3)*4=20", "2+3*4=14", [0]),
        ("5-8=−3", "5 − 8 = -3", [1]),
        ("2*3 = 6 = 6", "2*3=6", [1, 0]),
        ("Half is 48/2 = <<48/2=24>>24 clips", "<<48/2=24>>", [1]),
        ("5/(2-2)=5", "1+1=2", [0]),
        ("5/0+" + "9" * 41 + "=3", "1+1=2", [0]),  # a number too long to have a value
        ("10+0=10", "1+0=1", [0]),  # zeros that count
    ],
)
def test_the_same_equation_however_it_is_written(response: str, solution: str, expected: list[float]) -> None:
    assert rewards(judged(response, solution)) == expected


def test_where_the_steps_are_and_what_else_is_said_stays_the_same() -> None:
    response = "7+9+0=15,4+8+0=12:126"
    without, told = judged(response, None), judged(response)
    assert (told.reward, told.reason, told.evidence) == (without.reward, without.reason, without.evidence)
    assert [(step.start, step.end) for step in told.steps] == [(step.start, step.end) for step in without.steps]
    assert (rewards(without), rewards(told)) == ([0, 1], [0, 0])


PIECES = st.sampled_from(["7+9+0=16", "4+8+1=13", "4+8+0=12", "7+9+0=15", ",", ":", ":136", ":126", "1+1=2", " ", "x"])


@given(st.lists(PIECES, max_size=8).map("".join))
@settings(deadline=None)
def test_a_worked_solution_only_takes_rewards_of_steps(response: str) -> None:
    told, without = judged(response), judged(response, None)
    assert (told.reward, told.reason, told.evidence) == (without.reward, without.reason, without.evidence)
    assert [(step.start, step.end) for step in told.steps] == [(step.start, step.end) for step in without.steps]
    assert all(one <= other for one, other in zip(rewards(told), rewards(without), strict=True))
    assert sum(rewards(told)) <= 2


@pytest.mark.parametrize(
    ("metadata", "fault"),
    [
        ({}, "the column 'solution' should hold a worked solution and is not among the task's `metadata`"),
        ({"solution": None}, "the column 'solution' should hold a worked solution and holds None"),
        ({"solution": ["1+1=2"] * 99}, r"should hold a worked solution and holds \['1\+1=2', .{0,70}$"),
        ({"solution": "by magic:136"}, "the worked solution 'by magic:136' has no equation"),
        ({"solution": ":7+9=16"}, "the worked solution ':7\\+9=16' has no equation"),
        ({"solution": "7+9=16,4+8=13:136"}, "the worked solution says '4\\+8=13', which is false"),
    ],
)
def test_a_worked_solution_that_cannot_be_followed(metadata: dict[str, object], fault: str) -> None:
    verifier = ArithmeticSteps(ArithmeticStepsOptions(answer=":", solution="solution"))
    problem = Problem("p", "47+89=", "136", metadata)
    with pytest.raises(ValueError, match=fault) as raised:
        verifier.verify(problem, Response(SOLUTION))
    assert verifier.audit(problem) == str(raised.value)
    assert ArithmeticSteps(ArithmeticStepsOptions(answer=":")).audit(problem) is None


def test_the_form_of_an_equation() -> None:
    forms = [equation.form for equation in find_equations("1,000 × 02.50 = 2500 = (5000.0)÷2; 0.0+10=.10*100")]
    assert forms == ["1000*2.5=2500", "2500=(5000)/2", "0+10=0.1*100"]


@pytest.fixture(scope="module")
def task() -> Task:
    found = tasks.read("arithmetic")
    assert isinstance(found, Task)
    return found


def test_the_bundled_task_rewards_the_steps_of_its_own_solutions(task: Task) -> None:
    problems = task.problems("eval")[:200]
    check_problems(resolve(task), problems)
    judge = resolve(task)[0]
    verifier = judge.verifier(judge.options)
    for problem in problems:
        assert verifier.audit(problem) is None
        verdict = verifier.verify(problem, Response(problem.metadata["solution"]))
        assert (verdict.reward, rewards(verdict)) == (1.0, [1.0, 1.0])
        right, wrong = verifier.right_response(problem), verifier.wrong_response(problem)
        assert right is not None
        assert wrong is not None
        assert verifier.verify(problem, Response(right)).reason == "correct"
        assert verifier.verify(problem, Response(wrong)).reason == "wrong"


@pytest.mark.parametrize("digits", [1, 3, 6])
def test_solutions_of_any_size_can_be_followed(digits: int) -> None:
    rows = arithmetic("eval", 0, ArithmeticOptions(digits=digits, eval_rows=20))
    for row in rows:
        verdict = judged(str(row["solution"]), str(row["solution"]))
        assert rewards(verdict) == [1.0] * digits


def test_worked_solutions_do_not_break_reports_down(task: Task) -> None:
    """Each problem has a solution of its own, which makes no group; with few problems as well as with many."""
    (judge,), verdict = resolve(task), Verdict(1.0, "correct")
    for rows in (2, 15, 300):
        ones = [
            Judged(problem, Rollout(problem.id, 0, (1,), (2,), (0.0,), "x", "stop", 0, 0), weigh([judge], [verdict]))
            for problem in task.problems("eval")[:rows]
        ]
        assert breakdowns(ones, [], 1, 0) == {}
