"""Tiers of the sandbox: none is taken that does not hold, and a weak one says so in each verdict."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reasonrl import Problem, ReasonRLError, Response
from reasonrl_code.records import Limits, Program
from reasonrl_code.sandbox import open_sandbox
from reasonrl_code.sandbox.box import Sandbox
from reasonrl_code.sandbox.tiers import TIERS, TierName
from reasonrl_code.verifier import Code, CodeOptions

PROBLEM = Problem("p", "", metadata={"tests": [{"type": "call", "fn": "f", "args": [3], "expected": 9}]})


@pytest.fixture(scope="module", params=[name for name, tier in TIERS.items() if not tier.automatic])
def weak(request: pytest.FixtureRequest) -> Iterator[Code]:
    try:
        Sandbox(request.param).close()
    except ReasonRLError as error:
        pytest.skip(str(error))
    code = Code(CodeOptions(tier=request.param))
    yield code
    code.close()


def test_each_verdict_of_a_weak_tier_carries_a_warning(weak: Code) -> None:
    for source, reason in (
        ("def f(x): return x * x", "correct"),
        ("def f(x): return x", "wrong"),
        ("f = 1 +", "error"),
    ):
        verdict = weak.verify(PROBLEM, Response(f"```python\n{source}\n```"))
        assert verdict.reason == reason
        assert verdict.evidence["tier"] == weak.options.tier
        assert verdict.evidence["warning"] == f"sandbox tier {weak.options.tier!r} does not hold against all attacks"


@pytest.mark.parametrize("name", [name for name, tier in TIERS.items() if tier.automatic])
def test_the_tiers_that_are_chosen_by_themselves_carry_none(name: TierName) -> None:
    assert TIERS[name].warning == ""


def test_without_bubblewrap_no_program_is_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ReasonRLError, match=r"(?s)no sandbox holds.*apt-get install bubblewrap.*'landlock'"):
        open_sandbox()
    with pytest.raises(ReasonRLError, match="tier 'bwrap' cannot be used here"):
        open_sandbox("bwrap")


def test_a_weak_tier_opens_only_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with open_sandbox("unsafe-subprocess") as sandbox:
        assert sandbox.tier == "unsafe-subprocess"
        assert sandbox.run(Program("print(6 * 7)"), "", Limits()).output == "42\n"
