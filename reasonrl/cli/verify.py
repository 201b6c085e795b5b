"""`reasonrl verify TASK FILE -k 1,8`."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from reasonrl.cli.data import parse_data
from reasonrl.cli.evaluate import counting_bar, parse_k, show
from reasonrl.cli.jsonfile import JsonCopy, console_beside
from reasonrl.generators import Split

SplitName = Annotated[Split, typer.Option(help="The split whose problems they answer.")]
Data = Annotated[list[str] | None, typer.Option(metavar="[SPLIT=]FILE", help="A file in place of the task's own data.")]
Workers = Annotated[int, typer.Option(min=1, help="How many processes verify.")]
Deadline = Annotated[
    float, typer.Option(min=0.01, help="Seconds for one response and one verifier; beyond, it is unjudged.")
]
Rows = Annotated[int | None, typer.Option(min=1, help="Only the first so many problems.")]


def verify(
    task: Annotated[str, typer.Argument(help="A task by name, or the path of its YAML.")],
    file: Annotated[Path, typer.Argument(help="The responses: JSON Lines, JSON, CSV (also .gz) or Parquet.")],
    split: SplitName = "eval",
    data: Data = None,
    k: Annotated[str, typer.Option("-k", help="For which k, comma-separated.")] = "1",
    workers: Workers = 2,
    deadline: Deadline = 10.0,
    rows: Rows = None,
    runs: Annotated[Path, typer.Option(help="Where the folder with report and verdicts is made.")] = Path("runs"),
    json_file: JsonCopy = None,
) -> None:
    """Verify responses from a file, of any system: columns `problem_id` and `response`, or `responses` (a list).

    The report is that of `reasonrl eval`. Without `problem_id` (or `id`) line i answers problem i. Lines with
    `temperature` 0 count as greedy, as in our own rollouts; `response_tokens` and `finish_reason` are read if there.
    """
    ks = parse_k(k)
    from reasonrl import tasks

    files = parse_data(data or [], alone=split)
    tasks.load(task, files)
    # After the task is known to be good: importing torch, for the intervals, takes seconds.
    from reasonrl.evaluation.verify import verify_responses

    console = console_beside(json_file)
    with counting_bar(console) as count:
        report, folder = verify_responses(
            task,
            file,
            split=split,
            k=ks,
            rows=rows,
            data=files,
            workers=workers,
            deadline=deadline,
            runs=runs,
            progress=count,
            tell=partial(console.print, highlight=False, markup=False, soft_wrap=True),
        )
    show(report, folder, f"{task}, {'held-out' if split == 'eval' else 'training'} problems", console, json_file)
    found = report.coverage
    if found is not None and found.answered < found.problems:
        console.print(
            f"{found.answered} of {found.problems} problems have responses; the others count neither as right nor as "
            "wrong",
            highlight=False,
            soft_wrap=True,
        )
