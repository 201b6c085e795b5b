"""All of a run that can be looked at before anything costs money."""

import time

from reasonrl.checking import check
from reasonrl.checking.split import Progress
from reasonrl.config import RunConfig
from reasonrl.errors import ReasonRLError
from reasonrl.explain import explain
from reasonrl.models.load import policy_without_weights
from reasonrl.preflight import arithmetic, machine, memory
from reasonrl.preflight.data import measured
from reasonrl.preflight.prompts import lengths
from reasonrl.preflight.records import Finding, Memory, Preflight
from reasonrl.tasks import Mixture, Task
from reasonrl.trainers.parts import resolve_task


def preflight(
    config: RunConfig,
    *,
    name: str,
    rows: int | None = 64,
    progress: Progress = lambda where, done, total: None,
) -> Preflight:
    """Look at a run without training: data and verifiers, lengths, machine, memory, arithmetic, objective.

    No weights are read, and no model computes: its shapes are enough.

    Args:
        config: the run.
        name: as its reader knows it.
        rows: so many of each split are judged and rendered; all if None.
        progress: told what is done to the rows, as of `checking.check`.

    Raises:
        ReasonRLError: the run has no task, as those of reward models; or task, sampling or model are such that there is
            no run to look at.
    """
    start = time.monotonic()
    if config.task is None:
        raise ReasonRLError(f"check looks at runs with a task, and one of {config.algorithm.name} has none")
    task, _, sampling = resolve_task(config)
    policy = policy_without_weights(config.model)
    checked = check(
        task,
        rows=rows,
        workers=config.verification.workers,
        deadline=config.verification.deadline,
        progress=progress,
    )
    findings = [
        Finding("task", fault, f"{one.split or one.task}: {one.what}: {one.count}", one.cure)
        for fault, some in ((True, checked.faults), (False, checked.warnings))
        for one in some
    ]
    rendered, found = lengths(config.task.max_prompt_tokens, task, policy, sampling.max_tokens, rows)
    findings += found
    data, sizes, found = measured(config, task, policy, rendered)
    findings += found
    engine, found = machine.engine(config, policy)
    findings += found
    tried, found = machine.verifiers(task)
    findings += found
    disk, found = machine.disk(config, policy, sizes, data)
    findings += found
    device, process, free = machine.device_memory()
    estimated = Memory(device, process, tuple(memory.phases(config, policy, sizes, sampling, engine.name, data)), free)
    findings += machine.too_large(estimated)
    share_prompt = config.model.share_prompt and not config.model.gradient_checkpointing
    return Preflight(
        config=name,
        task=task.name,
        passed=not any(one.fault for one in findings),
        findings=tuple(sorted(findings, key=lambda one: not one.fault)),
        check=checked,
        lengths=rendered,
        engine=engine,
        verifiers=tuple(tried),
        disk=disk,
        memory=estimated,
        batch=tuple(arithmetic.lines(config, data, sizes, share_prompt=share_prompt)),
        objective=_objective(config, task, engine.name),
        seconds=round(time.monotonic() - start, 2),
    )


def _objective(config: RunConfig, task: Task | Mixture, engine: str) -> dict[str, tuple[str, ...]]:
    sections = explain(config, task, sampler_is_policy=engine == "huggingface")
    return {section.title: section.lines for section in sections}
