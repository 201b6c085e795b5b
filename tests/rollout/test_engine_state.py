"""What the engine holds: its weights, and the rows of its cache."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_engines import by_key, engine_of, ids_of, requests_of
from small_models import model_of

from reasonrl.rollout import cache
from reasonrl.rollout.decoding import survivors
from reasonrl.rollout.engine import Sampling

# --- weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["llama", "qwen2"])  # tied and untied
def test_sync_copies_into_an_own_model(family: str) -> None:
    trained, engine = model_of(family, seed=5), engine_of(family)
    engine.sync(iter(trained.named_parameters()), version=1)
    expected = engine_of(family, seed=5)
    sampling = Sampling(max_tokens=10)
    got, wanted = by_key(engine.sample(requests_of(), sampling)), by_key(expected.sample(requests_of(), sampling))
    assert ids_of(got) == ids_of(wanted)
    with torch.no_grad():
        next(trained.parameters()).zero_()
    assert ids_of(by_key(engine.sample(requests_of(), sampling))) == ids_of(wanted)  # a copy, not a reference


def test_sync_of_the_shared_model_copies_nothing() -> None:
    engine = engine_of()
    versions = {name: p._version for name, p in engine.model.named_parameters()}
    engine.sync(iter(engine.model.named_parameters()), version=3)
    assert {name: p._version for name, p in engine.model.named_parameters()} == versions
    assert engine.version == 3


def test_tied_weights_may_come_under_each_name() -> None:
    engine = engine_of("llama")
    engine.sync(iter(copy.deepcopy(engine.model).state_dict().items()), version=1)
    assert engine.version == 1


def test_faulty_weights_are_errors() -> None:
    engine = engine_of("qwen2")
    weights = dict(copy.deepcopy(engine.model).named_parameters())
    with pytest.raises(KeyError, match="no parameter nothing"):
        engine.sync(iter([*weights.items(), ("nothing", torch.zeros(1))]), version=1)
    with pytest.raises(ValueError, match=r"left 1 parameters out, among them lm_head\.weight"):
        engine.sync(iter([(n, w) for n, w in weights.items() if n != "lm_head.weight"]), version=1)
    with pytest.raises(ValueError, match=r"lm_head.weight: shape \(1, 24\) for \(17, 24\)"):
        engine.sync(iter((weights | {"lm_head.weight": torch.zeros(1, 24)}).items()), version=1)
    assert engine.version == 0


def test_close_twice() -> None:
    engine = engine_of()
    engine.close()
    engine.close()


# --- parts -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.booleans(), min_size=1, max_size=30))
def test_survivors_stay_where_they_can(ended: list[bool]) -> None:
    order = survivors(np.array(ended)).tolist()
    living = [i for i, over in enumerate(ended) if not over]
    assert sorted(order) == living
    assert [i for i in living if i < len(order)] == [i for at, i in enumerate(order) if at == i]


def test_the_cache_moves_rows_and_refuses_to_make_new_ones() -> None:
    states = torch.arange(24.0).view(3, 2, 2, 2)
    layer = cache.GrowingLayer(states, -states, torch.tensor([0, 1, 2, 0]), limit=5)
    layer.batch_select_indices(torch.tensor([1, 0, 2]))
    torch.testing.assert_close(layer.keys, states[[1, 0, 2]])
    torch.testing.assert_close(layer.values, -states[[1, 0, 2]])
    with pytest.raises(ValueError, match="3 rows cannot give 4"):
        layer.batch_select_indices(torch.tensor([0, 1, 2, 0]))
