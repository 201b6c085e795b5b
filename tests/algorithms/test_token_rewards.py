import pytest
import torch

from reasonrl.algorithms.steps import Steps
from reasonrl.algorithms.token_rewards import token_rewards

NAN, INF = float("nan"), float("inf")
MASK = torch.tensor([[1, 1, 1, 0], [0, 1, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0]])
OUTCOME = torch.tensor([10.0, 20, -30, NAN], dtype=torch.float64)
KL = torch.tensor([[1.0, 2, -3, NAN], [INF, 4, NAN, 5], [6, NAN, NAN, NAN], [NAN] * 4], dtype=torch.float64)
STEPS = Steps(
    torch.tensor([1.0, 2, 4, 8, INF], dtype=torch.float64), torch.tensor([0, 1, 0, 0, 3]), torch.tensor([1, 3, 1, 2, 0])
)


def test_the_outcome_is_on_the_last_response_token() -> None:
    rewards = token_rewards(MASK, outcome=OUTCOME, kl=None, beta=0.5)
    assert rewards.tolist() == [[0, 0, 10, 0], [0, 0, 0, 20], [-30, 0, 0, 0], [0, 0, 0, 0]]


def test_the_kl_is_taken_off_every_response_token() -> None:
    rewards = token_rewards(MASK, outcome=OUTCOME, kl=KL, beta=0.5)
    assert rewards.tolist() == [[-0.5, -1, 11.5, 0], [0, -2, 0, 17.5], [-33, 0, 0, 0], [0, 0, 0, 0]]
    assert torch.equal(token_rewards(MASK.bool(), outcome=OUTCOME, kl=KL, beta=0.5), rewards)


def test_steps_are_on_their_last_tokens() -> None:
    rewards = token_rewards(MASK, outcome=OUTCOME, kl=KL, beta=0.5, steps=STEPS)
    assert rewards.tolist() == [[-0.5, 4, 19.5, 0], [0, -2, 0, 19.5], [-33, 0, 0, 0], [0, 0, 0, 0]]


def test_no_gradient_flows() -> None:
    outcome, kl, earned = (x.clone().requires_grad_() for x in (OUTCOME, KL, STEPS.rewards))
    rewards = token_rewards(MASK, outcome=outcome, kl=kl, beta=0.5, steps=STEPS._replace(rewards=earned))
    assert not rewards.requires_grad


def test_an_empty_batch_is_empty() -> None:
    rewards = token_rewards(MASK[:0], outcome=OUTCOME[:0], kl=KL[:0], beta=0.5)
    assert rewards.shape == (0, 4)


@pytest.mark.parametrize("bad", [NAN, INF])
def test_an_outcome_that_is_no_number_is_an_error(bad: float) -> None:
    with pytest.raises(ValueError, match="an outcome is NaN or infinite"):
        token_rewards(MASK, outcome=torch.full((4,), bad), kl=None, beta=0.0)


@pytest.mark.parametrize(
    ("reward", "response", "end", "message"),
    [
        (1.0, 1, 2, "step 0, of response 1, ends at token 2, which is behind the mask"),
        (1.0, 1, 4, "ends at token 4, which is outside the batch's 4 tokens"),
        (1.0, 3, -1, "ends at token -1, which is outside the batch's 4 tokens"),
        (1.0, 4, 0, "a step is of response 4; the batch has responses 0 to 3"),
        (NAN, 1, 3, "step 0, of response 1, ends at token 3, and its value is NaN or infinite"),
    ],
)
def test_a_step_that_cannot_be_is_an_error(reward: float, response: int, end: int, message: str) -> None:
    wrong = Steps(torch.tensor([reward]), torch.tensor([response]), torch.tensor([end]))
    with pytest.raises(ValueError, match=message):
        token_rewards(MASK, outcome=OUTCOME, kl=None, beta=0.0, steps=wrong)


def test_shapes_that_would_broadcast_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"outcome is \(1,\) and the mask \(4, 4\)"):
        token_rewards(MASK, outcome=OUTCOME[:1], kl=None, beta=0.0)
    with pytest.raises(ValueError, match=r"the values have \(4, 1\)"):
        token_rewards(MASK, outcome=OUTCOME, kl=KL[:, :1], beta=0.1)
    with pytest.raises(ValueError, match=r"step_ends is \(1,\)"):
        token_rewards(MASK, outcome=OUTCOME, kl=None, beta=0.0, steps=STEPS._replace(ends=STEPS.ends[:1]))
