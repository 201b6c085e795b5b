"""The bundled tasks on code: their judge accepts right programs, and refuses near misses and cheats."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reasonrl import Problem, Response, tasks
from reasonrl.scoring.resolve import resolve
from reasonrl.tasks import Task
from reasonrl_code.verifier import Code, CodeOptions

DATA = Path(__file__).parents[1] / "data" / "tasks"
WITH_SOLUTIONS = ["humaneval", "humaneval_plus", "mbpp", "mbpp_plus", "mbpp_sanitized", "tiny_code"]
# Programs for the rows of the fixtures that come without a solution.
WRITTEN = {
    "made_up_a": "print(2 * int(input()))",
    "9001": (
        "class Solution:\n    def longestWord(self, words: List[str]) -> int:\n"
        "        return max(map(len, words), default=0)"
    ),
    "made_up_b": "input()\nxs = input().split()\nprint(sum(xs.count(x) - 1 for x in xs) // 2)",
    "1139_C. Edgy Trees": (
        "n, k = map(int, input().split())\nroot = list(range(n + 1))\n\n"
        "def find(x):\n    while root[x] != x:\n        x = root[x]\n    return x\n\n"
        "for _ in range(n - 1):\n    u, v, black = map(int, input().split())\n"
        "    if not black:\n        root[find(u)] = find(v)\n"
        "sizes = {}\nfor x in range(1, n + 1):\n    sizes[find(x)] = sizes.get(find(x), 0) + 1\n"
        "print((n**k - sum(size**k for size in sizes.values())) % (10**9 + 7))"
    ),
    "12_B. Correct Solution?": (
        "n, m = sorted(input()), input()\n"
        "zero = next((at for at, digit in enumerate(n) if digit != '0'), 0)\nn[0], n[zero] = n[zero], n[0]\n"
        "print('OK' if ''.join(n) == m else 'WRONG_ANSWER')"
    ),
}


@pytest.fixture(scope="module")
def code() -> Iterator[Code]:
    """One sandbox for all tasks."""
    code = Code(CodeOptions(packages=("numpy",)))
    code.warm_up()
    yield code
    code.close()


def loaded(name: str, code: Code) -> list[Problem]:
    """The task's shortest problems of its evaluation split, three of them; the verifier gets the task's options."""
    task = tasks.read(name)
    assert isinstance(task, Task)
    if task.config.dataset is not None:
        files = dict.fromkeys(task.config.dataset.splits, str(DATA / f"{name}.jsonl"))
        dataset = task.config.dataset.model_copy(update={"data_files": files, "shuffle": None, "hold_out": 0})
        task = Task(task.config.model_copy(update={"dataset": dataset}), task.path)
    judge = resolve(task)[0]
    assert judge.verifier is Code
    code.options = judge.options
    return sorted(task.problems("eval")[:4], key=lambda problem: len(str(problem.metadata)))[:3]


@pytest.mark.parametrize("name", WITH_SOLUTIONS)
def test_the_data_sets_solutions_pass_and_near_misses_fail(name: str, code: Code) -> None:
    for problem in loaded(name, code):
        assert code.audit(problem) is None
        right, wrong = code.right_response(problem), code.wrong_response(problem)
        assert right is not None
        assert wrong is not None
        verdict = code.verify(problem, Response(right))
        assert (verdict.reward, verdict.evidence.get("weak")) == (1, 0), (problem.id, verdict)
        verdict = code.verify(problem, Response(wrong))
        assert verdict.reward == 0, (problem.id, verdict)


@pytest.mark.parametrize("name", ["livecodebench", "code_contests"])
def test_our_programs_pass_where_the_data_has_no_solution(name: str, code: Code) -> None:
    problems = loaded(name, code)
    assert len(problems) == 3
    for problem in problems:
        assert code.audit(problem) is None
        assert code.right_response(problem) is None
        if problem.id in WRITTEN:
            verdict = code.verify(problem, Response(f"```python\n{WRITTEN[problem.id]}\n```"))
            assert verdict.reason == "correct", (problem.id, verdict)
            shorter = WRITTEN[problem.id].rpartition("\n")[0] or "pass"
            assert code.verify(problem, Response(f"```python\n{shorter}\n```")).reward == 0


@pytest.mark.parametrize("name", [*WITH_SOLUTIONS, "livecodebench", "code_contests"])
def test_no_cheat_is_rewarded_on_a_bundled_task(name: str, code: Code) -> None:
    problem = loaded(name, code)[0]
    rewards = {text: code.verify(problem, Response(text)).reward for text in code.cheats(problem)}
    assert len(rewards) >= 12
    assert set(rewards.values()) == {0.0}, rewards
