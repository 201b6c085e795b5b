"""The sandbox as the judge of a program sees it: run it on an input, call a function of it, put a test script to it."""

import json
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar

from reasonrl import ReasonRLError
from reasonrl_code.records import Call, Limits, Program, Run
from reasonrl_code.sandbox.languages import LANGUAGES
from reasonrl_code.sandbox.launch import Server
from reasonrl_code.sandbox.running import Running, SandboxError, family
from reasonrl_code.sandbox.sessions import Candidate, beside, line, relay
from reasonrl_code.sandbox.tiers import TIERS, TierName

_TRIES = 2

logger = logging.getLogger(__name__)
Ended = TypeVar("Ended", Run, Call)


class Sandbox:
    """Runs programs behind the walls of a tier. Not for several threads at once.

    Args:
        tier: its name.
        packages: what programs may import besides the standard library.

    Raises:
        ReasonRLError: the tier does not start on this machine.
    """

    def __init__(self, tier: TierName, packages: Sequence[str] = ()) -> None:
        self.tier = tier
        self._packages = tuple(packages)
        self._warm: Server | None = Server(TIERS[tier], self._packages)  # the first one, to see it start
        if not TIERS[tier].warm:
            self.close()
        self._compiled: tuple[Program, str | Run] | None = None  # the last one; the binary in hexadecimal digits

    @property
    def warning(self) -> str:
        """What its tier is too weak for; empty for those that are chosen by themselves."""
        return TIERS[self.tier].warning

    def run(self, program: Program, stdin: str, limits: Limits) -> Run:
        """Run a program on a standard input until it ends or breaks a limit."""
        language = LANGUAGES[program.language]
        if not language.compile:
            return self._run(line({"do": "program", "source": program.source}), stdin, limits)
        binary = self._binary(program)
        if isinstance(binary, Run):
            return binary
        return self._run(line({"do": "native", "binary": language.binary, "content": binary}), stdin, limits)

    def call(
        self, program: Program, function: str, args: Sequence[Any], kwargs: Mapping[str, Any], limits: Limits
    ) -> Call:
        """Call one function of a program, in a process of its own; the value it returns is plain."""

        def attempt() -> Call:
            with self._server(limits) as server, Candidate(server, program, limits) as candidate:
                return candidate.call(function, args, kwargs)

        return self._attempted(attempt, Call("infra"))

    def script(self, program: Program, code: str, names: Sequence[str], setup: str, limits: Limits) -> Call:
        """Run a data set's test code; `ending` is "pass" if it came to its end and called the program."""
        job = line({"do": "script", "code": code, "names": list(names), "setup": setup})
        patience = 2 * limits.wall  # the candidate's time is counted by itself

        def attempt() -> Call:
            with (
                self._server(limits) as server,
                self._server(limits) as other,
                Candidate(server, program, limits) as candidate,
                Running(other, limits, job, patience=patience) as test,
            ):
                return relay(test, candidate)

        ended = self._attempted(attempt, Call("infra"))
        return ended if ended.plain else self._beside(program, code, setup, limits)

    def processes(self) -> int:
        """How many processes there are in it; 0 in a tier that is cold."""
        return 0 if self._warm is None else len(family(self._warm.pid))

    def close(self) -> None:
        """Kill what is left."""
        if self._warm is not None:
            self._warm.close()
            self._warm = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _run(self, job: bytes, stdin: str, limits: Limits) -> Run:
        def attempt() -> Run:
            given = stdin.encode(errors="surrogatepass")
            with self._server(limits) as server, Running(server, limits, job, given) as running:
                running.finish()
                ending, detail = running.ending()
                output = bytes(running.output[: limits.output]).decode(errors="replace")
                return Run(ending, output, running.stderr, detail, running.use)

        return self._attempted(attempt, Run("infra"))

    def _beside(self, program: Program, code: str, setup: str, limits: Limits) -> Call:
        nonce = secrets.token_hex(16)
        job = line({"do": "beside", "source": program.source, "code": code, "setup": setup, "nonce": nonce})

        def attempt() -> Call:
            with self._server(limits) as server, Running(server, limits, job) as running:
                return beside(running, nonce)

        return self._attempted(attempt, Call("infra"))

    def _binary(self, program: Program) -> str | Run:
        """The compiled program, or how its compilation ended."""
        if self._compiled is None or self._compiled[0] != program:
            self._compiled = (program, self._compile(program))
        return self._compiled[1]

    def _compile(self, program: Program) -> str | Run:
        language = LANGUAGES[program.language]
        limits = Limits(seconds=language.seconds, memory=language.memory)
        fields = {"file": language.file, "command": list(language.compile), "binary": language.binary}
        job = line({"do": "compile", "source": program.source, **fields})
        content: list[str] = []

        def attempt() -> Run:
            with self._server(limits) as server, Running(server, limits, job) as running:
                reply = running.reply()
                running.finish()
                ending, detail = running.ending()
                if reply is not None and ending == "pass":
                    content.append(json.loads(reply)["binary"])
                return Run(ending, "", running.stderr, f"it does not compile: {detail}", running.use)

        ended = self._attempted(attempt, Run("infra"))
        return content[0] if content else replace(ended, ending="error" if ended.ending == "pass" else ended.ending)

    def _attempted(self, attempt: Callable[[], Ended], broken: Ended) -> Ended:
        """Try; if the sandbox itself breaks, once more with a new one."""
        detail = ""
        for _ in range(_TRIES):
            try:
                ended = attempt()
            except (SandboxError, ReasonRLError, OSError) as error:
                detail = str(error)
            else:
                if ended.ending != "infra":
                    return ended
                detail = ended.detail
            logger.warning("the sandbox broke: %s", detail)
            self.close()
        return replace(broken, detail=detail)

    @contextmanager
    def _server(self, limits: Limits) -> Iterator[Server]:
        """The warm server, or a new one for this use."""
        tier = TIERS[self.tier]
        if tier.warm:
            if self._warm is None:
                self._warm = Server(tier, self._packages)
            yield self._warm
            return
        server = Server(tier, self._packages, limits.files)
        try:
            yield server
        finally:
            server.close()
