"""From rewards per token to returns and to the advantages of PPO."""

import torch
from torch import Tensor

from reasonrl.algorithms.masking import masked


def returns_to_go(token_rewards: Tensor, mask: Tensor, *, gamma: float = 1.0) -> Tensor:
    """What a response earns from each of its tokens on.

        G_t = r_t + γ·G_{t+1},  t + 1 the next token in front of the mask; G = 0 after the last

    A masked token neither adds nor discounts. REINFORCE++ (arXiv 2501.03262) `whiten`s these into its advantages.
    Shapes: token_rewards (B, T), anything (NaN too) behind the mask; mask (B, T) bool or 0/1 -> (B, T), 0 behind the
    mask, without a gradient.
    Raises ValueError when the shapes differ.
    """
    # what is better than expected by a critic that expects nothing
    return gae(token_rewards, torch.zeros_like(token_rewards), mask, gamma=gamma, lam=1.0)[0]


def gae(
    rewards: Tensor,
    values: Tensor,
    mask: Tensor,
    *,
    gamma: float,
    lam: float,
    bootstrap: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Generalized advantage estimation: how much better each token turned out than the critic expected.

        δ_t = r_t + γ·V_{t+1} − V_t;   A_t = δ_t + γλ·A_{t+1};   R̂_t = A_t + V_t

    t + 1 is the next token in front of the mask: masked tokens neither discount nor bootstrap. After the last one A is
    0, and V is `bootstrap`: the critic's value of what a response cut at its limit would have gone on to earn, 0 for
    one that ended by itself. λ = 1 gives return − value, λ = 0 the TD error δ.
    Paper: Schulman et al., arXiv 1506.02438, eq. 16.
    Shapes: rewards and values (B, T), anything (NaN too) behind the mask; mask (B, T) bool or 0/1; bootstrap (B,), 0
    everywhere if None -> (advantages, returns), (B, T) each in the wider type, 0 behind the mask, without a gradient.
    Raises ValueError when the shapes differ.
    """
    if bootstrap is None:
        bootstrap = values.new_zeros(len(mask))
    if bootstrap.shape != mask.shape[:1]:
        raise ValueError(f"bootstrap is {tuple(bootstrap.shape)} and the mask {tuple(mask.shape)}; not (B,) and (B, T)")
    present = mask.bool()
    dtype = torch.promote_types(rewards.dtype, values.dtype)
    rewards, values = masked(rewards.detach(), mask).to(dtype), masked(values.detach(), mask).to(dtype)
    advantages = torch.zeros_like(values)
    next_advantage, next_value = values.new_zeros(len(mask)), bootstrap.detach().to(dtype)
    for t in reversed(range(mask.shape[1])):
        error = rewards[:, t] + gamma * next_value - values[:, t]
        # a masked token hands on what follows it
        next_advantage = torch.where(present[:, t], error + gamma * lam * next_advantage, next_advantage)
        next_value = torch.where(present[:, t], values[:, t], next_value)
        advantages[:, t] = next_advantage
    advantages = masked(advantages, mask)
    return advantages, advantages + values
