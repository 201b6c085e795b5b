"""exact: text equality of an extracted answer."""

import pytest

from reasonrl import Problem, Response, Verdict
from reasonrl_rules import Exact
from reasonrl_rules.exact import ExactOptions


def verdict(response: str, options: dict[str, object], reference: str = "Paris") -> Verdict:
    verifier = Exact(ExactOptions.model_validate(options))
    return verifier.verify(Problem("p", "", reference), Response(response))


@pytest.mark.parametrize(
    ("response", "options", "reason"),
    [
        ("Paris", {}, "correct"),
        ("  Paris\n", {}, "correct"),
        ("paris", {}, "wrong"),
        ("paris", {"ignore_case": True}, "correct"),
        ("It is Paris", {}, "wrong"),
        (" \n", {}, "no_answer"),
        ("<think>London?</think>\nParis", {}, "correct"),
        ("It is\n#### Paris\nI hope so", {"answer": "####"}, "correct"),
        ("#### London #### Paris", {"answer": "####"}, "correct"),
        ("#### Paris, or London #### London", {"answer": "####"}, "wrong"),
        ("Answer:\nParis", {"answer": "Answer:"}, "correct"),
        ("Paris", {"answer": "####"}, "no_answer"),
        ("Paris ####", {"answer": "####"}, "no_answer"),
        ("<think>#### Paris</think> I am not sure", {"answer": "####"}, "no_answer"),
    ],
)
def test_reason(response: str, options: dict[str, object], reason: str) -> None:
    found = verdict(response, options)
    assert (found.reason, found.reward) == (reason, float(reason == "correct"))


def test_runs_of_white_space_are_one_space() -> None:
    assert verdict("New \t York", {}, "New York").reason == "correct"
    assert verdict("NewYork", {}, "New York").reason == "wrong"


def test_the_evidence_is_the_answer() -> None:
    assert verdict("so: 7+1:136", {"answer": ":"}, "136").evidence == {"answer": "136"}


@pytest.mark.parametrize("reference", [None, "", " "])
def test_an_empty_reference_is_a_fault_and_never_right(reference: str | None) -> None:
    problem = Problem("p", "", reference)
    assert Exact().audit(problem) == "the reference is empty"
    with pytest.raises(ValueError, match="the reference is empty"):
        Exact().verify(problem, Response(""))
