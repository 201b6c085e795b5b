"""`reasonrl build pairs ROLLOUTS… -o FILE` and `reasonrl build sft ROLLOUTS… -o FILE`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.text import Text

from reasonrl.cli.records import options_of_records
from reasonrl.cli.responses import Responses
from reasonrl.errors import ReasonRLError

if TYPE_CHECKING:
    from reasonrl.pairs.summary import Summary

build = typer.Typer(help="Data to train on, made of verified responses.", no_args_is_help=True)

Out = Annotated[Path, typer.Option("-o", "--out", dir_okay=False, help="The Parquet file to write.")]
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
@options_of_records
def pairs(
    out: Out,
    responses: Responses,
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
    from reasonrl.pairs.candidates import read_problems
    from reasonrl.pairs.write import write_pairs

    console = Console()
    files = responses.files(seed, console)
    controls = Controls(choice, per_problem, limit, margin, similarity, truncated, length_bias, steps, seed)
    found, summary = build_pairs(read_problems(files, logprobs=choice == "hardest"), controls)
    _check_any(summary)
    write_pairs(out, found)
    _show(summary, files, out, console)


@build.command()
@options_of_records
def sft(
    out: Out,
    responses: Responses,
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
    from reasonrl.pairs.candidates import read_problems
    from reasonrl.pairs.write import write_demonstrations

    console = Console()
    files = responses.files(seed, console)
    controls = Controls(choice, per_problem, limit, margin, similarity, truncated, seed=seed)
    found, summary = build_demonstrations(read_problems(files, logprobs=choice == "hardest"), controls)
    _check_any(summary)
    write_demonstrations(out, found)
    _show(summary, files, out, console)


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
