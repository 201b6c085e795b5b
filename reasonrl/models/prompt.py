"""A problem's prompt → token ids, by the tokenizer and, for chat, its template."""

from collections.abc import Sequence
from typing import Any

from reasonrl.errors import ReasonRLError
from reasonrl.types import Message


def prompt_ids(prompt: str | Sequence[Message], tokenizer: Any) -> tuple[int, ...]:
    """Token ids of a prompt; a chat prompt ends where the assistant begins to speak.

    Raises:
        ReasonRLError: the tokenizer has no chat template for a chat prompt, or the prompt has no tokens.
    """
    if isinstance(prompt, str):
        ids = _open_ended(tokenizer(prompt)["input_ids"], prompt, tokenizer)
    elif tokenizer.chat_template is None:
        raise ReasonRLError(
            "the task has a chat prompt, but the tokenizer has no chat template; set prompt.chat: false"
        )
    else:
        messages = [dict(message) for message in prompt]
        ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)["input_ids"]
    if not ids:
        raise ReasonRLError(f"the prompt {prompt!r} has no tokens")
    return tuple(ids)


def conversation_ids(prompt: str | Sequence[Message], response: str, tokenizer: Any) -> tuple[int, ...]:
    """Token ids of a prompt with a response to it, as a reward model reads them: a chat by the tokenizer's template,
    the response as the assistant's turn; a text simply continued.

    Raises:
        ReasonRLError: the tokenizer has no chat template for a chat prompt.
    """
    if isinstance(prompt, str):
        return tuple(tokenizer(prompt + response)["input_ids"])
    if tokenizer.chat_template is None:
        raise ReasonRLError(
            "the task has a chat prompt, but the reward model's tokenizer has no chat template; set prompt.chat: false"
        )
    messages = [*map(dict, prompt), {"role": "assistant", "content": response}]
    return tuple(tokenizer.apply_chat_template(messages, return_dict=True)["input_ids"])


def marked_ids(
    question: str, steps: Sequence[str], mark: str, tokenizer: Any
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Token ids of a solution as TRL's process reward models see it, and the place of each step's last one.

    BOS, the question, and each step with the mark behind it, each turned into tokens by itself.

    Raises:
        ReasonRLError: the tokenizer makes no token of the mark.
    """

    def tokens(text: str) -> list[int]:
        found: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
        return found

    closing = tokens(mark)
    if not closing:
        raise ReasonRLError(f"the tokenizer makes no token of the mark {mark!r}")
    bos = tokenizer.bos_token_id
    ids = [*([] if bos is None else [bos]), *tokens(question)]
    ends = []
    for step in steps:
        ids += [*tokens(step), *closing]
        ends.append(len(ids) - 1)
    return tuple(ids), tuple(ends)


def _open_ended(ids: list[int], prompt: str, tokenizer: Any) -> list[int]:
    """Without the end-of-sequence id that some tokenizers close every text with: the response comes first."""
    plain = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    added = _trailing(ids, tokenizer.eos_token_id) - _trailing(plain, tokenizer.eos_token_id)
    return ids[: len(ids) - max(0, added)]


def _trailing(ids: Sequence[int], token: int | None) -> int:
    return next((n for n, other in enumerate(reversed(ids)) if other != token), len(ids))


def check_length(problem_id: str, prompt_tokens: int, max_tokens: int, max_positions: int | None) -> None:
    """Does prompt and longest response fit into the model's context?

    Raises:
        ReasonRLError: it does not; says by how much, and what to change.
    """
    if max_positions is not None and prompt_tokens + max_tokens > max_positions:
        raise ReasonRLError(
            f"problem {problem_id}: the prompt has {prompt_tokens} tokens, with sampling.max_tokens {max_tokens} that "
            f"is beyond the model's {max_positions} positions; lower sampling.max_tokens, or leave such problems "
            "out of training with task.max_prompt_tokens"
        )


def response_ids(text: str, tokenizer: Any, eos_id: int) -> tuple[int, ...]:
    """Token ids of a demonstrated response, closed by the end-of-sequence id."""
    return (*tokenizer(text, add_special_tokens=False)["input_ids"], eos_id)
