"""`reasonrl build steps ROLLOUTS… -o FILE`."""

from typing import Annotated, Literal

import typer
from rich.console import Console

from reasonrl.cli.build import Out, Seed
from reasonrl.cli.evaluate import ENGINES, counting_bar
from reasonrl.cli.responses import Rollouts
from reasonrl.errors import ReasonRLError


def steps(
    out: Out,
    task: Annotated[str, typer.Option(help="The task of the rollouts, by name or path: its verifiers judge.")],
    model: Annotated[str, typer.Option(help="What samples on: a model folder or hub id with the same tokenizer.")],
    rollouts: Rollouts = None,
    samples: Annotated[int, typer.Option("-n", min=1, help="Continuations from the end of each step.")] = 8,
    steps: Annotated[
        Literal["paragraphs", "lines", "numbered", "separator"], typer.Option(help="How a response is split.")
    ] = "paragraphs",
    separator: Annotated[
        str | None, typer.Option(help="Of --steps separator: a regular expression between two steps.")
    ] = None,
    hard: Annotated[
        bool, typer.Option("--hard", help="Label 1 where any continuation ends right; else their share.")
    ] = False,
    question: Annotated[
        str | None, typer.Option(help="Metadata column of the problem alone, as of the verifier prm.")
    ] = None,
    per_problem: Annotated[int | None, typer.Option(min=1, help="At most so many responses of a problem.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many responses in all.")] = None,
    temperature: Annotated[float | None, typer.Option(min=0.01, help="In place of the task's own.")] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Most tokens of a continuation; the task's own limit by default.")
    ] = None,
    engine: Annotated[str, typer.Option(help="auto, huggingface or vllm.")] = "auto",
    seed: Seed = 0,
) -> None:
    """Label each step of stored responses by how often what is sampled on from it ends right (Math-Shepherd).

    Interrupted, the same command goes on where it was.
    """
    if not rollouts:
        raise ReasonRLError("give ROLLOUTS, the folder of a run as runs/NAME")
    if engine not in ENGINES:
        raise ReasonRLError(f"--engine {engine}: there are {', '.join(ENGINES)}")
    if (separator is not None) != (steps == "separator"):
        raise ReasonRLError("--steps separator and --separator go together")
    # After the options are known to be good: importing torch and transformers takes seconds.
    from reasonrl.config import EngineConfig
    from reasonrl.steplabels.build import Labelling
    from reasonrl.steplabels.command import build_steps

    console = Console()
    labelling = Labelling(samples, steps, separator, hard, question, seed)
    with counting_bar(console) as count:
        found = build_steps(
            rollouts,
            out,
            task,
            model,
            labelling,
            limit=limit,
            per_problem=per_problem,
            temperature=temperature,
            max_tokens=max_tokens,
            engine=EngineConfig.model_validate({"name": engine}),
            progress=count,
        )
    console.print(found.line(), highlight=False, markup=False, soft_wrap=True)
    console.print(f"steps     {out}", highlight=False, soft_wrap=True)
