"""math: what is taken from a response, what is refused unparsed, and what equals what.

Answers are judged in a child process with a deadline, as in the scorer: a mistake in the bounds shows as a hang.
"""

import json
import multiprocessing
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reasonrl import Problem, Response, Verdict
from reasonrl_math import Math
from reasonrl_math.bounds import too_large
from reasonrl_math.extract import Where, extract_answer, last_box
from reasonrl_math.rewrite import to_latex
from reasonrl_math.verifier import MathOptions

CASES = [
    json.loads(line) for line in (Path(__file__).parents[1] / "data" / "math_cases.jsonl").read_text().splitlines()
]
DEADLINE = 60  # seconds; far more than any answer needs on a busy machine


def serve(pipe: Connection) -> None:
    verifier = Math()
    verifier.warm_up()
    while True:
        reference, response = pipe.recv()
        try:
            pipe.send(verifier.verify(Problem("p", "", reference), Response(response)))
        except ValueError as error:
            pipe.send(error)


class Judge:
    """A child process that judges; killed and named if it hangs."""

    def __init__(self) -> None:
        self.pipe, other = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("spawn").Process(target=serve, args=(other,), daemon=True)
        self.process.start()

    def __call__(self, reference: str, response: str) -> Any:
        self.pipe.send((reference, response))
        if not self.pipe.poll(DEADLINE):
            self.process.kill()
            pytest.fail(f"no verdict within {DEADLINE} s on {response[:80]!r}")
        return self.pipe.recv()


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    judge = Judge()
    yield judge
    judge.process.kill()
    judge.process.join()
    judge.pipe.close()


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_cases(judge: Judge, case: dict[str, Any]) -> None:
    verdict = judge(case["gold"], case["response"])
    assert isinstance(verdict, Verdict), verdict
    assert verdict.reward == float(case["equal"]), verdict


@pytest.mark.parametrize(
    ("reference", "answer", "equal"),
    [
        ("0.333333", r"\frac{1}{3}", False),
        (r"\frac13", "0.333333", False),
        ("1/2", "0.5", True),
        ("60", r"60\%", False),
        ("0.6", r"60\%", True),
        (r"\frac{1}{2^{70}}", r"\frac{1}{2^{71}}", False),
        (r"\sqrt{2}", r"\sqrt{2}+10^{-17}", False),
        (r"\pi", "3.14159265358979323846", False),
        (r"\sqrt{50}", r"5\sqrt{2}", True),
        ("3", "x=3", True),
        ("x=3", "3", True),
        ("6", "1=2=6", False),
        ("15 m", "15 cm", False),
        ("15", r"15\text{ cm}", True),
        (r"12\text{ feet}", r"12\text{ ft}", True),
        (r"-\frac{5}{2}", r"-2\frac12", True),
        ("Monday", "yadnoM", False),
        (r"\text{odd}", "odd", True),
        ("odd", r"\text{even}", False),
        ("120", "5!", True),
        ("0", r"\frac{0}{0}", False),
        ("132_5", "132_{5}", True),
        ("132_5", "132_6", False),
    ],
)
def test_equality(judge: Judge, reference: str, answer: str, equal: bool) -> None:
    verdict = judge(reference, rf"So it is $\boxed{{{answer}}}$.")
    assert (verdict.reward, verdict.reason) == (float(equal), "correct" if equal else "wrong")


def test_evidence_and_reasons(judge: Judge) -> None:
    assert judge("0.5", r"\boxed{\frac{1}{2}}").evidence == {
        "answer": r"\frac{1}{2}",
        "parsed": "1/2",
        "rule": "numbers",
    }
    assert judge("5", "I cannot determine the answer.").reason == "no_answer"
    large = judge("5", r"\boxed{9^{9^{9}}}")
    assert (large.reward, large.reason) == (0.0, "too_large")


@pytest.mark.parametrize("reference", ["", " ", r"\frac{1}{", "9^{9^{9}}"])
def test_a_reference_that_is_no_use_is_a_fault_and_never_judged(judge: Judge, reference: str) -> None:
    assert Math().audit(Problem("p", "", reference)) is not None
    assert isinstance(judge(reference, r"\boxed{5}"), ValueError)


def test_audit_accepts_what_it_can_compare() -> None:
    problems = [Problem("p", "", reference) for reference in (r"\text{Marta}", "C", r"\frac{1}{2}", "x^2+1", "(0,1]")]
    assert [Math().audit(problem) for problem in problems] == [None] * 5


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("no box", None),
        (r"\boxed{5}", "5"),
        (r"\fbox{5}", "5"),
        (r"\boxed 8", "8"),
        (r"\boxed{\frac{1}{2}} and \boxed{x_{1}}", "x_{1}"),
        (r"\boxed{\boxed{7}}", "7"),
        (r"\boxed{\{1,2\}}", r"\{1,2\}"),
        (r"\boxed{}", ""),
        (r"\boxed{5", ""),
        (r"\boxed{5} or \boxed{6", "5"),
        (r"}} \boxed{5}", "5"),
    ],
)
def test_last_box(text: str, content: str | None) -> None:
    assert last_box(text) == content


@pytest.mark.parametrize(
    ("text", "where", "answer"),
    [
        (r"the answer is 4, so \boxed{5}", "phrases", "5"),
        (r"the answer is 4, so \boxed{}", "last_number", None),
        (r"the answer is 4, so \boxed{5", "last_number", None),
        (r"<think>\boxed{5}</think> hm 6", "phrases", None),
        (r"<think>\boxed{5}</think> hm 6", "last_number", "6"),
        ("Therefore, the answer is $24$.", "phrases", "24"),
        ("Therefore, the answer is $24$.", "boxed", None),
        ("The final answer is: 3.5. I hope so", "phrases", "3.5"),
        ("**Answer:** 24", "phrases", "24"),
        ("The answer is 3. No, the answer is 4.", "phrases", "4"),
        ("The answer is 24 apples.", "phrases", "24"),
        ("The answer is 3 or 4.", "phrases", "3 or 4"),
        ("#### 1,234", "phrases", "1,234"),
        ("<answer>\n7\n</answer>", "phrases", "7"),
        ("The answer is I cannot determine", "last_number", None),
        ("we get 1,234 and -7.5", "last_number", "-7.5"),
        ("we get 3-5", "last_number", "5"),
        ("we get 5", "phrases", None),
    ],
)
def test_where_the_answer_may_stand(text: str, where: Where, answer: str | None) -> None:
    assert extract_answer(text, where) == answer


@pytest.mark.parametrize(
    "latex",
    [
        "10^{10^{100}}", "7**1200000000", r"7^{\left(7^{\left(7^{7}\right)} - 3\right)}", "9^9^9^9", "(x+1)^{100000}",
        "(x+y+z)^{59}", "((9!)!)!", "9999999!", "(10^6)!", r"\binom{100000}{50000}", r"\prod_{k=1}^{100000000} k",
        "10^{-10^{10}}", "{9^9}^{9^9}", r"2^{20000\cdot 20000}", r"\int_0^1 x\,dx", "(" * 30 + ")" * 30, "9" * 401,
        "1+" * 700, r"\sin" * 201,
    ],
)  # fmt: skip
def test_refused_by_magnitude(latex: str) -> None:
    assert too_large(latex) is not None


@pytest.mark.parametrize(
    "latex",
    [
        r"\frac{2^{1001}+1}{3 \cdot 2^{1002}}", r"\frac{1}{1500!}", "2^{2^{10}}", "10^{100}", "x^{2024}", "(x+1)^{10}",
        "9" * 300, r"\binom{4048}{2024}", r"\sum_{k=1}^{100} k", "e^{x^{2}}", r"4.5\times 10^{-7}", "2^{2023}-1", "5!!",
    ],
)  # fmt: skip
def test_not_refused(latex: str) -> None:
    assert too_large(latex) is None


@pytest.mark.parametrize(
    ("latex", "rewritten"),
    [
        ("1 3/4", r"\frac{7}{4}"),
        (r"-2\frac12", r"-\frac{5}{2}"),
        ("4 10/3", None),
        (r"0.1\overline{6}", r"\frac{15}{90}"),
        (r"1.\overline{3}", r"\frac{12}{9}"),
        ("18.90€", "18.90"),
        ("√7", r"\sqrt{7}"),
        (r"35\text{ percent}", r"35\%"),
        ("x**2", "x^2"),
    ],
)
def test_notations_that_math_verify_misreads(latex: str, rewritten: str | None) -> None:
    assert to_latex(latex) == rewritten


def test_options() -> None:
    verifier = Math(MathOptions(answer="boxed"))
    assert verifier.verify(Problem("p", "", "5"), Response("The answer is 5")).reason == "no_answer"


PIECES = st.sampled_from([*r"{}\$^!()0123456789.,x ", r"\boxed{", "answer is ", "<answer>", "</think>", "####", "**"])


@given(st.lists(PIECES, max_size=80), st.sampled_from(["boxed", "phrases", "last_number"]))
@settings(deadline=None)
def test_any_text_is_read_and_bounded_without_an_error(pieces: list[str], where: Where) -> None:
    text = "".join(pieces)
    answer = extract_answer(text, where)
    assert answer is None or answer
    too_large(text)
    to_latex(text)


@pytest.mark.parametrize(
    "text", [r"\boxed{" * 20000, "answer is " * 20000, "<answer>" * 20000, "9^" * 50000, "$" * 50000, "1,234" * 20000]
)
def test_long_text_costs_little(text: str) -> None:
    start = time.monotonic()
    answer = extract_answer(text, "last_number")
    too_large(answer or text)
    assert time.monotonic() - start < 10  # seconds; a quadratic reader needs minutes
