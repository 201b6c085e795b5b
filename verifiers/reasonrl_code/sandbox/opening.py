"""Choose the tier: the strongest that starts here and keeps its promises, or the one that was named."""

import logging
from collections.abc import Sequence

from reasonrl import ReasonRLError
from reasonrl_code.sandbox.box import Sandbox
from reasonrl_code.sandbox.canaries import examine, required
from reasonrl_code.sandbox.launch import INSTALL
from reasonrl_code.sandbox.tiers import TIERS, TierName

logger = logging.getLogger(__name__)


def open_sandbox(tier: TierName | None = None, packages: Sequence[str] = ()) -> Sandbox:
    """A sandbox that has just passed its self-test.

    Args:
        tier: one by name; None for the first automatic one that passes.
        packages: what programs may import besides the standard library.

    Raises:
        ReasonRLError: none passes; the message says what failed and how to install or to opt in.
    """
    if tier is not None:
        sandbox, fault = _tested(tier, packages)
        if sandbox is None:
            raise ReasonRLError(f"sandbox tier {tier!r} cannot be used here: {fault}")
        if warning := TIERS[tier].warning:
            logger.warning("programs of a model are run, and %s", warning)
        return sandbox
    faults: list[str] = []
    for one in (name for name, each in TIERS.items() if each.automatic):
        sandbox, fault = _tested(one, packages)
        if sandbox is not None:
            return sandbox
        faults.append(f"  {one}: {fault}")
    weaker = ", ".join(repr(name) for name, each in TIERS.items() if not each.automatic)
    raise ReasonRLError(
        "no sandbox holds on this machine, and programs of a model are not run without one:\n"
        + "\n".join(faults)
        + f"\n{INSTALL}, or opt in to a weaker tier ({weaker}) with the verifier's option `tier`; "
        "`reasonrl verifiers doctor` shows what each holds"
    )


def _tested(tier: TierName, packages: Sequence[str]) -> tuple[Sandbox | None, str]:
    """The sandbox, or None and why it cannot be used."""
    try:
        sandbox = Sandbox(tier, packages)
    except ReasonRLError as error:
        return None, str(error)
    broken = [finding for finding in examine(sandbox) if finding.name in required(tier) and not finding.held]
    if not broken:
        return sandbox, ""
    sandbox.close()
    return None, "; ".join(f"{finding.name!r} does not hold ({finding.seen})" for finding in broken)
