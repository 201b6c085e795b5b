"""The verifier `code`: the program of a response against the tests of its row, in a sandbox."""

from typing import Any, Literal

from pydantic import Field, field_validator

from reasonrl import Diagnosis, Problem, Response, Verdict, Verifier, VerifierOptions
from reasonrl_code.adapters import ADAPTERS
from reasonrl_code.cheats import CHEATS, cheat
from reasonrl_code.compare import Spaces
from reasonrl_code.judge import Reward, judge
from reasonrl_code.near_miss import near_miss
from reasonrl_code.program import after, continued, is_program, program_in
from reasonrl_code.records import Limits, Program
from reasonrl_code.sandbox import diagnose, open_sandbox
from reasonrl_code.sandbox.box import Sandbox
from reasonrl_code.sandbox.languages import LANGUAGES
from reasonrl_code.sandbox.tiers import TIERS, TierName
from reasonrl_code.suite import Suite, Unreadable

MEBIBYTE = 2**20


class CodeOptions(VerifierOptions):
    """Options of `code`.

    Attributes:
        adapter: how tests stand in the row: a key of `adapters.ADAPTERS`.
        language: of the programs: python or cpp.
        reward: "all": 1 if every test passes, else 0. "fraction": how many pass. "weighted": by the tests' weights.
        seconds: of CPU time for one test; the wall clock allows twice as much.
        total_seconds: for all tests of a response together; the tests left then count as timed out.
        memory: MiB for one test.
        spaces: "trailing": white space within and before lines of output counts. "any": only the words do.
        weak: does a pass count that was found beside the program, for its values are no plain data? An object that
            claims to equal everything passes so, too: for trusted programs only.
        raw: may a response without a fenced block be the program itself?
        packages: of this Python, that programs may import besides the standard library.
        tier: of the sandbox; "auto" is the strongest that holds on this machine, or an error.
        cheats: further programs that must not score, tried by `reasonrl tasks check`; `NAME` in them becomes the name
            of the function asked for.
    """

    adapter: str = Field("tests", description="how tests stand in the row: " + ", ".join(ADAPTERS))
    language: str = Field("python", description="of the programs: " + " or ".join(LANGUAGES))
    reward: Reward = Field("all", description="all, fraction of the tests that pass, or weighted")
    seconds: float = Field(4.0, gt=0, description="of CPU time for one test; the wall clock allows twice as much")
    total_seconds: float = Field(30.0, gt=0, description="for all tests of a response together")
    memory: int = Field(512, ge=32, description="MiB for one test")
    spaces: Spaces = Field("trailing", description="white space of an output that is ignored: trailing, or any")
    weak: bool = Field(False, description="count a pass that was found beside the program, where it may cheat")
    raw: bool = Field(True, description="a response without a fenced block may be the program")
    packages: tuple[str, ...] = Field((), description="that programs may import besides the standard library")
    tier: Literal["auto"] | TierName = Field("auto", description="of the sandbox: " + ", ".join(["auto", *TIERS]))
    cheats: tuple[str, ...] = Field((), description="further programs that must not score, for tasks check")

    @field_validator("adapter", "language")
    @classmethod
    def _known(cls, value: str, info: Any) -> str:
        known = ADAPTERS if info.field_name == "adapter" else LANGUAGES
        if value not in known:
            raise ValueError(f"no {info.field_name} {value!r}; there are {', '.join(known)}")
        return value

    @property
    def limits(self) -> Limits:
        """What one test may use."""
        return Limits(seconds=self.seconds, memory=self.memory * MEBIBYTE)


class Code(Verifier):
    """Reward 1 if the program of the response passes all tests of the row, else 0.

    Raises:
        ValueError: the row has no tests, or they cannot be read.
        ReasonRLError: there is no sandbox to run programs in.
    """

    name = "code"
    Options = CodeOptions

    def __init__(self, options: CodeOptions | None = None) -> None:
        super().__init__(options)
        self._sandbox: Sandbox | None = None
        self._latest: tuple[Problem, Suite] | None = None  # the responses of a group come one after another

    @classmethod
    def check_seconds(cls, options: CodeOptions) -> float:
        """All tests with their last one at its limit, on a machine half as fast as the sandbox's clock allows for."""
        return 2 * (options.total_seconds + options.limits.wall)

    def verify(self, problem: Problem, response: Response) -> Verdict:
        """Reasons: correct, wrong, no_answer, timeout, memory, error, blocked; infra is unjudged.

        Evidence: counts, the first test that did not pass, times, memory, the sandbox's tier.
        """
        suite = self._suite(problem)
        program = self.program(suite, response.text)
        if program is None:
            return Verdict(0.0, "no_answer")
        options = self.options
        return judge(
            self._opened(),
            program,
            suite.tests,
            options.limits,
            reward=options.reward,
            total_seconds=options.total_seconds,
            spaces=options.spaces,
            weak=options.weak,
        )

    def audit(self, problem: Problem) -> str | None:
        """A row that has no tests, or tests that cannot be read, is a fault."""
        try:
            self._suite(problem)
        except Unreadable as error:
            return str(error)
        return None

    def program(self, suite: Suite, text: str) -> Program | None:
        """The whole program that a response makes, what it builds on included; None if it holds none."""
        language = self.options.language
        wanted = suite.entry_point.partition(".")[0]
        found = program_in(text, language, wanted=wanted, raw=self.options.raw)
        if found is None:
            return None
        whole = continued(found.source, suite.prompt, wanted) if language == "python" else found.source
        if not found.fenced and not is_program(whole, language):
            return None
        return Program(after(suite.header, whole) if language == "python" else whole, language)

    def right_response(self, problem: Problem) -> str | None:
        """The data set's own solution, if the row has one."""
        solution = self._suite(problem).solution
        return None if solution is None else f"```{self.options.language}\n{solution.rstrip()}\n```"

    def wrong_response(self, problem: Problem) -> str | None:
        """The data set's own solution, with another value returned or more written in the end."""
        suite = self._suite(problem)
        if suite.solution is None or self.options.language != "python":
            return None
        return f"```python\n{near_miss(suite.solution, suite.entry_point)}```"

    def cheats(self, problem: Problem) -> list[str]:
        """Programs that try to be scored without solving anything, for the function of this row."""
        if self.options.language != "python":
            return []
        wanted = self._suite(problem).entry_point
        return [cheat(source, wanted) for source in (*CHEATS.values(), *self.options.cheats)]

    @classmethod
    def diagnose(cls) -> list[Diagnosis]:
        """Which tiers of the sandbox hold on this machine."""
        return diagnose()

    def warm_up(self) -> None:
        """Open the sandbox, and see that it holds."""
        self._opened()

    def close(self) -> None:
        """Close the sandbox, if one is open. It also ends with the process."""
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None

    def _suite(self, problem: Problem) -> Suite:
        if self._latest is None or self._latest[0] != problem:
            self._latest = (problem, ADAPTERS[self.options.adapter](problem))
        return self._latest[1]

    def _opened(self) -> Sandbox:
        if self._sandbox is None:
            tier = None if self.options.tier == "auto" else self.options.tier
            self._sandbox = open_sandbox(tier, self.options.packages)
        return self._sandbox
