"""What a worker process is told of the verifiers before its first check, and how long their checks may take."""

import os
import pickle
from collections.abc import Mapping

from reasonrl.errors import ReasonRLError
from reasonrl.processes import importable
from reasonrl.scoring.records import WeightedVerifier


def check_seconds(weighted: WeightedVerifier) -> float:
    """Seconds that a check by this verifier takes at the most, as it says itself.

    Raises:
        ReasonRLError: it cannot say.
    """
    try:
        return float(weighted.verifier.check_seconds(weighted.options))
    except Exception as error:
        raise ReasonRLError(f"verifier {weighted.name!r} cannot say how long a check takes: {error}") from error


def setup_message(verifiers: Mapping[int, WeightedVerifier]) -> bytes:
    """The first message to a worker. Each verifier is pickled by itself, so that a failure to load one names it.

    Args:
        verifiers: by their place in the task.

    Raises:
        ReasonRLError: a verifier's class or options cannot be sent to a worker.
    """
    pickled: dict[int, tuple[str, bytes]] = {}
    for index, weighted in verifiers.items():
        where = f"verifier {weighted.name!r} cannot be sent to a worker process"
        if weighted.verifier.__module__ == "__main__":
            raise ReasonRLError(f"{where}: its class is defined in the script being run; move it into a module")
        try:
            pickled[index] = (weighted.name, pickle.dumps((weighted.verifier, weighted.options)))
        except Exception as error:
            raise ReasonRLError(f"{where}: {error}") from error
    return pickle.dumps((importable(), os.environ.get("PYTHONPATH"), pickled))
