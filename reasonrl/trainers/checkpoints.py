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
from reasonrl.trainers.guard import Divergence, Guard, GuardStop
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
        guard: says so, too, of a run of reinforcement learning.
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
        guard: Guard | None = None,
    ) -> None:
        self._folder, self._config, self._fingerprints = folder, config, fingerprints
        self._accelerator, self._tracker, self._stop = accelerator, tracker, stop
        self._resumed, self._guard = resumed, guard
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
            GuardStop: the run was stopped by its guard after the last of these steps.
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
            if self._guard is not None and self._is_last_phase:
                self._accelerator.wait_for_everyone()  # metrics.jsonl has been taken back to this step
                if found := self._guard.resumed(self._at):
                    raise self._guarded(found)
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

    def after_step(self, step: int, evaluated: Mapping[str, float] = MappingProxyType({})) -> None:
        """Write a checkpoint where one is due.

        Args:
            step: that is over.
            evaluated: what was measured after it, by names that `checkpoint.best` may have.

        Raises:
            Interrupted: the run was asked to stop, on whatever process; a checkpoint has been written.
            GuardStop: the guard stops it; a checkpoint has been written.
            ReasonRLError: the disk is full.
        """
        self._at = step
        guard = self._guard if self._is_last_phase else None  # not in a supervised warm start
        found = None if guard is None else guard.after_step(step, self._tracker.latest)
        asked, every = self._asked(), self._config.checkpoint.every
        if asked or found or step == self._lengths[self._phase] or (every and step % every == 0):
            self._save(step, evaluated)
        if asked:
            raise self._interrupted(asked)
        if found:
            raise self._guarded(found)

    def stop_if_asked(self) -> None:
        """For the time between steps.

        Raises:
            Interrupted: the run was asked to stop, on whatever process.
        """
        if asked := self._asked():
            raise self._interrupted(asked)

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Say how the run can go on after a fault inside."""
        try:
            yield
        except Interrupted:  # it says so itself
            raise
        except ReasonRLError:
            if self._accelerator.is_main_process and (there := self.places):
                how = f"once that is mended, the run goes on from {there[-1].path.name} with: {self._command}"
                self._tracker.console.print(how, highlight=False, markup=False, soft_wrap=True)
            raise

    @property
    def _is_last_phase(self) -> bool:
        return self._phase == list(self._lengths)[-1]

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

    def _guarded(self, found: Divergence) -> GuardStop:
        before = [one for one in self.places if one.phase == self._phase and one.step < self._at]
        nearest = min(before, key=lambda one: abs(one.step - found.best), default=None)
        assert self._config.guard is not None
        kept = (
            f"the checkpoint {nearest.path.name} is the nearest that is kept, and may be better"
            if nearest
            else f"no earlier checkpoint is kept; checkpoint.best=reward/{self._config.guard.verifier} keeps one"
        )
        return GuardStop(
            f"{found.text}. The run has stopped after step {self._at}; final/ is the policy of then. It was best about "
            f"step {found.best}: {kept}. Take a larger kl.coefficient, fewer steps, or a better reward model; or go on "
            f"all the same: {self._command} guard.action=warn",
            self._at,
        )

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

    def _save(self, step: int, evaluated: Mapping[str, float]) -> None:
        place = checkpoint.place(self._folder / "checkpoints", self._phase, step)
        if place == self._saved:
            return
        self._tracker.sync()
        randoms = gather(self._accelerator, [randomness.state()])
        score = self._score(evaluated)
        if self._accelerator.is_main_process:
            state, tensors = held(self._trained, step, randoms)
            about = {"config": self._config.model_dump(mode="json"), "fingerprints": self._fingerprints, "score": score}
            checkpoint.write(place, {"phase": self._phase, "step": step, **state, **about}, tensors)
            self._scores[place] = score
            checkpoint.prune(place.path.parent, list(self._lengths), self._kept())
        self._saved = place

    def _score(self, evaluated: Mapping[str, float]) -> float | None:
        """The number that says which checkpoint is the best, of the step that was just taken; None if it has none."""
        best = self._config.checkpoint.best
        if best is None or not self._is_last_phase:
            return None
        found = {**self._tracker.latest, **evaluated}
        if best not in found:
            if self._config.checkpoint.best_is_evaluated and not evaluated:
                return None  # a signal's checkpoint, or the last, behind a step without an evaluation
            there = ", ".join(sorted(found))
            raise ReasonRLError(f"checkpoint.best: a step of {self._phase} has no metric {best!r}; there are: {there}")
        return found[best] if math.isfinite(found[best]) else None

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
