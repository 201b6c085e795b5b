"""`reasonrl build pairs ROLLOUTS… -o FILE` and `reasonrl build sft ROLLOUTS… -o FILE`."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.text import Text

from reasonrl.cli.data import parse_data
from reasonrl.cli.evaluate import ENGINES, counting_bar
from reasonrl.errors import ReasonRLError

if TYPE_CHECKING:
    from reasonrl.pairs.summary import Summary

build = typer.Typer(help="Data to train on, made of verified responses.", no_args_is_help=True)

Rollouts = Annotated[
    list[Path] | None,
    typer.Argument(
        help="Rollout files, or folders of runs and evaluations; of a run its training steps.", metavar="ROLLOUTS…"
    ),
]
Out = Annotated[Path, typer.Option("-o", "--out", dir_okay=False, help="The Parquet file to write.")]
TaskName = Annotated[str | None, typer.Option("--task", help="Sample now: a task by name or path; its training split.")]
Model = Annotated[str | None, typer.Option(help="Sample now: a model folder or hub id.")]
Samples = Annotated[int, typer.Option("-n", min=2, help="Sample now: responses per problem.")]
Rows = Annotated[int | None, typer.Option(min=1, help="Sample now: how many problems; all by default.")]
Data = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[SPLIT=]FILE", help="Sample now: a file in place of a split of the task, train if none is named."
    ),
]
Temperature = Annotated[float | None, typer.Option(min=0.01, help="Sample now: in place of the task's own.")]
MaxTokens = Annotated[int | None, typer.Option(min=1, help="Sample now: most tokens of a response.")]
EngineName = Annotated[str, typer.Option(help="Sample now: auto, huggingface or vllm.")]
Runs = Annotated[Path, typer.Option(help="Sample now: where the folder with the responses is made.")]
Choose = Annotated[
    Literal["random", "balanced", "hardest"],
    typer.Option(help="Of a problem's: random ones; balanced in length; hardest, by the sampler's log-probabilities."),
]
PerProblem = Annotated[int, typer.Option(min=1, help="At most so many of a problem.")]
Limit = Annotated[int | None, typer.Option(min=1, help="At most so many in all.")]
Similarity = Annotated[
    float,
    typer.Option(min=0.0, max=1.0, help="Leave out what is at least so alike to another response to the problem."),
]
Truncated = Annotated[bool, typer.Option("--truncated", help="Take responses cut at the token limit, too.")]
Seed = Annotated[int, typer.Option(help="Of samples and choices.")]


@build.command()
def pairs(
    out: Out,
    rollouts: Rollouts = None,
    task: TaskName = None,
    model: Model = None,
    samples: Samples = 8,
    rows: Rows = None,
    data: Data = None,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    engine: EngineName = "auto",
    runs: Runs = Path("runs"),
    choice: Choose = "random",
    per_problem: PerProblem = 4,
    limit: Limit = None,
    margin: Annotated[
        float | None,
        typer.Option(min=0.0, help="For graded rewards: a pair's differ by at least this; else right and wrong."),
    ] = None,
    steps: Annotated[
        bool, typer.Option("--steps", help="Pairs that share a response up to its first wrong step (process verdicts).")
    ] = False,
    similarity: Similarity = 0.9,
    length_bias: Annotated[
        float | None,
        typer.Option(min=0.0, help="Drop pairs until chosen responses are longer or shorter by at most this share."),
    ] = None,
    truncated: Truncated = False,
    seed: Seed = 0,
) -> None:
    """Preference pairs: a right response above a wrong one, to the same problem, with columns as TRL reads them."""
    if steps and margin is not None:
        raise ReasonRLError("--steps takes right and wrong responses; leave --margin out")
    from reasonrl.pairs.build import Controls, build_pairs
    from reasonrl.pairs.candidates import read_problems, rollout_files
    from reasonrl.pairs.write import write_pairs

    console = Console()
    sample = partial(_sample, samples, rows, data, temperature, max_tokens, engine, runs, seed, console)
    files = rollout_files(_paths(rollouts, task, model, sample))
    controls = Controls(choice, per_problem, limit, margin, similarity, truncated, length_bias, steps, seed)
    found, summary = build_pairs(read_problems(files, logprobs=choice == "hardest"), controls)
    _check_any(summary)
    write_pairs(out, found)
    _show(summary, files, out, console)


@build.command()
def sft(
    out: Out,
    rollouts: Rollouts = None,
    task: TaskName = None,
    model: Model = None,
    samples: Samples = 8,
    rows: Rows = None,
    data: Data = None,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    engine: EngineName = "auto",
    runs: Runs = Path("runs"),
    choice: Choose = "random",
    per_problem: PerProblem = 4,
    limit: Limit = None,
    margin: Annotated[
        float | None, typer.Option(help="For graded rewards: a response earns at least this; else it is right.")
    ] = None,
    similarity: Similarity = 0.9,
    truncated: Truncated = False,
    seed: Seed = 0,
) -> None:
    """Demonstrations (rejection sampling): responses that are right, with columns prompt and completion."""
    from reasonrl.pairs.build import Controls, build_demonstrations
    from reasonrl.pairs.candidates import read_problems, rollout_files
    from reasonrl.pairs.write import write_demonstrations

    console = Console()
    sample = partial(_sample, samples, rows, data, temperature, max_tokens, engine, runs, seed, console)
    files = rollout_files(_paths(rollouts, task, model, sample))
    controls = Controls(choice, per_problem, limit, margin, similarity, truncated, seed=seed)
    found, summary = build_demonstrations(read_problems(files, logprobs=choice == "hardest"), controls)
    _check_any(summary)
    write_demonstrations(out, found)
    _show(summary, files, out, console)


def _paths(
    rollouts: list[Path] | None, task: str | None, model: str | None, sample: Callable[[str, str], Path]
) -> list[Path]:
    """The rollouts given, or those sampled now."""
    if (task is None) != (model is None):
        raise ReasonRLError("--task and --model go together: they sample responses now")
    if task is None or model is None:
        if not rollouts:
            raise ReasonRLError(
                "give ROLLOUTS, the folder of a run as runs/NAME, or sample now with --task and --model"
            )
        return rollouts
    return [*(rollouts or []), sample(task, model)]


def _sample(
    samples: int,
    rows: int | None,
    data: list[str] | None,
    temperature: float | None,
    max_tokens: int | None,
    engine: str,
    runs: Path,
    seed: int,
    console: Console,
    task: str,
    model: str,
) -> Path:
    from reasonrl import tasks

    if engine not in ENGINES:
        raise ReasonRLError(f"--engine {engine}: there are {', '.join(ENGINES)}")
    files = parse_data(data or [], alone="train")
    tasks.load(task, files)
    # After the task is known to be good: importing torch and transformers takes seconds.
    from reasonrl.config import EngineConfig
    from reasonrl.pairs.sampling import sample_rollouts

    with counting_bar(console) as count:
        folder = sample_rollouts(
            task,
            model,
            samples=samples,
            rows=rows,
            data=files,
            temperature=temperature,
            max_tokens=max_tokens,
            seed=seed,
            engine=EngineConfig.model_validate({"name": engine}),
            runs=runs,
            progress=count,
            tell=partial(console.print, highlight=False, markup=False, soft_wrap=True),
        )
    console.print(f"rollouts  {folder / 'rollouts.parquet'}", highlight=False, soft_wrap=True)
    return folder


def _check_any(summary: "Summary") -> None:
    if not summary.built:
        raise ReasonRLError("\n".join([f"there are no {summary.kind} to write", *summary.lines()]))


def _show(summary: "Summary", files: list[Path], out: Path, console: Console) -> None:
    for line in summary.lines():
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    for line in summary.warnings():
        console.print(Text.assemble(("warning: ", "yellow"), line), soft_wrap=True)
    if any(file.parent.name == "eval" or (file.parent / "report.json").is_file() for file in files):
        text = "responses of an evaluation: train on them, and these problems are no longer held out"
        console.print(Text.assemble(("warning: ", "yellow"), text), soft_wrap=True)
    console.print(f"{summary.kind:<9} {out}", highlight=False, soft_wrap=True)
