"""Prompts rendered as the model sees them, and their lengths set against the limits."""

import itertools
from collections.abc import Iterator

import jinja2

from reasonrl.checking.split import spread
from reasonrl.errors import ReasonRLError
from reasonrl.generators import Split
from reasonrl.models.load import Policy
from reasonrl.models.prompt import prompt_ids
from reasonrl.preflight.records import Finding, Lengths, Prompts
from reasonrl.tasks import Mixture, Task
from reasonrl.types import Problem


def lengths(
    limit: int | None, task: Task | Mixture, policy: Policy, max_tokens: int, rows: int | None
) -> tuple[Lengths, list[Finding]]:
    """The lengths of the first so many prompts of each split, and what is wrong with them.

    Args:
        limit: task.max_prompt_tokens of the run.
        task: whose prompts; rows that cannot become a problem are passed over.
        policy: its tokenizer, and the longest sequence it takes.
        max_tokens: of a response.
        rows: of each split of each task; all if None.
    """
    findings: list[Finding] = []
    most = policy.max_positions
    splits = []
    for split in task.splits():
        longest = limit if split == "train" else None  # evaluations leave nothing out
        found: list[int] = []
        try:
            for problem in _problems(task, split, rows):
                found.append(len(prompt_ids(problem.prompt, policy.tokenizer)))
        except (ReasonRLError, jinja2.TemplateError) as error:
            findings.append(Finding("prompts", True, f"{split}: {error}"))
        used = [one for one in found if longest is None or one <= longest]
        beyond = [one for one in used if most is not None and one + max_tokens > most]
        splits.append(Prompts(split, len(found), spread(found), len(found) - len(used), len(beyond)))
        findings += _findings(splits[-1], limit, most, max_tokens, max(beyond, default=0))
    return Lengths(tuple(splits), limit, max_tokens, most), findings


def _findings(found: Prompts, limit: int | None, most: int | None, max_tokens: int, longest: int) -> Iterator[Finding]:
    looked_at = f"{found.split}: {{}} of {found.prompts} prompts"
    if found.left_out:
        whole = found.left_out == found.prompts
        yield Finding(
            "prompts",
            whole,
            f"{looked_at.format(found.left_out)} are beyond task.max_prompt_tokens {limit} and would be left out",
            "raise task.max_prompt_tokens" if whole else "",
        )
    if found.beyond_context:
        sampled = "lower sampling.max_tokens, or take a model with a longer context"
        yield Finding(
            "prompts",
            True,
            f"{looked_at.format(found.beyond_context)}, of up to {longest} tokens, do not fit the model's {most} "
            f"positions together with sampling.max_tokens {max_tokens}",
            f"{sampled}, or set task.max_prompt_tokens" if found.split == "train" else sampled,
        )


def _problems(task: Task | Mixture, split: Split, rows: int | None) -> Iterator[Problem]:
    for part, _ in task.parts:
        if split in part.splits():
            for _, made in itertools.islice(part.attempts(split), rows):
                if isinstance(made, Problem):
                    yield made
