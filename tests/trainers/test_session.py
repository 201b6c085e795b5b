"""One optimiser step: cut into micro-batches, clipped, scheduled, and skipped where it is not finite."""

import copy
import math
from collections.abc import Callable, Iterator

import pytest
import torch
from small_runs import accelerator
from torch import Tensor, nn

from reasonrl import ReasonRLError
from reasonrl.config import OptimizerConfig
from reasonrl.trainers.session import Session, Update, rate_factor

RATE = 0.01


def linear() -> nn.Linear:
    layer = nn.Linear(3, 1, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, -2.0, 0.5]]))
    return layer


def session(model: nn.Module, updates: int = 10, **settings: object) -> Session:
    config = OptimizerConfig.model_validate({"learning_rate": RATE, "betas": (0.9, 0.99)} | settings)
    return Session(model, accelerator(), config, updates)


INPUTS = torch.tensor([[1.0, 0.0, 2.0], [0.5, 1.0, -1.0], [-1.0, 1.5, 0.0], [2.0, 0.0, 1.0]])


def shares(model: nn.Module, pieces: int) -> Iterator[Tensor]:
    for piece in INPUTS.chunk(pieces):
        yield model(piece).square().sum() / len(INPUTS)


@pytest.mark.parametrize("pieces", [1, 2, 4])
def test_micro_batches_sum_to_the_same_update(pieces: int) -> None:
    model, whole = linear(), linear()
    first, second = session(model, weight_decay=0.1), session(whole, weight_decay=0.1)
    for _ in range(3):
        update, expected = first.update(shares(model, pieces)), second.update(shares(whole, 1))
        assert update.loss == pytest.approx(expected.loss, rel=1e-6)
        assert update.grad_norm == pytest.approx(expected.grad_norm, rel=1e-6)
    torch.testing.assert_close(model.weight, whole.weight, rtol=1e-6, atol=1e-7)


def test_an_update_by_hand() -> None:
    model = linear()
    run = session(model, max_grad_norm=1e9, epsilon=1e-12)
    update = run.update([3 * model.weight[0, 0] - 4 * model.weight[0, 1] + 0 * model.weight[0, 2]])
    assert update == Update(loss=11.0, grad_norm=5.0, learning_rate=RATE, applied=True)
    # The first step of Adam moves each weight by the rate against its gradient's sign.
    torch.testing.assert_close(model.weight.detach(), torch.tensor([[1 - RATE, -2 + RATE, 0.5]]))


def test_the_gradient_is_clipped_to_its_norm_and_the_norm_before_is_reported() -> None:
    model = linear()
    run = session(model, max_grad_norm=0.5)
    kept: list[Tensor] = []
    run.optimizer.register_step_pre_hook(lambda *_: kept.append(model.weight.grad.clone()))  # type: ignore[union-attr]
    update = run.update([3 * model.weight[0, 0] - 4 * model.weight[0, 1]])
    assert update.grad_norm == pytest.approx(5.0)
    torch.testing.assert_close(kept[0], torch.tensor([[0.3, -0.4, 0.0]]), rtol=1e-5, atol=1e-6)


def test_a_gradient_below_the_norm_is_left_as_it_is() -> None:
    model = linear()
    run = session(model, max_grad_norm=6.0)
    kept: list[Tensor] = []
    run.optimizer.register_step_pre_hook(lambda *_: kept.append(model.weight.grad.clone()))  # type: ignore[union-attr]
    run.update([3 * model.weight[0, 0] - 4 * model.weight[0, 1]])
    assert kept[0].tolist() == [[3.0, -4.0, 0.0]]


@pytest.mark.parametrize(
    ("settings", "factors"),
    [
        ({"schedule": "constant"}, [1, 1, 1, 1]),
        ({"schedule": "constant", "warmup_steps": 3}, [1 / 4, 2 / 4, 3 / 4, 1, 1]),
        ({"schedule": "linear"}, [1, 3 / 4, 2 / 4, 1 / 4]),
        ({"schedule": "linear", "final_ratio": 0.2}, [1, 0.8, 0.6, 0.4]),
        ({"schedule": "linear", "warmup_steps": 1}, [1 / 2, 1, 2 / 3, 1 / 3]),
        ({"schedule": "cosine"}, [1, (1 + math.sqrt(0.5)) / 2, 1 / 2, (1 - math.sqrt(0.5)) / 2]),
        ({"schedule": "cosine", "final_ratio": 0.1, "warmup_steps": 2}, [1 / 3, 2 / 3, 1, 0.55]),
        ({"schedule": "linear", "warmup_steps": 9}, [1 / 10, 2 / 10, 3 / 10, 4 / 10]),
    ],
)
def test_schedules_by_hand(settings: dict[str, object], factors: list[float]) -> None:
    """Each update is taken with the factor that stands here; as many updates as the training has, 4."""
    config = OptimizerConfig.model_validate({"learning_rate": RATE} | settings)
    assert [rate_factor(done, 4, config) for done in range(len(factors))] == pytest.approx(factors)
    model = linear()
    run = session(model, updates=4, **settings)
    taken = []
    for factor in factors:
        assert run.learning_rate == pytest.approx(RATE * factor)
        taken.append(run.update(shares(model, 1)).learning_rate)
        assert run.optimizer.param_groups[0]["lr"] == taken[-1]
    assert taken == pytest.approx([RATE * factor for factor in factors])


def test_the_rate_falls_no_further_after_the_last_update() -> None:
    config = OptimizerConfig(schedule="cosine", final_ratio=0.25)
    assert rate_factor(4, 4, config) == rate_factor(9, 4, config) == pytest.approx(0.25)


def test_the_schedule_moves_on_where_there_is_nothing_to_learn_from() -> None:
    run = session(linear(), updates=4, schedule="linear")
    run.pass_over()
    assert run.learning_rate == pytest.approx(RATE * 3 / 4)
    assert run.skipped == 0


BROKEN: dict[str, Callable[[Tensor], Tensor]] = {
    "loss": lambda w: w.sum() * float("nan"),
    "infinite loss": lambda w: w.sum() * float("inf"),
    # The loss is 0, its derivative is infinite.
    "gradient": lambda w: (w[0, 0] - 1.0).abs().sqrt(),
    # Each derivative is finite, their norm is not.
    "norm": lambda w: (w * 1e30).sum(),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_an_update_that_is_not_finite_touches_neither_parameters_nor_optimizer(kind: str) -> None:
    model = linear()
    run = session(model, updates=10, schedule="linear", weight_decay=0.1)
    run.optimizer.zero_grad()
    if kind != "gradient":  # whose trick needs the weight where it starts
        run.update(shares(model, 1))
    weight, state = model.weight.detach().clone(), copy.deepcopy(run.optimizer.state_dict())
    done = run.done
    update = run.update([BROKEN[kind](model.weight)])
    assert not update.applied
    assert not (math.isfinite(update.loss) and math.isfinite(update.grad_norm))
    assert torch.equal(model.weight, weight)
    torch.testing.assert_close(run.optimizer.state_dict(), state, rtol=0, atol=0)
    assert (run.skipped, run.done) == (1, done + 1)
    assert model.weight.grad is None, "or it would be added to the next update's"
    assert run.update(shares(model, 2)).applied
    assert model.weight.isfinite().all()


def test_one_bad_micro_batch_spoils_the_update_and_no_other() -> None:
    model = linear()
    run = session(model)
    assert not run.update([*shares(model, 2), model.weight.sum() * float("nan")]).applied
    fresh = linear()
    expected = session(fresh).update(shares(fresh, 1))
    assert run.update(shares(model, 2)).grad_norm == pytest.approx(expected.grad_norm, rel=1e-6)


def test_too_many_in_a_row_stop_the_run_and_say_why() -> None:
    model = linear()
    run = session(model, max_nonfinite=3)
    broken = BROKEN["loss"]
    for _ in range(2):
        run.update([broken(model.weight)])
    run.update(shares(model, 1))  # a good one in between: the count begins anew
    for _ in range(2):
        run.update([broken(model.weight)])
    assert run.skipped == 4
    with pytest.raises(ReasonRLError, match=r"3 updates in a row .* loss \(nan\).*skipped.*learning_rate.*float32"):
        run.update([broken(model.weight)])
    assert run.skipped == 5


def test_only_parameters_that_ask_for_a_gradient_are_trained() -> None:
    first, second = linear(), nn.Linear(1, 1)
    first.weight.requires_grad_(False)
    frozen, trained = first.weight.clone(), second.weight.clone()
    model = nn.Sequential(first, second)
    session(model, weight_decay=0.5).update(shares(model, 1))
    assert torch.equal(first.weight, frozen)
    assert not torch.equal(second.weight, trained)


def test_a_parameter_the_loss_does_not_reach_is_as_it_would_be_on_two_processes() -> None:
    """There it gets a gradient of 0, from the processes that have nothing to learn from: it decays, and no more."""
    used, unused = linear(), nn.Linear(1, 1, bias=False)
    before = unused.weight.item()
    session(nn.Sequential(used, unused), weight_decay=0.5).update(shares(used, 1))
    assert unused.weight.item() == pytest.approx(before * (1 - RATE * 0.5))
