"""Audits of references: every fault is found, and what hangs or crashes is a fault of that problem alone."""

import time
from pathlib import Path

import pytest
from scoring_processes import weighted
from scoring_verifiers import Auditing, AuditingInline

from reasonrl import Problem, ReasonRLError, Response
from reasonrl.scoring import Scorer
from reasonrl.scoring.resolve import audit


def problems(*references: str) -> list[Problem]:
    return [Problem(f"p{index}", "q", reference, row=index) for index, reference in enumerate(references)]


def test_each_unusable_reference_is_named_with_its_fault_in_order() -> None:
    started = time.monotonic()
    with Scorer([weighted(Auditing)], workers=2, deadline=1.0) as scorer:
        faults = scorer.audit(problems("fine", "hang", "bad", "crash", "fine", "raise"))
        scorer.submit("next", Problem("n", "q", "fine"), Response("1"))
        assert scorer.collect()["next"].correct, "and goes on to verify"
    assert [problem.id for problem, _ in faults] == ["p1", "p2", "p3", "p5"]
    texts = [text for _, text in faults]
    assert texts[0] == "the audit ended with timeout (deadline: 1.0)"
    assert texts[1] == "cannot read 'bad'"
    assert texts[2] == "the audit ended with worker_died (exit_code: 3)"
    assert "lost my way" in texts[3]
    assert time.monotonic() - started < 60


def test_inline_verifiers_audit_here_and_the_first_fault_of_a_problem_counts() -> None:
    with Scorer([weighted(AuditingInline), weighted(Auditing)], workers=1) as scorer:
        faults = scorer.audit(problems("bad", "fine", "raise"))
    assert [problem.id for problem, _ in faults] == ["p0", "p2"]
    assert faults[0][1] == "cannot read 'bad'"


def test_an_audit_waits_for_no_responses() -> None:
    with Scorer([weighted(AuditingInline)]) as scorer:
        scorer.submit("a", problems("fine")[0], Response("1"))
        with pytest.raises(ValueError, match="collect what was submitted before an audit"):
            scorer.audit(problems("fine"))


def test_a_run_is_told_the_first_fault_how_many_there_are_and_the_cure() -> None:
    with Scorer([weighted(AuditingInline)]) as scorer:
        audit(scorer, problems("fine"), Path("task.yaml"))
        with pytest.raises(ReasonRLError) as caught:
            audit(scorer, problems("fine", "bad", "worse"), Path("task.yaml"))
    assert str(caught.value).startswith(
        "task.yaml: row 1: the reference of problem p1 is unusable: cannot read 'bad' (1 more:"
    )
