"""Prompts and demonstrations as token ids."""

import pytest
from small_models import EOS, tokenizer
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from reasonrl import ReasonRLError
from reasonrl.models.prompt import check_length, prompt_ids, response_ids

TEMPLATE = (
    "{% for message in messages %}{{ message.role[0] | replace('u', '0') | replace('s', '1') }}:{{ message.content }},"
    "{% endfor %}{% if add_generation_prompt %}2:{% endif %}"
)
UNKNOWN = 2


def text_of(ids: tuple[int, ...]) -> str:
    text: str = tokenizer().decode(list(ids))
    return text


def that_adds(template: str) -> PreTrainedTokenizerFast:
    """A tokenizer that puts special tokens around a text: `<unk> $A` to begin with, `$A <eos>` to close it."""
    made = tokenizer()
    made.backend_tokenizer.post_processor = TemplateProcessing(
        single=template, special_tokens=[("<unk>", UNKNOWN), ("<eos>", EOS)]
    )
    return made


def test_plain_text() -> None:
    assert prompt_ids("12+3=", tokenizer()) == (4, 5, 13, 6, 14)


def test_a_tokenizer_adds_its_first_token_to_prompts_only() -> None:
    made = that_adds("<unk> $A")
    assert prompt_ids("12", made) == (UNKNOWN, 4, 5)
    assert response_ids("12", made, EOS) == (4, 5, EOS)


def test_a_prompt_is_not_closed() -> None:
    made = that_adds("$A <eos>")
    assert prompt_ids("12", made) == (4, 5)
    assert prompt_ids("12<eos>", made) == (4, 5, EOS)  # the task's own
    assert response_ids("12", made, EOS) == (4, 5, EOS)


def test_chat_ends_where_the_assistant_begins() -> None:
    made = tokenizer()
    made.chat_template = TEMPLATE
    messages = ({"role": "system", "content": "7"}, {"role": "user", "content": "12"})
    assert text_of(prompt_ids(messages, made)) == "1:7,0:12,2:"  # type: ignore[arg-type]


def test_chat_takes_its_first_token_from_the_template_alone() -> None:
    made = that_adds("<unk> $A")
    made.chat_template = TEMPLATE
    assert UNKNOWN not in prompt_ids([{"role": "user", "content": "12"}], made)


def test_chat_without_a_template_is_an_error() -> None:
    with pytest.raises(ReasonRLError, match="no chat template"):
        prompt_ids([{"role": "user", "content": "12"}], tokenizer())


@pytest.mark.parametrize("template", ["$A", "$A <eos>"])
def test_a_prompt_without_tokens_is_an_error(template: str) -> None:
    with pytest.raises(ReasonRLError, match="'' has no tokens"):
        prompt_ids("", that_adds(template))


def test_prompt_and_response_must_fit() -> None:
    check_length("p", 10, 6, 16)
    check_length("p", 10, 10**9, None)
    with pytest.raises(ReasonRLError, match=r"problem p: the prompt has 11 tokens, .*max_tokens 6 .* 16 positions"):
        check_length("p", 11, 6, 16)
