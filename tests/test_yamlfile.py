"""YAML read strictly: what is refused, and that every refusal says where."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import Field, model_validator

from reasonrl import ReasonRLError, yamlfile
from reasonrl.yamlfile import Document, Record


class Small(Record):
    name: Literal["small"] = "small"
    size: int = Field(1, ge=1)
    shape: tuple[float, float] = (0.0, 0.0)


class Large(Record):
    name: Literal["large"] = "large"
    colour: Literal["red", "green"] = "red"


class Bounds(Record):
    min: int | str = 0
    excluded: tuple[int, ...] = Field((), alias="not")


Wanted = bool | int | str | tuple[int | str, ...] | Bounds


class Root(Record):
    title: str = ""
    thing: Annotated[Small | Large, Field(discriminator="name")] = Small()
    many: tuple[Small, ...] = ()
    rate: float = 0.0
    count: int | None = None
    loud: bool = False
    limits: dict[str, int] = Field({})
    exact: tuple[bool, ...] = ()
    wanted: dict[str, Wanted] = Field({})
    files: str | tuple[str, ...] = ""

    @model_validator(mode="after")
    def _whole(self) -> "Root":
        if self.count == 13:
            raise ValueError("count must not be 13")
        return self


@pytest.fixture
def document(tmp_path: Path) -> Any:
    def make(text: str) -> Document:
        path = tmp_path / "a.yaml"
        path.write_text(text, encoding="utf-8")
        return yamlfile.read(path)

    return make


def fault(document: Any, text: str, *overrides: str) -> str:
    """The error a text gives, with the folder of the file left out."""

    def load() -> None:
        found = document(text)
        for override in overrides:
            found = found.override(override)
        yamlfile.validate(Root, found)

    with pytest.raises(ReasonRLError) as caught:
        load()
    return re.sub(r"/\S*/a\.yaml", "a.yaml", str(caught.value))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rate: 1\nrate: 2", r"a\.yaml:2: the key 'rate' stands on line 1 already"),
        ("thing:\n  name: small\n  size: 1\n  size: 2", r"a\.yaml:4: the key 'size' stands on line 3 already"),
        ("many:\n- {size: 1, size: 2}", r"a\.yaml:2: the key 'size' stands on line 2 already"),
        ("thing:\n\tname: small", r"a\.yaml:2: not valid YAML: .*\\t.*; YAML is indented with spaces"),
        ("title: 'open", r"a\.yaml:1: not valid YAML: found unexpected end"),
        ("title: !!python/object/apply:os.system ['true']", r"a\.yaml:1: not valid YAML: .*no Python objects"),
        ("title: !!python/name:os.system", r"a\.yaml:1: not valid YAML: .*no Python objects"),
        ("title: a\n---\ntitle: b", r"a\.yaml:2: not valid YAML"),
        ("", r"a\.yaml: expected keys and values, the file is empty"),
        ("# nothing", r"a\.yaml: expected keys and values, the file is empty"),
        ("- 1", r"a\.yaml: expected keys and values, not a list"),
        ("word", r"a\.yaml: expected keys and values, not one value"),
        ("title: a\n1: b", r"a\.yaml:2: a key must be text, not 1; write it in quotes"),
        ("[a, b]: c", r"a\.yaml:1: a key must be text, not a list or mapping"),
        ("many: &a [*a]", r"a\.yaml: not valid YAML: nested too deeply, or an anchor that holds itself"),
        ("many: " + "[" * 3000, r"a\.yaml: not valid YAML: nested too deeply"),
        ("rat: 1", r"a\.yaml:1: rat: unknown key; did you mean 'rate'\? \(known here: count, .*wanted\)"),
        ("zzz: 1", r"a\.yaml:1: zzz: unknown key \(known here"),
        ("title: x\nmany:\n- {size: 2}\n- {sise: 2}", r"a\.yaml:4: many\.1\.sise: unknown key; did you mean 'size'"),
        ("rate: fast", r"a\.yaml:1: rate: expected a number, not 'fast'"),
        ("rate: .inf", r"a\.yaml:1: rate: expected a finite number, not inf"),
        ("rate: true", r"a\.yaml:1: rate: expected a number, not true"),
        ("count: false", r"a\.yaml:1: count: expected a whole number, not false"),
        ("count: 1.5", r"a\.yaml:1: count: expected a whole number, not 1\.5"),
        ("rate: null", r"a\.yaml:1: rate: expected a number, not null"),
        ("loud: 7", r"a\.yaml:1: loud: expected true or false, not 7"),
        ("rate: '1.0'", r"a\.yaml:1: rate: expected a number, not '1\.0'"),
        ("count: '1'", r"a\.yaml:1: count: expected a whole number, not '1'"),
        ("loud: yes", r"a\.yaml:1: loud: expected true or false, not 'yes'"),
        ("loud: n", r"a\.yaml:1: loud: expected true or false, not 'n'"),
        ("loud: 1", r"a\.yaml:1: loud: expected true or false, not 1"),
        ("loud: 'true'", r"a\.yaml:1: loud: expected true or false, not 'true'"),
        ("exact: [true, 0]", r"a\.yaml:1: exact\.1: expected true or false, not 0"),
        ("limits: {a: '1'}", r"a\.yaml:1: limits\.a: expected a whole number, not '1'"),
        ("limits: {a: true}", r"a\.yaml:1: limits\.a: expected a whole number, not true"),
        ("thing: {name: small, shape: [1, '2']}", r"a\.yaml:1: thing\.shape\.1: expected a number, not '2'"),
        ("many: [{size: '3'}]", r"a\.yaml:1: many\.0\.size: expected a whole number, not '3'"),
        ("title: [a]", r"a\.yaml:1: title: expected text, not \['a'\]"),
        ("title: true", r"a\.yaml:1: title: expected text, not true"),
        ("limits: 3", r"a\.yaml:1: limits: expected keys and values, not 3"),
        ("limits:\n  a: 1\n  b: x", r"a\.yaml:3: limits\.b: expected a whole number, not 'x'"),
        ("many: 3", r"a\.yaml:1: many: expected a list, not 3"),
        ("thing: 3", r"a\.yaml:1: thing: expected keys and values, not 3"),
        ("thing: {name: small, size: 0}", r"a\.yaml:1: thing\.size: expected at least 1, not 0"),
        ("thing:\n  name: small\n  shape: [1]", r"a\.yaml:3: thing\.shape: too few values"),
        ("thing: {name: large, colour: gren}", r"expected 'red' or 'green', not 'gren'; did you mean 'green'\?"),
        ("title: x\ncount: 13", r"a\.yaml: count must not be 13"),
    ],
)  # fmt: skip
def test_a_fault_names_file_line_key_and_what_was_expected(document: Any, text: str, expected: str) -> None:
    message = fault(document, text)
    assert re.match(expected, message) or re.search(expected, message), message
    assert "a.yaml" in message


@pytest.mark.parametrize("key", ["token", "hf_token", "api_key", "apikey", "wandb_api_key", "password", "secret"])
def test_a_credential_is_told_where_it_belongs_and_not_repeated(document: Any, key: str) -> None:
    for message in (
        fault(document, f"{key}: hunter2"),
        fault(document, "rate: 1", f"{key}=hunter2"),
        fault(document, "rate: 1", f"thing.{key}=[hunter2"),
    ):
        assert key in message
        assert "hunter2" not in message
    message = fault(document, f"thing:\n  name: small\n  {key}: hunter2")
    assert message.startswith(
        f"a.yaml:3: thing.{key}: unknown key; credentials stand in no YAML: libraries read theirs"
    )
    assert "HF_TOKEN" in message
    assert "credential" not in fault(document, "max_token: 3")


def test_a_union_is_told_by_its_name_and_its_members_keys(document: Any) -> None:
    unknown = fault(document, "title: x\nthing:\n  name: smal")
    assert unknown == "a.yaml:3: thing.name: expected 'small', 'large', not 'smal'; did you mean 'small'?"
    assert fault(document, "title: x\nthing: {size: 1}") == "a.yaml:2: thing.name: the key is missing"
    # A key of another member is unknown here, and is not offered as the nearest one.
    other = fault(document, "thing:\n  name: large\n  size: 1")
    assert other == "a.yaml:3: thing.size: unknown key (known here: colour, name)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("wanted: {ok: {not: null}}", "wanted.ok.not: expected a list, not null (nothing)"),
        ("wanted: {ok: {not: [x]}}", "wanted.ok.not.0: expected a whole number, not 'x'"),
        ("wanted: {ok: {regex: x}}", "wanted.ok.regex: unknown key (known here: min, not)"),
        ("wanted: {min: {mn: 1}}", "wanted.min.mn: unknown key; did you mean 'min'? (known here: min, not)"),
        ("wanted: {ok: {min: [1]}}", "wanted.ok.min: expected a whole number or text, not [1]"),
        ("wanted: {ok: [[1]]}", "wanted.ok.0: expected a whole number or text, not [1]"),
        (
            "wanted: {ok: null}",
            "wanted.ok: expected true or false, a whole number, text, a list or keys and values, not null (nothing)",
        ),
        ("files: {a: b}", "files: expected text or a list, not keys and values"),
        ("files: [a, {b: c}]", "files.1: expected text, not keys and values"),
    ],
)
def test_a_value_of_several_kinds_is_told_by_the_kind_it_is_of(document: Any, text: str, expected: str) -> None:
    assert fault(document, text) == f"a.yaml:1: {expected}"


def test_numbers_may_be_written_in_either_way(document: Any) -> None:
    root = yamlfile.validate(Root, document("rate: 2\ncount: 1e3\ntitle: 5\nwanted: {a: 1, b: true, c: x, d: [1, x]}"))
    assert (root.rate, root.count, root.title) == (2.0, 1000, "5")
    assert isinstance(root.rate, float)
    assert isinstance(root.count, int)
    assert root.wanted == {"a": 1, "b": True, "c": "x", "d": (1, "x")}
    assert root.wanted["a"] is not True


def test_all_faults_are_shown_at_once(document: Any) -> None:
    message = fault(document, "rate: x\ncount: y\nloud: z")
    assert [line.split(": ")[:2] for line in message.splitlines()] == [
        ["a.yaml:1", "rate"], ["a.yaml:2", "count"], ["a.yaml:3", "loud"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("rate=fast", "from the command line, rate=fast: rate: expected a number, not 'fast'"),
        ("rat=1", "from the command line, rat=1: rat: unknown key; did you mean 'rate'?"),
        ("rate=", "from the command line, rate=: rate: expected a number, not null"),
        ("rate=true", "from the command line, rate=true: rate: expected a number, not true"),
        ("thing.size=0", "from the command line, thing.size=0: thing.size: expected at least 1, not 0"),
        ("thing={name: smal}", "from the command line, thing={name: smal}: thing.name: expected"),
        ("thing={name: large, size: 2}", "from the command line, thing={name: large, size: 2}: thing.size: unknown"),
        ("thing.name=large", "a.yaml:3 with thing.name=large from the command line: thing.size: unknown key"),
        ("count=13", "a.yaml with count=13 from the command line: count must not be 13"),
        ("rate.x=1", "from the command line, rate.x=1: rate is a value without keys"),
        ("many.0.size=2", "from the command line, many.0.size=2: many is a list; give all of it"),
        ("rate=[1", "from the command line, rate=[1: '[1' is no YAML value"),
        ("rate=!!python/name:os.system", "from the command line, rate=!!python/name:os.system: '!!python"),
        ("rate", "'rate' is no override; write key=value"),
        ("=1", "'=1' is no override; write key=value"),
        ("thing..size=1", "'thing..size=1' is no override; write key=value"),
    ],
)
def test_a_wrong_override_says_that_it_is_one(document: Any, override: str, expected: str) -> None:
    message = fault(document, "thing:\n  name: small\n  size: 3\nrate: 0.5\nmany: [{size: 1}]", override)
    assert message.startswith(expected), message


def test_overrides_set_values_of_any_kind_and_the_last_one_wins(document: Any) -> None:
    found = document("thing: {name: small, size: 3}\ncount: 3")
    for override in ("count=null", "rate=1e-3", "loud=true", "limits.a=1", "thing.size=5", "thing.size=6", "title=a=b"):
        found = found.override(override)
    root = yamlfile.validate(Root, found)
    assert (root.count, root.rate, root.loud, root.limits, root.title) == (None, 0.001, True, {"a": 1}, "a=b")
    assert root.thing == Small(size=6)


def test_an_override_of_a_whole_hides_the_lines_and_overrides_below_it(document: Any) -> None:
    message = fault(document, "thing: {name: small, size: 3}", "thing.size=9", "thing={name: small, size: x}")
    assert (
        message == "from the command line, thing={name: small, size: x}: thing.size: expected a whole number, not 'x'"
    )


def test_overriding_leaves_the_document_it_starts_from_alone(document: Any) -> None:
    found = document("thing: {name: small, size: 3}")
    found.override("thing.size=9")
    assert found.data == {"thing": {"name": "small", "size": 3}}


def test_plain_words_and_numbers_are_read_as_in_yaml_1_2(document: Any) -> None:
    text = "a: no\nb: 1e-3\nc: 010\nd: 12:30\ne: 2024-01-01\nf: on\ng: 0x10\nh: -1.5\ni: ~\nj: True\nk: 1_000"
    assert document(text).data == {
        "a": "no", "b": 0.001, "c": "010", "d": "12:30", "e": "2024-01-01", "f": "on", "g": 16, "h": -1.5,
        "i": None, "j": True, "k": "1_000",
    }  # fmt: skip


def test_anchors_and_merges_work(document: Any) -> None:
    found = document("base: &b {size: 2}\nthing: {<<: *b, name: small}")
    assert found.data["thing"] == {"size": 2, "name": "small"}


def test_a_number_is_taken_for_a_text(document: Any) -> None:
    assert yamlfile.validate(Root, document("title: 1.0")).title == "1.0"


def test_a_missing_file_a_folder_and_bytes_are_named(tmp_path: Path) -> None:
    with pytest.raises(ReasonRLError, match=r"none\.yaml: cannot be read: No such file"):
        yamlfile.read(tmp_path / "none.yaml")
    with pytest.raises(ReasonRLError, match="cannot be read: Is a directory"):
        yamlfile.read(tmp_path)
    (tmp_path / "b.yaml").write_bytes(b"a: \xff")
    with pytest.raises(ReasonRLError, match=r"b\.yaml: not valid YAML: 'utf-8'"):
        yamlfile.read(tmp_path / "b.yaml")


def test_a_part_is_validated_with_its_own_lines_and_full_names(document: Any) -> None:
    found = document("many:\n- {size: 1}\n- name: small\n  size: x")
    assert yamlfile.validate(Small, found, at=("many", 0)).size == 1
    with pytest.raises(ReasonRLError, match=r"a\.yaml:4: many\.1\.size: expected a whole number, not 'x'"):
        yamlfile.validate(Small, found, at=("many", 1))
    assert yamlfile.validate(Small, found, at=("absent",)) == Small()


def test_finding_by_name_by_path_and_by_folder(tmp_path: Path) -> None:
    bundled, plugin = tmp_path / "bundled", tmp_path / "plugin"
    for path in (bundled / "one.yaml", bundled / "debug" / "two.yaml", plugin / "three.yaml"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a: 1")
    folders = [bundled, plugin, tmp_path / "absent"]
    assert yamlfile.find("one", "task", folders) == bundled / "one.yaml"
    assert yamlfile.find("debug/two", "task", folders) == bundled / "debug" / "two.yaml"
    assert yamlfile.find("three", "task", folders) == plugin / "three.yaml"
    assert yamlfile.find("some/where.yml", "task", folders) == Path("some/where.yml")
    with pytest.raises(ReasonRLError, match=r"no task is named 'thre'; did you mean 'three'.* debug/two, one, three;"):
        yamlfile.find("thre", "task", folders)
    (plugin / "one.yaml").write_text("a: 1")
    with pytest.raises(ReasonRLError, match=r"two tasks are named one: .*bundled.* and .*plugin.*; give a path"):
        yamlfile.find("one", "task", folders)


TEXTS = st.text(max_size=8)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(TEXTS, SCALARS, max_size=3)


@settings(deadline=None)
@given(st.dictionaries(TEXTS, VALUES, max_size=3))
@example({"a\x85b": "c\u2028d"})
def test_what_is_dumped_is_read_back_by_us_and_by_yaml_1_1(tmp_path_factory: Any, data: dict[str, Any]) -> None:
    path = tmp_path_factory.getbasetemp() / "dumped.yaml"
    path.write_text(yamlfile.dump(data), encoding="utf-8")
    assert yamlfile.read(path).data == data
    assert yaml.safe_load(path.read_text(encoding="utf-8")) == data


@pytest.mark.parametrize("word", ["no", "1e5", "010", "12:30", "0o7", "2024-01-01", "<<", "null", "~", "=", ""])
def test_a_text_that_looks_like_something_else_stays_a_text(tmp_path: Path, word: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(yamlfile.dump({"a": word}), encoding="utf-8")
    assert yamlfile.read(path).data == {"a": word}
