"""A task by name or path."""

from collections.abc import Mapping
from pathlib import Path

from reasonrl import plugins, resources, yamlfile
from reasonrl.errors import ReasonRLError
from reasonrl.generators import GENERATORS, Split
from reasonrl.tasks.config import MixtureConfig, TaskConfig
from reasonrl.tasks.mixture import Mixture
from reasonrl.tasks.task import Task
from reasonrl.yamlfile import Document

DataFiles = Mapping[Split, str | tuple[str, ...]]


def load(name: str, data_files: DataFiles | None = None) -> Task | Mixture:
    """A task by name (bundled, or brought by a plugin) or by the path of its YAML.

    Args:
        name: `gsm8k`, or a path that ends in `.yaml`.
        data_files: local files in place of the task's own data, by split.

    Raises:
        ReasonRLError: there is no such task (those there are, are listed), a verifier it names is not installed, or
            its YAML is at fault, the options of its verifiers and generator included.
    """
    task = read(name, data_files)
    if task.missing:
        raise ReasonRLError(task.missing[0])
    return task


def read(name: str, data_files: DataFiles | None = None) -> Task | Mixture:
    """As `load`, but a verifier that is not installed is no error; the task says which are `missing`."""
    document = _document(name)
    if "mixture" in document.data:
        return _mixture(document, data_files)
    return _task(document, data_files)


def names() -> list[str]:
    """The names of all tasks that are bundled or brought by a plugin."""
    return sorted(
        path.relative_to(folder).with_suffix("").as_posix() for folder in _folders() for path in folder.rglob("*.yaml")
    )


def _document(name: str) -> Document:
    folders = _folders()
    return yamlfile.read_extended(yamlfile.find(name, "task", folders), "task", folders)


def _folders() -> list[Path]:
    return [resources.bundled("tasks"), *plugins.installed().task_folders]


def _task(document: Document, data_files: DataFiles | None, part_of: str | None = None) -> Task:
    config = yamlfile.validate(TaskConfig, document)
    missing = []
    for index, entry in enumerate(config.verifiers):
        try:
            verifier = plugins.installed().verifier(entry.name).verifier
        except ReasonRLError as error:
            missing.append(f"{document.place(('verifiers', index, 'name'))}: {error}")
        else:
            yamlfile.validate(verifier.Options, document, at=("verifiers", index, "options"))
    if config.generator is not None:
        options = GENERATORS[config.generator.name].options
        yamlfile.validate(options, document, at=("generator", "options"))
    if data_files:
        if config.dataset is None:
            raise ReasonRLError(f"{document.path}: task {config.name} makes its own rows; it takes no data files")
        files = {**config.dataset.data_files, **data_files}
        config = config.model_copy(update={"dataset": config.dataset.model_copy(update={"data_files": files})})
    return Task(config, document.path, missing, part_of=part_of)


def _mixture(document: Document, data_files: DataFiles | None) -> Mixture:
    config = yamlfile.validate(MixtureConfig, document)
    if data_files:
        raise ReasonRLError(
            f"{document.path}: {config.name} is a mixture; give files under its tasks: "
            "mixture: [{task: …, data_files: {train: FILE}}]"
        )
    parts = []
    for index, part in enumerate(config.mixture):
        written = document.lines[("mixture", index)]  # maybe in the YAML that this one extends
        try:
            inner = _document(_beside(written.path, part.task))
            if "mixture" in inner.data:
                raise ReasonRLError(f"{part.task} is a mixture itself; name its tasks here")
            parts.append(_task(inner, part.data_files, config.name))
        except ReasonRLError as error:
            raise ReasonRLError(f"{document.place(('mixture', index))}: {error}") from None
    return Mixture(config, document.path, parts)


def _beside(mixture: Path, name: str) -> str:
    """A path in a mixture is seen from the folder of its YAML, a name is a name."""
    return str(mixture.parent / name) if name.endswith((".yaml", ".yml")) else name
