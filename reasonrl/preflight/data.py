"""How much data a run has, and the longest sequences in it."""

from dataclasses import replace

from reasonrl.config import DPOConfig, RunConfig, SFTConfig
from reasonrl.errors import ReasonRLError
from reasonrl.models.load import Policy
from reasonrl.pairs.read import read_preferences
from reasonrl.preflight.records import Data, Finding, Lengths
from reasonrl.preflight.shapes import Sizes
from reasonrl.tasks import Mixture, Task
from reasonrl.trainers.data import demonstrations
from reasonrl.trainers.dpo import tokenised


def measured(
    config: RunConfig, task: Task | Mixture, policy: Policy, lengths: Lengths
) -> tuple[Data, Sizes, list[Finding]]:
    """The data a run has beside prompts, read as the run reads it; what cannot be read is a finding.

    Args:
        config, task: the run.
        policy: its tokenizer, and the longest sequence it takes.
        lengths: of the prompts.
    """
    findings: list[Finding] = []
    demonstrated, pairs = [(1, 1)], [(1, 1)]
    counts = {"demonstrations": 0, "pairs": 0}
    supervised = config.algorithm if isinstance(config.algorithm, SFTConfig) else config.warm_start
    if supervised is not None:
        try:
            rows = [row for part, _ in task.parts for row in demonstrations(part, policy, supervised)]
            demonstrated = [(len(row.prompt_ids), len(row.response_ids)) for row in rows]
            counts["demonstrations"] = len(rows)
        except ReasonRLError as error:
            findings.append(Finding("data", True, f"demonstrations: {error}"))
    if isinstance(config.algorithm, DPOConfig):
        try:
            found = tokenised(read_preferences(config.algorithm.pairs), policy, lengths.max_prompt_tokens)
            pairs = [(len(p.prompt_ids), max(len(p.chosen_ids), len(p.rejected_ids))) for p in found]
            counts["pairs"] = len(found)
        except ReasonRLError as error:
            findings.append(Finding("data", True, f"pairs: {error}"))
    prompt, response = (max(sides) for sides in zip(*demonstrated, strict=True))
    sizes = Sizes(lengths.longest_prompt, lengths.max_tokens, prompt, response)
    if isinstance(config.algorithm, DPOConfig):
        sizes = replace(sizes, prompt=max(one for one, _ in pairs), response=max(one for _, one in pairs))
    data = Data(_problems(task, "train"), _problems(task, "eval") or 0, **counts)
    return data, sizes, findings


def _problems(task: Task | Mixture, split: str) -> int | None:
    """How many rows a split has; None where they stream, or cannot be read, which the check of the task has told."""
    parts = [part for part, _ in task.parts if split in part.splits()]
    if any(part.streams for part in parts):
        return None
    try:
        return sum(sum(1 for _ in part.rows("train" if split == "train" else "eval")) for part in parts)
    except ReasonRLError:
        return None
