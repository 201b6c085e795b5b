"""Coefficients that change as training goes on."""

from reasonrl.algorithms.kl_control import adapted_coefficient, penalty_coefficient


class Coefficient:
    """The weight β of a KL term.

    Attributes:
        value: β as it is now.
    """

    def __init__(self, value: float) -> None:
        self.value = value

    def approach(self, kl: float, target: float, count: int, horizon: int) -> None:
        """Adapt β after a batch of `count` responses so that the KL comes near its target (`adapted_coefficient`)."""
        self.value = adapted_coefficient(self.value, kl, target=target, count=count, horizon=horizon)

    def double_or_halve(self, kl: float, target: float) -> None:
        """Adapt β after an iteration of PPO-Penalty (`penalty_coefficient`)."""
        self.value = penalty_coefficient(self.value, kl, target=target)
