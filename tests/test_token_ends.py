"""Steps of a response, mapped to the tokens with which they are complete."""

import time
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from step_texts import PIECES, REPLACEMENT, TEXTS, spans
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

import reasonrl.steps as steps_module
from reasonrl.models.tiny import character_tokenizer
from reasonrl.rollout.engine import Request
from reasonrl.rollout.finished import decoded, finished_rollout
from reasonrl.steps import Decode, split_steps, token_ends

EOS = "<eos>"
CORPUS = [
    "Step 1: add the two numbers, 17 + 25 = 42.\n\nStep 2: so the answer is 42.\n",
    "def add(a, b):\n    return a + b  # plus\n\n\nprint(add(2, 3))\n",
    "你好，世界。数学很有趣。\n第一步：相加。\n",
    "naïve café, cafe\N{COMBINING ACUTE ACCENT} 🙂🙂 👩\u200d👩\u200d👧 🇩🇪🇫🇷 ok\n",
] * 4


def fast(tokenizer: Tokenizer, **settings: Any) -> PreTrainedTokenizerFast:
    settings = {"eos_token": EOS, "clean_up_tokenization_spaces": False} | settings
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **settings)


def byte_level() -> PreTrainedTokenizerFast:
    """Byte-level BPE, as of GPT-2, Llama 3 and Qwen; the few merges leave most characters in pieces."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=330, show_progress=False, initial_alphabet=alphabet, special_tokens=[AddedToken(EOS)]
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return fast(tokenizer)


def byte_fallback() -> PreTrainedTokenizerFast:
    """SentencePiece's way, as of Llama 2 and Gemma: ▁ for a space, the first one stripped; bytes for what is unknown.

    A run of bytes decodes to its characters or, if any of it is none, every byte of it to U+FFFD.
    """
    pieces = [
        "<unk>",
        EOS,
        *(f"<0x{byte:02X}>" for byte in range(256)),
        *"▁ab.,1=S\n好",
        "▁▁",
        "▁a",
        "b▁",
        "ab",
        "好，",
    ]
    tokenizer = Tokenizer(models.Unigram([(piece, -float(i)) for i, piece in enumerate(pieces)], 0, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    strip = decoders.Strip(" ", 1, 0)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), strip])
    tokenizer.add_special_tokens([AddedToken(EOS, special=True)])
    return fast(tokenizer, unk_token="<unk>")


def clean_up() -> PreTrainedTokenizerFast:
    """Words with spaces between them, of which decoding takes those before full stops and such back."""
    words = ["<unk>", EOS, "a", "b", ".", ",", "'", "'s", "n't", "do", "?", "好", "🙂", REPLACEMENT]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return fast(tokenizer, unk_token="<unk>", clean_up_tokenization_spaces=True)


TOKENIZERS: dict[str, PreTrainedTokenizerFast] = {
    "byte_level": byte_level(),
    "byte_fallback": byte_fallback(),
    "clean_up": clean_up(),
    "character": character_tokenizer("".join(sorted({*"".join(PIECES), *"".join(CORPUS)}))),
}


def decode_of(name: str) -> Decode:
    """What made the text of every rollout."""
    return lambda ids: decoded(TOKENIZERS[name], ids)


def encoded(name: str, text: str) -> list[int]:
    ids: list[int] = TOKENIZERS[name].encode(text, add_special_tokens=False)
    return ids


def brute_force(ids: Sequence[int], text: str, ends: Iterable[int], decode: Decode) -> list[int]:
    """The definition, with every prefix decoded."""
    prefixes = [decode(ids[: count + 1]) for count in range(len(ids))]

    def one(end: int) -> int:
        first = next(t for t, prefix in enumerate(prefixes) if prefix.startswith(text[:end]))
        if not text[:end].endswith(REPLACEMENT):
            return first
        same = [t for t, prefix in enumerate(prefixes) if prefix == text[:end]]
        while len(same) > 1 and same[-2] == same[-1] - 1 and decode([ids[same[-1]]]) == "":
            same.pop()
        following = same[-1] + 1 if same else len(ids)
        if following < len(ids) and prefixes[following].startswith(text[:end]):
            inside = len(decode([ids[following]])) > len(prefixes[following]) - end
            return following if inside else same[-1]
        return same[-1] if same else first

    return [one(end) for end in ends]


@pytest.mark.parametrize("name", sorted(TOKENIZERS))
@given(data=st.data())
@settings(deadline=None, max_examples=150)
def test_ends_are_those_of_the_definition(name: str, data: st.DataObject) -> None:
    """Texts encoded, random tokens, both with ends of sequence in them, cut anywhere: mid-character, mid-run."""
    vocabulary = st.integers(0, len(TOKENIZERS[name]) - 1)
    pieces = st.lists(TEXTS.map(lambda text: encoded(name, text)) | st.lists(vocabulary, max_size=40), max_size=3)
    ids = data.draw(pieces.map(lambda parts: [i for part in parts for i in part]).filter(len))
    ids = ids[: data.draw(st.integers(1, len(ids)))]
    decode = decode_of(name)
    text = decode(ids)
    text = text[: data.draw(st.integers(0, len(text)))] if data.draw(st.booleans()) else text  # a stop string
    ends = [*data.draw(st.lists(st.integers(0, len(text)), max_size=8)), len(text)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps_module, "_CHUNK", data.draw(st.sampled_from([1, 2, 5, 32])))
        found = token_ends(ids, text, ends, decode)
    assert list(found) == brute_force(ids, text, ends, decode)


@given(TEXTS.filter(len), st.booleans())
@settings(deadline=None, max_examples=150)
def test_ends_are_where_the_last_byte_of_each_character_is(text: str, ended: bool) -> None:
    """Byte-level tokens are bytes, so the true end of every character is known, of a written U+FFFD as well."""
    tokenizer = TOKENIZERS["byte_level"]
    ids = encoded("byte_level", text)
    sizes = [len(token) for token in tokenizer.convert_ids_to_tokens(ids)]  # a letter of a token stands for a byte
    token_of_byte = [index for index, size in enumerate(sizes) for _ in range(size)]
    bytes_until = list(accumulate(len(character.encode()) for character in text))
    expected = [token_of_byte[count - 1] for count in bytes_until]
    ids += encoded("byte_level", EOS) if ended else []
    assert list(token_ends(ids, text, range(1, len(text) + 1), decode_of("byte_level"))) == expected


def test_characters_of_the_character_tokenizer_are_tokens() -> None:
    text = "1+1=2\n你好 👩\u200d👩\u200d👧"
    ids = [*encoded("character", text), *encoded("character", EOS)]
    assert token_ends(ids, text, range(len(text) + 1), decode_of("character")) == (0, *range(len(text)))


def token_ids(name: str, *tokens: str) -> list[int]:
    ids: list[int] = TOKENIZERS[name].convert_tokens_to_ids(list(tokens))
    assert TOKENIZERS[name].convert_ids_to_tokens(ids) == list(tokens), "the vocabulary lacks one of them"
    return ids


BYTES = ("<0xF0>", "<0x9F>", "<0x99>", "<0x82>")  # 🙂


@pytest.mark.parametrize(
    ("name", "tokens", "ends", "expected"),
    [
        # "b" ends the first step and the space after it begins the second, in one token.
        ("byte_fallback", ("▁a", "b▁", "a"), [1, 2, 3, 4], [0, 1, 1, 2]),
        # The space of the first word is stripped, that of the second is not.
        ("byte_fallback", ("▁a", "▁a"), [1, 2, 3], [0, 1, 1]),
        ("byte_fallback", ("a", *BYTES, "b"), [1, 2, 3], [0, 4, 5]),
        # The run is whole after 🙂, broken by the next byte, and whole again: 🙂 is complete with its own last byte.
        ("byte_fallback", (*BYTES, *BYTES), [1, 2], [3, 7]),
        # Cut in mid-character: each byte is a U+FFFD, and the last step ends with the last token.
        ("byte_fallback", ("a", *BYTES[:3]), [1, 4], [0, 3]),
        # U+FFFD itself, in bytes: one of them alone decodes to the same.
        ("byte_fallback", ("<0xEF>", "<0xBF>", "<0xBD>", "a"), [1, 2], [2, 3]),
        ("byte_level", ("a", "ð", "Ł"), [1, 2], [0, 2]),
        ("byte_level", ("a", "ð", "Ł", EOS), [1, 2], [0, 2]),
        # A byte that begins a character and one that does not go on with it: a U+FFFD and the next token.
        ("byte_level", ("ð", "a"), [1, 2], [0, 1]),
        ("byte_level", ("½", "½", "a"), [1, 2, 3], [0, 1, 2]),
        ("clean_up", ("a", ".", "do", "n't", "'s"), [1, 2, 5, 8, 10], [0, 1, 2, 3, 4]),
        # An end of sequence that decodes to nothing completes nothing.
        ("byte_level", (EOS, "a", EOS, "b", EOS), [0, 1, 2], [0, 1, 3]),
    ],
)
def test_ends_by_hand(name: str, tokens: tuple[str, ...], ends: list[int], expected: list[int]) -> None:
    ids, decode = token_ids(name, *tokens), decode_of(name)
    assert list(token_ends(ids, decode(ids), ends, decode)) == expected
    assert brute_force(ids, decode(ids), ends, decode) == expected


def test_a_token_that_ends_two_characters_of_which_the_first_is_a_replacement() -> None:
    """The piece of a vocabulary that straddles U+FFFD and the next letter completes both."""
    pieces = {0: b"\xef", 1: b"\xbf\xbdA", 2: b"A", 3: b"\x80"}

    def decode(ids: Sequence[int]) -> str:
        return b"".join(pieces[i] for i in ids).decode(errors="replace")

    assert token_ends([0, 1], "�A", [1, 2], decode) == (1, 1)
    assert token_ends([0, 2], "�A", [1, 2], decode) == (0, 1)
    assert token_ends([3, 2], "�A", [1, 2], decode) == (0, 1)


@pytest.mark.parametrize(
    ("text", "ended", "stop", "found"),
    [
        ("Step 1: 🙂\n\nStep 2: 42.", True, (), ["Step 1: 🙂", "Step 2: 42."]),
        ("Step 1: 🙂\n\nStep 2: 42.", False, (), ["Step 1: 🙂", "Step 2: 42."]),
        ("Step 1: a\n\nStep 2: b\nprint", False, ("\nprint",), ["Step 1: a", "Step 2: b"]),
        ("Step 1: a\n\nstop", False, ("stop",), ["Step 1: a"]),
        ("stop", False, ("stop",), []),
    ],
)
@pytest.mark.parametrize("name", ["byte_level", "byte_fallback", "character"])
def test_the_steps_of_a_rollout(name: str, text: str, ended: bool, stop: tuple[str, ...], found: list[str]) -> None:
    tokenizer, decode = TOKENIZERS[name], decode_of(name)
    ids = [*encoded(name, text), *([tokenizer.eos_token_id] if ended else [])]
    rollout = finished_rollout(
        Request("p", (1,), (0,)), 0, ids, [0.0] * len(ids),
        tokenizer=tokenizer, eos_ids=[tokenizer.eos_token_id], stop=stop, version=0, seed=0,
    )  # fmt: skip
    steps = split_steps(rollout.text, "numbered")
    assert spans(rollout.text, steps) == found
    ends = token_ends(rollout.response_ids, rollout.text, [step.end for step in steps], decode)
    for step, end in zip(steps, ends, strict=True):
        assert decode(ids[: end + 1]).startswith(rollout.text[: step.end])
        assert not decode(ids[:end]).startswith(rollout.text[: step.end])


def test_a_last_step_cut_in_mid_character_ends_with_the_last_token() -> None:
    ids = encoded("byte_level", "Step 1: a\n\nStep 2: 𝔸")[:-1]
    text = decode_of("byte_level")(ids)
    steps = split_steps(text, "paragraphs")
    assert spans(text, steps) == ["Step 1: a", "Step 2: �"]
    assert token_ends(ids, text, [steps[-1].end], decode_of("byte_level")) == (len(ids) - 1,)


def test_pieces_that_make_up_another_text_are_not_trusted() -> None:
    """Every prefix is decoded where the text of a token depends on all before it."""

    def decode(ids: Sequence[int]) -> str:
        return "".join(chr(97 + (i + at) % 26) for at, i in enumerate(ids))

    ids = [0] * 200
    assert token_ends(ids, decode(ids), [1, 100, 200], decode) == (0, 99, 199)


@pytest.mark.parametrize(
    ("ids", "text", "ends", "message"),
    [
        ([5, 6], "ab", [1, 3], "a step ends at character 3 of a text of 2"),
        ([5, 6], "ab", [-1], "a step ends at character -1 of a text of 2"),
        ([5, 6], "xy", [1], "the tokens decode to another text than 'xy'"),
        ([], "", [0], "a response without tokens has no steps"),
    ],
)
def test_ends_that_cannot_be(ids: list[int], text: str, ends: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        token_ends(ids, text, ends, lambda ids: "".join(chr(92 + i) for i in ids))


def test_no_ends_of_no_steps() -> None:
    assert token_ends([], "", [], decode_of("character")) == ()
    assert token_ends([5], "ab", [], decode_of("character")) == ()


@pytest.mark.parametrize("text", ["Step 2: so 17 + 25 = 42.\n\n你好 🙂 " * 200, "🙂" * 1000])
@pytest.mark.parametrize("name", ["byte_level", "byte_fallback"])
def test_a_long_response_is_decoded_in_small_pieces(name: str, text: str) -> None:
    ids = encoded(name, text)
    tokens: list[int] = []

    def decode(part: Sequence[int]) -> str:
        tokens.append(len(part))
        return decoded(TOKENIZERS[name], part)

    ends = [step.end for step in split_steps(text, "paragraphs")]
    start = time.monotonic()
    assert token_ends(ids, decode_of(name)(ids), ends, decode)[-1] <= len(ids) - 1
    assert sum(tokens) < 100 * len(ids)  # every prefix would be more than 1000 per token
    assert time.monotonic() - start < 20
