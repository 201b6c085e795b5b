"""The critic of PPO: a value for each response token, from hidden states of its own or of the policy."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, AutoModelForTokenClassification

from reasonrl.batch import Batch
from reasonrl.config import CriticConfig
from reasonrl.errors import ReasonRLError
from reasonrl.models.forward import can_share_prompt, response_hidden
from reasonrl.models.load import Policy, copy_of, loading
from reasonrl.models.reward import load_trained

# reward models: what they are loaded with, by how the name of their class ends
_SCORING = {
    "ForSequenceClassification": AutoModelForSequenceClassification,
    "ForTokenClassification": AutoModelForTokenClassification,
}


@dataclass(frozen=True)
class Critic:
    """V(s_t), what the response is expected to earn from token t on, of the state before the token is chosen.

    Attributes:
        model: with the trunk; the policy's where they share it.
        head: (H,) -> (1,), in float32.
        shared: is the trunk the policy's?
        shares_prompt: can the trunk compute each prompt once (`models.forward`)? It may be of another family.
    """

    model: Any
    head: nn.Linear
    shared: bool
    shares_prompt: bool = True

    def values(self, batch: Batch, *, share_prompt: bool) -> Tensor:
        """The value of each response token of a batch, (B, T), 0 behind the mask."""
        hidden = response_hidden(self.model, batch, share_prompt=share_prompt and self.shares_prompt)
        return self.of_hidden(hidden, batch.response_mask)

    def of_hidden(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """The same from the hidden states (N, H) of the N tokens in front of the mask (B, T)."""
        # not in mixed precision: a value's error is an advantage's
        with torch.autocast(hidden.device.type, enabled=False):
            values = self.head(hidden.float()).squeeze(-1)
        return torch.zeros(mask.shape, dtype=values.dtype, device=values.device).masked_scatter(mask.bool(), values)


class CriticModule(nn.Module):
    """What is trained of a critic with a trunk of its own."""

    def __init__(self, critic: Critic) -> None:
        super().__init__()
        self.trunk, self.head = critic.model, critic.head

    @property
    def is_gradient_checkpointing(self) -> bool:
        """As of a model of transformers."""
        return bool(getattr(self.trunk, "is_gradient_checkpointing", False))


def load_critic(config: CriticConfig, policy: Policy, dtype: str, attention: str) -> Critic:
    """The critic a run starts from, on the policy's device.

    A new head gives 0 everywhere: no advantage is wrong at first but by what the reward is.

    Args:
        config: where it comes from.
        policy: as training begins.
        dtype, attention: as for the policy.

    Raises:
        ReasonRLError: it cannot be loaded, has more than one score, or another vocabulary than the policy.
    """
    if config.shared:
        trunk, head = policy.model, None
    elif config.path is None:
        trunk, head = copy_of(policy.model.base_model), None
    else:
        trunk, head = _from_pretrained(config.path, config.revision, dtype, attention)
        _check_vocabulary(config.path, trunk, policy)
        if getattr(policy.model, "is_gradient_checkpointing", False):
            trunk.gradient_checkpointing_enable()
    if head is None:
        head = nn.Linear(trunk.config.get_text_config().hidden_size, 1)
        nn.init.zeros_(head.weight)
        nn.init.zeros_(head.bias)
    device = policy.model.device
    trunk = trunk.to(device).eval()
    return Critic(trunk, head.float().to(device), config.shared, can_share_prompt(trunk))


def _from_pretrained(path: str, revision: str | None, dtype: str, attention: str) -> tuple[Any, nn.Linear | None]:
    key = "algorithm.critic.path"
    with loading(path, key) as source:
        architectures = AutoConfig.from_pretrained(source, revision=revision).architectures or [""]
    kind = next((auto for ending, auto in _SCORING.items() if architectures[0].endswith(ending)), None)
    model = load_trained(kind or AutoModel, path, revision, dtype, attention, key)
    if kind is None:
        return model, None
    head = getattr(model, "score", None)
    if not isinstance(head, nn.Linear) or head.out_features != 1:
        raise ReasonRLError(
            f"algorithm.critic.path: {path} is a {architectures[0]} without a `score` of one number for each token; "
            "give a reward model with one label, or a language model"
        )
    return model.base_model, head


def _check_vocabulary(path: str, trunk: Any, policy: Policy) -> None:
    theirs, ours = (m.config.get_text_config().vocab_size for m in (trunk, policy.model))
    if theirs != ours:
        raise ReasonRLError(
            f"algorithm.critic.path: {path} has a vocabulary of {theirs}, the policy one of {ours}; the critic reads "
            "the policy's token ids, so take one of the same family"
        )
