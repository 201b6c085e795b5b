"""What tests of `tasks check` share: a small task, rows without fault, and what is told of a finding."""

from typing import Any

from reasonrl.checking import Finding

TASK = """\
name: mine
dataset: {data_files: {train: TRAIN, eval: EVAL}}
prompt:
  template: "{{ question }}"
reference:
  column: answer
verifiers:
- name: exact
"""
HELD_OUT = [{"question": "What is 9 + 9?", "answer": "18"}]


def rows(count: int) -> list[dict[str, Any]]:
    """Rows without fault; the answer is twice the row number."""
    return [{"question": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(100, 100 + count)]


def only(findings: tuple[Finding, ...]) -> Finding:
    assert len(findings) == 1, findings
    return findings[0]


def places(finding: Finding) -> tuple[str | None, str, int, list[int | None]]:
    """Split, kind, count and the rows of the examples."""
    return finding.split, finding.kind, finding.count, [example.row for example in finding.examples]


def judge(name: str) -> str:
    return TASK.replace("exact", name)
