"""Secrets come from the environment, nothing else does, and a secret is seen by nobody but its verifier."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from scoring_processes import problem
from secret_verifier import SECRET, TASK, VARIABLE, Judge, Options, offer

from reasonrl import ReasonRLError, Response, tasks, yamlfile
from reasonrl.config import RunConfig
from reasonrl.environment import fill_secrets
from reasonrl.plugins import installed
from reasonrl.scoring import Scorer
from reasonrl.scoring.resolve import resolve


@pytest.fixture(autouse=True)
def _set(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch)
    monkeypatch.setenv(VARIABLE, SECRET)


@pytest.fixture
def load(tmp_path: Path) -> Any:
    def load(text: str = TASK) -> Any:
        (tmp_path / "judged.yaml").write_text(text)
        return tasks.load(str(tmp_path / "judged.yaml"))

    return load


def refusal(call: Any, *arguments: Any) -> str:
    with pytest.raises(ReasonRLError) as caught:
        call(*arguments)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_a_secret_is_filled_in_when_the_options_are_built(load: Any) -> None:
    task = load()
    options: Any = resolve(task)[0].options
    assert options.api_key.get_secret_value() == SECRET
    assert options.model == "some-model"
    assert task.verifiers[0].options["api_key"] == "${REASONRL_TEST_KEY}"  # the task itself holds the name alone


def test_optional_and_nested_secrets_are_filled_in_too() -> None:
    variable = f"${{{VARIABLE}}}"
    filled, faults = fill_secrets(Options, {"second": variable, "by_host": {"a": variable}, "more": [variable]})
    assert faults == []
    options = Options.model_validate(filled)
    assert options.second is not None
    assert [options.second.get_secret_value(), options.by_host["a"].get_secret_value()] == [SECRET, SECRET]
    assert [secret.get_secret_value() for secret in options.more] == [SECRET]
    assert Options.model_validate(fill_secrets(Options, {"second": None})[0]).second is None


@pytest.mark.parametrize("value", ["", None])
def test_a_variable_that_is_not_set_is_named(load: Any, monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    if value is None:
        monkeypatch.delenv(VARIABLE)
    else:
        monkeypatch.setenv(VARIABLE, value)
    message = refusal(load)
    assert "judged.yaml:9: verifiers.0.options.api_key: the environment variable REASONRL_TEST_KEY is not" in message
    assert "export REASONRL_TEST_KEY=" in message
    built = refusal(installed().options, "judge", {"api_key": "${REASONRL_TEST_KEY}"})
    assert "options of verifier 'judge': api_key: the environment variable REASONRL_TEST_KEY is not set" in built


@pytest.mark.parametrize(
    ("written", "key"),
    [
        (f"api_key: {SECRET}", "api_key"),
        (f"api_key: Bearer {SECRET} ${{{VARIABLE}}}", "api_key"),
        ("api_key: 123456", "api_key"),
        (f"api_key: [{SECRET}]", "api_key.0"),
        (f"second: {SECRET}", "second"),
        (f"by_host: {{a: {SECRET}}}", "by_host.a"),
        (f"more: [{SECRET}]", "more.0"),
    ],
)
def test_a_secret_in_the_yaml_is_refused_and_not_repeated(load: Any, written: str, key: str) -> None:
    message = refusal(load, TASK.replace("api_key: ${REASONRL_TEST_KEY}", written))
    assert f"judged.yaml:9: verifiers.0.options.{key}: a secret is not written into a YAML" in message
    assert "write ${NAME}" in message
    assert "123456" not in message


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("some-model", "${MODEL}", ":8: verifiers.0.options.model"),
        ('"{{ question }}"', "${PROMPT}", ":4: prompt.template"),
        ("name: judged", "name: ${NAME}", ":1: name"),
    ],
)
def test_a_variable_elsewhere_is_refused(load: Any, old: str, new: str, place: str) -> None:
    message = refusal(load, TASK.replace(old, new))
    assert f"judged.yaml{place}: ${{" in message
    assert "environment variables are for secrets only; write the value, or give it on the command line" in message


def test_a_variable_in_a_run_is_refused_also_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("name: x\nmodel: {path: '${HOME}'}\n")
    document = yamlfile.read(tmp_path / "a.yaml").override("seed=${SEED}")
    message = refusal(yamlfile.validate, RunConfig, document)
    assert "a.yaml:2: model.path: ${HOME}: environment variables are for secrets only" in message
    assert "from the command line, seed=${SEED}: seed: ${SEED}: environment variables are" in message


def test_what_only_looks_like_a_variable_is_text() -> None:
    class Texts(BaseModel):
        regex: str
        price: str

    data = {"regex": r"\$?\d+${", "price": "$5 {x} ${A} and more", "unknown": "${A}"}
    assert fill_secrets(Texts, data) == (data, [])


def test_a_secret_that_breaks_a_limit_is_not_shown(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "q7z")
    for message in (
        refusal(load),
        refusal(installed().options, "judge", {"api_key": "${REASONRL_TEST_KEY}"}),
    ):
        assert "api_key" in message
        assert "q7z" not in message


def test_a_worker_knows_the_secret_and_sends_it_to_nobody(load: Any) -> None:
    weighted = resolve(load())
    assert SECRET not in repr(weighted)
    with Scorer(weighted, workers=1, deadline=20) as scorer:
        for text in (f"it is {SECRET}", "no idea", "break"):
            scorer.submit(text, problem(), Response(text))
        scored = scorer.collect()
    verdicts = [one.verdicts[0] for one in scored.values()]
    assert [verdict.reward for verdict in verdicts] == [1.0, 0.0, None]
    assert "**********" in str(verdicts[0].evidence)
    assert "**********" in str(verdicts[2].evidence)
    assert SECRET not in repr(verdicts)
    assert weighted[0].verifier is Judge
