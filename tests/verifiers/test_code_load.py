"""Many programs at once for a few workers, some of them hostile: every verdict is right, and nothing is left."""

import os
import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from code_attacks import BOMBS, DAEMON
from sandboxes import needs_sandbox
from scoring_processes import alive, until, workers_of

from reasonrl import Problem, Response
from reasonrl.scoring import Scorer, WeightedVerifier
from reasonrl_code.sandbox.running import family
from reasonrl_code.verifier import Code, CodeOptions

COUNT, WORKERS = 150, 2
SUM = "a, b = map(int, input().split())\nprint(a + b)"
PROBLEM = Problem(
    "sum", "", metadata={"tests": [{"type": "stdio", "input": f"{n} 4", "output": f"{n + 4}"} for n in (3, 9)]}
)
HOSTILE = {
    BOMBS[name][0]: BOMBS[name][1] for name in ("forks", "memory", "output", "standard error", "a loop", "sleep")
}
HOSTILE |= {DAEMON: {"fail"}, "print(7)\nimport os\nos.fork()": {"fail"}}
REASONS = {program: {ending.replace("fail", "wrong") for ending in endings} for program, endings in HOSTILE.items()}


def with_kin(workers: Iterable[int]) -> list[int]:
    """The workers and all that descends from them; this process may have other children."""
    return [pid for worker in workers for pid in family(worker)]


@needs_sandbox
@pytest.mark.timeout(180)
def test_every_verdict_is_right_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    mounts = Path("/proc/self/mounts").read_text()
    programs = [*REASONS, *[SUM] * (COUNT - len(REASONS))]
    random.Random(0).shuffle(programs)
    options = CodeOptions(seconds=0.3, memory=128)
    with Scorer([WeightedVerifier(Code, options, 1.0, "1")], workers=WORKERS) as scorer:

        def scored(texts: list[str]) -> list[tuple[str, str]]:
            for number, text in enumerate(texts):
                scorer.submit(number, PROBLEM, Response(f"```python\n{text}\n```"))
            found = scorer.collect()
            return [(text, found[number].reason) for number, text in enumerate(texts)]

        assert scored([SUM] * 20) == [(SUM, "correct")] * 20
        workers = workers_of(os.getpid())
        before = with_kin(workers)
        assert len(workers) == WORKERS
        wrong = [(text, reason) for text, reason in scored(programs) if reason not in REASONS.get(text, {"correct"})]
        assert wrong == []
        assert workers_of(os.getpid()) == workers  # none was lost
        after = with_kin(workers)
        assert sorted(after) == sorted(before)  # and no process of a program is left
    until(lambda: not any(alive(pid) for pid in after))
    assert list(tmp_path.iterdir()) == []
    assert Path("/proc/self/mounts").read_text() == mounts
