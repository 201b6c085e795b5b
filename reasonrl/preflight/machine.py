"""What a run finds on this machine: an engine, what its verifiers need, and room on the disk."""

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import torch

from reasonrl import plugins
from reasonrl.config import PPOConfig, RolloutConfig, RunConfig
from reasonrl.evaluation.engines import choose
from reasonrl.models.load import Policy, count_parameters
from reasonrl.preflight.arithmetic import evaluated, evaluations
from reasonrl.preflight.records import Data, Disk, Engine, Finding, Memory, Tried
from reasonrl.preflight.shapes import Sizes, has_optimiser, processes
from reasonrl.preflight.sizes import shown
from reasonrl.tasks import Mixture, Task
from reasonrl.trainers.checkpoints import phases

_TOKEN = 16  # bytes of a token in a rollout file: its id, its log-probability, its text in the response and in evidence
_ROW = 512  # bytes of a response in it, whatever its length


def engine(config: RunConfig, policy: Policy) -> tuple[Engine, list[Finding]]:
    """Which engine would sample, and why."""
    parameters = count_parameters(policy.model)
    name, why = choose(config.engine, parameters)
    findings = []
    if name == "vllm" and find_spec("vllm") is None:
        findings.append(Finding("engine", True, "vLLM is not installed", "pip install 'reasonrl[vllm]', or take auto"))
    if name == "vllm" and config.engine.tensor_parallel_size > 1 and processes() > 1:
        what = f"engine.tensor_parallel_size {config.engine.tensor_parallel_size} with {processes()} training processes"
        findings.append(Finding("engine", True, what, "set it to 1, or train in one process"))
    return Engine(name, why, parameters, count_parameters(policy.model, trained=True)), findings


def verifiers(task: Task | Mixture) -> tuple[list[Tried], list[Finding]]:
    """What the task's verifiers need of the machine, tried: of code, the tiers of its sandbox."""
    tried: list[Tried] = []
    for name in dict.fromkeys(entry.name for part, _ in task.parts for entry in part.verifiers):
        for one in plugins.installed().verifier(name).verifier.diagnose():
            tried.append(Tried(name, one.part, one.promise, one.holds, one.needed, one.seen))
    unfit = [one for one in tried if not one.part and one.needed and not one.holds]
    cure = "`reasonrl verifiers doctor` shows each part"
    return tried, [Finding("verifiers", True, f"{one.verifier}: {one.promise}: {one.seen}", cure) for one in unfit]


def disk(config: RunConfig, policy: Policy, sizes: Sizes, data: Data) -> tuple[Disk, list[Finding]]:
    """What the run writes, responses as long as they may be, and what is free where it writes."""
    folder = Path(config.runs).resolve()
    there = next(one for one in (folder, *folder.parents) if one.is_dir())
    parameters = list(policy.model.parameters())
    final = sum(p.numel() * p.element_size() for p in parameters)
    trained = sum(p.numel() * p.element_size() for p in parameters if p.requires_grad)
    found = Disk(
        folder=str(folder),
        checkpoints=_checkpoints(config, trained),
        final=final + (trained if config.model.lora is not None else 0),
        rollouts=_responses(config, data) * (_ROW + _TOKEN * (sizes.prompt + sizes.response)),
        free=shutil.disk_usage(there).free,
    )
    if found.needed <= found.free:
        return found, []
    what = f"the run writes {shown(found.needed)} to {folder}, where {shown(found.free)} are free"
    cure = "free some, set `runs` to a folder on another disk, or lower checkpoint.keep"
    return found, [Finding("disk", True, what, cure)]


def _checkpoints(config: RunConfig, trained: int) -> int:
    """Those kept, the end of each earlier phase, and the one that is written before another is removed."""
    one = trained * (3 if has_optimiser(config) else 1)
    if isinstance(config.algorithm, PPOConfig) and not config.algorithm.critic.shared:
        one += 3 * trained
    ended = 3 * trained * (len(phases(config)) - 1)
    every = config.checkpoint.every
    taken = 1 + ((config.algorithm.steps - 1) // every if every else 0)
    kept = config.checkpoint.keep + (config.checkpoint.best is not None)
    return ended + one * min(taken, kept + 1)


def _responses(config: RunConfig, data: Data) -> int:
    algorithm = config.algorithm
    sampled = algorithm.steps * algorithm.responses_per_step if isinstance(algorithm, RolloutConfig) else 0
    sampled *= 1 + getattr(algorithm, "refills", 0)
    return sampled + evaluations(config) * evaluated(config, data)


def device_memory() -> tuple[str, int, int]:
    """What trains, the bytes that this process holds already of its memory, and those that are left.

    On a GPU nothing of ours is loaded yet; on a CPU the interpreter and its libraries are.
    """
    if torch.cuda.is_available():
        free, _ = torch.cuda.mem_get_info()
        return torch.cuda.get_device_name(), 0, free
    held = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return "cpu", held, available() + held


def available() -> int:
    """Bytes of the machine's memory that could still be taken."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def too_large(memory: Memory) -> Iterator[Finding]:
    """Would the run not fit?"""
    needed = memory.needed if torch.cuda.is_available() else memory.needed * processes()
    if needed > memory.free:
        phase = memory.largest
        share = f"{shown(phase.parts[phase.dominating])} of {shown(phase.total)}"
        yield Finding(
            "memory",
            True,
            f"{phase.name} needs {shown(needed)}, and {memory.device} has {shown(memory.free)}; most of it is "
            f"{phase.dominating}: {share}",
            _CURES.get(phase.dominating, "take a smaller model, or model.lora"),
        )


_CURES = {
    "activations": "lower algorithm.micro_batch_tokens, or set model.gradient_checkpointing",
    "logits": "lower model.logits_chunk",
    "KV cache": "lower engine.max_batch or sampling.max_tokens",
}
