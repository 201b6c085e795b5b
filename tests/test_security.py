"""What comes from disk or from data runs nothing: no pickle, no code of a model's own, no path out of a folder."""

import ast
import os
import pickle
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from cli_calls import save_tiny_model
from small_runs import ROOT

from reasonrl import Problem, ReasonRLError, Verdict, config, store, tasks
from reasonrl.checkpoint import folder as checkpoint
from reasonrl.models.load import load_policy
from reasonrl.tasks.templates import Template, checked
from reasonrl.types import Rollout

# What is inside the sandbox is there to run programs: what it may reach is tested with the sandbox.
INSIDE = ROOT / "verifiers" / "reasonrl_code" / "sandbox" / "inside"
SOURCES = sorted(
    path for folder in ("reasonrl", "verifiers") for path in (ROOT / folder).rglob("*.py") if INSIDE not in path.parents
)
# What can run what it reads, by how a call is written; and where one is used all the same, with the reason.
RUNS_CODE = (
    "pickle.load", "pickle.loads", "pickle.Unpickler", "torch.load", "yaml.load", "yaml.unsafe_load", "yaml.full_load",
    "yaml.load_all", "eval", "exec", "compile", "__import__", "marshal.loads", "marshal.load", "shelve.open",
    "joblib.load", "dill.load", "dill.loads", "cloudpickle.loads", "numpy.load", "np.load", "os.system", "os.popen",
    "pandas.read_pickle", "gather_object", "broadcast_object_list", "recv",
)  # fmt: skip
OWN = "a process of ours, over a socket pair that nobody else has"
TRAINING = "our own training processes, over the connection they compute with"
ALLOWED = {
    ("reasonrl/scoring/worker.py", "pickle.load"): f"the parent: {OWN}",
    ("reasonrl/scoring/worker.py", "pickle.loads"): f"the parent: {OWN}",
    ("reasonrl/scoring/pool.py", "recv"): "bytes of a socket of our own, thrown away",
    ("reasonrl/scoring/process.py", "recv"): "bytes of a socket, read as JSON",
    ("reasonrl/rollout/vllm_worker.py", "recv"): f"the parent: {OWN}",
    ("reasonrl/rollout/vllm_process.py", "recv"): f"{OWN}; it reads no text of a model as anything but text",
    ("verifiers/reasonrl_code/sandbox/launch.py", "recv"): "bytes of a socket, compared with one text",
    ("reasonrl/trainers/session.py", "gather_object"): TRAINING,
    ("reasonrl/trainers/resume.py", "broadcast_object_list"): TRAINING,
}


@cache
def trees() -> dict[str, ast.Module]:
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES}


def name_of(function: ast.expr) -> str:
    """A call as it is written: `torch.load`; of what is received, whatever the channel is called, `recv`."""
    if isinstance(function, ast.Attribute):
        return function.attr if function.attr == "recv" else f"{name_of(function.value)}.{function.attr}"
    return function.id if isinstance(function, ast.Name) else "…"


def calls() -> Iterator[tuple[str, ast.Call]]:
    for path, tree in trees().items():
        yield from ((path, node) for node in ast.walk(tree) if isinstance(node, ast.Call))


def test_nothing_that_runs_what_it_reads_is_called_but_where_a_reason_stands() -> None:
    found = {(path, name_of(call.func)) for path, call in calls()}
    risky = {(path, name) for path, name in found if name in RUNS_CODE}
    assert len(SOURCES) > 100
    assert risky - ALLOWED.keys() == set()
    assert ALLOWED.keys() - risky == set(), "a reason without its call"


def test_names_are_not_taken_out_of_those_modules() -> None:
    """`from pickle import loads` would pass the test above by."""
    modules = {name.rpartition(".")[0] for name in RUNS_CODE} - {""}
    hidden = {name.rpartition(".")[2] for name in RUNS_CODE}
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in modules:
                assert not hidden & {alias.name for alias in node.names}, path
            if isinstance(node, ast.Import):
                assert all(alias.asname in (None, "np") or alias.name not in modules for alias in node.names), path


def test_yaml_is_read_with_loaders_made_from_the_safe_one_and_templates_in_the_sandbox() -> None:
    classes = [node for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    bases = {name_of(base) for node in classes for base in node.bases}
    assert {base for base in bases if base.startswith("yaml.")} == {"yaml.SafeLoader", "yaml.SafeDumper"}
    assert {base for base in bases if base.endswith("Environment")} == {"ImmutableSandboxedEnvironment"}
    made = {name_of(call.func) for _, call in calls()}
    assert not {name for name in made if name.endswith("Environment") or name == "jinja2.Template"}


def test_no_code_of_a_models_repository_is_trusted_and_no_shell_is_asked() -> None:
    keywords = {(path, word.arg) for path, call in calls() for word in call.keywords}
    assert not {(path, word) for path, word in keywords if word in ("trust_remote_code", "allow_pickle", "shell")}
    loaded = [call for _, call in calls() if name_of(call.func).endswith("ForCausalLM.from_pretrained")]
    assert all("use_safetensors" in {word.arg for word in call.keywords} for call in loaded)
    assert loaded


class Boom:
    """As it is unpickled, it writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_a_model_with_pickled_weights_is_not_read(tmp_path: Path) -> None:
    model, trace = save_tiny_model(tmp_path / "model"), tmp_path / "trace"
    (model / "model.safetensors").unlink()
    torch.save({"weights": Boom(trace)}, model / "pytorch_model.bin")
    with pytest.raises(ReasonRLError, match=r"cannot load .*safetensors"):
        load_policy(config.ModelConfig(path=str(model)), 0)
    assert not trace.exists()


def test_a_model_that_brings_code_is_not_run(tmp_path: Path) -> None:
    model, trace = save_tiny_model(tmp_path / "model"), tmp_path / "trace"
    (model / "modeling_own.py").write_text(f"import os\nos.mkdir({str(trace)!r})\n")
    settings = (model / "config.json").read_text().replace('"model_type": "llama"', '"model_type": "own"')
    own = '"auto_map": {"AutoConfig": "modeling_own.A", "AutoModelForCausalLM": "modeling_own.B"},'
    (model / "config.json").write_text(settings.replace("{", "{" + own, 1))
    with pytest.raises(ReasonRLError, match="cannot load"):
        load_policy(config.ModelConfig(path=str(model)), 0)
    assert not trace.exists()


@pytest.mark.parametrize("file", ["policy.safetensors", "random.safetensors", "state.json", "checksums.json"])
def test_a_checkpoint_with_a_pickle_in_it_is_refused(tmp_path: Path, file: str) -> None:
    place = checkpoint.place(tmp_path, "grpo", 1)
    checkpoint.write(place, {"phase": "grpo"}, {"policy": {"a": torch.ones(2)}, "random": {"b": torch.ones(1)}})
    checkpoint.verify(place.path)
    (place.path / file).write_bytes(pickle.dumps(Boom(tmp_path / "trace")))
    with pytest.raises(checkpoint.Damaged):
        checkpoint.verify(place.path)
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize(
    "attack",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ self.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{{ lipsum.__globals__['os'].popen('id').read() }}",
        "{% set x = q.__class__ %}{{ x }}",
        "{{ '{0.__class__}'.format(q) }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}{{ os }}",
    ],
)
def test_a_template_of_a_stranger_reaches_nothing(attack: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        Template(checked(attack)).render({"q": "text"})
    assert "root:" not in str(caught.value)


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.mkdir", "!!python/name:os.system", "!!python/module:os"])
def test_a_yaml_makes_no_object(tmp_path: Path, tag: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(f"name: a\nseed: {tag} ['{tmp_path / 'trace'}']\n")
    for load in (config.load, tasks.load):
        with pytest.raises(ReasonRLError, match=r"bad\.yaml"):
            load(str(path))
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("name", ["../../etc/x", "/tmp/absolute", "a/../../b", "..", "\x00"])
def test_what_data_calls_itself_is_never_a_path(tmp_path: Path, name: str) -> None:
    """A problem's id, task and metadata are text in a file, whatever they say; the file's name is ours."""
    inside = tmp_path / "run" / "rollouts"
    rollout = Rollout(name, 0, (1,), (2,), (-1.0,), name, "stop", 0, 0)
    given = [("v", "1", 1.0, Verdict(1.0, name))]
    row = store.record(
        Problem(name, name, name, {name: name}, task=name), rollout, given,
        step=1, temperature=1.0, reward=1.0, correct=True, advantage=0.0,
    )  # fmt: skip
    store.write(inside / "step-000001.parquet", [row])
    assert store.read(inside / "step-000001.parquet")[0]["problem_id"] == name
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [inside / "step-000001.parquet"]


@pytest.mark.parametrize("name", ["../x", "/abs", "..", "a/b", ""])
def test_the_name_of_a_run_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({"extends": "debug/grpo", "name": name}))
    with pytest.raises(ReasonRLError):
        config.load(str(path))
    with pytest.raises(ReasonRLError, match="leads elsewhere"):
        store.new_folder(tmp_path, name)
