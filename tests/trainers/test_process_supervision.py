"""Process supervision: from the steps that verifiers reward to the advantage of each token, by hand."""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import torch
from plain_grpo import config
from small_runs import judged, stepped
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from reasonrl import ReasonRLError
from reasonrl.algorithms.steps import Steps
from reasonrl.algorithms.whitening import of_one_process
from reasonrl.config import KLConfig, ProcessConfig
from reasonrl.evaluation.evaluate import Judged
from reasonrl.rollout.finished import decoded
from reasonrl.trainers.advantages import Earned, earned, with_advantages
from reasonrl.trainers.sample import Sample, Step, make_sample
from reasonrl.types import FinishReason

NO_KL = KLConfig()


def decode(ids: Sequence[int]) -> str:
    """A token's id is its bytes."""
    return "".join(one.to_bytes((one.bit_length() + 7) // 8).decode() for one in ids)


def said(
    tokens: Sequence[str],
    reward: float | None,
    *steps: Sequence[tuple[int, float]],
    sample: int = 0,
    weights: Sequence[float] = (),
    finish_reason: FinishReason = "stop",
) -> Judged:
    """A response of these tokens, and the steps that each verifier rewards in it."""
    ids = [int.from_bytes(token.encode()) for token in tokens]
    return stepped(
        judged(0, sample, ids, reward, finish_reason=finish_reason), "".join(tokens), *steps, weights=weights
    )


def sample_of(one: Judged, process: dict[str, Any], **settings: Any) -> Sample:
    wanted = config(process=process, **settings)
    return make_sample(one, 0, wanted, 8, wanted.process, decode)


def group_of(responses: Sequence[Judged], process: dict[str, Any], **settings: Any) -> list[Sample]:
    """One group with its advantages."""
    samples = [sample_of(one, process, **settings) for one in responses]
    found = earned(samples, 0.0)
    return with_advantages(samples, found, config(process=process, **settings), of_one_process, all_learn=False)


def advantages_of(responses: Sequence[Judged], process: dict[str, Any], **settings: Any) -> list[tuple[float, ...]]:
    return [s.row.advantages for s in group_of(responses, process, **({"std_epsilon": 0.0} | settings))]


# Characters 3 and 6, and so tokens 1 and 3; character 1, and so token 0, with a token after it.
TWO_STEPS = said(("ab", "c", "de", "f"), 1.0, [(3, 1.0), (6, 0.0)])
ONE_STEP = said(("x", "y"), 0.0, [(1, 1.0)])


@pytest.mark.parametrize(("std", "scale"), [("none", 1.0), ("population", math.sqrt(2) / 3), ("sample", 3**-0.5)])
def test_a_token_answers_for_the_steps_that_end_at_it_or_later(std: str, scale: float) -> None:
    """Step rewards 1, 0, 1: mean 2/3. The first tokens have both steps, 1/3 − 2/3; the last of the other none."""
    first, second = advantages_of([TWO_STEPS, ONE_STEP], {}, std=std)
    assert first == pytest.approx([x / scale for x in (-1 / 3, -1 / 3, -2 / 3, -2 / 3)], abs=1e-12)
    assert second[0] == pytest.approx(1 / 3 / scale, abs=1e-12)
    assert second[1] == 0.0


WORDS = "ab cd\n\nef\n\ngh"


@pytest.mark.parametrize(
    ("process", "text", "steps", "expected"),
    [
        # The lowest of those inside; a step without any is none.
        ({"steps": "paragraphs"}, WORDS, [(2, 1.0), (5, 0.25), (9, 0.5)], [(0.25, 4), (0.5, 8)]),
        ({"steps": "paragraphs"}, WORDS, [(2, 0.25), (5, 1.0), (13, -1.0)], [(0.25, 4), (-1.0, 12)]),
        ({"steps": "lines"}, "ab\ncd", [(2, 1.0), (5, 0.0)], [(1.0, 1), (0.0, 4)]),
        ({"steps": "numbered"}, "Hm.\nStep 1: ab\nStep 2: cd", [(14, 0.5), (17, 0.75), (25, 1.0)],
         [(0.5, 13), (0.75, 24)]),
        ({"steps": "separator", "separator": "; *"}, "ab;  cd;ef", [(2, 0.0), (7, 1.0), (10, 0.5)],
         [(0.0, 1), (1.0, 6), (0.5, 9)]),
        ({"steps": "separator", "separator": "(?=So)"}, "ab So cd So", [(2, 0.0), (8, 1.0), (11, 0.5)],
         [(0.0, 1), (1.0, 7), (0.5, 10)]),
        # One that begins in a step and ends in the next belongs there.
        ({"steps": "lines"}, "ab\ncd", [(4, 0.5)], [(0.5, 4)]),
        # A line break that ends a verifier's step is of the line before it, the last one's too.
        ({"steps": "lines"}, "ab\ncd\n", [(3, 1.0), (6, 0.5)], [(1.0, 1), (0.5, 4)]),
        ({"steps": "paragraphs"}, "\nab\n\n cd ", [(1, 0.5), (2, 1.0), (5, 0.75), (9, 0.25)], [(0.5, 2), (0.25, 7)]),
        ({"steps": "lines"}, " \n", [(2, 1.0)], []),
    ],
)  # fmt: skip
def test_the_texts_own_steps_have_the_lowest_reward_that_ends_in_them(
    process: dict[str, Any], text: str, steps: list[tuple[int, float]], expected: list[tuple[float, int]]
) -> None:
    """One token a character: a step that ends before character e ends at token e − 1."""
    assert sample_of(said(text, 1.0, steps), process).steps == tuple(Step(*each) for each in expected)


def test_several_verifiers_add_up_by_their_weights() -> None:
    given: tuple[list[tuple[int, float]], ...] = ([(2, 1.0), (4, 0.5), (7, 1.0)], [(1, -1.0), (4, 1.0)], [])
    two = said("ab cd\nef", 1.0, *given, weights=(2.0, 0.5, 9.0))
    # 2·min(1, 0.5) + 0.5·min(−1, 1); then 2·1 alone
    assert sample_of(two, {"steps": "lines"}).steps == (Step(0.5, 4), Step(2.0, 7))
    spans = [Step(-0.5, 0), Step(2.0, 1), Step(0.5, 3), Step(1.0, 3), Step(2.0, 6)]
    assert sample_of(two, {}).steps == tuple(spans), "each by itself, in order of their ends"


@pytest.mark.parametrize("weight", [0.5, 2.0])
def test_the_outcome_is_one_more_step_at_the_last_token(weight: float) -> None:
    first, second = (sample_of(one, {"outcome_weight": weight}) for one in (TWO_STEPS, ONE_STEP))
    assert first.steps == (Step(1.0, 1), Step(0.0, 3), Step(weight, 3))
    assert second.steps == (Step(1.0, 0), Step(0.0, 1))
    mean = (2 + weight) / 5
    advantages = advantages_of([TWO_STEPS, ONE_STEP], {"outcome_weight": weight}, std="none")
    last = (0 - mean) + (weight - mean)
    assert advantages[0] == pytest.approx((1 - mean + last,) * 2 + (last,) * 2)
    assert advantages[1] == pytest.approx((1 - 2 * mean, -mean))


def test_an_outcome_step_is_shaped_for_its_length() -> None:
    """Seven of eight tokens, four of them the buffer: −3/4."""
    long = sample_of(said("abcdefg", 1.0, []), {"outcome_weight": 2.0}, overlong_buffer=0.5)
    assert long.steps == (Step(0.5, 6),)


def test_a_step_that_the_token_limit_cut_counts_as_its_verifier_says() -> None:
    cut = said("ab\ncd", 0.0, [(2, 1.0), (5, -1.0)], finish_reason="length")
    whole = said("ab", 1.0, [(2, 0.0)], sample=1)
    for process in ({}, {"steps": "lines"}):
        first, second = group_of([cut, whole], process, std="none", mask_truncated=True)
        assert first.row.advantages == (0.0, 0.0, -1.0, -1.0, -1.0)
        assert second.row.advantages == (0.0, 0.0)
        # It is left out of the loss, and in the mean of its group.
        assert (first.counted, first.learns, second.counted, second.learns) == (False, False, True, True)


def test_a_token_that_ends_one_step_and_begins_the_next_answers_for_both() -> None:
    other = said("e", 0.0, [(1, 0.0)])
    for process in ({}, {"steps": "lines"}):
        samples = group_of([said(("ab", "c\nd", "e"), 1.0, [(3, 2.0), (6, 1.0)]), other], process, std="none")
        assert samples[0].steps == (Step(2.0, 1), Step(1.0, 2))
        assert samples[0].row.advantages == (1.0, 1.0, 0.0)
        assert samples[1].row.advantages == (-1.0,)


def test_steps_of_a_response_that_could_not_be_judged_are_no_steps() -> None:
    unjudged = said("ab", None, [(2, 100.0)], sample=2)
    group = [TWO_STEPS, ONE_STEP, unjudged]
    samples = group_of(group, {"outcome_weight": 1.0})
    assert (samples[2].steps, samples[2].counted, samples[2].learns) == ((), False, False)
    assert samples[2].row.advantages == (0.0, 0.0)
    alone = advantages_of(group[:2], {"outcome_weight": 1.0}, std_epsilon=1e-6)
    assert [s.row.advantages for s in samples[:2]] == alone


def test_a_response_without_steps_is_counted_and_learns_nothing() -> None:
    bare = said("abc", 1.0, [], sample=2)
    samples = group_of([TWO_STEPS, ONE_STEP, bare], {})
    assert (samples[2].counted, samples[2].learns, samples[2].row.advantages) == (True, False, (0.0,) * 3)
    assert [s.learns for s in samples] == [True, True, False]
    nobody = group_of([bare, bare], {})
    assert [(s.counted, s.learns, s.row.advantages) for s in nobody] == [(True, False, (0.0,) * 3)] * 2


def test_a_step_beyond_the_text_names_verifier_and_response() -> None:
    for process in ({}, {"steps": "lines"}):
        with pytest.raises(
            ReasonRLError, match=r"response 0 to problem 'p0': .*'rule' rewards ends at character 9 of a"
        ):
            sample_of(said("ab", 1.0, [(2, 1.0), (9, 1.0)]), process)


def test_a_separator_that_takes_too_long_is_an_error_of_the_response() -> None:
    process = {"steps": "separator", "separator": r"(?:a|a)*b|(?:a+)+$"}
    with pytest.raises(ReasonRLError, match=r"response 0 to problem 'p0': the separator .* takes longer than 1 s"):
        sample_of(said(("a" * 40, "c"), 1.0, []), process)


@pytest.mark.parametrize("process", [{}, {"steps": "lines"}])
def test_a_verifier_that_is_reported_only_rewards_no_steps(process: dict[str, Any]) -> None:
    one = said("ab\ncd", 1.0, [(2, 1.0), (5, 0.0)], [(2, 0.25)], weights=(0.0, 2.0))
    assert [(step.reward, step.end) for step in sample_of(one, process).steps] == [(0.5, 1)]


# With a KL in the reward.


def test_each_step_pays_for_its_own_tokens() -> None:
    """β·KL of the tokens since the step before; the last step pays for those behind it, too."""
    steps = [(2, 1.0), (2, 0.5), (4, 0.25)]
    samples = []
    for text, old, ref in (("abcde", (1.0, 2.0, 3.0, 4.0, 5.0), (0.0,) * 5), ("abc", (6.0, 7.0, 8.0), (1.0,) * 3)):
        bare = sample_of(said(text, 1.0, steps[: len(text) - 2]), {})
        samples.append(replace(bare, kl=tuple(o - r for o, r in zip(old, ref, strict=True))))
    found = earned(samples, 0.1)
    # Two steps end at token 1, and the first of them has paid. Tokens 2 to 4 stray 3 + 4 + 5; of the other, 5 + 6 + 7.
    assert found.steps.rewards.tolist() == [0.5, 1.0, 0.25, 1.0]
    expected = [0.5 - 0.3, 1.0, 0.25 - 1.2, 1.0 - 1.8]
    assert found.charged_steps.tolist() == pytest.approx(expected, abs=1e-12)
    assert found.charged.tolist() == pytest.approx([1.0 - 1.5, 1.0 - 1.8], abs=1e-12), "and the outcome for all"


def test_ten_thousand_steps_pay_in_milliseconds() -> None:
    responses, tokens, steps = 512, 1000, 20
    draw = torch.Generator().manual_seed(0)
    ends = torch.randint(tokens, (responses, steps), generator=draw).sort(1).values.flatten()
    rows = torch.arange(responses).repeat_interleave(steps)
    charge = torch.rand(responses, tokens, generator=draw, dtype=torch.float64)
    kept = torch.zeros(responses)
    found = Earned(kept, kept.bool(), kept.long(), charge.bool(), charge, Steps(torch.zeros(len(rows)), rows, ends))
    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        paid = -found.charged_steps
        seconds.append(time.perf_counter() - started)
    assert min(seconds) < 0.05
    for row in (0, 511):
        own = ends[rows == row].tolist()
        bounds = [0, *(end + 1 for end in own[:-1]), tokens]
        expected = [float(charge[row, start:stop].sum()) for start, stop in pairwise(bounds)]
        assert paid[rows == row].tolist() == pytest.approx(expected, abs=1e-9)


# With a real tokenizer.

MIXED = "第一步：🙂 相加 = 42。\n\n第二步：👩\u200d👧 naïve 🇩🇪\n\nso 42 🙂"


def byte_level() -> PreTrainedTokenizerFast:
    """Byte-level BPE with so few merges that most characters stay in pieces."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=262, show_progress=False, initial_alphabet=alphabet)
    tokenizer.train_from_iterator([MIXED] * 4, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False)


@pytest.mark.parametrize("steps", ["verifier", "paragraphs"])
def test_steps_in_many_scripts_end_at_the_token_that_completes_them(steps: str) -> None:
    tokenizer = byte_level()
    read = partial(decoded, tokenizer)
    ids = tokenizer.encode(MIXED)
    paragraphs = [MIXED.index("\n\n"), MIXED.index("\n\nso"), len(MIXED)]
    smile = MIXED.index("🙂") + 1
    ends = sorted({smile, *paragraphs}) if steps == "verifier" else paragraphs
    rewards = [float(n) for n in range(len(ends))]
    one = stepped(judged(0, 0, ids, 1.0), MIXED, list(zip(ends, rewards, strict=True)))
    wanted = config()
    found = make_sample(one, 0, wanted, 1000, ProcessConfig.model_validate({"steps": steps}), read).steps
    assert [step.reward for step in found] == rewards
    prefixes = [read(ids[: count + 1]) for count in range(len(ids))]
    complete = [next(t for t, prefix in enumerate(prefixes) if prefix.startswith(MIXED[:end])) for end in ends]
    assert [step.end for step in found] == complete
    assert len(ids) > 1.3 * len(MIXED), "characters are in pieces"
    assert complete[-1] == len(ids) - 1
