"""Local files are read exactly as they are written, lazily, and a fault names file, line and cure."""

import datetime
import decimal
import gc
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reasonrl import ReasonRLError, rowfiles

LARGE = 123456789012345678901234


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [row for _, row in rowfiles.read(path)]


def written(path: Path, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def parquet(path: Path, columns: dict[str, Any]) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


# Nothing is changed


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_every_value_of_csv_is_the_text_that_stands_there(tmp_path: Path, ending: str) -> None:
    values = ["007", "0.10", str(LARGE), "NA", "None", "null", "nan", "true", "2024-08-01", "", " 1 ", "1e5", "1,080"]
    file = written(tmp_path / f"a.{ending}", "a,b\n" + "".join(f'"{value}",x\n' for value in values))
    assert [row["a"] for row in rows_of(file)] == values


def test_a_csv_column_may_change_its_looks_late(tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", "a,b\n" + "1,2\n" * 12_000 + "one,2\n")
    assert rows_of(file)[-1] == {"a": "one", "b": "2"}


def test_csv_keeps_quoted_line_breaks_and_cells_of_any_length(tmp_path: Path) -> None:
    long = "x" * 300_000
    file = written(tmp_path / "a.csv", f'a,b\r\n"1\r\n2\n""3""",{long}\r\n\r\n4,5\r\n')
    assert list(rowfiles.read(file)) == [
        ("line 2", {"a": '1\r\n2\n"3"', "b": long}),
        ("line 6", {"a": "4", "b": "5"}),
    ]


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "json", "json.gz"])
def test_json_keeps_every_digit_and_every_text(tmp_path: Path, ending: str) -> None:
    rows: list[dict[str, Any]] = [
        {"a": LARGE, "b": "2024-08-01T10:00:00"},
        {"a": 0.5, "b": "2024"},
        {"a": 2**53 + 1, "b": "007"},
        {"a": "text", "b": {"c": [1, 2.5, None, True]}},
    ]
    text = json.dumps(rows) if "jsonl" not in ending else "".join(json.dumps(row) + "\n" for row in rows)
    found = rows_of(written(tmp_path / f"a.{ending}", text))
    assert found == rows
    assert [type(row["a"]) for row in found] == [int, float, int, str]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.fixed_dictionaries({"a": JSON_VALUES, "b": st.text()}), max_size=4), plain=st.booleans())
def test_json_gives_back_what_was_written(tmp_path: Path, rows: list[dict[str, Any]], plain: bool) -> None:
    lines = "".join(json.dumps(row, ensure_ascii=plain) + "\n" for row in rows)
    assert rows_of(written(tmp_path / "a.jsonl", lines)) == rows
    assert rows_of(written(tmp_path / "a.json", json.dumps(rows, ensure_ascii=plain, indent=1))) == rows


def test_a_byte_order_mark_crlf_and_blank_lines_are_no_content(tmp_path: Path) -> None:
    mark = "\ufeff"
    lines = written(tmp_path / "a.jsonl", mark + '{"a": 1}\r\n\r\n  \n{"a": 2}')
    assert list(rowfiles.read(lines)) == [("line 1", {"a": 1}), ("line 4", {"a": 2})]
    assert rows_of(written(tmp_path / "a.json", mark + '\r\n[{"a": 1}]\r\n')) == [{"a": 1}]
    assert rows_of(written(tmp_path / "a.csv", mark + "a,b\r\n1,2")) == [{"a": "1", "b": "2"}]


def test_a_key_that_an_object_lacks_is_a_column_without_a_value(tmp_path: Path) -> None:
    file = written(tmp_path / "a.jsonl", '{"a": 1}\n{"b": 2}\n' + '{"a": 1}\n' * 2000 + '{"c": 3}\n{}\n')
    rows = rows_of(file)
    assert rows[:3] == [{"a": 1, "b": None}, {"a": None, "b": 2}, {"a": 1, "b": None}]
    assert rows[-2:] == [{"a": None, "b": None, "c": 3}, {"a": None, "b": None, "c": None}]


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    price = decimal.Decimal("1.10")
    moment, day = datetime.datetime(2024, 8, 31, 12), datetime.date(2024, 8, 31)
    file = parquet(
        tmp_path / "a.parquet",
        {
            "large": [2**63 - 1, None],
            "price": pa.array([price, None], pa.decimal128(10, 2)),
            "moment": pa.array([moment, None], pa.timestamp("us")),
            "day": [day, None],
            "nested": [{"a": [1, 2]}, None],
            "text": pa.array(["é".encode(), None], pa.binary()),
            "image": pa.array([b"\xff\x00", None], pa.binary()),
        },
    )
    assert list(rowfiles.read(file)) == [
        ("row 0", {"large": 2**63 - 1, "price": price, "moment": moment, "day": day, "nested": {"a": [1, 2]},
                   "text": "é", "image": b"\xff\x00"}),
        ("row 1", dict.fromkeys(["large", "price", "moment", "day", "nested", "text", "image"])),
    ]  # fmt: skip
    assert str(rows_of(file)[0]["price"]) == "1.10"


# Faults


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", "x", "FILE ends in none of .json, .jsonl, "),
        ("a.parquet.gz", "x", "FILE ends in none of"),
        ("a.jsonl", '{"a": 1}\n{"a": \n', "FILE:2: not JSON: Expecting value (column 6); each line must be one JSON"),
        ("a.jsonl", '\n[{"a": 1}]\n', "FILE:2: a row must be an object, {…}, not a list; each line must be one JSON"),
        ("a.jsonl", '{"a": 1}\n"x"\n', "FILE:2: a row must be an object, {…}, not a text"),
        ("a.jsonl", '{"a": 1}\nnull\n', "FILE:2: a row must be an object, {…}, not null"),
        ("a.jsonl", '{"a": 1} {"a": 2}\n', "FILE:1: not JSON: Extra data (column 10)"),
        ("a.jsonl", '{"a": NaN}\n', "FILE:1: NaN is no number of JSON; write it as text, in quotation marks, or null"),
        ("a.jsonl", '{"a": 1}\n{"a": -Infinity}\n', "FILE:2: -Infinity is no number of JSON"),
        ("a.jsonl", '{"a": 1e400}\n', "FILE:1: the number 1e400 is larger than a float can be; write it as text"),
        ("a.jsonl", '{"a": 1, "b": {"c": 1, "c": 2}}\n', "FILE:1: the key 'c' stands twice in one object"),
        ("a.jsonl", '{"a": "\\ud83d"}\n', r"FILE:1: half a character, '\ud83d', without its other half"),
        ("a.jsonl", "[" * 100_000, "FILE:1: nested too deeply"),
        ("a.jsonl", '{"a": ' + "1" * 5000 + "}", "FILE:1: Exceeds the limit"),
        ("a.jsonl.gz", '{"a": 1}\n{"a": \n', "FILE:2: not JSON: Expecting value"),
        ("a.jsonl", b'{"a": 1}\n{"a": "\xe9"}\n', "FILE:2: not UTF-8: invalid continuation byte at byte 7 of the"),
        ("a.json", b'[{"a": 1},\n{"a": "\xe9"}]\n', "FILE:2: not UTF-8: "),
        ("a.json", '[{"a": 1},\n{"a" 2}]', "FILE:2: not JSON: Expecting ':' delimiter (column 6); the file must be"),
        ("a.json", '{"a": 1}\n{"a": 2}\n', "FILE:2: not JSON: Extra data (column 1); the file must be one list of obj"),
        ("a.json", '{"data": [{"a": 1}], "n": 1}',
         "FILE: holds one object; under its key 'data' is a list: write that list alone; the file must be one list"),
        ("a.json", '{"a": 1}', "FILE: holds one object; the file must be one list of objects (objects one a line"),
        ("a.json", '[{"a": 1}, 5]', "FILE: row 1: a row must be an object, {…}, not one value"),
        ("a.json", '[{"a": NaN}]', "FILE: NaN is no number of JSON"),
        ("a.csv", "a,b\n\n1,2,3\n", "FILE:3: 3 cells, but the header has 2; a value with commas or line breaks"),
        ("a.csv", 'a,b\n"1\n2",3\n1\n', "FILE:4: 1 cells, but the header has 2"),
        ("a.csv", "a,b,a\n1,2,3\n", "FILE:1: two columns are named 'a'; give each its own name"),
        ("a.csv", 'a,b\n1,2\n"3,4\n5,6\n', "FILE:3: not CSV: unexpected end of data; a value with commas, quotation"),
        ("a.csv", 'a,b\n"1"2,3\n', "FILE:2: not CSV: ',' expected after '\"'"),
        ("a.csv", b"a,b\n\xe9,1\n", "FILE:2: not UTF-8: "),
        ("a.csv", "a,b\r1,2\r", "FILE:1: not CSV: new-line character seen in unquoted field"),
        ("a.parquet", "nope", "FILE: not Parquet, or damaged: Parquet file size is 4 bytes"),
    ],
)  # fmt: skip
def test_a_fault_names_file_line_and_cure(tmp_path: Path, name: str, content: str | bytes, expected: str) -> None:
    file = written(tmp_path / name, content)
    with pytest.raises(ReasonRLError) as caught:
        rows_of(file)
    assert str(caught.value).replace(str(file), "FILE").startswith(expected)


def test_gzip_that_is_none_or_cut_off_is_told(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl.gz"
    file.write_bytes(b'{"a": 1}\n')
    with pytest.raises(ReasonRLError, match=r"a\.jsonl\.gz: not gzip, or damaged \(Not a gzipped file .*drop the \.gz"):
        rows_of(file)
    file.write_bytes(gzip.compress(os.urandom(5000).hex().encode())[:-2000])
    with pytest.raises(ReasonRLError, match=r"a\.jsonl\.gz: the gzipped data is cut off or damaged .*fetch it anew"):
        rows_of(file)


def test_a_file_that_is_not_there_or_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ReasonRLError, match=r"there is no file nope\.json \(looked for in "):
        rows_of(Path("nope.json"))
    with pytest.raises(ReasonRLError, match=r" is a folder; give its files, such as .*/\*\.jsonl"):
        rows_of(tmp_path)


def test_parquet_with_two_columns_of_one_name_is_refused(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(ReasonRLError, match=r"a\.parquet: two columns are named 'a'"):
        rows_of(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.jsonl", ""), ("a.jsonl", "\n\n"), ("a.json", ""), ("a.json", "[]"), ("a.csv", ""), ("a.csv", "a,b\n"),
     ("a.jsonl.gz", "")],
)  # fmt: skip
def test_a_file_without_rows_gives_none(tmp_path: Path, name: str, content: str) -> None:
    assert rows_of(written(tmp_path / name, content)) == []


# Laziness


def many(tmp_path: Path, name: str, rows: int = 5000) -> Path:
    if name.endswith("parquet"):
        return parquet(tmp_path / name, {"a": list(range(rows))})
    line = "1,2\n" if "csv" in name else '{"a": 1}\n'
    return written(tmp_path / name, ("a,b\n" if "csv" in name else "") + line * rows)


FORMS = ["a.jsonl", "a.jsonl.gz", "a.csv", "a.csv.gz", "a.parquet"]


@pytest.mark.parametrize("name", FORMS)
def test_a_reading_that_is_given_up_closes_its_file(tmp_path: Path, name: str) -> None:
    file = many(tmp_path, name)

    def opened() -> bool:
        return any(os.path.realpath(f"/proc/self/fd/{fd}") == str(file) for fd in os.listdir("/proc/self/fd"))

    rows = rowfiles.read(file)
    next(rows)
    assert opened()
    del rows
    gc.collect()
    assert not opened()


def test_rows_come_before_the_file_is_read_to_its_end(tmp_path: Path) -> None:
    file = written(tmp_path / "a.jsonl", '{"a": 1}\n' * 5000 + "nonsense\n")
    rows = rowfiles.read(file)
    assert sum(1 for _, _ in zip(range(4000), rows, strict=False)) == 4000
    with pytest.raises(ReasonRLError, match=":5001: not JSON"):
        list(rows)


def test_a_stream_left_at_the_end_of_the_program_says_nothing(tmp_path: Path) -> None:
    files = [str(many(tmp_path, name)) for name in FORMS]
    code = (
        "import sys\nfrom pathlib import Path\nfrom reasonrl.datafiles import DatasetConfig, load_rows\n"
        "streams = []\n"
        "for file in sys.argv[1:]:\n"
        "    config = DatasetConfig(data_files={'train': file}, streaming=True, shuffle=0, window=10)\n"
        "    streams.append(load_rows(config, 'train', Path('task.yaml')))\n"
        "    next(streams[-1])\n"
    )
    ended = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", code, *files], capture_output=True, text=True, timeout=120
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
