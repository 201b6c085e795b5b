"""The tiers of the sandbox, strongest first, and what each puts around a program."""

from dataclasses import dataclass
from typing import Literal, get_args

TierName = Literal["bwrap-pool", "bwrap", "landlock", "unsafe-subprocess"]


@dataclass(frozen=True)
class Tier:
    """What stands between a program and the machine.

    Attributes:
        bubblewrap: a root file system of its own, no network, no environment, no process of the host in sight.
        warm: one fork-server for all tests, instead of one for each.
        namespaces: processes, mounts and System V objects of its own for each test in one bubblewrap; without it, each
            test has a bubblewrap to itself, or no such wall.
        landlock: without bubblewrap, the kernel lets it reach only the interpreter and its temporary folder.
        seccomp: a deny-list of system calls.
        automatic: may be chosen without being named.
    """

    name: TierName
    bubblewrap: bool = False
    warm: bool = True
    namespaces: bool = False
    landlock: bool = False
    seccomp: bool = False
    automatic: bool = False

    @property
    def warning(self) -> str:
        """What every verdict from a tier that is not chosen by itself carries; else empty."""
        return "" if self.automatic else f"sandbox tier {self.name!r} does not hold against all attacks"


TIERS = {
    tier.name: tier
    for tier in (
        Tier("bwrap-pool", bubblewrap=True, namespaces=True, seccomp=True, automatic=True),
        Tier("bwrap", bubblewrap=True, warm=False, seccomp=True, automatic=True),
        Tier("landlock", landlock=True, seccomp=True),
        Tier("unsafe-subprocess"),
    )
}
assert set(TIERS) == set(get_args(TierName))
