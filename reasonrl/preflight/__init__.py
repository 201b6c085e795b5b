"""Is a run fit to begin? Everything that can be looked at before anything costs money, without training."""

from reasonrl.preflight.preflight import preflight
from reasonrl.preflight.records import Finding, Memory, Phase, Preflight

__all__ = ["Finding", "Memory", "Phase", "Preflight", "preflight"]
