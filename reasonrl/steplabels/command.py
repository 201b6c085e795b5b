"""Label the steps of stored responses, from names alone, as `reasonrl build steps` does."""

import hashlib
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reasonrl import store, tasks
from reasonrl.config import EngineConfig
from reasonrl.errors import ReasonRLError
from reasonrl.evaluation.command import model_engine
from reasonrl.evaluation.prepare import sampling_with
from reasonrl.models.load import load_vocabulary
from reasonrl.pairs.candidates import rollout_files
from reasonrl.scoring import Scorer
from reasonrl.scoring.resolve import resolve
from reasonrl.steplabels.build import STORED, Labelling, Sampler, label_steps
from reasonrl.steplabels.parts import write_in_parts
from reasonrl.tasks import Mixture

PIECE = 64  # responses that are labelled together


@dataclass
class Labelled:
    """What was labelled.

    Attributes:
        responses, steps: how many of them, and how many steps they have.
        unlabelled: steps without a label.
        labels: the sum of all labels.
        known: the part of the steps that neither always nor never ends right, so that sampling told something.
    """

    responses: int = 0
    steps: int = 0
    unlabelled: int = 0
    labels: float = 0.0
    known: int = 0

    def add(self, rows: Sequence[dict[str, Any]]) -> None:
        """Count the rows of a piece."""
        for row in rows:
            given = [label for label in row["labels"] if label is not None]
            self.responses += 1
            self.steps += len(row["labels"])
            self.unlabelled += len(row["labels"]) - len(given)
            self.labels += sum(given)
            self.known += sum(0 < right < of for right, of in zip(row["right"], row["judged"], strict=True))

    def line(self) -> str:
        """In words."""
        given = self.steps - self.unlabelled
        mean = self.labels / given if given else 0.0
        text = f"{self.steps:,} steps of {self.responses:,} responses, mean label {mean:.3f}; {self.known:,} in between"
        return text + (f"; {self.unlabelled:,} without a label" if self.unlabelled else "")


def build_steps(
    paths: Sequence[Path],
    out: Path,
    task_name: str,
    model: str,
    labelling: Labelling,
    *,
    limit: int | None = None,
    per_problem: int | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    engine: EngineConfig | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Labelled:
    """Write the labelled steps of stored responses to a Parquet file; interrupted, the same call goes on.

    Args:
        paths: rollout files, or folders of runs and evaluations.
        out: the file.
        task_name: whose verifiers judge.
        model: a folder or hub id that samples on; its tokenizer must be that of the stored token ids.
        labelling: how steps are labelled.
        limit, per_problem: take at most so many responses, and of a problem; the first ones.
        temperature, max_tokens: of the continuations, in place of the task's own.
        engine: what samples; by default as `auto` chooses.
        progress: told how many of how many pieces of 64 responses are done.

    Raises:
        ReasonRLError: a fault in rollouts, task, model or options.
    """
    task = tasks.load(task_name)
    if isinstance(task, Mixture):
        raise ReasonRLError(f"{task_name} is a mixture; label the rollouts of one task at a time, by its own name")
    sampling = sampling_with(task.sampling, temperature, max_tokens)
    files = rollout_files(paths)
    rows = stored_responses(files, limit, per_problem)
    settings = engine or EngineConfig()
    about = asdict(labelling) | {
        "files": [_digest(file) for file in files], "limit": limit, "per_problem": per_problem, "task": task.name,
        "verifiers": [f"{one.name} {one.version} {one.options}" for one in resolve(task)], "model": model,
        "sampling": asdict(sampling), "engine": settings.name,
    }  # fmt: skip
    found = Labelled()
    with ExitStack() as stack:
        scorer = stack.enter_context(Scorer(resolve(task)))
        vocabulary, parameters = load_vocabulary(model)
        longest = max(len(row["prompt_ids"]) + len(row["response_ids"]) for row in rows) + sampling.max_tokens
        if vocabulary.max_positions is not None:
            longest = min(longest, vocabulary.max_positions)
        sampler = Sampler(
            model_engine(settings, model, vocabulary, parameters, longest),
            sampling,
            vocabulary.tokenizer,
            frozenset(vocabulary.eos_ids),
            vocabulary.max_positions,
            scorer,
        )
        stack.callback(sampler.engine.close)
        pieces = [rows[at : at + PIECE] for at in range(0, len(rows), PIECE)]
        for made in write_in_parts(out, about, pieces, lambda piece: label_steps(piece, labelling, sampler), progress):
            found.add(made)
    return found


def stored_responses(files: Sequence[Path], limit: int | None, per_problem: int | None) -> list[dict[str, Any]]:
    """The responses of rollout files, each one once, at most so many of a problem and in all.

    Raises:
        ReasonRLError: a file holds no rollouts, or there is no response.
    """
    taken: Counter[str] = Counter()
    rows: list[dict[str, Any]] = []
    for row in itertools.chain.from_iterable(store.read(file, STORED) for file in files):
        if not row["response_ids"] or (per_problem is not None and taken[row["prompt"]] >= per_problem):
            continue
        taken[row["prompt"]] += 1
        rows.append(row)
        if len(rows) == limit:
            break
    if not rows:
        raise ReasonRLError("there are no responses with token ids to label")
    return rows


def _digest(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()
