"""Run by test_two_processes_resume.py as each of two gloo processes: a run as a whole, and ended and resumed."""

import os
import random
import sys
from pathlib import Path
from unittest.mock import patch

from accelerate import Accelerator
from resumed_runs import HOOKS, Killed, config_of, folder_of, killed_at, noisy_offered
from resumed_scorers import scorer_config_of
from small_runs import silent

from reasonrl.trainers import run

SETTINGS = ("algorithm.steps=2", "checkpoint.every=1", "evaluation.every=0")


def main(folder: Path) -> None:
    Accelerator(cpu=True)
    ppo = [config_of(folder, "ppo", runs, *SETTINGS) for runs in ("whole", "cut")]
    scorers = [scorer_config_of(folder, "reward_model", runs, *SETTINGS[:2]) for runs in ("whole", "cut")]

    def alone() -> None:
        """One process draws more than the other."""
        if os.environ["RANK"] == "1":
            random.random()

    with noisy_offered(), patch.object(Accelerator, "end_training"):  # which ends the processes' connection for good
        HOOKS.append(alone)
        for whole, cut in (ppo, scorers):
            run.train(whole, silent())
            try:
                with killed_at(2):
                    run.train(cut, silent())
            except Killed:
                run.train(cut, silent(), folder_of(cut))
    Accelerator().end_training()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
