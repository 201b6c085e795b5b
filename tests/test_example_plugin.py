"""The example plugin is a real package: its entry point loads and its verifier judges."""

import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest

from reasonrl import Problem, Response, Verifier
from reasonrl.plugins import Plugins

FOLDER = Path(__file__).parents[1] / "examples" / "palindrome_verifier"


@pytest.fixture
def palindrome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Verifier:
    """Its verifier, found as if the package were installed."""
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]
    [(name, module)] = project["entry-points"]["reasonrl"].items()
    info = tmp_path / "reasonrl_palindrome-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    (info / "entry_points.txt").write_text(f"[reasonrl]\n{name} = {module}\n")
    monkeypatch.syspath_prepend(str(FOLDER))
    plugins = Plugins(distributions(path=[str(tmp_path)]))
    assert plugins.broken == []
    return plugins.verifier("palindrome").verifier()


@pytest.mark.parametrize(
    ("text", "reward"), [("A man, a plan, a canal: Panama!", 1.0), ("abca", 0.0), ("aa", 0.0), ("", 0.0)]
)
def test_palindrome(palindrome: Verifier, text: str, reward: float) -> None:
    assert palindrome.verify(Problem("p", ""), Response(text)).reward == reward


def test_it_is_as_short_as_its_readme_says() -> None:
    assert len((FOLDER / "reasonrl_palindrome.py").read_text().splitlines()) <= 20
