"""The memory that `reasonrl check` estimates against the peak of the same run in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from small_runs import ROOT

# The peak is VmHWM: ru_maxrss also knows what the process was before it began to run this program.
CHILD = """
import json, sys
from pathlib import Path
from rich.console import Console
import torch
from reasonrl import config
from reasonrl.preflight import preflight
from reasonrl.trainers import run

torch.set_num_threads(1)
resolved = config.load(sys.argv[1], sys.argv[2:])
memory = preflight(resolved, name="", rows=4).memory
run.train(resolved, Console(quiet=True))
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
largest = memory.largest
print(json.dumps([memory.process, memory.peak, 1024 * int(peak.split()[1]), largest.name, largest.dominating]))
"""
WIDE = """\
name: wide
task: debug
model:
  tiny: {characters: "0123456789+=,:LETTERS", hidden_size: 512, intermediate_size: 1376, layers: 8, heads: 8}
algorithm: {name: grpo, steps: 2, problems_per_step: 2, group_size: 8, std: none, kl: {coefficient: 0.02}}
engine: huggingface
verification: {workers: 1}
evaluation: {rows: 1, samples: 1, k: [1]}
"""


@pytest.mark.parametrize(
    ("run", "overrides", "largest", "growth"),
    [
        (str(ROOT / "configs" / "debug" / "grpo.yaml"), [], ("warm start", "activations"), False),
        (
            str(ROOT / "configs" / "debug" / "online_dpo.yaml"),
            ["algorithm.steps=2", "warm_start.steps=2", "evaluation.rows=2", "verification.workers=1"],
            ("update", "activations"),
            False,
        ),
        (
            str(ROOT / "configs" / "debug" / "grpo.yaml"),
            ["warm_start.packing=true", "warm_start.batch_size=320", "warm_start.steps=2", "algorithm.steps=1"],
            ("warm start", "masks of packed rows"),
            True,
        ),
        ("wide.yaml", [], ("update", "optimiser state"), True),
    ],
)
def test_the_peak_is_within_a_fifth(
    tmp_path: Path, run: str, overrides: list[str], largest: tuple[str, str], growth: bool
) -> None:
    """Of small runs it is mostly the interpreter's; of the wide one, what the run itself adds is as near."""
    letters = "".join(chr(0x4E00 + index) for index in range(7983))  # a vocabulary of 8,000
    (tmp_path / "wide.yaml").write_text(WIDE.replace("LETTERS", letters))
    # What malloc keeps of freed blocks is not the run's: large ones go back at once.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "131072", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", CHILD, run, *overrides]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    process, estimated, measured, *named = json.loads(done.stdout.splitlines()[-1])
    print(f"{run}: process {process:,}, estimated {estimated:,}, measured {measured:,}")
    assert tuple(named) == largest
    assert estimated == pytest.approx(measured, rel=0.2)
    if growth:
        assert estimated - process == pytest.approx(measured - process, rel=0.2)
