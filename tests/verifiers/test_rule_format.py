"""format: the tags, each once, in order, with nothing outside."""

import pytest
from pydantic import ValidationError

from reasonrl import Problem, Response, Verdict
from reasonrl_rules import Format
from reasonrl_rules.format import FormatOptions


def verdict(text: str, **options: object) -> Verdict:
    return Format(FormatOptions.model_validate(options)).verify(Problem("p", ""), Response(text))


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("<think>a</think><answer>b</answer>", {}),
        ("\n<think>\na\n</think>\n\n<answer>b</answer> ", {}),
        ("a</think> <answer>b</answer>", {"think_opened": True}),
        ("<plan>a</plan><final>b</final>", {"think": "plan", "answer": "final"}),
    ],
)
def test_right(text: str, options: dict[str, object]) -> None:
    found = verdict(text, **options)
    assert (found.reward, found.reason, found.evidence) == (1.0, "correct", {})


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("b", "<think> stands 0 times"),
        ("<think>a<answer>b</answer>", "</think> stands 0 times"),
        ("<think>a</think><answer>b", "</answer> stands 0 times"),
        ("<think>a</think><answer>b</answer><answer>b</answer>", "<answer> stands 2 times"),
        ("<think><think>a</think><answer>b</answer>", "<think> stands 2 times"),
        ("So <think>a</think><answer>b</answer>", "text before <think>"),
        ("<think>a</think><answer>b</answer>.", "text after </answer>"),
        ("<think>a</think> so <answer>b</answer>", "text between </think> and <answer>"),
        ("<think>a<answer>b</think></answer>", "<answer> stands before </think>"),
        ("<answer>b</answer><think>a</think>", "text before <think>"),
    ],
)
def test_the_rule_that_failed_is_named(text: str, fault: str) -> None:
    found = verdict(text)
    assert (found.reward, found.reason, found.evidence) == (0.0, "wrong_format", {"fault": fault})


def test_a_tag_that_the_prompt_opened_must_not_be_opened_again() -> None:
    found = verdict("<think>a</think><answer>b</answer>", think_opened=True)
    assert found.evidence == {"fault": "<think> stands 2 times"}


@pytest.mark.parametrize("options", [{"think": "a b"}, {"think": "answer"}, {"tag": "x"}])
def test_options_that_make_no_sense(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        FormatOptions.model_validate(options)
