"""Rewards for the form of a response."""

from torch import Tensor


def overlong_penalty(lengths: Tensor, max_tokens: int, buffer: int) -> Tensor:
    """DAPO's soft punishment of overlong responses, to be added to their rewards.

        0 for L ≤ L_max − L_cache,   ((L_max − L_cache) − L)/L_cache up to L_max,   −1 beyond

    Paper: DAPO, arXiv 2503.14476, eq. 13, with L_max = max_tokens and L_cache = buffer.
    Shapes: lengths (B,) in tokens -> (B,) floating.
    Raises ValueError for a buffer that is not between 1 and max_tokens.
    """
    if not 1 <= buffer <= max_tokens:
        raise ValueError(f"the buffer is {buffer} tokens; it must lie between 1 and the {max_tokens} of a response")
    return ((max_tokens - buffer - lengths) / buffer).clamp(-1, 0)
