"""docs/verifiers/reward_models.md is true: its YAML is valid for the tasks and verifiers it is about."""

import re
from pathlib import Path

import pytest
import yaml

from reasonrl.plugins import installed
from reasonrl.tasks.config import TaskConfig
from reasonrl_prm.options import MARKS, PRMOptions
from reasonrl_reward_model.remote import APIS

TEXT = (Path(__file__).parents[2] / "docs" / "verifiers" / "reward_models.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```yaml\n(.*?)```", TEXT, re.S)


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_a_snippet_is_valid(snippet: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCORES_KEY", "secret")
    given = yaml.safe_load(snippet)
    minimal = {"name": "docs", "description": "d", "license": "MIT", "generator": {"name": "arithmetic"}}
    minimal |= {"prompt": {"template": "{{ question }}"}, "verifiers": given["verifiers"]}
    for entry in TaskConfig.model_validate(minimal).verifiers:
        installed().options(entry.name, entry.options)


def test_every_convention_and_api_is_on_the_page() -> None:
    assert len(SNIPPETS) == 3
    for name in (*MARKS, *APIS):
        assert f"| `{name}` |" in TEXT
    assert list(MARKS) == list(PRMOptions.model_fields["convention"].annotation.__args__)  # type: ignore[union-attr]
