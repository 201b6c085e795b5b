"""Anchors and aliases of YAML: they work, and a bomb of them is refused before it is expanded."""

import time
from pathlib import Path
from typing import Any

import pytest

from reasonrl import ReasonRLError, yamltext


def read(tmp_path: Path, text: str) -> dict[str, Any]:
    (tmp_path / "a.yaml").write_text(text)
    return yamltext.read_mapping(tmp_path / "a.yaml")[0]


def test_anchors_aliases_and_merges(tmp_path: Path) -> None:
    data = read(tmp_path, "a: &x {k: 1, l: [1, 2]}\nb: *x\nc:\n  <<: *x\n  k: 3\nd: [*x, *x]\n")
    base = {"k": 1, "l": [1, 2]}
    assert data == {"a": base, "b": base, "c": {"k": 3, "l": [1, 2]}, "d": [base, base]}
    assert yamltext.parse_value("[&x [1], *x]") == [[1], [1]]
    assert yamltext.parse_value("") is None


def test_an_alias_may_be_used_often(tmp_path: Path) -> None:
    text = f"a: &x [{'1, ' * 100}]\nb: [{'*x, ' * 500}]\n"
    assert read(tmp_path, text)["b"] == [[1] * 100] * 500


def test_a_long_document_without_aliases_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yamltext, "_MOST_REPEATED", 50)
    assert len(read(tmp_path, f"a: [{'1, ' * 500}]\n")["a"]) == 500
    with pytest.raises(ReasonRLError, match="repeat more than 50 values"):
        read(tmp_path, f"a: &x [{'1, ' * 500}]\nb: [*x, *x]\n")


@pytest.mark.parametrize(
    ("first", "form"),
    [
        ("[1]", "&x{n} [{aliases}]"),
        ("{k: 1}", "&x{n} {{<<: [{aliases}]}}"),
        ("{k: 1}", "&x{n} {{a: [{aliases}]}}"),
    ],
)
def test_a_bomb_is_refused_at_once_and_its_line_is_named(tmp_path: Path, first: str, form: str) -> None:
    lines = [f"a0: &x0 {first}"]
    lines += [f"a{n}: " + form.format(n=n, aliases=", ".join([f"*x{n - 1}"] * 10)) for n in range(1, 10)]
    start = time.monotonic()
    with pytest.raises(ReasonRLError, match=r"a\.yaml:6: .*aliases \(\*name\) in it repeat more than 100,000 values"):
        read(tmp_path, "\n".join(lines))
    with pytest.raises(ValueError, match="no YAML value"):
        yamltext.parse_value("{" + ", ".join(lines) + "}")
    assert time.monotonic() - start < 2


def test_an_anchor_that_holds_itself_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReasonRLError, match="an anchor that holds itself"):
        read(tmp_path, "a: &x [*x]\n")
    with pytest.raises(ValueError, match="no YAML value"):
        yamltext.parse_value("&x [*x]")
