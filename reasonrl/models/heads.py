"""From hidden states to logits, for every position or only for some."""

from typing import Any

import torch
from torch import Tensor

from reasonrl.errors import ReasonRLError


def logits(model: Any, hidden: Tensor) -> Tensor:
    """Logits (…, V), in float32 at least, of hidden states (…, H), as the model's own forward would give them.

    Beside the output embedding some families scale or cap the logits: Gemma caps them
    (`final_logit_softcapping`), Cohere multiplies (`logit_scale`), Granite divides (`logits_scaling`).
    """
    scores: Tensor = model.get_output_embeddings()(hidden)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
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
    # In half precision the model rounds what it scales or caps, and we do not: a cap of 30 rounds to 0.06 in bfloat16.
    tolerance = 1e-3 if torch.finfo(model.dtype).bits >= 32 else 5e-2
    if not torch.allclose(own, ours.float(), atol=tolerance, rtol=tolerance):
        raise ReasonRLError(
            f"{type(model).__name__} changes its logits in a way reasonrl does not know "
            f"(largest difference {(own - ours).abs().max():.3g}); please report the model"
        )
