"""What a step of TRPO is computed from: the curvature, the gradient, and which groups each is of."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from plain_grpo import AGGREGATIONS, kl, responses_of
from plain_trpo import (
    config,
    gradient_of,
    improve,
    in_loss,
    only,
    parameters_of,
    plain_fisher,
    plain_loss,
    policy_of,
    rewarded,
    run_of,
    samples_of,
)
from torch import Tensor

from reasonrl.batch import collate
from reasonrl.config import TRPOConfig
from reasonrl.evaluation.evaluate import Judged
from reasonrl.models.load import Policy, reference_of
from reasonrl.trainers import trpo
from reasonrl.trainers.sample import Sample
from reasonrl.trainers.updates import share

FEW = ("layers.0.self_attn.k_proj.weight", "layers.1.input_layernorm.weight", "model.norm.weight")
WAYS: list[dict[str, Any]] = [
    {},
    {"micro_batch_tokens": 1},
    {"micro_batch_tokens": 40},
    {"share_prompt": False},
    {"logits_chunk": 40},
    {"logits_chunk": 40, "share_prompt": False, "micro_batch_tokens": 25},
]


@pytest.fixture(scope="module")
def responses() -> list[Judged]:
    return responses_of(policy_of())


@pytest.fixture(scope="module")
def reference() -> Any:
    return reference_of(policy_of(1).model)


def exact(policy: Policy) -> Policy:
    policy.model.double()
    return policy


def run_in(way: dict[str, Any], policy: Policy, **settings: Any) -> trpo.Run:
    """A run whose forward is computed in one of the ways above."""
    parts = {k: v for k, v in way.items() if k != "micro_batch_tokens"}
    return run_of(policy, config(**settings, **{k: v for k, v in way.items() if k not in parts}), **parts)


# Curvature.


@pytest.fixture(scope="module")
def fisher(responses: list[Judged]) -> Tensor:
    """Of the first and last group, one of whose responses could not be judged."""
    return plain_fisher(exact(only(policy_of(), *FEW)).model, in_loss([*responses[:4], *responses[12:]], config()))


def product_with(run: trpo.Run, samples: Sequence[Sample], vector: Tensor) -> Tensor:
    part = trpo.Part.of_groups(run, [s for s in samples if s.counted], frozenset({0, 3}))
    return trpo.fisher_product(run, part, vector)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_fisher_vector_product_is_that_of_the_matrix(
    responses: list[Judged], fisher: Tensor, way: dict[str, Any]
) -> None:
    run = run_in(way, exact(only(policy_of(), *FEW)))
    samples = samples_of(run, responses)
    torch.manual_seed(0)
    for _ in range(3):
        vector = torch.randn(len(fisher), dtype=torch.float64)
        found, expected = product_with(run, samples, vector), fisher @ vector
        assert (found - expected).norm() < 1e-5 * expected.norm()


def test_the_products_are_symmetric_and_nowhere_negative(responses: list[Judged]) -> None:
    run = run_of(policy_of(), config())
    samples = samples_of(run, responses)
    torch.manual_seed(0)
    size = len(parameters_of(run.policy.model))
    vectors = [torch.randn(size) for _ in range(4)]
    products = [product_with(run, samples, vector) for vector in vectors]
    gram = torch.stack([torch.stack([u.dot(product) for product in products]) for u in vectors])
    assert (gram - gram.T).abs().max() < 1e-4 * gram.abs().max()
    assert (torch.linalg.eigvalsh((gram + gram.T) / 2) > 0).all()


def test_a_step_is_the_natural_gradient_of_the_dense_system(responses: list[Judged], fisher: Tensor) -> None:
    policy = exact(only(policy_of(), *FEW))
    chosen = [*responses[:4], *responses[12:]]
    wanted = config(max_kl=1e-3, damping=0.03, cg_iterations=500, cg_tolerance=1e-9)
    run, before = run_of(policy, wanted), parameters_of(policy.model)
    trained = [p for p in policy.model.parameters() if p.requires_grad]
    loss = plain_loss(policy.model, policy.model, chosen, wanted, corrects=False)
    gradient = -torch.cat([g.flatten() for g in torch.autograd.grad(loss, trained)])
    found = improve(run, samples_of(run, chosen))
    damped = fisher + 0.03 * torch.eye(len(fisher), dtype=torch.float64)
    x = torch.linalg.solve(damped, gradient)
    expected = found["step_fraction"] * math.sqrt(2e-3 / x.dot(damped @ x)) * x
    assert found["updates"] == 1
    assert (parameters_of(policy.model) - before - expected).norm() < 1e-4 * expected.norm()


# Gradient.


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "kl": {"kl": kl("k3")},
    "corrected": {"importance": {"mode": "truncated", "cap": 1.2}},
    "masked": {"mask_truncated": True},
    "all of it": {"kl": kl("k2"), "importance": {"cap": 1.1}, "mask_truncated": True, "std": "none"},
}


def plain_gradient(policy: Policy, responses: Sequence[Judged], wanted: TRPOConfig, **given: Any) -> Tensor:
    trained = [p for p in policy.model.parameters() if p.requires_grad]
    loss = plain_loss(policy.model, policy.model, responses, wanted, **given)
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, trained)])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_the_gradient_is_that_of_the_surrogate_at_a_ratio_of_one(
    responses: list[Judged], reference: Any, aggregation: str, case: str
) -> None:
    policy, wanted = policy_of(), config(aggregation=aggregation, **CASES[case])
    used = reference if wanted.kl.coefficient else None
    run = run_of(policy, wanted, reference=used, sampler_is_policy=case != "all of it")
    loss, gradient = gradient_of(run, samples_of(run, responses))
    given: dict[str, Any] = {"reference": used, "corrects": case in ("corrected", "all of it")}
    expected = plain_gradient(policy, responses, wanted, **given)
    assert loss == pytest.approx(
        plain_loss(policy.model, policy.model, responses, wanted, **given).item(), rel=1e-5, abs=1e-6
    )
    assert (gradient - expected).norm() < 1e-5 * expected.norm()


@pytest.mark.parametrize(("way", "aggregation"), list(zip(WAYS[1:], itertools.cycle(AGGREGATIONS))), ids=str)
def test_neither_micro_batches_nor_the_way_of_the_forward_matter(
    responses: list[Judged], aggregation: str, way: dict[str, Any]
) -> None:
    steps = []
    for each in ({}, way):
        run = run_in(each, policy_of(), aggregation=aggregation, cg_iterations=1)
        before = parameters_of(run.policy.model)
        found = improve(run, samples_of(run, responses))
        steps.append((found, parameters_of(run.policy.model) - before))
    assert steps[1][0] == pytest.approx(steps[0][0], rel=1e-3, abs=1e-6)
    assert (steps[1][1] - steps[0][1]).norm() < 1e-3 * steps[0][1].norm()


def test_groups_that_agree_are_not_computed_for_the_gradient(
    responses: list[Judged], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = set[int]()

    def recorded(run: Any, rows: Any, *others: Any) -> Tensor:
        seen.update(row.group for row in rows)
        return share(run, rows, *others)

    monkeypatch.setattr(trpo, "share", recorded)
    run = run_of(policy_of(), config())
    improve(run, samples_of(run, responses))
    assert seen == {0, 3}


# Which groups.


def groups_computed(
    run: trpo.Run, samples: Sequence[Sample], monkeypatch: pytest.MonkeyPatch
) -> tuple[set[int], set[int]]:
    """Those of Fisher-vector products, and those of the KL."""
    seen: dict[bool, set[int]] = {True: set(), False: set()}

    def recorded(rows: Any, pad_id: int) -> Any:
        seen[torch.is_grad_enabled()].update(row.group for row in rows)
        return collate(rows, pad_id)

    with monkeypatch.context() as patch:
        patch.setattr(trpo, "collate", recorded)
        improve(run, samples)
    return seen[True], seen[False]


@pytest.mark.parametrize(("share", "number"), [(1.0, 4), (0.75, 3), (0.5, 2), (0.25, 1), (0.001, 1)])
def test_fisher_products_are_of_groups_drawn_anew_each_step_and_the_kl_is_of_all(
    responses: list[Judged], share: float, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(policy_of(), config(fisher_share=share, cg_iterations=1))
    samples = samples_of(run, responses)
    drawn = [trpo.fisher_groups(run, samples, step) for step in range(1, 30)]
    assert drawn == [trpo.fisher_groups(run, samples[::-1], step) for step in range(1, 30)]
    assert {len(groups) for groups in drawn} == {number}
    assert frozenset().union(*drawn) == {0, 1, 2, 3}
    assert groups_computed(run, samples, monkeypatch) == (set(drawn[0]), {0, 1, 2, 3})


def test_groups_without_a_response_that_counts_are_none_of_them(
    responses: list[Judged], monkeypatch: pytest.MonkeyPatch
) -> None:
    unjudged = [*rewarded(responses[:4], lambda one: None), *responses[4:]]
    run = run_of(policy_of(), config(fisher_share=0.3, cg_iterations=1))
    assert groups_computed(run, samples_of(run, unjudged), monkeypatch) == ({1}, {1, 2, 3})
