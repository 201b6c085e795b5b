"""Starts a script as each of two gloo processes, without a launcher that would end one with the other."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from small_runs import ROOT

LIMIT = 300  # seconds; minutes only on a machine that is very busy


def launch_two(script: str, folder: Path, exit_codes: list[int]) -> None:
    """Run tests/SCRIPT with the folder as its argument, once as each process; they must end with these codes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    world = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    path = os.pathsep.join(filter(None, [str(ROOT / "tests"), os.environ.get("PYTHONPATH")]))
    environment = os.environ | world | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    command = [sys.executable, str(ROOT / "tests" / script), str(folder)]
    processes = [
        subprocess.Popen(
            command, env=environment | {"RANK": rank, "LOCAL_RANK": rank}, stderr=subprocess.PIPE, text=True
        )
        for rank in ("0", "1")
    ]
    try:
        errors = [process.communicate(timeout=LIMIT)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == exit_codes, "\n".join(errors)
