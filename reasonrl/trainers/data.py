"""A task's data made ready for a run: training problems of each task of a mixture, demonstrations as token ids."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from rich.console import Console

from reasonrl.batch import Row
from reasonrl.config import SFTConfig
from reasonrl.errors import ReasonRLError
from reasonrl.evaluation.evaluate import Prompted
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
    for part, weight in task.parts:
        key = f"{seed}/{part.task}" if part.task else str(seed)
        if part.streams:
            assert part.config.dataset is not None
            checked = partial(checked_stream, part, verifiers)
            sources.append((Streamed(checked, make, part.config.dataset.window, key), weight))
            continue
        prompted = [one for one in map(make, listed[part.name]) if one is not None]
        if left_out := len(listed[part.name]) - len(prompted):
            console.print(
                f"{part.name}: {left_out} of {len(listed[part.name])} training problems have prompts beyond "
                "task.max_prompt_tokens and are left out",
                highlight=False,
            )
        sources.append((Listed(prompted, key), weight))
    return sources


def checked_stream(task: Task, verifiers: Sequence[WeightedVerifier]) -> Iterator[Problem]:
    """The training problems of a task that streams, each with what the verifiers read of it."""
    for problem in task.stream("train"):
        check_problems(verifiers, [problem])
        yield problem


def demonstrations(task: Task, policy: Policy, config: SFTConfig) -> list[Row]:
    """A task's demonstrations as token ids; of data that streams, as many as the run can use.

    Raises:
        ReasonRLError: there are none, or one does not fit the model.
    """
    rows = []
    most = config.steps * config.batch_size if task.streams else None
    for index, (problem, text) in enumerate(task.demonstrations(most)):
        ids = prompt_ids(problem.prompt, policy.tokenizer), response_ids(text, policy.tokenizer, policy.eos_ids[0])
        tokens = sum(map(len, ids))
        if policy.max_positions is not None and tokens > policy.max_positions:
            raise ReasonRLError(
                f"problem {problem.id}: prompt and demonstration have {tokens} tokens together, the model takes "
                f"{policy.max_positions}; leave the demonstration out"
            )
        rows.append(Row(*ids, group=index))
    return rows
