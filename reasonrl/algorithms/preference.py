"""Learning from preferences: losses of pairs, to be minimised by their mean, and abilities from counts of wins."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


def dpo(
    policy_chosen: Tensor,
    policy_rejected: Tensor,
    ref_chosen: Tensor,
    ref_rejected: Tensor,
    *,
    beta: float,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Direct preference optimisation: the likelihood of the preferences under the policy's implicit rewards.

        Δ = (log π_w − log ref_w) − (log π_l − log ref_l);   ℓ = −(1 − s)·log σ(βΔ) − s·log σ(−βΔ)

    label_smoothing s is how many of the labels are taken to be the wrong way round (conservative DPO); 0 is DPO.
    Papers: DPO, arXiv 2305.18290, eq. 7; conservative DPO, its authors' note "A note on DPO with noisy preferences".
    Shapes: (B,) each, log-probabilities summed over the response's tokens -> (B,). The gradient goes to the policy's.
    Raises ValueError when the shapes differ, beta is not positive, or label_smoothing is not in [0, 0.5).
    """
    if not 0 <= label_smoothing < 0.5:
        raise ValueError(f"label_smoothing is {label_smoothing}; from a half on it would teach the opposite")
    logits = _logits(policy_chosen, policy_rejected, ref_chosen, ref_rejected, beta)
    return -(1 - label_smoothing) * logsigmoid(logits) - label_smoothing * logsigmoid(-logits)


def ipo(
    policy_chosen: Tensor, policy_rejected: Tensor, ref_chosen: Tensor, ref_rejected: Tensor, *, beta: float
) -> Tensor:
    """Identity preference optimisation: a margin to reach, and not to pass, so that sure labels do not overfit.

        ℓ = (Δ − 1/(2β))²,   Δ as in `dpo`

    Paper: IPO, arXiv 2310.12036, eq. 17, its τ being β; token sums, not the means of some implementations.
    Shapes: as in `dpo` -> (B,).
    Raises ValueError when the shapes differ or beta is not positive.
    """
    return (_logits(policy_chosen, policy_rejected, ref_chosen, ref_rejected, beta) / beta - 1 / (2 * beta)).square()


def hinge(
    policy_chosen: Tensor, policy_rejected: Tensor, ref_chosen: Tensor, ref_rejected: Tensor, *, beta: float
) -> Tensor:
    """The hinge on the margin of the implicit rewards: a pair that is right by 1 teaches nothing more.

        ℓ = max(0, 1 − βΔ),   Δ as in `dpo`

    Papers: SLiC-HF, arXiv 2305.10425; with DPO's margin, RSO, arXiv 2309.06657.
    Shapes: as in `dpo` -> (B,).
    Raises ValueError when the shapes differ or beta is not positive.
    """
    return (1 - _logits(policy_chosen, policy_rejected, ref_chosen, ref_rejected, beta)).relu()


def implicit_rewards(policy: Tensor, ref: Tensor, *, beta: float) -> Tensor:
    """The reward for which the policy would be optimal, up to a constant of the prompt.

        r = β(log π − log ref)

    Paper: DPO, arXiv 2305.18290, eq. 5.
    Shapes: policy and ref (B,), log-probabilities summed over the response's tokens -> (B,); no gradient to ref.
    Raises ValueError when the shapes differ or beta is not positive.
    """
    _check_beta(beta)
    _check_shapes(policy, ref)
    return beta * (policy - ref.detach())


def margins(chosen: Tensor, rejected: Tensor) -> Tensor:
    """How much higher the chosen response of each pair scores: r_w − r_l, of implicit or of modelled rewards.

    Shapes: chosen and rejected (B,) -> (B,).
    Raises ValueError when the shapes differ.
    """
    _check_shapes(chosen, rejected)
    return chosen - rejected


def accuracy(chosen: Tensor, rejected: Tensor) -> Tensor:
    """Which pairs are ranked right: 1 where r_w > r_l, else 0, a tie included; its mean is the accuracy.

    Shapes: chosen and rejected (B,) -> (B,), in the type of chosen.
    Raises ValueError when the shapes differ.
    """
    _check_shapes(chosen, rejected)
    return (chosen > rejected).to(chosen.dtype)


def reward_model_loss(chosen: Tensor, rejected: Tensor, *, margin: Tensor | None = None, center: float = 0.0) -> Tensor:
    """The likelihood of the preferences under a reward model's scores, with Bradley and Terry's model of a choice.

        ℓ = −log σ(r_w − r_l − margin) + center·(r_w + r_l)²

    A margin asks for more distance between responses that differ more. Only differences matter to the first term;
    center holds the scores near 0.
    Papers: InstructGPT, arXiv 2203.02155, eq. 1; margin, Llama 2, arXiv 2307.09288, eq. 2; centring, arXiv 2312.09244.
    Shapes: chosen, rejected and margin (B,) -> (B,). The gradient goes to both scores.
    Raises ValueError when the shapes differ or center is negative.
    """
    if center < 0:
        raise ValueError(f"center is {center}; a negative one would drive the scores away from 0")
    difference = margins(chosen, rejected)
    if margin is not None:
        _check_shapes(difference, margin)
        difference = difference - margin.detach()
    loss = -logsigmoid(difference)
    return loss if center == 0 else loss + center * (chosen + rejected).square()


def bradley_terry_abilities(
    wins: Tensor, *, prior: float = 0.0, tolerance: float = 1e-10, iterations: int = 10_000
) -> Tensor:
    """The abilities that make the observed wins most likely, in Bradley and Terry's model of a comparison.

        P(i ≻ j) = θ_i/(θ_i + θ_j);   θ_i ← W_i / Σ_{j≠i} n_ij/(θ_i + θ_j),   n_ij = w_ij + w_ji, W_i = Σ_j w_ij

    Each iteration (MM) raises the likelihood. It ends where every player's expected wins Σ_j n_ij P(i ≻ j) are W_i to a
    relative `tolerance`: that is where the gradient of the likelihood is 0. θ has geometric mean 1, since only ratios
    matter. `prior` adds that many wins both ways between all pairs.
    Paper: Hunter 2004, "MM algorithms for generalized Bradley–Terry models", Ann. Statist. 32(1), eq. 3 and
    assumption 1.
    Shapes: wins (M, M), w_ij how often i beat j, any real or integer type, the diagonal 0 -> (M,) float64.
    Raises ValueError for wins of another shape, negative, not finite or against oneself, for a negative prior, and when
    some player cannot be reached from another along wins: the likelihood then has no maximum. RuntimeError when
    `iterations` were too few.
    """
    counts = _checked_wins(wins, prior)
    won, games = counts.sum(1), counts + counts.T
    abilities = torch.ones_like(won)
    for _ in range(iterations):
        expected = abilities * (games / (abilities.unsqueeze(1) + abilities)).sum(1)
        if bool(((won - expected).abs() <= tolerance * won).all()):
            return abilities
        abilities = abilities * won / expected
        abilities = abilities / abilities.log().mean().exp()
    raise RuntimeError(f"no abilities to a tolerance of {tolerance} in {iterations} iterations; allow more, or a prior")


def _checked_wins(wins: Tensor, prior: float) -> Tensor:
    """The wins with those of the prior, in float64; an error where they have no maximum of the likelihood."""
    if wins.dim() != 2 or wins.shape[0] != wins.shape[1]:
        raise ValueError(f"wins are {tuple(wins.shape)}; they must be (M, M)")
    counts = wins.detach().double()
    if not bool((counts.isfinite() & (counts >= 0)).all()) or bool(counts.diagonal().any()):
        raise ValueError("wins must be finite and not negative, and nobody plays against oneself: the diagonal is 0")
    if not prior >= 0:
        raise ValueError(f"the prior is {prior}; it must not be negative")
    oneself = torch.eye(len(counts), dtype=torch.float64, device=counts.device)
    counts = counts + prior * (1 - oneself)
    reached = (counts + oneself) > 0
    for _ in range(len(counts).bit_length()):  # chains of up to 1, 2, 4, … wins
        reached = (reached.double() @ reached.double()) > 0
    if not bool(reached.all()):
        i, j = (~reached).nonzero()[0].tolist()
        raise ValueError(
            f"no chain of wins leads from player {i} to player {j}, so nothing bounds how much better {j} is; "
            "compare more, leave players out, or give a prior above 0"
        )
    return counts


def _logits(
    policy_chosen: Tensor, policy_rejected: Tensor, ref_chosen: Tensor, ref_rejected: Tensor, beta: float
) -> Tensor:
    """βΔ, (B,)."""
    chosen = implicit_rewards(policy_chosen, ref_chosen, beta=beta)
    return margins(chosen, implicit_rewards(policy_rejected, ref_rejected, beta=beta))


def _check_shapes(one: Tensor, other: Tensor) -> None:
    if one.shape != other.shape:
        raise ValueError(f"a pair's numbers are {tuple(one.shape)} and {tuple(other.shape)}; both must be (B,)")


def _check_beta(beta: float) -> None:
    if not beta > 0:
        raise ValueError(f"beta is {beta}; it must be positive")
