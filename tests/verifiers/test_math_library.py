"""math_verify: the library as it is, its verdicts with its name and version, and what it cannot parse."""

from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import pytest

from reasonrl import Problem, Response, Verdict
from reasonrl_math import MathVerify


def judged(reference: str, response: str) -> Verdict:
    return MathVerify().verify(Problem("p", "", reference), Response(response))


@pytest.mark.parametrize(
    ("reference", "response", "reason"),
    [
        ("5", r"\boxed{5}", "correct"),
        ("5", r"\boxed{6}", "wrong"),
        (r"\boxed{5}", "the answer is 5", "correct"),
        (r"\frac{1}{3}", r"\boxed{0.333333}", "correct"),  # where `math` says wrong: it rounds to six decimals
        (r"60\%", r"\boxed{60}", "correct"),
        (r"\text{Evelyn}", r"\boxed{\text{Evelyn}}", "correct"),
        ("5", "no idea", "no_answer"),
    ],
)
def test_the_verdict_is_the_librarys(reference: str, response: str, reason: str) -> None:
    found = judged(reference, response)
    assert (found.reward, found.reason) == (float(reason == "correct"), reason)
    assert found.evidence["library"] == f"math-verify {version('math-verify')}"


def test_evidence() -> None:
    evidence = judged("0.5", r"\boxed{\frac{1}{2}}").evidence
    assert (evidence["answer"], evidence["parsed"]) == (r"\frac{1}{2}", "1/2")


@pytest.mark.parametrize("reference", ["", " ", r"\frac{1}{", "?"])
def test_a_reference_it_cannot_parse_is_a_fault_and_never_judged(reference: str) -> None:
    assert "math-verify cannot parse" in (MathVerify().audit(Problem("p", "", reference)) or "")
    with pytest.raises(ValueError, match="cannot parse"):
        judged(reference, rf"\boxed{{{reference}}}")


def test_a_thread_says_the_same() -> None:
    """Its alarms, which work in the main thread only, are off."""
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(judged, "0.5", r"\boxed{1/2}").result() == judged("0.5", r"\boxed{1/2}")
