"""Discovery of plugins: pluggy's three traps, clashes of names, and options that name their keys.

The plugins are real distributions, a `.dist-info` folder and a module each, put on sys.path in a temporary folder.
"""

import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest

from reasonrl import ReasonRLError
from reasonrl.plugins import Plugins, installed

ROOT = Path(__file__).parents[1]

VERIFIER = """
from reasonrl import Verdict, Verifier, VerifierOptions, hookimpl

class Options(VerifierOptions):
    strict: bool = False
    marker: str = ""

class Fake(Verifier):
    name = "{name}"
    Options = Options

    def verify(self, problem, response):
        return Verdict(1.0, "correct")

@hookimpl
def {hook}():
    return [Fake]
"""


class Site:
    """A folder of fake distributions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, dist: str, entry_point: str, module: str, source: str) -> None:
        (self.folder / f"{module}.py").write_text(source)
        info = self.folder / f"{dist.replace('-', '_')}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[reasonrl]\n{entry_point} = {module}\n")

    def plugins(self) -> Plugins:
        return Plugins(distributions(path=[str(self.folder)]))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.syspath_prepend(str(tmp_path))
    for module in [name for name in sys.modules if name.startswith("fake_")]:
        monkeypatch.delitem(sys.modules, module)
    return Site(tmp_path)


def good(name: str = "fine") -> str:
    return VERIFIER.format(name=name, hook="reasonrl_verifiers")


def test_a_verifier_is_found_with_its_origin(site: Site) -> None:
    site.add("fake-dist", "fine", "fake_fine", good())
    source = site.plugins().verifier("fine")
    assert (source.plugin, source.distribution, source.version) == ("fine", "fake-dist", "1.2")
    assert source.verifier.__name__ == "Fake"


def test_entry_points_of_other_groups_are_left_alone(site: Site) -> None:
    site.add("fake-dist", "fine", "fake_fine", "raise RuntimeError('must not be imported')")
    info = site.folder / "fake_dist-1.2.dist-info" / "entry_points.txt"
    info.write_text("[console_scripts]\nfine = fake_fine\n")
    assert (site.plugins().verifiers, site.plugins().broken) == ({}, [])


def test_trap_1_two_plugins_with_one_entry_point_name(site: Site) -> None:
    site.add("fake-one", "same", "fake_one", good("one"))
    site.add("fake-two", "same", "fake_two", good("two"))
    with pytest.raises(ReasonRLError, match=r"entry-point name 'same'.*fake-(one|two).*fake-(one|two)") as error:
        site.plugins()
    assert all(word in str(error.value) for word in ("fake-one", "fake_one", "fake-two", "fake_two"))


def test_one_distribution_seen_twice_is_no_clash(site: Site) -> None:
    site.add("fake-dist", "fine", "fake_fine", good())
    twice = [*distributions(path=[str(site.folder)]), *distributions(path=[str(site.folder)])]
    assert list(Plugins(twice).verifiers) == ["fine"]


def test_trap_2_a_broken_import_does_not_hide_the_others(site: Site) -> None:
    site.add("fake-bad", "bad", "fake_bad", "import a_module_that_is_not_there\n")
    site.add("fake-dist", "fine", "fake_fine", good())
    plugins = site.plugins()
    assert list(plugins.verifiers) == ["fine"]
    [broken] = plugins.broken
    assert (broken.plugin, broken.distribution) == ("bad", "fake-bad")
    assert "Traceback" in broken.error
    assert "a_module_that_is_not_there" in broken.error


def test_the_traceback_is_raised_when_a_task_asks_for_an_unknown_verifier(site: Site) -> None:
    site.add("fake-bad", "bad", "fake_bad", "import a_module_that_is_not_there\n")
    site.add("fake-dist", "fine", "fake_fine", good())
    with pytest.raises(ReasonRLError) as error:
        site.plugins().verifier("wanted")
    for words in ("no verifier is named 'wanted'", "installed are: fine", "fake-bad", "a_module_that_is_not_there"):
        assert words in str(error.value)


def test_trap_3_a_misspelt_hook_is_shown_as_broken(site: Site) -> None:
    site.add("fake-typo", "typo", "fake_typo", VERIFIER.format(name="typo", hook="reasonrl_verifers"))
    site.add("fake-dist", "zfine", "fake_fine", good())  # loaded after the misspelt one, and not blamed for it
    plugins = site.plugins()
    assert list(plugins.verifiers) == ["fine"]
    assert [broken.plugin for broken in plugins.broken] == ["typo"]
    assert "reasonrl_verifers" in plugins.broken[0].error


def test_a_forgotten_hookimpl_is_shown_as_broken(site: Site) -> None:
    site.add("fake-bare", "bare", "fake_bare", good("bare").replace("@hookimpl", ""))
    plugins = site.plugins()
    assert plugins.verifiers == {}
    assert "hookimpl" in plugins.broken[0].error


@pytest.mark.parametrize("offer", ["[object]", "[Verifier]", "[3]", "3"])
def test_a_hook_that_offers_no_verifiers_is_shown_as_broken(site: Site, offer: str) -> None:
    site.add("fake-odd", "odd", "fake_odd", good("odd").replace("return [Fake]", f"return {offer}"))
    plugins = site.plugins()
    assert plugins.verifiers == {}
    assert "TypeError" in plugins.broken[0].error


def test_two_plugins_that_offer_one_verifier_name(site: Site) -> None:
    site.add("fake-one", "one", "fake_one", good("same"))
    site.add("fake-two", "two", "fake_two", good("same"))
    with pytest.raises(ReasonRLError, match=r"a verifier named 'same': one \(fake-one\) and two \(fake-two\)"):
        site.plugins()


def test_task_folders_are_collected(site: Site) -> None:
    source = "from reasonrl import hookimpl\n@hookimpl\ndef reasonrl_tasks():\n    return ['/some/tasks']\n"
    site.add("fake-tasks", "tasks", "fake_tasks", source)
    assert site.plugins().task_folders == [Path("/some/tasks")]


def test_options_are_validated_and_errors_name_the_keys_there_are(site: Site) -> None:
    site.add("fake-dist", "fine", "fake_fine", good())
    plugins = site.plugins()
    assert plugins.options("fine", {"strict": True}).model_dump() == {"strict": True, "marker": ""}
    with pytest.raises(ReasonRLError, match=r"options of verifier 'fine': strictt: .*its options: strict, marker"):
        plugins.options("fine", {"strictt": True})
    with pytest.raises(ReasonRLError, match=r"'fine': strict: .*boolean"):
        plugins.options("fine", {"strict": "perhaps"})


def test_the_folders_of_the_shelf_are_the_entry_points() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    folders = {path.name for path in (ROOT / "verifiers").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == set(project["entry-points"]["reasonrl"].values())
    assert not (ROOT / "verifiers" / "__init__.py").exists(), "it would shadow the PyPI package `verifiers`"
    assert all((ROOT / "verifiers" / folder / "py.typed").exists() for folder in folders)


def test_the_bundled_verifiers_are_installed_like_any_other() -> None:
    plugins = installed()
    assert {"exact", "choice", "format", "length", "arithmetic_steps", "math"} <= set(plugins.verifiers)
    assert {plugins.verifier(name).distribution for name in ("exact", "math")} == {"reasonrl"}
    assert plugins.verifier("arithmetic_steps").verifier.supervises == ("outcome", "process")
