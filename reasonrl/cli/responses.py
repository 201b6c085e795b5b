"""The responses that `reasonrl build` makes data of: stored ones, and those it samples now."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from reasonrl.cli.data import parse_data
from reasonrl.cli.evaluate import ENGINES, counting_bar
from reasonrl.errors import ReasonRLError

Rollouts = Annotated[
    list[Path] | None,
    typer.Argument(
        help="Rollout files, or folders of runs and evaluations; of a run its training steps.", metavar="ROLLOUTS…"
    ),
]


@dataclass(frozen=True)
class Responses:
    """Where the responses come from, as options."""

    rollouts: Rollouts = None
    task: Annotated[
        str | None, typer.Option("--task", help="Sample now: a task by name or path; its training split.")
    ] = None
    model: Annotated[str | None, typer.Option(help="Sample now: a model folder or hub id.")] = None
    samples: Annotated[int, typer.Option("-n", min=2, help="Sample now: responses per problem.")] = 8
    rows: Annotated[int | None, typer.Option(min=1, help="Sample now: how many problems; all by default.")] = None
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[SPLIT=]FILE", help="Sample now: a file in place of a split of the task, train if none is named."
        ),
    ] = None
    temperature: Annotated[float | None, typer.Option(min=0.01, help="Sample now: in place of the task's own.")] = None
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Sample now: most tokens of a response.")] = None
    engine: Annotated[str, typer.Option(help="Sample now: auto, huggingface or vllm.")] = "auto"
    runs: Annotated[Path, typer.Option(help="Sample now: where the folder with the responses is made.")] = Path("runs")

    def files(self, seed: int, console: Console) -> list[Path]:
        """The rollout files that were given, and that of the responses sampled now.

        Raises:
            ReasonRLError: neither is asked for; a fault in paths, task, data or model.
        """
        from reasonrl.pairs.candidates import rollout_files

        if (self.task is None) != (self.model is None):
            raise ReasonRLError("--task and --model go together: they sample responses now")
        paths = self.rollouts or []
        if self.task is not None and self.model is not None:
            paths = [*paths, self._sample(self.task, self.model, seed, console)]
        if not paths:
            raise ReasonRLError(
                "give ROLLOUTS, the folder of a run as runs/NAME, or sample now with --task and --model"
            )
        return rollout_files(paths)

    def _sample(self, task: str, model: str, seed: int, console: Console) -> Path:
        from reasonrl import tasks

        if self.engine not in ENGINES:
            raise ReasonRLError(f"--engine {self.engine}: there are {', '.join(ENGINES)}")
        data = parse_data(self.data or [], alone="train")
        tasks.load(task, data)
        # After the task is known to be good: importing torch and transformers takes seconds.
        from reasonrl.config import EngineConfig
        from reasonrl.evaluation.command import ModelOnTask
        from reasonrl.pairs.sampling import sample_rollouts

        engine = EngineConfig.model_validate({"name": self.engine})
        with counting_bar(console) as count:
            folder = sample_rollouts(
                ModelOnTask(task, model, self.rows, data, self.temperature, self.max_tokens, engine),
                samples=self.samples,
                seed=seed,
                runs=self.runs,
                progress=count,
                tell=partial(console.print, highlight=False, markup=False, soft_wrap=True),
            )
        console.print(f"rollouts  {folder / 'rollouts.parquet'}", highlight=False, soft_wrap=True)
        return folder
