"""Updates under process supervision: one step per response is outcome supervision; steps that agree cost nothing."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from plain_grpo import (
    ESTIMATORS,
    assert_same,
    config,
    kl,
    packed_update,
    plain_logprobs,
    responses_of,
    run_of,
    samples_of,
)
from small_runs import judged, stepped, tiny_policy, token_stats, update, with_advantages

from reasonrl.evaluation.evaluate import Judged
from reasonrl.models.load import Policy, reference_of
from reasonrl.models.logprobs import response_logprobs
from reasonrl.rollout.finished import decoded
from reasonrl.trainers import policy as policy_runs


@pytest.fixture(scope="module")
def policy() -> Policy:
    return tiny_policy(0)


@pytest.fixture(scope="module")
def reference() -> Any:
    return reference_of(tiny_policy(1).model)


def with_steps(policy: Policy, one: Judged, *ends: tuple[int, float]) -> Judged:
    """A response with its own text, in which each character is a token, and the steps of one verifier."""
    return stepped(one, decoded(policy.tokenizer, one.rollout.response_ids), ends)


def last_step(policy: Policy, responses: Sequence[Judged]) -> list[Judged]:
    """One step per response, at its end, with the reward of the response."""
    rewards = [0.7 if one.scored.reward is None else one.scored.reward for one in responses]
    return [with_steps(policy, one, (one.tokens, r)) for one, r in zip(responses, rewards, strict=True)]


@pytest.mark.parametrize("place", [None, "loss", "reward"])
@pytest.mark.parametrize("std", ["population", "sample", "none"])
def test_one_step_at_the_last_token_is_outcome_supervision(
    policy: Policy, reference: Any, std: str, place: str | None
) -> None:
    """In what is trained on, and in loss and gradients."""
    settings = {"std": std, "kl": kl("k3", place) if place else {}, "epochs": 2}
    responses = responses_of(policy)
    outcome = config(**settings)
    expected = samples_of(policy, reference, responses, outcome)
    assert sum(any(s.row.advantages) for s in expected) >= 6
    trained = packed_update(policy, reference, expected, outcome)
    bare = [with_steps(policy, one) for one in responses]
    for process, same in (({}, last_step(policy, responses)), ({"outcome_weight": 1.0}, bare)):
        wanted = config(process=process, **settings)
        samples = samples_of(policy, reference, same, wanted)
        for one, other in zip(samples, expected, strict=True):
            assert one.row.advantages == pytest.approx(other.row.advantages, rel=1e-12, abs=1e-12)
            assert (one.counted, one.learns, one.outcome) == (other.counted, other.learns, other.outcome)
            assert (one.row.old_logprobs, one.row.ref_logprobs) == (other.row.old_logprobs, other.row.ref_logprobs)
        assert_same(packed_update(policy, reference, samples, wanted), trained)


def test_the_gradient_is_that_of_the_token_advantages(policy: Policy) -> None:
    """On policy the gradient of −Σ_i (1/L_i) Σ_t A_{i,t} log π_θ / B, with A by hand: z of 2, −1 and −1."""
    first, second = judged(0, 0, (3, 4, 5, 6), 1.0), judged(0, 1, (7, 8), 0.0)
    pair = [with_steps(policy, first, (2, 3.0), (3, 0.0)), with_steps(policy, second, (2, 0.0))]
    wanted = config(problems_per_step=1, group_size=2, process={}, std="none")
    samples = with_advantages(run_of(policy, None, wanted), pair, [0])
    by_hand = [(1.0, 1.0, -1.0, 0.0), (-1.0, -1.0)]
    assert [s.row.advantages for s in samples] == by_hand
    loss, gradients = packed_update(policy, None, samples, wanted)
    policy.model.zero_grad()
    total = torch.zeros(())
    for one, advantages in zip(pair, by_hand, strict=True):
        total = total - (torch.tensor(advantages) * plain_logprobs(policy.model, one)).mean() / 2
    total.backward()  # type: ignore[no-untyped-call]
    plain = {n: p.grad.clone() for n, p in policy.model.named_parameters() if p.grad is not None}
    policy.model.zero_grad()
    assert loss == pytest.approx(-(1 / 4 - 2 / 2) / 2, rel=1e-5)
    assert_same((loss, gradients), (loss, plain))


def test_groups_that_agree_in_their_steps_cost_no_forward(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    """However their outcomes and the number of their steps differ; those that do not agree share one forward."""
    forwards = 0

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal forwards
        forwards += 1
        return response_logprobs(*args, **kwargs)

    monkeypatch.setattr(policy_runs, "response_logprobs", counted)
    agreeing = [
        with_steps(policy, judged(0, 0, (3, 4, 5), 1.0), (1, 0.3), (2, 0.3)),
        with_steps(policy, judged(0, 1, (6, 7), 0.0), (2, 0.3)),
    ]
    apart = [
        with_steps(policy, judged(1, 0, (3, 4), 1.0), (2, 1.0)),
        with_steps(policy, judged(1, 1, (6, 7), 1.0), (1, 1.0), (2, 0.0)),
    ]
    wanted = config(problems_per_step=2, group_size=2, process={}, micro_batch_tokens=1000)
    run = run_of(policy, None, wanted)
    before = {name: value.clone() for name, value in policy.model.state_dict().items()}
    samples = with_advantages(run, [*agreeing, *agreeing], [0, 1])
    assert update(run, samples, token_stats(run)) is None
    assert forwards == 0
    assert all(torch.equal(before[name], value) for name, value in policy.model.state_dict().items())
    samples = with_advantages(run, [*agreeing, *apart], [0, 1])
    assert [s.learns for s in samples] == [False, False, True, True]
    done = update(run, samples, token_stats(run))
    policy.model.load_state_dict(before)
    assert done is not None
    assert done.applied
    assert forwards == 1


def test_a_kl_in_the_reward_charges_each_step_its_own_tokens(policy: Policy, reference: Any) -> None:
    """Two steps of a response against one of another, by plain forwards of policy and reference."""
    first, second = judged(0, 0, (3, 4, 5, 6, 7), 1.0), judged(0, 1, (7, 8), 0.0)
    pair = [with_steps(policy, first, (2, 1.0), (4, 0.5)), with_steps(policy, second, (2, 0.25))]
    wanted = config(problems_per_step=1, group_size=2, process={}, std="none", kl=kl("k3", "reward"))
    apart = [
        ESTIMATORS["k3"](plain_logprobs(policy.model, one) - plain_logprobs(reference, one)).detach() for one in pair
    ]
    parts = zip((1.0, 0.5, 0.25), (apart[0][:2], apart[0][2:], apart[1]), strict=True)
    earned = [reward - 0.1 * float(own.sum()) for reward, own in parts]
    z = [reward - sum(earned) / 3 for reward in earned]
    samples = with_advantages(run_of(policy, reference, wanted), pair, [0])
    expected = [(z[0] + z[1],) * 2 + (z[1],) * 2 + (0.0,), (z[2],) * 2]
    for s, advantages in zip(samples, expected, strict=True):
        assert s.row.advantages == pytest.approx(advantages, abs=1e-4)
