"""The Hugging Face engine against transformers' own generate and forward, and what a batch may and may not change."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from small_engines import PROMPTS, by_key, engine_of, ids_of, requests_of
from small_models import EOS, PAD, full_logits
from torch import Tensor

from reasonrl import ReasonRLError
from reasonrl.rollout import cache
from reasonrl.rollout.engine import Request, Sampling, sample_seed

FAMILIES = ["llama", "qwen2", "gpt2", "gemma2"]


class Seen:
    """Records what the base model is fed: (rows, tokens per row) of each forward."""

    def __init__(self, model: Any) -> None:
        self.shapes: list[tuple[int, int]] = []
        model.base_model.register_forward_pre_hook(self._record, with_kwargs=True)

    def _record(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.shapes.append(tuple(kwargs["input_ids"].shape))


@pytest.fixture(params=["by position", "by row"])
def layout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both layouts of the cache; and blocks so small that it has to grow."""
    monkeypatch.setattr(cache, "FEW", 10**9 if request.param == "by position" else 0)
    monkeypatch.setattr(cache, "BLOCK", 2)


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_is_what_generate_gives(family: str, attention: str) -> None:
    engine = engine_of(family, attention=attention)
    rollouts = by_key(engine.sample(requests_of(1), Sampling(temperature=0, max_tokens=24)))
    for i, prompt in enumerate(PROMPTS):
        own = engine.model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            do_sample=False, max_new_tokens=24, eos_token_id=EOS, pad_token_id=PAD,
        )  # fmt: skip
        assert rollouts[f"p{i}", 0].response_ids == tuple(own[0, len(prompt) :].tolist())


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=0.6), Sampling(), Sampling(temperature=1.4), Sampling(temperature=0),
        Sampling(temperature=1.4, top_k=5), Sampling(top_p=0.7), Sampling(temperature=1.4, top_k=9, top_p=0.8),
        Sampling(temperature=1.4, min_p=0.2),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("family", FAMILIES)
def test_logprobs_are_those_of_a_full_forward(family: str, sampling: Sampling) -> None:
    engine = engine_of(family)
    rollouts = by_key(engine.sample(requests_of(2), replace(sampling, max_tokens=16)))
    assert len(rollouts) == 2 * len(PROMPTS)
    with torch.no_grad():
        for rollout in rollouts.values():
            scores = full_logits(engine.model, rollout.prompt_ids, rollout.response_ids) / (sampling.temperature or 1)
            log_p = truncated_log_softmax(scores, sampling)
            expected = log_p[range(len(scores)), rollout.response_ids]
            torch.testing.assert_close(torch.tensor(rollout.logprobs), expected, rtol=0, atol=1e-4)


def truncated_log_softmax(scores: Tensor, sampling: Sampling) -> Tensor:
    """Row by row: what is likely enough, of it the k likeliest, then the smallest set of them with mass top_p."""
    found = torch.full_like(scores, -torch.inf)
    for row, out in zip(scores, found, strict=True):
        order = row.argsort(descending=True)
        order = order[row.softmax(0)[order] >= sampling.min_p * row.softmax(0).max()][: sampling.top_k or None]
        p = row[order].softmax(0)
        kept = order[: 1 + int((p.cumsum(0) < sampling.top_p).sum())] if sampling.top_p < 1 else order
        out[kept] = row[kept].log_softmax(0)
    return found


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_response_does_not_depend_on_what_else_is_sampled(family: str) -> None:
    engine, sampling = engine_of(family), Sampling(max_tokens=12)
    together = ids_of(by_key(engine.sample(requests_of(), sampling)))
    long = [ids for ids in together.values() if len(ids) > 4]
    assert len(set(long)) == len(long) >= 5  # all samples differ
    assert ids_of(by_key(engine.sample(requests_of(), sampling))) == together
    assert ids_of(by_key(engine.sample(requests_of()[::-1], sampling))) == together
    for request in requests_of():
        alone = ids_of(by_key(engine.sample([request], sampling)))
        assert alone == {key: ids for key, ids in together.items() if key[0] == request.problem_id}
    for max_batch in (2, 7):
        small = engine_of(family, max_batch=max_batch)
        assert ids_of(by_key(small.sample(requests_of(), sampling))) == together


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_greedy_samples_of_a_group_agree(family: str) -> None:
    rollouts = by_key(engine_of(family).sample(requests_of(3), Sampling(temperature=0, max_tokens=8)))
    assert len({(key[0], ids) for key, ids in ids_of(rollouts).items()}) == len(PROMPTS)


def test_no_batch_is_larger_than_max_batch() -> None:
    engine = engine_of(max_batch=4)
    seen = Seen(engine.model)
    rollouts = by_key(engine.sample(requests_of(10), Sampling(max_tokens=6)))
    assert sorted(rollouts) == [(f"p{i}", j) for i in range(len(PROMPTS)) for j in range(10)]
    assert max(rows for rows, _ in seen.shapes) == 4


def test_a_groups_prompt_is_computed_once() -> None:
    engine = engine_of()
    seen = Seen(engine.model)
    list(engine.sample([requests_of(8)[0], requests_of(8)[3]], Sampling(max_tokens=2)))
    assert seen.shapes[0] == (2, len(PROMPTS[0]))  # two prompts, the shorter one padded
    assert all(tokens == 1 for _, tokens in seen.shapes[1:])


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_finished_rows_leave_the_batch_and_stream_out(family: str) -> None:
    engine = engine_of(family)
    seen, expected, out = Seen(engine.model), [], []
    for rollout in engine.sample(requests_of(6), Sampling(max_tokens=24)):
        # Prefill and one forward for each further token: a response is out before anything longer is computed.
        assert len(seen.shapes) == len(rollout.response_ids)
        out.append(rollout)
    lengths = [len(rollout.response_ids) for rollout in out]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1]
    for fed in range(1, max(lengths)):
        expected.append((sum(length > fed for length in lengths), 1))
    assert seen.shapes[1:] == expected


def test_eos_is_in_the_ids_and_not_in_the_text() -> None:
    engine = engine_of(eos_ids=(EOS, 9))
    rollouts = by_key(engine.sample(requests_of(8), Sampling(max_tokens=12))).values()
    endings = set()
    for rollout in rollouts:
        *body, last = rollout.response_ids
        assert not {EOS, 9} & set(body)
        assert len(rollout.logprobs) == len(rollout.response_ids)
        assert (rollout.finish_reason == "stop") == (last in (EOS, 9))
        shown = body if last in (EOS, 9) else rollout.response_ids
        assert rollout.text == engine.tokenizer.decode(shown, skip_special_tokens=True)
        endings.add(last if rollout.finish_reason == "stop" else "length")
        assert rollout.finish_reason == "stop" or len(rollout.response_ids) == 12
    assert endings == {EOS, 9, "length"}


def test_one_token() -> None:
    engine = engine_of()
    seen = Seen(engine.model)
    rollouts = by_key(engine.sample(requests_of(4), Sampling(max_tokens=1)))
    assert all(len(rollout.response_ids) == len(rollout.logprobs) == 1 for rollout in rollouts.values())
    assert len(rollouts) == 4 * len(PROMPTS)
    assert len(seen.shapes) == 1


def test_stop_texts_cut_the_text_and_keep_the_ids() -> None:
    engine, sampling = engine_of(eos_ids=()), Sampling(max_tokens=20, temperature=1.4)
    free = by_key(engine.sample(requests_of(6), sampling))
    stop = ("7", next(iter(free.values())).text[3:6])
    stopped = by_key(engine.sample(requests_of(6), replace(sampling, stop=stop)))
    reasons = set()
    for key, rollout in stopped.items():
        whole = free[key].text
        at = min([p for p in map(whole.find, stop) if p >= 0], default=None)
        reasons.add(rollout.finish_reason)
        assert rollout.response_ids == free[key].response_ids[: len(rollout.response_ids)]
        assert len(rollout.logprobs) == len(rollout.response_ids)
        if at is None:
            assert (rollout.text, rollout.finish_reason) == (whole, "length")
        else:
            assert (rollout.text, rollout.finish_reason) == (whole[:at], "stop")
            assert any(engine.tokenizer.decode(rollout.response_ids).endswith(text) for text in stop)
    assert reasons == {"stop", "length"}


def test_an_end_id_the_tokenizer_does_not_call_special_is_not_text() -> None:
    # Id 9 is the character "6" to the tokenizer.
    engine = engine_of(eos_ids=(9,))
    rollouts = list(engine.sample(requests_of(20), Sampling(max_tokens=10)))
    assert any(r.response_ids[-1] == 9 for r in rollouts)
    assert not any("6" in r.text for r in rollouts)


def test_a_rollout_says_where_it_comes_from() -> None:
    engine = engine_of()
    engine.sync(iter(engine.model.named_parameters()), version=7)
    request = requests_of(2)[1]
    rollouts = by_key(engine.sample([request], Sampling(max_tokens=3)))
    assert [r.seed for r in rollouts.values()] == list(request.seeds)
    assert all((r.version, r.prompt_ids) == (7, request.prompt_ids) for r in rollouts.values())


def test_an_empty_prompt_is_an_error() -> None:
    with pytest.raises(ValueError, match="problem p: the prompt is empty"):
        list(engine_of().sample([*requests_of(), Request("p", (), (0,))], Sampling()))


def test_no_requests_no_rollouts() -> None:
    assert list(engine_of().sample([], Sampling())) == []


def test_logits_that_are_not_finite_are_an_error() -> None:
    engine = engine_of()
    with torch.no_grad():
        engine.model.model.norm.weight[0] = torch.nan
    with pytest.raises(ReasonRLError, match=r"problem p.: the model's logits are not finite"):
        list(engine.sample(requests_of(), Sampling(max_tokens=2)))


def test_nothing_of_the_model_is_changed() -> None:
    engine = engine_of()
    engine.model.train()
    engine.model.gradient_checkpointing_enable()
    state = torch.get_rng_state()
    rollouts = engine.sample(requests_of(), Sampling(max_tokens=6))
    next(rollouts)  # between two responses the trainer's code runs
    assert engine.model.training
    assert engine.model.config._attn_implementation == "sdpa"
    plain = ids_of(by_key(engine_of().sample(requests_of(), Sampling(max_tokens=6))))
    rest = ids_of(by_key(rollouts))
    assert rest == {key: plain[key] for key in rest}
    assert torch.equal(torch.get_rng_state(), state)
    assert all(p.grad is None for p in engine.model.parameters())


def test_seeds_differ_in_each_of_their_parts() -> None:
    seeds = [
        sample_seed(*key) for key in [(0, 1, "a", 0), (1, 1, "a", 0), (0, 2, "a", 0), (0, 1, "b", 0), (0, 1, "a", 1)]
    ]
    assert len(set(seeds)) == 5
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert seeds[0] == sample_seed(0, 1, "a", 0)


def test_samples_of_the_model_follow_its_distribution() -> None:
    engine, n = engine_of("gpt2"), 4000
    request = Request("p", PROMPTS[0], tuple(range(n)))
    counts = torch.zeros(17)
    for rollout in engine.sample([request], Sampling(max_tokens=1, temperature=1.4)):
        counts[rollout.response_ids[0]] += 1
    with torch.no_grad():
        p = (full_logits(engine.model, PROMPTS[0], [3])[0] / 1.4).softmax(-1)
    common = p * n >= 5
    chi_square = ((counts - p * n) ** 2 / (p * n))[common].sum()
    assert chi_square < 45  # at most 16 degrees of freedom: exceeded once in 7000 seeds
    assert math.isclose(counts.sum(), n)
