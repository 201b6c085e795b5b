"""`reasonrl tasks list`, `show` and `check`: what a user sees, exit codes, the JSON, `--data`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import secret_verifier
from cli_calls import call, save_tiny_model
from cli_in_process import Program, program_of

from reasonrl import ReasonRLError, tasks
from reasonrl.cli.data import parse_data
from reasonrl.models.load import load_max_positions, load_tokenizer
from reasonrl.models.tiny import character_tokenizer
from reasonrl.plugins import installed

TASK = """\
name: mine
description: A small task
license: CC0
caveats: One row is odd.
dataset: {data_files: {train: TRAIN, eval: EVAL}}
prompt:
  chat: true
  system: Be brief.
  template: "Q: {{ question }}"
reference:
  column: answer
metadata: [level]
verifiers:
- name: exact
  options: {ignore_case: true}
- {name: nosuch, weight: 0.5}
sampling: {max_tokens: 40}
"""


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Program:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    return program_of(monkeypatch, capsys)


@pytest.fixture
def mine(tmp_path: Path) -> str:
    """A task of two splits whose second verifier is not installed."""
    for name, count in (("train", 4), ("eval", 2)):
        rows = [{"question": f"{name} {n}?", "answer": f"A{n}", "level": "x" * 300} for n in range(count)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = TASK.replace("TRAIN", str(tmp_path / "train.jsonl")).replace("EVAL", str(tmp_path / "eval.jsonl"))
    (tmp_path / "mine.yaml").write_text(text)
    return str(tmp_path / "mine.yaml")


def clean(mine: str) -> str:
    """Without the verifier that is not installed."""
    Path(mine).write_text(Path(mine).read_text().replace("- {name: nosuch, weight: 0.5}\n", ""))
    return mine


def words(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


# list


def test_all_tasks_are_listed_with_a_broken_one(
    program: Program, mine: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "mine.yaml").write_text(Path(mine).read_text())
    (folder / "both.yaml").write_text("name: both\ndescription: Two\nmixture: [{task: gsm8k}, {task: debug}]\n")
    (folder / "odd.yaml").write_text("nam: odd\n")
    monkeypatch.setattr(installed(), "task_folders", [folder])
    ended = program("tasks", "list")
    assert (ended.code, ended.err) == (0, "")
    shown = words(ended.out)
    gsm8k = words("math, pattern · openai/gsm8k · MIT")
    assert f"gsm8k Grade-school math word problems with a number as the answer {gsm8k}" in shown
    assert "arithmetic_steps · generator arithmetic · Apache-2.0" in shown
    assert "exact, nosuch (not installed) · train:" in shown
    assert "both Two math, pattern, arithmetic_steps, length · mixture of gsm8k, debug · MIT, Apache-2.0" in shown
    assert "odd broken: " in shown
    assert "unknown key; did you mean 'name'?" in shown


def test_listing_does_not_import_torch(tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv = ['reasonrl', 'tasks', 'list']\n"
        "from reasonrl.cli import main\n"
        "try: main()\n"
        "finally: assert not {'torch', 'transformers', 'datasets'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert all(f" {name} " in done.stdout for name in tasks.names())


# show


def test_a_task_is_shown_with_its_rows_and_reward(program: Program, mine: str) -> None:
    ended = program("tasks", "show", mine, "--rows", "2")
    assert ended.code == 0
    for line in (
        "mine 1", "A small task", "One row is odd.", "splits     train, eval", "licence    CC0",
        "mine, train, row 0", "system     Be brief.", "user       Q: train 0?", "reference  A1",
        f"level      {'x' * 200}… (300 characters)",
        "--model PATH shows prompts with the chat template and special tokens of a model",
        "reward     1 × exact + 0.5 × nosuch", "right      where the judge, exact, gives at least 1",
        "judge      exact 0.1.0 (reasonrl): answer '', ignore_case True", "verifier   nosuch, not installed",
        "sampling   temperature 1.0, top_p 1.0, top_k 0, min_p 0.0, max_tokens 40, stop ()",
    ):  # fmt: skip
        assert line in ended.out.splitlines(), line
    assert "row 2" not in ended.out
    assert "missing: " in ended.out
    ended = program("tasks", "show", mine, "--split", "eval", "--rows", "1")
    assert "user       Q: eval 0?" in ended.out


def test_the_prompt_is_shown_as_the_model_sees_it(program: Program, mine: str, tmp_path: Path) -> None:
    tokenizer = character_tokenizer("".join(map(chr, range(32, 127))))
    tokenizer.chat_template = (
        "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]"
    )
    tokenizer.save_pretrained(tmp_path / "model")
    ended = program("tasks", "show", mine, "--rows", "1", "--model", str(tmp_path / "model"))
    assert ended.code == 0, ended.err
    text = "[system]Be brief.[user]Q: train 0?[assistant]"
    assert f"           {tokenizer.bos_token or ''}{text}" in ended.out.splitlines()
    assert f"prompt     {len(text) + bool(tokenizer.bos_token)} tokens" in ended.out
    assert "--model PATH" not in ended.out


def test_a_secret_is_never_shown(program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secret_verifier.offer(monkeypatch)
    monkeypatch.setenv(secret_verifier.VARIABLE, secret_verifier.SECRET)
    (tmp_path / "judged.yaml").write_text(secret_verifier.TASK)
    ended = program("tasks", "show", "judged.yaml")
    assert ended.code == 0
    assert "api_key SecretStr('**********')" in ended.out
    assert secret_verifier.SECRET not in ended.out + ended.err
    ended = program("tasks", "check", "judged.yaml", "--rows", "1", "--json", "-")
    assert secret_verifier.SECRET not in ended.out + ended.err


def test_what_can_be_shown_is_shown_before_the_data_is_found_missing(program: Program, mine: str) -> None:
    ended = program("tasks", "show", mine, "--data", "train=nowhere.jsonl")
    assert ended.code == 2
    assert "sampling   temperature 1.0" in ended.out
    assert "data_files.train: there is no file nowhere.jsonl" in ended.err
    assert program("tasks", "show", mine, "--data", "train=nowhere.jsonl", "--rows", "0").code == 0


def test_each_part_of_a_mixture_is_shown_with_its_share(program: Program, mine: str, tmp_path: Path) -> None:
    Path(tmp_path / "both.yaml").write_text("name: both\nmixture: [{task: mine.yaml, weight: 3}, {task: debug}]\n")
    ended = program("tasks", "show", "both.yaml", "--rows", "1")
    assert ended.code == 0
    for text in ("mine 1  (75% of the training problems)", "debug 1  (25% of", "rows       mixture of mine, debug"):
        assert text in ended.out
    assert ended.out.count("sampling") == 1


# check


def test_a_check_ends_with_1_if_there_is_a_fault_and_the_json_is_the_report(program: Program, mine: str) -> None:
    ended = program("tasks", "check", mine, "--json", "report.json")
    assert ended.code == 1
    assert "fault: mine: verifiers that are not installed: 1" in ended.out
    assert "→ install the plugin that brings it" in ended.out
    assert "1 fault, 0 warnings" in ended.out
    report = json.loads(Path("report.json").read_text())
    assert (report["passed"], report["faults"][0]["kind"]) == (False, "missing")
    assert [split["rows"] for split in report["splits"]] == [4, 2]
    shown = words(ended.out)
    assert "usable references 4 of 4" in shown
    assert "right responses accepted 4 of 4" in shown
    assert "in the training split, too 0" in shown


def test_a_check_ends_with_0_for_warnings_and_names_rows(program: Program, mine: str, tmp_path: Path) -> None:
    row = {"question": "train 0", "answer": "A0", "level": 1}
    (tmp_path / "train.jsonl").write_text(f"{json.dumps(row)}\n" * 8)
    ended = program("tasks", "check", clean(mine), "--workers", "1", "--deadline", "5")
    assert ended.code == 0
    assert "warning: mine, train: problems whose text stands in an earlier row: 7\n  row 1: as row 0\n" in ended.out
    assert "  and 2 more\n  → the model sees them more often" in ended.out
    assert "no fault, 1 warning, " in ended.out


def test_json_to_standard_output_is_all_there_is_on_it(tmp_path: Path, mine: str) -> None:
    done = call("tasks", "check", mine, "--split", "eval", "--rows", "1", "--json", "-", cwd=tmp_path)
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert [(split["split"], split["rows"]) for split in report["splits"]] == [("eval", 1)]
    assert "1 fault, 0 warnings" in done.stderr


def test_a_models_tokenizer_counts_and_its_config_says_what_fits(program: Program, tmp_path: Path) -> None:
    model = save_tiny_model(tmp_path / "model")
    ended = program("tasks", "check", "debug", "--model", str(model), "--json", "-")
    assert ended.code == 0, ended.err
    report = json.loads(ended.out)
    assert (report["model"], report["max_positions"]) == (str(model), 48)
    assert report["splits"][0]["tokens"]["max"] >= 4
    assert report["splits"][0]["beyond_context"] == 0
    assert (load_max_positions(str(model)), load_tokenizer(str(model)).vocab_size) == (48, 17)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["check", "gsm8"], "no task is named 'gsm8'; did you mean 'gsm8k'?"),
        (["show", "debug", "--data", "x.jsonl"], "--data x.jsonl: of which split? say --data train=x.jsonl or"),
        (["check", "debug", "--data", "eval=x.jsonl"], "task debug makes its own rows; it takes no data files"),
        (["check", "debug", "--model", "./nowhere"], "there is no folder ./nowhere"),
        (["show", "debug", "--model", "./nowhere"], "there is no folder ./nowhere"),
        (["check", "debug", "--json", "no/r.json"], "--json no/r.json: there is no folder no; make it first"),
        (["check", "debug", "--split", "test"], "Invalid value for '--split'"),
        (["check", "debug", "--workers", "0"], "Invalid value for '--workers'"),
    ],
)  # fmt: skip
def test_bad_usage_is_told_at_once(program: Program, arguments: list[str], expected: str) -> None:
    ended = program("tasks", *arguments)
    assert ended.code == 2
    assert expected in words(ended.err)


# --data


def test_files_are_given_by_split() -> None:
    assert parse_data([], None) == {}
    assert parse_data(["train=a.jsonl", "eval=b=c.jsonl"], None) == {"train": "a.jsonl", "eval": "b=c.jsonl"}
    assert parse_data(["a.jsonl"], "eval") == {"eval": "a.jsonl"}
    assert parse_data(["folder/x=1.jsonl", "train=*.csv"], "eval") == {"eval": "folder/x=1.jsonl", "train": "*.csv"}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["test=a.jsonl"], "--data test=a.jsonl: there is no split 'test'; the splits are train and eval"),
        (["eval="], "--data eval=: expected a file, as in --data eval=FILE"),
        ([""], "--data : expected a file, as in --data eval=FILE"),
        (["a", "eval=b"], "--data eval=b: the eval split has a file already, a; a pattern takes several files"),
    ],
)
def test_files_that_cannot_be_meant_are_refused(values: list[str], expected: str) -> None:
    with pytest.raises(ReasonRLError) as caught:
        parse_data(values, "eval")
    assert expected in str(caught.value)


def test_just_a_file_is_meant_for_the_only_split(program: Program, mine: str, tmp_path: Path) -> None:
    text = Path(clean(mine)).read_text().replace(f"train: {tmp_path}/train.jsonl, ", "")
    Path(mine).write_text(text)
    ended = program("tasks", "check", mine, "--data", str(tmp_path / "train.jsonl"), "--json", "-")
    assert ended.code == 0
    assert [(split["split"], split["rows"]) for split in json.loads(ended.out)["splits"]] == [("eval", 4)]


def test_an_evaluation_takes_files_for_both_splits(program: Program, tmp_path: Path) -> None:
    """Few-shot examples come from the training split."""
    for name in ("train", "eval"):
        (tmp_path / f"{name}.jsonl").write_text("".join(f'{{"q": "{name}{i}", "a": "{i}"}}\n' for i in range(3)))
    (tmp_path / "shots.yaml").write_text(
        "name: shots\ndataset: {hub: no/where}\n"
        "prompt: {template: '{{ q }}', few_shot: {rows: 1, response: '{{ a }}'}}\n"
        "reference: {column: a}\nverifiers: [{name: exact}]\n"
    )
    command = ("eval", str(tmp_path / "shots.yaml"), "--model", "./none", "--data", f"eval={tmp_path}/eval.jsonl")
    ended = program(*command, "--data", f"train={tmp_path}/train.jsonl")
    assert "there is no folder ./none" in words(ended.err), "the data is there, the model is not"
    assert "no/where has not been loaded" in words(program(*command).err)
