"""What every engine does alike, Hugging Face and vLLM, tied and untied; and what only vLLM has to be asked.

Two vLLM engines are started for the whole file, and one of them once more, after an iteration that nobody finished.
"""

import copy
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from small_engines import by_key, ids_of
from small_models import EOS, full_logits
from vllm_engines import needs_vllm, perturb, policy_of, sync, vllm_of

from reasonrl import ReasonRLError
from reasonrl.batch import Row, collate
from reasonrl.evaluation.engines import huggingface_engine
from reasonrl.evaluation.evaluate import Prompted
from reasonrl.evaluation.sync import WeightSync
from reasonrl.models.load import Policy, checkpoint_weights
from reasonrl.models.logprobs import response_logprobs
from reasonrl.rollout.engine import Engine, Request, Sampling, sample_seed
from reasonrl.rollout.messages import Sample
from reasonrl.rollout.vllm_process import VLLMProcess
from reasonrl.types import Problem, Rollout

CLOSE = 1e-3  # nats
LENGTHS = (70, 5, 40)  # prompt tokens: two whole blocks of the KV cache and more, less than one, one and more
PROMPTS = [tuple(3 + (7 * i + k * k) % 14 for k in range(length)) for i, length in enumerate(LENGTHS)]


@dataclass
class Case:
    """An engine, and the policy whose weights it should have."""

    engine: Engine
    policy: Policy


VLLM, HUGGING_FACE = (
    [pytest.param((name, tied), id=f"{name}-{'tied' if tied else 'untied'}", marks=marks) for tied in (True, False)]
    for name, marks in (("vllm", needs_vllm), ("huggingface", ()))
)
of_vllm = pytest.mark.parametrize("case", VLLM, indirect=True)


@pytest.fixture(scope="module")
def vllm_cases() -> Iterator[dict[bool, Case]]:
    """Both engines, tied and untied, started at the same time."""
    policies = {tied: policy_of(tied=tied) for tied in (True, False)}
    engines = {tied: vllm_of(policy) for tied, policy in policies.items()}
    try:
        yield {tied: Case(engines[tied], policies[tied]) for tied in policies}
    finally:
        for engine in engines.values():
            engine.close()


@pytest.fixture(scope="module", params=[*VLLM, *HUGGING_FACE])
def case(request: pytest.FixtureRequest) -> Case:
    name, tied = request.param
    if name == "vllm":
        found: Case = request.getfixturevalue("vllm_cases")[tied]
    else:
        policy = policy_of(tied=tied)
        found = Case(huggingface_engine(policy, 64), policy)
    sync(found.engine, found.policy)
    return found


def requests_of(samples: int = 8) -> list[Request]:
    """Seeds as a run has them: sample j draws from the first one plus j where vLLM samples, from its own elsewhere."""
    seeds = [tuple(sample_seed(0, 1, f"p{i}", j) for j in range(samples)) for i in range(len(PROMPTS))]
    return [Request(f"p{i}", prompt, seeds[i]) for i, prompt in enumerate(PROMPTS)]


def sampled(case: Case, sampling: Sampling, requests: Sequence[Request] | None = None) -> dict[Any, Rollout]:
    return by_key(case.engine.sample(requests or requests_of(), sampling))


@torch.no_grad()
def agrees_with_trainer(policy: Policy, rollouts: Sequence[Rollout], temperature: float) -> None:
    """The logprobs of each rollout are those the trainer computes, and those of a plain forward."""
    rows = [Row(r.prompt_ids, r.response_ids, group=PROMPTS.index(r.prompt_ids)) for r in rollouts]
    batch = collate(rows, policy.pad_id)
    scores = response_logprobs(policy.model, batch, temperature=temperature, share_prompt=True)
    for rollout, of_trainer in zip(rollouts, scores.logprobs, strict=True):
        given = torch.tensor(rollout.logprobs)
        torch.testing.assert_close(given, of_trainer[: len(given)], rtol=0, atol=CLOSE)
    logits = full_logits(policy.model, rollout.prompt_ids, rollout.response_ids) / temperature
    plain = logits.log_softmax(-1)[range(len(given)), rollout.response_ids]
    torch.testing.assert_close(given, plain, rtol=0, atol=CLOSE)


# --- weights and log-probabilities -----------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_logprobs_are_the_trainers_before_and_after_a_sync(case: Case, temperature: float) -> None:
    """The prompts are the same each time, so that blocks cached with the weights of before would be found."""
    sampling, seen = Sampling(temperature=temperature, max_tokens=48), []
    original = copy.deepcopy(case.policy.model.state_dict())
    for version in (7, 8):
        sync(case.engine, case.policy, version)
        rollouts = sampled(case, sampling)
        assert {r.version for r in rollouts.values()} == {version}
        agrees_with_trainer(case.policy, list(rollouts.values()), temperature)
        seen.append(ids_of(rollouts))
        perturb(case.policy, version)
    assert seen[0] != seen[1]
    case.policy.model.load_state_dict(original)
    sync(case.engine, case.policy)


@pytest.mark.parametrize("limit", [{"top_k": 4}, {"min_p": 0.1}], ids=str)
def test_a_truncated_distribution_is_what_its_logprobs_are_of(case: Case, limit: dict[str, Any]) -> None:
    sampling = Sampling(temperature=0.8, max_tokens=16, **limit)
    for rollout in sampled(case, sampling).values():
        with torch.no_grad():
            logits = full_logits(case.policy.model, rollout.prompt_ids, rollout.response_ids) / 0.8
        least = logits.topk(4).values[:, -1:] if "top_k" in limit else logits.amax(-1, keepdim=True) + math.log(0.1)
        kept = logits.where(logits >= least, -torch.inf).log_softmax(-1)
        expected = kept[range(len(rollout.response_ids)), rollout.response_ids]
        torch.testing.assert_close(torch.tensor(rollout.logprobs), expected, rtol=0, atol=CLOSE)


# --- seeds -----------------------------------------------------------------------------------------------------------


def test_a_response_depends_on_its_seed_and_not_on_what_else_is_sampled(case: Case) -> None:
    sampling, requests = Sampling(max_tokens=32), requests_of()
    together = ids_of(sampled(case, sampling))
    assert ids_of(sampled(case, sampling)) == together
    assert ids_of(sampled(case, sampling, requests[::-1])) == together
    for request in requests:
        alone = ids_of(sampled(case, sampling, [request]))
        assert alone == {key: ids for key, ids in together.items() if key[0] == request.problem_id}
    long = [ids for ids in together.values() if len(ids) > 10]
    assert len(set(long)) == len(long) >= 10  # the samples of a group differ, and so do the groups


def test_a_rollouts_seed_alone_gives_it_again(case: Case) -> None:
    sampling, request = Sampling(max_tokens=32), requests_of(4)[0]
    rollouts = sampled(case, sampling, [request])
    for rollout in rollouts.values():
        (again,) = case.engine.sample([Request("p", request.prompt_ids, (rollout.seed,))], sampling)
        assert again.response_ids == rollout.response_ids
    assert len({r.seed for r in rollouts.values()}) == 4


def test_greedy_is_the_likeliest_and_the_same_for_all_samples(case: Case) -> None:
    rollouts = sampled(case, Sampling(temperature=0, max_tokens=24), requests_of(3))
    assert sorted(rollouts) == [(f"p{i}", j) for i in range(len(PROMPTS)) for j in range(3)]
    assert len({(key[0], ids) for key, ids in ids_of(rollouts).items()}) == len(PROMPTS)
    agrees_with_trainer(case.policy, list(rollouts.values()), 1.0)
    for rollout in rollouts.values():
        logits = full_logits(case.policy.model, rollout.prompt_ids, rollout.response_ids)
        assert logits.argmax(-1).tolist() == list(rollout.response_ids)


# --- endings ---------------------------------------------------------------------------------------------------------


def test_eos_and_the_limit_end_a_response(case: Case) -> None:
    rollouts = sampled(case, Sampling(max_tokens=20)).values()
    for rollout in rollouts:
        *body, last = rollout.response_ids
        assert EOS not in body
        assert len(rollout.logprobs) == len(rollout.response_ids) <= 20
        assert rollout.finish_reason == ("stop" if last == EOS else "length")
        assert rollout.finish_reason == "stop" or len(rollout.response_ids) == 20
        assert rollout.text == case.policy.tokenizer.decode(rollout.response_ids, skip_special_tokens=True)
    assert {r.finish_reason for r in rollouts} == {"stop", "length"}


def test_stop_texts_cut_the_text_and_keep_the_ids(case: Case) -> None:
    sampling = Sampling(max_tokens=20, temperature=1.4)
    free = sampled(case, sampling)
    longest = max((r.text for r in free.values()), key=len)
    stop = (longest[3:5], longest[6:9])
    stopped = sampled(case, replace(sampling, stop=stop))
    found = set()
    for key, rollout in stopped.items():
        assert rollout.response_ids == free[key].response_ids[: len(rollout.response_ids)]
        before, whole = (
            case.policy.tokenizer.decode(ids, skip_special_tokens=True)
            for ids in (rollout.response_ids[:-1], rollout.response_ids)
        )
        cuts = [at for at in map(whole.find, stop) if at >= 0]
        assert not any(text in before for text in stop)
        assert rollout.text == (whole[: min(cuts)] if cuts else whole)
        if not cuts:
            assert rollout.response_ids == free[key].response_ids
        assert rollout.finish_reason == ("stop" if cuts else free[key].finish_reason)
        found.add(bool(cuts))
    assert found == {True, False}
    agrees_with_trainer(case.policy, list(stopped.values()), 1.4)


# --- how responses come ----------------------------------------------------------------------------------------------


def test_a_response_comes_as_soon_as_it_is_finished(case: Case) -> None:
    sampling = Sampling(max_tokens=240)
    sampled(case, sampling)  # the first calls are slow
    started, arrivals = time.monotonic(), []
    for rollout in case.engine.sample(requests_of(), sampling):
        arrivals.append((time.monotonic() - started, len(rollout.response_ids)))
    (first, shortest), (last, longest) = arrivals[0], arrivals[-1]
    assert shortest < longest / 4
    assert first < 0.7 * last  # if all came at the end, it would be 0.99


def test_an_empty_prompt_is_refused(case: Case) -> None:
    with pytest.raises(ValueError, match="problem p: the prompt is empty"):
        list(case.engine.sample([*requests_of(), Request("p", (), (0,))], Sampling()))


def test_no_requests_no_rollouts(case: Case) -> None:
    assert list(case.engine.sample([], Sampling())) == []


# --- of vLLM alone ---------------------------------------------------------------------------------------------------


@needs_vllm
def test_sampling_before_the_first_sync_is_refused() -> None:
    engine = vllm_of(policy_of())
    with pytest.raises(ReasonRLError, match="the vLLM engine has no weights yet: sync it before sampling"):
        list(engine.sample(requests_of(), Sampling()))
    engine.close()
    engine.close()
    for use in (lambda: list(engine.sample(requests_of(), Sampling())), lambda: engine.sync(iter([]), 1), engine.wait):
        with pytest.raises(ReasonRLError, match="the vLLM engine is closed"):
            use()


@of_vllm
def test_what_vllm_does_not_take_is_not_sent(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VLLMProcess, "ask", lambda *_: pytest.fail("something was sent"))
    long = Request("p9", PROMPTS[0], (0,))
    with pytest.raises(ValueError, match=r"problem p9: 70 prompt tokens and 1000 of the response .*max_model_len 1024"):
        list(case.engine.sample([*requests_of()[1:2], long], Sampling(max_tokens=1000)))
    with pytest.raises(ValueError, match=r"raise it, or lower sampling\.max_tokens"):
        list(case.engine.sample([long], Sampling(max_tokens=1000)))
    with pytest.raises(ValueError, match="the prompt is empty"):
        list(case.engine.sample([long, Request("p", (), (0,))], Sampling(max_tokens=8)))
    with pytest.raises(ReasonRLError, match=r"up to 2: lower sampling\.temperature, 2\.5, or set engine\.name=hugg"):
        list(case.engine.sample([long], Sampling(max_tokens=8, temperature=2.5)))


@of_vllm
def test_a_sequence_may_fill_max_model_len(case: Case) -> None:
    rollouts = list(case.engine.sample([Request("p", (3, 4) * 510, tuple(range(8)))], Sampling(max_tokens=4)))
    assert max(len(rollout.response_ids) for rollout in rollouts) == 4


@of_vllm
def test_one_request_per_problem(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    sent, ask = [], VLLMProcess.ask

    def recorded(self: VLLMProcess, message: Any, deadline: float) -> Iterator[Any]:
        sent.append(message)
        return ask(self, message, deadline)

    monkeypatch.setattr(VLLMProcess, "ask", recorded)
    assert len(sampled(case, Sampling(max_tokens=2))) == 8 * len(PROMPTS)
    (message,) = sent
    assert isinstance(message, Sample)
    assert [(group.prompt_ids, group.samples) for group in message.requests] == [(prompt, 8) for prompt in PROMPTS]


@of_vllm
def test_a_sync_of_other_weights_is_refused_and_changes_nothing(case: Case) -> None:
    weights = list(checkpoint_weights(case.policy.model))
    before = ids_of(sampled(case, Sampling(max_tokens=16)))
    name, first = weights[0][0], weights[0][1]
    with pytest.raises(ValueError, match=rf"brings other \(17, 64\) where the first one brought {name} \(17, 64\)"):
        case.engine.sync(iter([("other", first), *weights[1:]]), 5)
    with pytest.raises(ValueError, match=rf"brings {name} \(64, 17\) where the first one brought {name} \(17, 64\)"):
        case.engine.sync(iter([(name, first.T), *weights[1:]]), 5)
    with pytest.raises(ValueError, match=f"brings {len(weights) - 1} weights where .* brought {len(weights)}"):
        case.engine.sync(iter(weights[:-1]), 5)
    after = sampled(case, Sampling(max_tokens=16))
    assert ids_of(after) == before
    assert {r.version for r in after.values()} == {1}


@of_vllm
def test_the_probe_tells_other_weights(case: Case) -> None:
    problems = [Prompted(Problem(f"p{i}", "", None), prompt) for i, prompt in enumerate(PROMPTS)]
    probe = WeightSync(case.engine, case.policy, problems, every=2, tolerance=CLOSE, max_tokens=64, logits_chunk=2**26)
    probe(version=1)
    assert probe.check() < 1e-4
    other = policy_of(tied=case.policy.model.config.tie_word_embeddings, seed=1)
    sync(case.engine, other, version=2)
    with pytest.raises(ReasonRLError, match="the engine does not sample from the policy's weights") as raised:
        probe.check()
    assert str(raised.value).count("nats in the mean, where engine.probe_tolerance is 0.001. Most at token ") == 1
    case.engine.sync = lambda weights, version: None  # type: ignore[method-assign]  # a sync that does not arrive
    try:
        probe(version=3)  # the second of two: no probe is due
        with pytest.raises(ReasonRLError, match=r"Most at token \d+ \('.*'\) of a response to problem p[01]: -"):
            probe(version=4)
    finally:
        del case.engine.sync
    sync(case.engine, case.policy)
    assert probe.check() < 1e-4


@pytest.mark.parametrize("case", VLLM[:1], indirect=True)
def test_an_iteration_that_nobody_finished_does_not_spoil_the_next(case: Case) -> None:
    """It is still referred to as the next one begins, so no `finally` has run. The process starts anew."""
    sampling = Sampling(max_tokens=200)
    whole = ids_of(sampled(case, sampling))
    left = iter(case.engine.sample(requests_of(), sampling))
    next(left)
    other = requests_of(4)[1:2]
    assert ids_of(sampled(case, sampling, other)) == {("p1", j): whole["p1", j] for j in range(4)}
    left.close()  # type: ignore[attr-defined]
    assert ids_of(sampled(case, sampling)) == whole
