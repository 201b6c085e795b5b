"""A verifier with a secret among its options, which says all it can of them; importable in worker processes."""

import pytest
from pydantic import Field, SecretStr

from reasonrl import Problem, Response, Verdict, Verifier, VerifierOptions
from reasonrl.plugins import VerifierSource, installed

SECRET = "hunter2-hunter2"
VARIABLE = "REASONRL_TEST_KEY"

TASK = """\
name: judged
generator: {name: arithmetic}
prompt:
  template: "{{ question }}"
verifiers:
- name: judge
  options:
    model: some-model
    api_key: ${REASONRL_TEST_KEY}
"""


class Options(VerifierOptions):
    model: str = "m"
    api_key: SecretStr = Field(SecretStr("none"), min_length=4)
    second: SecretStr | None = None
    by_host: dict[str, SecretStr] = {}  # noqa: RUF012  pydantic copies it
    more: tuple[SecretStr, ...] = ()


class Judge(Verifier):
    """Does the response hold the secret? Tells its options in every way it has."""

    name = "judge"
    Options = Options

    def verify(self, problem: Problem, response: Response) -> Verdict:
        if response.text == "break":
            raise ValueError(f"no answer with {self.options} {self.options.model_dump()}")
        right = self.options.api_key.get_secret_value() in response.text
        evidence = {"options": self.options, "dump": self.options.model_dump(), "key": self.options.api_key}
        return Verdict(float(right), "correct" if right else "wrong", evidence=evidence)


def offer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the verifier for the time of a test."""
    monkeypatch.setitem(installed().verifiers, "judge", VerifierSource(Judge, "plugin", "dist", "1.0"))
