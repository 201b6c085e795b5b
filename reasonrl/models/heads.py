"""From hidden states to logits, for every position or only for some."""

from typing import Any

import torch
from torch import Tensor

from reasonrl.errors import ReasonRLError


def logits(model: Any, hidden: Tensor) -> Tensor:
    """Logits (…, V) in float32 of hidden states (…, H), as the model's own forward would give them.

    Beside the output embedding some families scale or cap the logits: Gemma caps them
    (`final_logit_softcapping`), Cohere multiplies (`logit_scale`), Granite divides (`logits_scaling`).
    """
    scores: Tensor = model.get_output_embeddings()(hidden).float()
    config = model.config.get_text_config()
    if scale := getattr(config, "logit_scale", None):
        scores = scores * scale
    if scale := getattr(config, "logits_scaling", None):
        scores = scores / scale
    if cap := getattr(config, "final_logit_softcapping", None):
        scores = torch.tanh(scores / cap) * cap
    return scores


@torch.no_grad()
def check_head(model: Any) -> None:
    """Compare `logits` with the model's own forward on three tokens.

    Raises:
        ReasonRLError: they differ, so this family does something to its logits that we do not know.
    """
    ids = torch.arange(3, device=model.device)[None]
    own = model(input_ids=ids).logits.float()
    ours = logits(model, model.base_model(input_ids=ids).last_hidden_state)
    if not torch.allclose(own, ours, atol=1e-3, rtol=1e-3):
        raise ReasonRLError(
            f"{type(model).__name__} changes its logits in a way reasonrl does not know "
            f"(largest difference {(own - ours).abs().max():.3g}); please report the model"
        )
