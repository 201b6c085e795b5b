"""reward_model with servers on loopback, good and bad: what they are asked, and that nothing wrong becomes a reward."""

from typing import Any

import pytest
from loopback import Answer, Handler, Loopback, breaks_off, closes, drips, hangs, loopback, says

from reasonrl import Message, Problem, ReasonRLError, Response, Verdict
from reasonrl.plugins import installed
from reasonrl_reward_model import RemoteOptions, RewardModelOptions, RewardModelVerifier

USER = Message(role="user", content="1+1")
CHAT, TEXT = Problem("chat", (USER,)), Problem("text", "1+1=")
PAIRS = [(CHAT, Response("2")), (TEXT, Response("three")), (TEXT, Response("4"))]
LENGTHS = {"2": 1.0, "three": 5.0, "4": 1.0}


def verifier(server: Loopback, url: str = "", **remote: Any) -> RewardModelVerifier:
    given = {"url": server.url + url, "timeout": 5.0, "retries": 0, "backoff": 0.01} | remote
    batch = given.pop("batch_size", 16)
    return RewardModelVerifier(RewardModelOptions(remote=RemoteOptions(**given), batch_size=batch))


def lengths(handler: Handler, body: Any) -> None:
    """Scores a response by its length, in the schema of our own endpoint."""
    says({"rewards": [len(one["response"]) for one in body["inputs"]]})(handler, body)


def unjudged(found: list[Verdict], error: str, reason: str = "remote") -> None:
    assert [(one.reward, one.reason) for one in found] == [(None, reason)] * len(found)
    for one in found:
        assert error in one.evidence["error"]


@pytest.mark.parametrize("batch_size", [1, 2, 16])
def test_a_json_endpoint(batch_size: int) -> None:
    with loopback(lengths) as server:
        found = verifier(server, "/score?v=1", model="big", batch_size=batch_size, connections=1).verify_batch(PAIRS)
    assert [one.reward for one in found] == [1.0, 5.0, 1.0]
    assert {path for path, _, _ in server.asked} == {"/score?v=1"}
    assert [body["model"] for _, body, _ in server.asked] == ["big"] * -(-3 // batch_size)
    inputs = [one for _, body, _ in server.asked for one in body["inputs"]]
    assert inputs == [
        {"prompt": [USER], "response": "2"},
        {"prompt": "1+1=", "response": "three"},
        {"prompt": "1+1=", "response": "4"},
    ]


@pytest.mark.parametrize(
    ("api", "answer"),
    [
        ("vllm_classify", lambda score: {"data": [{"index": 0, "label": "L", "probs": [score], "num_classes": 1}]}),
        ("vllm_pooling", lambda score: {"data": [{"index": 0, "object": "pooling", "data": [score]}]}),
    ],
)
def test_vllm_is_asked_for_the_logit_of_one_conversation_at_a_time(api: str, answer: Any) -> None:
    def scored(handler: Handler, body: Any) -> None:
        text = body["messages"][-1]["content"] if "messages" in body else body["input"].removeprefix("1+1=")
        says(answer(LENGTHS[text]))(handler, body)

    with loopback(scored) as server:
        found = verifier(server, "/", api=api, model="rm", connections=1).verify_batch(PAIRS)
    assert [one.reward for one in found] == [1.0, 5.0, 1.0]
    assert {path for path, _, _ in server.asked} == {"/classify" if api == "vllm_classify" else "/pooling"}
    asked: dict[str, Any] = {"use_activation": False, "model": "rm"}
    asked |= {"task": "classify"} if api == "vllm_pooling" else {}
    turns = [USER, {"role": "assistant", "content": "2"}]
    assert [body for _, body, _ in server.asked] == [
        asked | {"messages": turns, "add_generation_prompt": False},
        asked | {"input": "1+1=three"},
        asked | {"input": "1+1=4"},
    ]


def test_many_connections_keep_the_order() -> None:
    pairs = [(TEXT, Response("x" * length)) for length in range(40)]
    with loopback(lengths) as server:
        found = verifier(server, batch_size=1, connections=8).verify_batch(pairs)
    assert [one.reward for one in found] == list(range(40))


def test_the_token_is_a_secret_and_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    with loopback(lengths) as server:
        given: dict[str, Any] = {"remote": {"url": server.url, "token": "${SCORES_KEY}"}}
        with pytest.raises(ReasonRLError, match="SCORES_KEY is not set"):
            installed().options("reward_model", given)
        monkeypatch.setenv("SCORES_KEY", "opensesame")
        options = installed().options("reward_model", given)
        RewardModelVerifier(options).verify(*PAIRS[0])
    assert [token for _, _, token in server.asked] == ["Bearer opensesame"]
    assert "opensesame" not in repr(options)


# --- servers that fail -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first", [says({}, 500), says({}, 503), says({}, 429), says({}, 408), breaks_off, closes, hangs]
)
def test_what_failed_for_now_is_tried_again(first: Answer) -> None:
    with loopback(first, first, lengths) as server:
        found = verifier(server, retries=2, timeout=1.0 if first is hangs else 10.0).verify_batch(PAIRS)
    assert [one.reward for one in found] == [1.0, 5.0, 1.0]
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("answer", "timeout", "error"),
    [
        (says({"error": "broken"}, 500), 10.0, 'status 500: {"error": "broken"} (3 tries)'),
        (hangs, 0.2, "no whole answer within 0.2 s (3 tries)"),
        (drips, 0.2, "no whole answer within 0.2 s (3 tries)"),
        (breaks_off, 10.0, "the answer was cut off (3 tries)"),
        (closes, 10.0, "RemoteDisconnected"),
    ],
    ids=["500", "hangs", "drips", "breaks_off", "closes"],
)
def test_what_fails_to_the_last_is_unjudged(answer: Answer, timeout: float, error: str) -> None:
    with loopback(answer) as server:
        unjudged(verifier(server, retries=2, timeout=timeout).verify_batch(PAIRS), error)


def test_nobody_there_is_unjudged() -> None:
    with loopback(lengths) as server:
        pass
    unjudged(verifier(server, retries=1).verify_batch(PAIRS), "ConnectionRefusedError")
    assert server.asked == []


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (says({"error": "too long"}, 400), 'status 400: {"error": "too long"}'),
        (says({}, 404), "status 404"),
        (says({}, 302), "status 302"),
        (says(b"<html>"), "the answer is no JSON: <html>"),
        (says(b"[" * 100_000), "the answer is no JSON"),
        (says({"rewards": [1.0, 2.0]}), "2 scores for 3 responses"),
        (says({"rewards": [1.0, 2.0, 3.0, 4.0]}), "4 scores for 3 responses"),
        (says({"rewards": 1.0}), "another shape"),
        (says({"scores": [1.0, 2.0, 3.0]}), "another shape"),
        (says([1.0, 2.0, 3.0]), "another shape"),
        (says(None), "another shape"),
        (says({"rewards": {"0": 1.0}}), "another shape"),
    ],
)
def test_what_will_not_get_better_is_not_tried_again(answer: Answer, error: str) -> None:
    with loopback(answer) as server:
        found = verifier(server, retries=5).verify_batch(PAIRS)
    unjudged(found, error)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (float("nan"), "not_finite"), (float("inf"), "not_finite"), (10**400, "not_finite"),
        (None, "remote"), ("0.5", "remote"), (True, "remote"), ([0.5], "remote"), ({}, "remote"),
    ],
)  # fmt: skip
def test_a_value_that_is_no_finite_number_costs_its_own_response_alone(value: Any, reason: str) -> None:
    with loopback(says({"rewards": [0.25, value, 3]})) as server:
        found = verifier(server).verify_batch(PAIRS)
    assert [one.reward for one in found] == [0.25, None, 3.0]
    assert found[1].reason == reason
    assert server.url in found[1].evidence["error"]


@pytest.mark.parametrize("probs", [[], [0.1, 0.9], 0.5, "x"])
def test_vllm_with_another_number_of_classes_is_unjudged(probs: Any) -> None:
    with loopback(says({"data": [{"index": 0, "probs": probs}]})) as server:
        unjudged(verifier(server, api="vllm_classify").verify_batch(PAIRS), "another shape")
    with loopback(says({"data": []})) as server:
        unjudged(verifier(server, api="vllm_classify").verify_batch(PAIRS), "0 scores for 1 responses")


def test_one_request_that_fails_leaves_the_others() -> None:
    with loopback(lengths, says({}, 400), lengths) as server:
        found = verifier(server, batch_size=1, connections=1).verify_batch(PAIRS)
    assert [one.reward for one in found] == [1.0, None, 1.0]
