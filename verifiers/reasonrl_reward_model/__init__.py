"""The verifier `reward_model`: a learned score of a response, by a model of ours or by a server."""

from reasonrl import Verifier, hookimpl
from reasonrl_reward_model.options import RemoteOptions, RewardModelOptions
from reasonrl_reward_model.verifier import RewardModelVerifier

__all__ = ["RemoteOptions", "RewardModelOptions", "RewardModelVerifier", "reasonrl_verifiers"]


@hookimpl
def reasonrl_verifiers() -> list[type[Verifier]]:
    """The reward model bundled with reasonrl."""
    return [RewardModelVerifier]
