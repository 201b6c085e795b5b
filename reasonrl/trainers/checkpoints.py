"""When a run's state is written down, and which comes back.

A trainer says what it changes from step to step (`trained.Trained`) and asks `begin` how many steps are done; the run
calls `after_step` at the end of each. That is all it has to do with checkpoints.
"""

import math
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from accelerate import Accelerator

from reasonrl.checkpoint import folder as checkpoint
from reasonrl.checkpoint import randomness
from reasonrl.checkpoint.folder import Damaged, Place
from reasonrl.config import RunConfig
from reasonrl.errors import Interrupted, ReasonRLError
from reasonrl.tracking import Tracker
from reasonrl.trainers.coefficients import Coefficient
from reasonrl.trainers.policy import Run
from reasonrl.trainers.session import Session, gather
from reasonrl.trainers.stop import Stop
from reasonrl.trainers.trained import Trained, held, restore


class Checkpoints:
    """Writes a run's checkpoints, and gives back what one holds.

    Args:
        folder: of the run.
        config: of the run.
        fingerprints: of what the run depends on.
        accelerator, tracker: of the run.
        stop: says when it is to end early.
        resumed: the checkpoint it goes on from; None if it begins.
    """

    def __init__(
        self,
        folder: Path,
        config: RunConfig,
        fingerprints: Mapping[str, str],
        accelerator: Accelerator,
        tracker: Tracker,
        stop: Stop,
        resumed: Place | None = None,
    ) -> None:
        self._folder, self._config, self._fingerprints = folder, config, fingerprints
        self._accelerator, self._tracker, self._stop = accelerator, tracker, stop
        self._resumed = resumed
        self._lengths = phases(config)
        self._scores: dict[Place, float | None] = {}
        self._saved: Place | None = resumed
        self._phase, self._trained = "", Trained({})
        self._at = 0

    @property
    def places(self) -> list[Place]:
        """The checkpoints of the run, in the order they were taken."""
        return checkpoint.places(self._folder / "checkpoints", list(self._lengths))

    @property
    def began(self) -> bool:
        """Does the run go on from a step of its algorithm, behind the first evaluation?"""
        return self._resumed is not None and self._resumed.phase == list(self._lengths)[-1]

    def begin(self, phase: str, trained: Trained) -> int:
        """A phase begins, or goes on: its state is brought back; how many of its steps are done.

        Raises:
            ReasonRLError: more steps are done than it has, the model or the data is not what it was, or the checkpoint
                is damaged.
        """
        self._phase, self._trained, self._at = phase, trained, 0
        place = self._start(phase)
        if place is not None:
            self._at = place.step
            if place.step > self._lengths[phase]:
                raise ReasonRLError(
                    f"{place.path.name} is beyond the {self._lengths[phase]} steps of {phase}; raise algorithm.steps"
                )
            restore(trained, place, self._accelerator.process_index)
        return self._at

    def begin_run(
        self, run: Run, sessions: Mapping[str, Session] = MappingProxyType({}), **coefficients: Coefficient
    ) -> int:
        """The same for a run of reinforcement learning, whose engine then samples from what was brought back.

        Args:
            run: the run; its reference must be there, for it is the policy as training begins.
            sessions, coefficients: what it changes beside the policy and β.
        """
        trained = Trained({"policy": run.session, **sessions}, {"kl": run.beta, **coefficients}, run.problems.digest)
        done = self.begin(run.config.name, trained)
        if done:
            run.sync(done)
        return done

    def after_step(self, step: int) -> None:
        """Write a checkpoint where one is due.

        Raises:
            Interrupted: the run was asked to stop, on whatever process; a checkpoint has been written.
            ReasonRLError: the disk is full.
        """
        self._at = step
        asked, every = self._asked(), self._config.checkpoint.every
        if asked or step == self._lengths[self._phase] or (every and step % every == 0):
            self._save(step)
        if asked:
            raise self._interrupted(asked)

    def stop_if_asked(self) -> None:
        """For the time between steps.

        Raises:
            Interrupted: the run was asked to stop, on whatever process.
        """
        if asked := self._asked():
            raise self._interrupted(asked)

    @contextmanager
    def telling(self) -> Iterator[None]:
        """After a fault inside, say how the run can go on."""
        try:
            yield
        except Interrupted:
            raise
        except ReasonRLError:
            self._tell()
            raise

    def _tell(self) -> None:
        if self._accelerator.is_main_process and (there := self.places):
            how = f"once that is mended, the run goes on from {there[-1].path.name} with: {self._command}"
            self._tracker.console.print(how, highlight=False, markup=False, soft_wrap=True)

    @property
    def _command(self) -> str:
        return f"reasonrl train {shlex.quote(str(self._folder))} --resume"

    def _asked(self) -> int:
        """The signal that a process was asked to stop by; 0 if none was."""
        asked = gather(self._accelerator, [self._stop.asked or 0])
        return max(asked)

    def _interrupted(self, asked: int) -> Interrupted:
        where = f"after step {self._at} of {self._phase}" if self._at else "before the first step"
        return Interrupted(f"stopped {where}; it goes on with: {self._command}", asked)

    def _start(self, phase: str) -> Place | None:
        """The checkpoint that a phase goes on from: of one that is over, its last."""
        if self._resumed is None or self._resumed.phase == phase:
            return self._resumed
        order = list(self._lengths)
        if order.index(phase) > order.index(self._resumed.phase):
            return None
        last = checkpoint.place(self._folder / "checkpoints", phase, self._lengths[phase])
        checkpoint.verify(last.path)
        return last

    def _save(self, step: int) -> None:
        place = checkpoint.place(self._folder / "checkpoints", self._phase, step)
        if place == self._saved:
            return
        self._tracker.sync()
        randoms = gather(self._accelerator, [randomness.state()])
        score = self._score()
        if self._accelerator.is_main_process:
            state, tensors = held(self._trained, step, randoms)
            about = {"config": self._config.model_dump(mode="json"), "fingerprints": self._fingerprints, "score": score}
            checkpoint.write(place, {"phase": self._phase, "step": step, **state, **about}, tensors)
            self._scores[place] = score
            checkpoint.prune(place.path.parent, list(self._lengths), self._kept())
        self._saved = place

    def _score(self) -> float | None:
        """The metric that says which checkpoint is the best, of the step that was just taken."""
        best = self._config.checkpoint.best
        if best is None or self._phase != list(self._lengths)[-1]:
            return None
        if best not in self._tracker.latest:
            there = ", ".join(sorted(self._tracker.latest))
            raise ReasonRLError(f"checkpoint.best: a step of {self._phase} has no metric {best!r}; there are: {there}")
        value = self._tracker.latest[best]
        return value if math.isfinite(value) else None

    def _kept(self) -> list[Place]:
        """The last ones, the best, and the end of each phase that is over, where the next one began."""
        there, order = self.places, list(self._lengths)
        ends = [one for one in there if one.phase != order[-1] and one.step == self._lengths[one.phase]]
        last = there[-self._config.checkpoint.keep :]
        if self._config.checkpoint.best is None:
            return [*last, *ends]
        self._scores |= {one: one.state["score"] for one in there if one not in self._scores}
        sign = 1 if self._config.checkpoint.best_is == "highest" else -1
        scored = {one: sign * score for one in there if (score := self._scores[one]) is not None}
        return [*last, *ends, *([max(scored, key=scored.__getitem__)] if scored else [])]


def phases(config: RunConfig) -> dict[str, int]:
    """The phases of a run that have steps, in order, and how many."""
    warm = {} if config.warm_start is None else {"warm start": config.warm_start.steps}
    return warm | {config.algorithm.name: config.algorithm.steps}


def newest(folder: Path, config: RunConfig, say: Callable[[str], None]) -> Place | None:
    """The newest checkpoint of a run that is what was written; None if it has none at all.

    Raises:
        ReasonRLError: all it has are damaged.
    """
    there = checkpoint.places(folder / "checkpoints", list(phases(config)))
    for place in reversed(there):
        try:
            checkpoint.verify(place.path)
        except Damaged as error:
            say(f"a damaged checkpoint is passed over: {error}")
        else:
            return place
    if there:
        raise ReasonRLError(f"{folder}: all {len(there)} checkpoints are damaged; start another run without --resume")
    return None
