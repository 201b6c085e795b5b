"""The rule `pattern`: reward for the form asked for."""

import pytest

from reasonrl import Problem, ReasonRLError, Response, plugins
from reasonrl_rules.pattern import Pattern, PatternOptions

PROBLEM = Problem(id="p", prompt="?", reference="42")
GSM8K = r"####\s*-?\$?\d[\d,]*(\.\d+)?\s*$"


@pytest.mark.parametrize(
    ("text", "reward", "reason"),
    [
        ("So 6 * 7 = 42.\n#### 42", 1.0, "correct"),
        ("#### -1,080.5\n", 1.0, "correct"),
        ("#### 41", 1.0, "correct"),  # the form alone: another verifier judges the answer
        ("The answer is 42.", 0.0, "wrong_format"),
        ("#### 42 is the answer", 0.0, "wrong_format"),
        ("####", 0.0, "wrong_format"),
        ("", 0.0, "wrong_format"),
    ],
)
def test_it_rewards_the_form_whatever_stands_there(text: str, reward: float, reason: str) -> None:
    verdict = Pattern(PatternOptions(regex=GSM8K)).verify(PROBLEM, Response(text))
    assert (verdict.reward, verdict.reason) == (reward, reason)


def test_the_evidence_is_what_was_found_and_short() -> None:
    verdict = Pattern(PatternOptions(regex="a+")).verify(PROBLEM, Response("b" + "a" * 1000))
    assert verdict.evidence == {"found": "a" * 200}


def test_an_expression_that_does_not_compile_is_an_error_of_the_task() -> None:
    with pytest.raises(ReasonRLError, match=r"options of verifier 'pattern': regex: .*not a regular expression"):
        plugins.installed().options("pattern", {"regex": "(["})
