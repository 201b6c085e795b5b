"""docs/algorithms.md is true: its links lead somewhere, its settings are valid, its presets are the records'."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from reasonrl.config import CriticFreeConfig, DAPOConfig, GRPOConfig, RunConfig
from reasonrl.config.run import Algorithm

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "algorithms.md"
TEXT = PAGE.read_text(encoding="utf-8")
LINKS = re.findall(r"\[([^\]]+)\]\(([^)]+)\)", TEXT)
INLINE = re.findall(r"`(algorithm: [^`]*)`", TEXT)
FENCED = re.findall(r"```yaml\n(.*?)```", TEXT, re.S)

RECORDS: dict[str, Any] = {record.model_fields["name"].default: record for record in get_args(Algorithm)}
SCORERS = ("reward_model", "process_reward_model")
SIZES: dict[str, dict[str, int]] = {name: {"steps": 2, "problems_per_step": 4} for name in RECORDS}
SIZES["sft"] = {"steps": 2, "batch_size": 4}
SIZES |= {name: {"steps": 2, "batch_size": 4} for name in ("dpo", *SCORERS)}
# What gives no advantages, and has no row in the table of presets.
OTHERS = {"sft", "dpo", "online_dpo", *SCORERS}

# What carries the mathematics without being any: masks, and where steps belong.
NOT_MATHEMATICS = {"masked", "masked_sum", "masked_mean", "of_response", "same_length", "of_one_process"}
NONE = "—"


@cache
def names_of(path: Path) -> frozenset[str]:
    """What a module defines at its top level, and the methods of its classes, dotted."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{method.name}" for method in node.body if isinstance(method, ast.FunctionDef)}
    return frozenset(found)


def functions() -> dict[str, Path]:
    """Every public function of reasonrl/algorithms, and the module it stands in."""
    return {
        node.name: path
        for path in sorted((ROOT / "reasonrl" / "algorithms").glob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }


def default(name: str) -> Any:
    """The record of an algorithm with nothing set but its sizes."""
    return RECORDS[name](**SIZES[name])


def presets() -> tuple[list[str], dict[str, dict[str, Any]]]:
    """The keys of the presets table, and its rows by name, each cell read as YAML."""
    section = TEXT.split("\n## Presets\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    keys, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    keys = [key.strip("`") for key in keys]
    cells = [dict(zip(keys, map(yaml.safe_load, row), strict=True)) for row in rows]
    return keys[1:], {row["name"]: row for row in cells}


def part(record: Any, key: str) -> Any:
    """The value at a dotted key; a dash where the record has no such part, or its other parts leave it unused."""
    if key == "std" and getattr(record, "advantage", None) != "group_relative":
        return NONE
    if key in ("clip_low", "clip_high") and getattr(record, "loss", None) == "importance_weighted":
        return NONE
    for step in key.split("."):
        if not hasattr(record, step):
            return NONE
        record = getattr(record, step)
    return record


KEYS, ROWS = presets()


def test_there_is_something_to_check() -> None:
    assert len(LINKS) > 80
    assert len(INLINE) > 40
    assert FENCED
    assert len(ROWS) == 10


@pytest.mark.parametrize(("text", "target"), sorted(set(LINKS)), ids=lambda part: part)
def test_a_link_leads_to_a_file_that_defines_what_it_names(text: str, target: str) -> None:
    path = (PAGE.parent / target).resolve()
    assert path.is_file()
    if path.is_relative_to(ROOT / "reasonrl") and all(word.isidentifier() for word in text.split(".")):
        assert text in names_of(path)
    if text.endswith(".py"):
        assert text == path.name


def test_every_function_that_is_mathematics_is_on_the_page() -> None:
    linked = {(text, (PAGE.parent / target).resolve()) for text, target in LINKS}
    found = functions()
    assert set(found) >= NOT_MATHEMATICS
    assert {name for name, path in found.items() if (name, path) not in linked} == NOT_MATHEMATICS


@pytest.mark.parametrize("snippet", sorted({*INLINE, *FENCED}))
def test_a_setting_is_valid(snippet: str) -> None:
    given = yaml.safe_load(snippet)["algorithm"]
    run = {"name": "docs", "task": None if given["name"] in SCORERS else "gsm8k", "model": {"path": "some/model"}}
    RunConfig.model_validate(run | {"algorithm": SIZES[given["name"]] | given})


def test_a_table_has_as_many_cells_in_each_row() -> None:
    for table in re.findall(r"(?:^\|.*\n)+", TEXT, re.M):
        assert len({line.count("|") for line in table.splitlines()}) == 1, table


def test_every_algorithm_is_on_the_page() -> None:
    chosen = {yaml.safe_load(snippet)["algorithm"]["name"] for snippet in INLINE}
    assert set(ROWS) == set(RECORDS) - OTHERS
    assert chosen == set(RECORDS)


@pytest.mark.parametrize("name", ROWS)
def test_a_preset_is_its_record(name: str) -> None:
    record = default(name)
    assert {key: ROWS[name][key] for key in KEYS} == {key: part(record, key) for key in KEYS}
    assert record.kl.coefficient == 0, "the page says that β is 0 in every preset"


def test_what_the_table_leaves_out_is_equal_in_the_critic_free_family() -> None:
    rest = []
    for name, record in RECORDS.items():
        if issubclass(record, CriticFreeConfig):
            data = default(name).model_dump()
            data |= {f"kl.{key}": value for key, value in data.pop("kl").items()}
            rest.append({key: value for key, value in data.items() if key not in ("name", *KEYS)})
    assert len(rest) == 8
    assert all(data == rest[0] for data in rest)


def test_dapo_is_grpo_with_the_keys_the_page_names() -> None:
    [snippet] = [snippet for snippet in FENCED if "refills" in snippet]
    given = yaml.safe_load(snippet)["algorithm"]
    assert len(given) == 1 + 4  # the name, and four keys
    dapo = DAPOConfig(**SIZES["dapo"]).model_dump() | {"name": "grpo"}
    assert GRPOConfig.model_validate(SIZES["grpo"] | given).model_dump() == dapo


def test_the_readme_leads_to_the_page() -> None:
    assert "(docs/algorithms.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
