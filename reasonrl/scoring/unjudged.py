"""When too many responses could not be judged, a run stops and says why, rather than train on what is left."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from reasonrl.errors import ReasonRLError
from reasonrl.scoring.records import Scored

_CURES = {
    "timeout": "Give checks a longer deadline, or make the verifier bound its work on such responses.",
    "worker_died": "Look for a crash or for memory running out in the verifier (exit code -9: killed, -11: segfault).",
    "error": "Fix the verifier, or the problems it stumbles on; the error above is its own.",
}
_OTHER_CURE = "Look at the verifier's evidence for these responses."
_EVIDENCE_TAIL = 1000  # characters


def check_unjudged(scored: Mapping[Any, Scored], max_unjudged: float) -> None:
    """Stop the run when more than a share `max_unjudged` (0 … 1) of the responses has no reward.

    Raises:
        ReasonRLError: it is more; names the share, the most frequent verifier and reason, an example and the cure.
    """
    unjudged = {key: one for key, one in scored.items() if one.reward is None}
    if not unjudged or len(unjudged) <= max_unjudged * len(scored):
        return
    cases = Counter((one.decisive_verifier, one.reason) for one in unjudged.values())
    (verifier, reason), count = cases.most_common(1)[0]
    key, example = next((k, s) for k, s in unjudged.items() if (s.decisive_verifier, s.reason) == (verifier, reason))
    raise ReasonRLError(
        f"{len(unjudged)} of {len(scored)} responses ({len(unjudged) / len(scored):.1%}) could not be judged; "
        f"max_unjudged allows {max_unjudged:.1%}.\n"
        f"Most often ({count} of {len(unjudged)}) verifier {verifier!r} gave the reason {reason!r}, "
        f"for example on {key!r}:\n{_shown(example.verdicts[example.decisive].evidence)}\n"
        f"{_CURES.get(reason, _OTHER_CURE)} Or raise max_unjudged to go on without these responses."
    )


def _shown(evidence: Mapping[str, Any]) -> str:
    """The evidence as indented lines, of which the end is kept: the last lines of a traceback say most."""
    text = "\n".join(f"{name}: {value}" for name, value in evidence.items()) or "(no evidence)"
    if len(text) > _EVIDENCE_TAIL:
        text = "…" + text[-_EVIDENCE_TAIL:]
    return "\n".join("  " + line for line in text.splitlines())
