"""Pairs from stored rollouts: who is set above whom, which are taken, where they come from, what is said of them."""

from collections import Counter
from pathlib import Path
from typing import Any

import datasets
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pair_rows import candidate, rollout_file, rollout_row

from reasonrl import ReasonRLError
from reasonrl.pairs.build import Controls, build_demonstrations, build_pairs, limited
from reasonrl.pairs.candidates import Problems, Prompt, read_problems, rollout_files
from reasonrl.pairs.choices import Chooser, Pair, length_bias, possible, without_length_bias
from reasonrl.pairs.read import read_preferences
from reasonrl.pairs.write import write_demonstrations, write_pairs

RIGHT, WRONG = "the sum is seven", "the sum is eight, or is it nine"
LOOSE = Controls(similarity=1.0, per_problem=100)


def problems(folder: Path, rows: list[dict[str, Any]], *, logprobs: bool = False) -> Problems:
    return read_problems(rollout_files([rollout_file(folder, rows)]), logprobs=logprobs)


def texts(pairs: list[Pair]) -> list[tuple[str, str]]:
    return [(pair.chosen.text, pair.rejected.text) for pair in pairs]


def test_right_above_wrong_and_what_nobody_judged_or_was_cut_in_neither(tmp_path: Path) -> None:
    rows = [
        rollout_row("p", 0, RIGHT, 1.0),
        rollout_row("p", 1, WRONG, 0.0),
        rollout_row("p", 2, "nobody knows what this is", None),
        rollout_row("p", 3, "it was cut off in the mid", 0.0, cut=True),
        rollout_row("p", 4, "   ", 0.0),
        rollout_row("all right", 0, RIGHT, 1.0),
        rollout_row("all wrong", 0, WRONG, 0.0),
    ]
    found, summary = build_pairs(problems(tmp_path, rows), LOOSE)
    assert texts(found) == [(RIGHT, WRONG)]
    assert (summary.responses, summary.unjudged, summary.truncated, summary.empty) == (7, 1, 1, 1)
    assert (summary.problems, summary.all_right, summary.all_wrong, summary.covered) == (3, 1, 1, 1)
    found, _ = build_pairs(problems(tmp_path, rows), Controls(truncated=True))
    assert ("it was cut off in the mid") in [pair.rejected.text for pair in found]


def test_one_problem_asked_in_two_steps_is_one_problem(tmp_path: Path) -> None:
    rollout_file(tmp_path, [rollout_row("p", 0, RIGHT, 1.0)], "rollouts/step-000001.parquet")
    found, summary = build_pairs(problems(tmp_path, [rollout_row("p", 0, WRONG, 0.0)]), LOOSE)
    assert texts(found) == [(RIGHT, WRONG)]
    assert summary.problems == 1


@pytest.mark.parametrize(
    ("margin", "expected"),
    [(None, {("a", "b"), ("a", "c")}), (0.5, {("a", "b"), ("a", "c")}), (0.2, {("a", "b"), ("a", "c"), ("b", "c")})],
)
def test_a_margin_compares_graded_rewards(margin: float | None, expected: set[tuple[str, str]]) -> None:
    graded = [
        candidate(text, correct=reward >= 1, reward=reward) for text, reward in [("a", 1.0), ("b", 0.4), ("c", 0.1)]
    ]
    assert set(texts(possible(graded, margin))) == expected


def test_a_margin_never_sets_what_is_wrong_above_what_is_right() -> None:
    """As with a second verifier that rewards form."""
    graded = [candidate("wrong, in fine form", correct=False, reward=1.5), candidate("right", correct=True, reward=1.0)]
    assert possible(graded, 0.1) == []


def test_the_same_text_is_no_pair() -> None:
    """A verifier that changes its mind teaches nothing."""
    assert possible([candidate("7", correct=True), candidate(" 7\n", correct=False)], None) == []


def group(rights: int, wrongs: int) -> list[Pair]:
    right = [candidate(f"right {n}", correct=True, sample=n) for n in range(rights)]
    wrong = [candidate(f"wrong {n}", correct=False, sample=10 + n) for n in range(wrongs)]
    return possible([*right, *wrong], None)


@pytest.mark.parametrize("most", [1, 3, 6])
def test_no_response_is_taken_again_before_all_were(most: int) -> None:
    taken = Chooser("random", most, 0).take(group(3, 3), 0)
    assert len(taken) == most
    uses = Counter(pair.chosen.text for pair in taken)
    assert max(uses.values()) == -(-most // 3)


def test_the_seed_decides_and_nothing_else() -> None:
    one, again, other = (texts(Chooser("random", 4, seed).take(group(5, 5), 0)) for seed in (0, 0, 1))
    assert one == again != other


def test_the_hardest_are_those_whose_wrong_response_was_likelier() -> None:
    right = [candidate("a", correct=True, logprob=-0.5, sample=1), candidate("b", correct=True, logprob=-3, sample=2)]
    wrong = [candidate("c", correct=False, logprob=-0.2, sample=3), candidate("d", correct=False, logprob=-4, sample=4)]
    assert texts(Chooser("hardest", 1, 0).take(possible([*right, *wrong], None), 0)) == [("b", "c")]


def test_hardest_needs_log_probabilities(tmp_path: Path) -> None:
    rows = [rollout_row("p", 0, RIGHT, 1.0), rollout_row("p", 1, WRONG, 0.0, logprobs=())]
    with pytest.raises(ReasonRLError, match="log-probabilities"):
        build_pairs(problems(tmp_path, rows, logprobs=True), Controls(choice="hardest"))


def test_balanced_pairs_are_as_long_as_each_other_over_all_problems() -> None:
    """Right responses are longer, save one of each problem."""
    chooser, plain = Chooser("balanced", 1, 0), Chooser("random", 1, 0)
    balanced, random_ones = [], []
    for number in range(40):
        found = [candidate(f"r{n}", correct=True, tokens=n, sample=n) for n in (5, 30, 40, 50)]
        found += [candidate(f"w{n}", correct=False, tokens=n, sample=n) for n in (10, 20)]
        balanced += chooser.take(possible(found, None), number)
        random_ones += plain.take(possible(found, None), number)
    assert abs(length_bias(balanced)) < 0.02
    assert length_bias(random_ones) > 0.3


def test_pairs_are_dropped_until_the_lengths_are_even() -> None:
    gaps = [30, 1, 20, -5, 2]
    pairs = [
        Pair(candidate("r", correct=True, tokens=50 + gap), candidate("w", correct=False, tokens=50)) for gap in gaps
    ]
    kept = without_length_bias(pairs, 0.02)
    assert [pair.gap for pair in kept] == [1, -5, 2]
    assert without_length_bias(pairs, 1.0) == pairs


@given(st.lists(st.tuples(st.integers(1, 200), st.integers(1, 200))), st.floats(0, 1))
def test_dropping_pairs_never_makes_the_gap_wider(lengths: list[tuple[int, int]], most: float) -> None:
    pairs = [Pair(candidate("r", correct=True, tokens=c), candidate("w", correct=False, tokens=r)) for c, r in lengths]
    kept = without_length_bias(pairs, most)
    gap = abs(sum(pair.gap for pair in kept))
    assert gap <= abs(sum(pair.gap for pair in pairs))
    if abs(length_bias(kept)) > most:  # then dropping any more of them would not make it better
        total = sum(pair.gap for pair in kept)
        widest = max(kept, key=lambda pair: abs(pair.gap) if pair.gap * total > 0 else 0)
        assert abs(total - widest.gap) >= abs(total) or len(kept) < len(pairs)


@pytest.mark.parametrize(("limit", "expected"), [(None, 6), (4, 4), (2, 2)])
def test_a_limit_takes_the_first_of_every_problem_first(limit: int | None, expected: int) -> None:
    found = limited([["a1", "a2", "a3"], ["b1"], ["c1", "c2"]], limit, seed=0)
    assert len(found) == expected
    assert sorted(found) == found, "in order of the problems"
    if limit == 4:
        assert {"a1", "b1", "c1"} < set(found)
    if limit == 2:
        assert set(found) < {"a1", "b1", "c1"}


def test_near_duplicates_go_among_the_right_and_among_the_wrong(tmp_path: Path) -> None:
    long = "first we add the tens, then the ones, and carry; that gives "
    rows = [
        rollout_row("p", 0, long + "57", 1.0),
        rollout_row("p", 1, long.replace(" ", "  ") + "57.", 1.0),
        rollout_row("p", 2, long + "58", 0.0),
        rollout_row("p", 3, "something else altogether: 12", 0.0),
    ]
    found, summary = build_pairs(problems(tmp_path, rows), Controls(similarity=0.9))
    assert set(texts(found)) == {(long + "57", long + "58"), (long + "57", "something else altogether: 12")}
    assert summary.duplicates == 1


def test_step_pairs_part_at_the_first_wrong_step(tmp_path: Path) -> None:
    same, wrong, right = "3*4=12\n", "12+1=14\n=> 14", "12+1=13\n=> 13"
    steps = [(0, 6, 1.0), (7, 14, 0.0), (15, 20, 0.0)]
    rows = [
        rollout_row("p", 0, same + wrong, 0.0, steps=steps),
        rollout_row("p", 1, same + right, 1.0, steps=[(0, 6, 1.0), (7, 14, 1.0)]),
        rollout_row("p", 2, "4*3=12\n" + right, 1.0, steps=[(0, 6, 1.0)]),
        rollout_row("p", 3, "no steps here", 0.0),
    ]
    found, _ = build_pairs(problems(tmp_path, rows), Controls(steps=True))
    assert [(pair.chosen.prompt, pair.chosen.text, pair.rejected.text) for pair in found] == [
        ("p?" + same, right, wrong)
    ]
    assert found[0].rejected.prompt == "p?" + same
    assert found[0].chosen.tokens == len(right)


def test_step_pairs_of_a_chat_leave_the_assistants_turn_open(tmp_path: Path) -> None:
    chat: Prompt = ({"role": "user", "content": "p?"},)
    rows = [
        rollout_row("p", 0, "a. b", 0.0, prompt=chat, steps=[(0, 2, 1.0), (3, 4, 0.0)]),
        rollout_row("p", 1, "a. c", 1.0, prompt=chat),
    ]
    found, _ = build_pairs(problems(tmp_path, rows), Controls(steps=True))
    assert [pair.chosen.prompt for pair in found] == [(*chat, {"role": "assistant", "content": "a. "})]


def test_a_pair_says_where_it_comes_from(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("model: {path: some/model}\n")
    found, _ = build_pairs(
        problems(tmp_path, [rollout_row("p", 0, RIGHT, 1.0), rollout_row("p", 5, WRONG, 0.25)]), LOOSE
    )
    write_pairs(tmp_path / "pairs.parquet", found)
    [row] = pq.read_table(tmp_path / "pairs.parquet").to_pylist()
    assert {key: row[key] for key in ("prompt", "chosen", "rejected", "problem_id", "reference")} == {
        "prompt": "p?", "chosen": RIGHT, "rejected": WRONG, "problem_id": "p", "reference": "ref",
    }  # fmt: skip
    assert row["rejected_source"] == {
        "run": str(tmp_path), "model": "some/model", "step": 3, "sample": 5, "policy_version": 2, "verifier": "exact",
        "verifier_version": "0.3", "reward": 0.25, "tokens": len(WRONG),
    }  # fmt: skip


@pytest.mark.parametrize("chat", [False, True])
def test_a_file_of_ours_is_read_by_datasets_and_by_us(tmp_path: Path, chat: bool) -> None:
    messages: Prompt = ({"role": "system", "content": "Add."}, {"role": "user", "content": "3+4"})
    prompt = messages if chat else "3+4="
    rows = [rollout_row("p", 0, RIGHT, 1.0, prompt=prompt), rollout_row("p", 1, WRONG, 0.0, prompt=prompt)]
    found, _ = build_pairs(problems(tmp_path, rows), LOOSE)
    write_pairs(tmp_path / "pairs.parquet", found)
    [row] = datasets.load_dataset("parquet", data_files=str(tmp_path / "pairs.parquet"), cache_dir=str(tmp_path))[
        "train"
    ]
    if chat:
        assert (row["prompt"], row["chosen"]) == (list(prompt), [{"role": "assistant", "content": RIGHT}])
    else:
        assert (row["prompt"], row["chosen"]) == (prompt, RIGHT)
    [pair] = read_preferences([tmp_path / "pairs.parquet"]).pairs
    assert (pair.prompt, pair.chosen, pair.rejected) == (prompt, RIGHT, WRONG)


def test_chats_and_texts_do_not_go_into_one_file(tmp_path: Path) -> None:
    chat: Prompt = ({"role": "user", "content": "q"},)
    rows = [rollout_row(p, n, t, r, prompt=chat if p == "q" else None)
            for p in "pq" for n, t, r in [(0, RIGHT, 1.0), (1, WRONG, 0.0)]]  # fmt: skip
    found, _ = build_pairs(problems(tmp_path, rows), LOOSE)
    with pytest.raises(ReasonRLError, match="build them apart"):
        write_pairs(tmp_path / "pairs.parquet", found)


def test_demonstrations_are_right_responses(tmp_path: Path) -> None:
    rows = [
        rollout_row("p", 0, "a likely one", 1.0, logprobs=(-0.1,)),
        rollout_row("p", 1, "an unlikely, right one", 1.0, logprobs=(-2.0, -4.0)),
        rollout_row("p", 2, WRONG, 0.0, logprobs=(-9.0,)),
        rollout_row("q", 0, "half a point", 0.5),
    ]
    given = problems(tmp_path, rows, logprobs=True)
    found, summary = build_demonstrations(given, Controls(choice="hardest", per_problem=1))
    assert [one.text for one in found] == ["an unlikely, right one"]
    assert (summary.kind, summary.built, summary.covered) == ("demonstrations", 1, 1)
    write_demonstrations(tmp_path / "sft.parquet", found)
    [row] = pq.read_table(tmp_path / "sft.parquet").to_pylist()
    assert (row["prompt"], row["completion"], row["source"]["step"]) == ("p?", "an unlikely, right one", 3)
    graded, _ = build_demonstrations(given, Controls(margin=0.5))
    assert {one.text for one in graded} == {"a likely one", "an unlikely, right one", "half a point"}


def test_the_summary_warns_of_few_pairs_and_of_length(tmp_path: Path) -> None:
    rows = [rollout_row("p", 0, "long " * 30, 1.0), rollout_row("p", 1, "short one", 0.0)]
    _, summary = build_pairs(problems(tmp_path, rows), LOOSE)
    few, bias = summary.warnings()
    assert few.startswith("1 pairs are few")
    assert "longer than rejected" in bias
    assert summary.bias == pytest.approx((150 - 9) / ((150 + 9) / 2))
    many = [rollout_row(f"p{n}", k, text, 1.0 - k) for n in range(100) for k, text in enumerate(("seven", "eight"))]
    _, summary = build_pairs(problems(tmp_path / "many", many), LOOSE)
    assert summary.warnings() == []


def test_of_a_run_its_training_is_read_and_not_its_evaluations(tmp_path: Path) -> None:
    rollout_file(tmp_path, [rollout_row("p", 0, RIGHT, 1.0)])
    rollout_file(tmp_path, [rollout_row("held out", 0, RIGHT, 1.0)], "eval/before.parquet")
    assert [file.name for file in rollout_files([tmp_path])] == ["step-000003.parquet"]
    assert [file.name for file in rollout_files([tmp_path / "eval"])] == ["before.parquet"]
