"""A task's data made ready for a run: training problems of each task of a mixture, demonstrations as token ids."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from reasonrl.batch import Row
from reasonrl.config import SFTConfig
from reasonrl.datafiles import file_states
from reasonrl.errors import ReasonRLError
from reasonrl.evaluation.evaluate import Prompted
from reasonrl.generators import Split
from reasonrl.models.load import Policy
from reasonrl.models.prompt import prompt_ids, response_ids
from reasonrl.scoring import WeightedVerifier
from reasonrl.scoring.resolve import check_problems
from reasonrl.tasks import Mixture, Task
from reasonrl.trainers.problems import Listed, Source, Streamed
from reasonrl.types import Problem


def listed_problems(task: Task | Mixture) -> dict[str, list[Problem]]:
    """The training problems, by task, of those tasks whose data does not stream."""
    return {part.name: part.problems("train") for part, _ in task.parts if not part.streams}


def training_sources(
    task: Task | Mixture,
    listed: Mapping[str, Sequence[Problem]],
    make: Callable[[Problem], Prompted | None],
    verifiers: Sequence[WeightedVerifier],
    seed: int,
    console: Console,
) -> list[tuple[Source, float]]:
    """Each task's training problems, with its weight.

    Args:
        task: the task or mixture.
        listed: the problems of tasks that do not stream.
        make: a problem → the same with its prompt as token ids; None if it is to be left out.
        verifiers: what reads a stream's problems.
        seed: of the order.
        console: where it is said how many are left out.
    """
    sources: list[tuple[Source, float]] = []
    tell = partial(console.print, highlight=False, markup=False, soft_wrap=True)
    for part, weight in task.parts:
        key = f"{seed}/{part.task}" if part.task else str(seed)
        if part.streams:
            assert part.config.dataset is not None
            read, window = partial(checked_stream, part, verifiers, {}), part.config.dataset.window
            stream = Streamed(read, make, window, key, part.name, limited=not part.skips_faulty, tell=tell)
            sources.append((stream, weight))
            continue
        prompted = [one for one in map(make, listed[part.name]) if one is not None]
        if too_long := len(listed[part.name]) - len(prompted):
            tell(
                f"{part.name}: {too_long} of {len(listed[part.name])} training problems have prompts beyond "
                "task.max_prompt_tokens and are left out"
            )
        sources.append((Listed(prompted, key), weight))
    return sources


def tell_left_out(task: Task | Mixture, split: Split, console: Console) -> None:
    """Say how many rows of a split were left out when they were last read, a line for each task."""
    for left_out in task.left_out(split):
        console.print(left_out.line(), highlight=False, markup=False, soft_wrap=True)


def checked_stream(
    task: Task, verifiers: Sequence[WeightedVerifier], seen: dict[Path, tuple[int, int]]
) -> Iterator[tuple[int, Problem | ReasonRLError]]:
    """The training rows of a task that streams: each one's number and problem, or what is wrong with it.

    It is a fault, too, if a problem lacks what the verifiers read of it.

    Args:
        task: the task.
        verifiers: of the run.
        seen: its files as they were when they were first read; filled here.

    Raises:
        ReasonRLError: a file has changed since: the steps would no longer be a function of data and seed.
    """
    assert task.config.dataset is not None
    for file, state in file_states(task.config.dataset, "train").items():
        if seen.setdefault(file, state) != state:
            raise ReasonRLError(
                f"{file} has changed since the run began to read it; bring back what it was, and go on with --resume, "
                "or start another run with it"
            )
    for index, made in task.attempts("train"):
        if isinstance(made, Problem):
            try:
                check_problems(verifiers, [made])
            except ReasonRLError as error:
                made = error.with_traceback(None)
        yield index, made


def demonstrations(task: Task, policy: Policy, config: SFTConfig) -> list[Row]:
    """A task's demonstrations as token ids; of data that streams, as many as the run can use, without faulty ones.

    Raises:
        ReasonRLError: there are none, or one does not fit the model; of a stream, more than a few are at fault.
    """
    rows, fault = [], None
    most = config.steps * config.batch_size if task.streams else None
    for index, (problem, text) in enumerate(task.demonstrations(most)):
        try:
            rows.append(Row(*demonstrated(problem, text, policy), group=index))
        except ReasonRLError as error:
            if not task.streams:
                raise
            assert problem.row is not None
            task.leave_out("train", problem.row, error)
            fault = error
    if fault is not None and not rows:
        raise fault
    return rows


def demonstrated(problem: Problem, response: str, policy: Policy) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The token ids of a prompt and of the response to imitate.

    Raises:
        ReasonRLError: together they do not fit the model.
    """
    ids = prompt_ids(problem.prompt, policy.tokenizer), response_ids(response, policy.tokenizer, policy.eos_ids[0])
    tokens = sum(map(len, ids))
    if policy.max_positions is not None and tokens > policy.max_positions:
        raise ReasonRLError(
            f"problem {problem.id}: prompt and demonstration have {tokens} tokens together, the model takes "
            f"{policy.max_positions}; leave the demonstration out"
        )
    return ids
