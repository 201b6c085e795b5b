"""Every tier tried on this machine: which starts, which of its promises hold, and which one would be used."""

from collections.abc import Iterator

from reasonrl import Diagnosis, ReasonRLError
from reasonrl_code.sandbox.box import Sandbox
from reasonrl_code.sandbox.canaries import examine, required
from reasonrl_code.sandbox.launch import INSTALL
from reasonrl_code.sandbox.tiers import TIERS, TierName


def diagnose() -> list[Diagnosis]:
    """The findings tier by tier, and the conclusion."""
    findings: list[Diagnosis] = []
    usable: list[TierName] = []
    for tier in TIERS:
        own = list(_tier(tier))
        findings += own
        if TIERS[tier].automatic and all(finding.holds for finding in own):
            usable.append(tier)
    chosen = f"programs run in tier {usable[0]}" if usable else "programs can be run"
    seen = "" if usable else f"{INSTALL}, or opt in to a weaker tier with the verifier's option `tier`"
    return [*findings, Diagnosis("", chosen, bool(usable), seen=seen)]


def _tier(tier: TierName) -> Iterator[Diagnosis]:
    try:
        with Sandbox(tier) as sandbox:
            found = examine(sandbox)
    except ReasonRLError as error:
        yield Diagnosis(tier, "it starts", False, seen=str(error))
        return
    yield Diagnosis(tier, "it starts", True)
    for finding in found:
        yield Diagnosis(tier, finding.name, finding.held, finding.name in required(tier), finding.seen)
