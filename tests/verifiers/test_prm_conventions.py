"""prm: a tiny model of each convention, its rewards against a direct computation, and what is not judged."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from reward_models import saved, tokenizer
from safetensors.torch import load_file, save_file
from small_models import MAX_POSITIONS
from torch import Tensor
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForTokenClassification

from reasonrl import Message, Problem, ReasonRLError, Response, Verdict
from reasonrl_prm import PRM, PRMOptions
from reasonrl_prm.options import REDUCTIONS

CHAT = Problem("chat", (Message(role="system", content="add"), Message(role="user", content="1+1")), None, {"q": "2+2"})
TEXT = Problem("text", "1+1", None, {"q": "2+2"})
RESPONSES = ["one\n\ntwo three\n\nso: 2", "2", "a\nb\n\nc", "two three\n\none"]
HEAD = {name: 0.2 * torch.randn(shape, generator=torch.Generator().manual_seed(5)) for name, shape in {
    "score.0.weight": (24, 24), "score.0.bias": (24,), "score.2.weight": (2, 24), "score.2.bias": (2,),
    "v_head.summary.weight": (1, 24), "v_head.summary.bias": (1,),
}.items()}  # fmt: skip


def steps_of(response: str) -> list[str]:
    return response.split("\n\n")


def with_head(folder: Path, prefix: str) -> Any:
    """A trunk as it stands in a checkpoint of a language model, and a head beside it; the trunk."""
    words = tokenizer(special=("<extra_0>",))
    model = saved(folder, auto=AutoModelForCausalLM, words=words)
    weights = load_file(folder / "model.safetensors")
    weights |= {name: tensor for name, tensor in HEAD.items() if name.startswith(prefix)}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return model.model


def hidden(trunk: Any, ids: Sequence[int], at: Sequence[int]) -> Tensor:
    found: Tensor = trunk(input_ids=torch.tensor([ids])).last_hidden_state[0, list(at)]
    return found


def apart(prompt: str, steps: Sequence[str], words: Any) -> tuple[list[int], list[int]]:
    ids, ends = list(words(prompt)["input_ids"]), []
    for step in steps:
        ids += words(step + "\n")["input_ids"]
        ends.append(len(ids) - 1)
    return ids, ends


# Of each convention: makes a model in a folder; gives the rewards of the steps of "1+1" computed in the plainest way.
Direct = Callable[[Sequence[str]], list[float]]


def token_classification(folder: Path) -> Direct:
    model = saved(folder, auto=AutoModelForTokenClassification, num_labels=2)

    def direct(steps: Sequence[str]) -> list[float]:
        ids, ends = apart("1+1", steps, tokenizer())
        labels = model(input_ids=torch.tensor([ids])).logits[0, ends]
        return [float(row.exp()[1] / row.exp().sum()) for row in labels]

    return direct


def step_tag(folder: Path) -> Direct:
    words = tokenizer(special=("ки",))
    model = saved(folder, auto=AutoModelForCausalLM, words=words)
    good, bad = words("+-")["input_ids"]

    def direct(steps: Sequence[str]) -> list[float]:
        ids = words("1+1 " + "\n".join(f"{step} ки" for step in steps))["input_ids"]
        said = model(input_ids=torch.tensor([ids])).logits[0]
        at = [index for index, one in enumerate(ids) if one == words.convert_tokens_to_ids("ки")]
        return [1 / (1 + math.exp(float(said[index, bad] - said[index, good]))) for index in at]

    return direct


def separator_token(folder: Path) -> Direct:
    trunk, words = with_head(folder, "score"), tokenizer(special=("<extra_0>",))

    def direct(steps: Sequence[str]) -> list[float]:
        text = "user:1+1<eos>assistant:" + "<extra_0>".join(steps) + "<extra_0><eos>"
        ids = words(text)["input_ids"]
        at = [index for index, one in enumerate(ids) if one == words.convert_tokens_to_ids("<extra_0>")]
        inner = (hidden(trunk, ids, at) @ HEAD["score.0.weight"].T + HEAD["score.0.bias"]).clamp(min=0)
        classes = inner @ HEAD["score.2.weight"].T + HEAD["score.2.bias"]
        return [float(row.exp()[1] / row.exp().sum()) for row in classes]

    return direct


def value_head(folder: Path) -> Direct:
    trunk, words = with_head(folder, "v_head"), tokenizer()

    def direct(steps: Sequence[str]) -> list[float]:
        ids, ends = apart("1+1\n", steps, words)
        values = hidden(trunk, ids, ends) @ HEAD["v_head.summary.weight"][0] + HEAD["v_head.summary.bias"]
        return [1 / (1 + math.exp(-float(value))) for value in values]

    return direct


MAKERS = {one.__name__: one for one in (token_classification, step_tag, separator_token, value_head)}
EVERY = pytest.mark.parametrize("convention", MAKERS)


def verifier(folder: Path, convention: str, **options: Any) -> PRM:
    return PRM(PRMOptions.model_validate({"model": str(folder), "convention": convention, "device": "cpu"} | options))


@EVERY
def test_each_step_s_reward_is_that_of_a_direct_computation_alone_and_in_a_batch(
    tmp_path: Path, convention: str
) -> None:
    direct = MAKERS[convention](tmp_path)
    expected = [direct(steps_of(response)) for response in RESPONSES]
    everything = [reward for rewards in expected for reward in rewards]
    assert len({round(reward, 3) for reward in everything}) >= 6, "the model tells steps apart"
    for batch_size in (1, 3, 16):
        found = verifier(tmp_path, convention, batch_size=batch_size).verify_batch(
            [(TEXT, Response(response)) for response in RESPONSES]
        )
        for verdict, response, rewards in zip(found, RESPONSES, expected, strict=True):
            assert [one.reward for one in verdict.steps] == pytest.approx(rewards, abs=1e-4)
            assert [response[one.start : one.end] for one in verdict.steps] == steps_of(response)
            assert verdict.reward == pytest.approx(min(rewards), abs=1e-4)
            assert verdict.reason == "scored"
            assert verdict.evidence == {"steps": len(rewards), "judged": len(rewards)}


@EVERY
def test_steps_beyond_the_context_are_unjudged_and_said_so(tmp_path: Path, convention: str) -> None:
    MAKERS[convention](tmp_path)
    response = "1\n\n22\n\n333"
    whole = verifier(tmp_path, convention).verify(TEXT, Response(response))
    one = verifier(tmp_path, convention)
    seen = one._seen(TEXT, response)
    assert not isinstance(seen, Verdict)
    ends = seen[1].ends
    for judged, context in ((2, ends[1] + 1), (1, ends[1]), (0, ends[0])):
        pairs = [(TEXT, Response(response)), (TEXT, Response("1"))]
        found, short = verifier(tmp_path, convention, max_tokens=context).verify_batch(pairs)
        assert (found.reward, found.reason) == (None, "too_long")
        assert found.evidence == {"steps": 3, "judged": judged, "context": context}
        assert [s.reward for s in found.steps] == pytest.approx([s.reward for s in whole.steps][:judged], abs=1e-5)
        assert short.reason == ("scored" if judged else "too_long")
    assert verifier(tmp_path, convention, max_tokens=ends[2] + 1).verify(TEXT, Response(response)).reason == "scored"


@EVERY
def test_a_chat_is_put_as_the_convention_has_it_and_a_column_can_hold_the_question(
    tmp_path: Path, convention: str
) -> None:
    MAKERS[convention](tmp_path)
    one, bare = verifier(tmp_path, convention), verifier(tmp_path, convention, question="q")

    def text(verifier: PRM, problem: Problem) -> str:
        seen = verifier._seen(problem, "3\n\n4")
        assert not isinstance(seen, Verdict)
        return str(verifier._model.tokenizer.decode(seen[1].ids))

    forms = {
        "token_classification": "{}3\n4\n",
        "step_tag": "{} 3 ки\n4 ки",
        "separator_token": "user:{}<eos>assistant:3<extra_0>4<extra_0><eos>",
        "value_head": "{}\n3\n4\n",
    }
    system = "system:add<eos>" if convention == "separator_token" else ""
    assert text(one, TEXT) == forms[convention].format("1+1")
    assert text(one, CHAT) == system + forms[convention].format("1+1")
    assert text(bare, CHAT) == text(bare, TEXT) == forms[convention].format("2+2")
    assert bare.audit(CHAT) is None
    assert "name it under the task's `metadata`" in str(bare.audit(Problem("p", "1")))
    assert f"takes {MAX_POSITIONS}" in str(one.audit(Problem("p", "1" * MAX_POSITIONS)))


def test_a_beginning_of_sequence_stands_first_where_there_is_one(tmp_path: Path) -> None:
    words = tokenizer()
    words.bos_token = "<"
    saved(tmp_path, auto=AutoModelForTokenClassification, num_labels=2, words=words)
    seen = verifier(tmp_path, "token_classification")._seen(TEXT, "3")
    assert not isinstance(seen, Verdict)
    assert words.decode(seen[1].ids) == "<1+13\n"


@pytest.mark.parametrize(("convention", "mark"), [("step_tag", "ки"), ("separator_token", "<extra_0>")])
def test_a_response_that_writes_the_mark_itself_is_unjudged(tmp_path: Path, convention: str, mark: str) -> None:
    MAKERS[convention](tmp_path)
    pairs = [(TEXT, Response(f"3 {mark} 4\n\n5")), (TEXT, Response("5"))]
    found, other = verifier(tmp_path, convention).verify_batch(pairs)
    assert (found.reward, found.reason, found.steps) == (None, "mark_in_text", ())
    assert found.evidence["error"] == f"2 steps, and the mark {mark!r} stands 3 times"
    assert other.reason == "scored"


@pytest.mark.parametrize(
    ("reduction", "reward"), [("last", 0.25), ("min", 0.25), ("mean", 0.5), ("product", 0.75 * 0.5 * 0.25)]
)
def test_reductions(reduction: str, reward: float) -> None:
    assert REDUCTIONS[reduction]([0.75, 0.5, 0.25]) == pytest.approx(reward)
    assert REDUCTIONS[reduction]([0.5]) == 0.5
    assert REDUCTIONS["last"]([0.25, 0.75]) == 0.75


def test_reduction_and_steps_are_options(tmp_path: Path) -> None:
    direct = value_head(tmp_path)
    rewards = direct(["one", "two", "three"])
    for given in ({"steps": "lines"}, {"steps": "separator", "separator": r"\s*;\s*|\n"}):
        one = verifier(tmp_path, "value_head", reduction="product", **given)
        found = one.verify(TEXT, Response("one\ntwo\nthree"))
        assert [step.reward for step in found.steps] == pytest.approx(rewards, abs=1e-5)
        assert found.reward == pytest.approx(math.prod(rewards), abs=1e-5)


def test_what_has_no_steps_and_what_cannot_be_split(tmp_path: Path) -> None:
    value_head(tmp_path)
    assert verifier(tmp_path, "value_head").verify(TEXT, Response(" \n")) == Verdict(
        0.0, "no_steps", evidence={"steps": 0}
    )
    slow = verifier(tmp_path, "value_head", steps="separator", separator=r"(?:a|a)*b|(?:a+)+$")
    found = slow.verify_batch([(TEXT, Response("a" * 40 + "c")), (TEXT, Response("cc"))])
    assert [one.reason for one in found] == ["error", "scored"]
    assert "takes longer" in found[0].evidence["error"]


# --- what is refused -------------------------------------------------------------------------------------------------


def test_untrained_and_foreign_models_are_refused(tmp_path: Path) -> None:
    plain, three = tmp_path / "plain", tmp_path / "three"
    saved(plain, auto=AutoModelForCausalLM)
    saved(three, auto=AutoModelForTokenClassification, num_labels=3)
    with_head(tmp_path / "value", "v_head")
    refused = [
        (plain, "token_classification", {}, r"without score.bias, score.weight, which LlamaForTokenClassification"),
        (three, "token_classification", {}, r"has 3 labels for a token"),
        (plain, "step_tag", {"mark": "\t"}, r"has no token for '\\t'"),
        (plain, "value_head", {}, r"has no weights named v_head\."),
        (plain, "separator_token", {}, r"has no weights named score\."),
        (three, "separator_token", {}, r"score.weight \(3, 24\); it must lead from 24 numbers to 2"),
        (tmp_path / "nowhere", "step_tag", {}, r"there is no folder"),
    ]
    for folder, convention, options, message in refused:
        with pytest.raises(ReasonRLError, match=message) as caught:
            verifier(folder, convention, **options).warm_up()
        assert str(caught.value).startswith("verifier prm: model: ")
    trunk = tmp_path / "trunk"
    saved(trunk, auto=AutoModel)
    with pytest.raises(ReasonRLError, match=r"LlamaModel without lm_head.weight"):
        verifier(trunk, "step_tag").warm_up()


def test_a_separator_that_is_no_token_is_refused(tmp_path: Path) -> None:
    with_head(tmp_path, "score")
    with pytest.raises(ReasonRLError, match="has no token '<other>'"):
        verifier(tmp_path, "separator_token", mark="<other>").warm_up()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "convention"),
        ({"convention": "orm"}, "convention"),
        ({"convention": "value_head", "good": "yes"}, "only the convention step_tag has such tokens"),
        ({"convention": "step_tag", "good": "-"}, "the same token"),
        ({"convention": "step_tag", "steps": "separator"}, "take a separator"),
        ({"convention": "step_tag", "separator": "x"}, "take no separator"),
        ({"convention": "step_tag", "mark": ""}, "mark"),
    ],
)
def test_options_of_prm_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        PRMOptions.model_validate({"model": "m"} | options)
