"""How process reward models were trained to see a solution, and where and how the reward of a step is read.

| convention | text | read at | reward |
|---|---|---|---|
| token_classification (TRL's PRMTrainer) | BOS problem, each step with the mark behind it | the mark's last token | softmax[1] of two labels |
| step_tag (Math-Shepherd, arXiv 2312.08935) | problem, each step with the tag behind it, a line each | the tag | softmax[good] over good and bad |
| separator_token (Qwen2.5-Math-PRM, arXiv 2501.07301) | chat; each step with the token behind it | that token | softmax[1] of two classes |
| value_head (Skywork-o1-Open-PRM) | BOS problem, a line break, each step with the mark behind it | the mark | σ of one value |
"""  # noqa: E501  (a table)

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForTokenClassification

from reasonrl import Message, ReasonRLError
from reasonrl.models.heads import check_head, logits
from reasonrl.models.linear_heads import load_linear_head
from reasonrl.models.load import load_tokenizer
from reasonrl.models.prompt import marked_ids
from reasonrl.models.reward import batches, context_of, device_of, load_trained, pad_id_of, padded
from reasonrl_prm.options import PRMOptions

KEY = "verifier prm: model"


@dataclass(frozen=True)
class Marked:
    """A solution as token ids, and the position of each step's reward among them; as many as there are steps."""

    ids: tuple[int, ...]
    ends: tuple[int, ...]


class MarkInText(ValueError):
    """The text itself holds the mark, so that no step's end can be told."""


class Convention(ABC):
    """A model with a way of seeing steps. What is read of a step depends on nothing behind it: the models are causal.

    Class attributes:
        auto: the class of transformers that loads it.

    Raises:
        ReasonRLError: the model cannot be loaded, or was not trained in this convention.
    """

    auto: Any

    def __init__(self, options: PRMOptions) -> None:
        self.options = options
        self.tokenizer = load_tokenizer(options.model, options.revision, KEY)
        model = load_trained(self.auto, options.model, options.revision, options.dtype, options.attention, KEY)
        self.model = model.to(device_of(options.device, KEY)).eval()
        self.context = context_of(model.config, self.tokenizer, options.max_tokens, KEY)
        self._pad_id = pad_id_of(model.config, self.tokenizer)

    @abstractmethod
    def mark(self, messages: Sequence[Message], question: str, steps: Sequence[str]) -> Marked:
        """A problem (as messages and as text) and the steps of a solution. Raises MarkInText."""

    @abstractmethod
    def read(self, ids: Tensor, mask: Tensor, rows: Tensor, ends: Tensor) -> Tensor:
        """The rewards (N,) in 0 … 1 at N positions, (rows, ends), of a batch (B, L)."""

    @torch.no_grad()
    def rewards(self, solutions: Sequence[Marked]) -> list[list[float]]:
        """Of each solution, the rewards of its steps but those that end beyond the context."""
        ends = [self._within(one) for one in solutions]
        cut = [one.ids[: own[-1] + 1] if own else () for one, own in zip(solutions, ends, strict=True)]
        seen = [index for index, own in enumerate(ends) if own]
        found: list[list[float]] = [[] for _ in solutions]
        for chosen in batches([cut[index] for index in seen], self.options.batch_size):
            indices = [seen[one] for one in chosen]
            ids, mask = padded([cut[index] for index in indices], self._pad_id, self.model.device)
            places = [(row, end) for row, index in enumerate(indices) for end in ends[index]]
            rows, columns = torch.tensor(places, device=ids.device).T
            for (row, _), reward in zip(places, self.read(ids, mask, rows, columns).tolist(), strict=True):
                found[indices[row]].append(reward)
        return found

    def _within(self, one: Marked) -> tuple[int, ...]:
        return tuple(end for end in one.ends if self.context is None or end < self.context)

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def _apart(self, prompt: str, steps: Sequence[str]) -> Marked:
        """BOS, the prompt, and each step with the mark behind it; each turned into tokens by itself."""
        return Marked(*marked_ids(prompt, steps, self.options.step_mark, self.tokenizer))

    def _found(self, ids: Sequence[int], token: int, steps: Sequence[str]) -> Marked:
        """The places of a token, one for each step."""
        ends = tuple(index for index, one in enumerate(ids) if one == token)
        if len(ends) != len(steps):
            raise MarkInText(f"{len(steps)} steps, and the mark {self.options.step_mark!r} stands {len(ends)} times")
        return Marked(tuple(ids), ends)

    def _hidden(self, trunk: Any, ids: Tensor, mask: Tensor, rows: Tensor, ends: Tensor) -> Tensor:
        hidden: Tensor = trunk(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
        return hidden[rows, ends]


class TokenClassification(Convention):
    """A token classifier with two labels, as TRL's PRMTrainer makes it: label 1 is that of a good step."""

    auto = AutoModelForTokenClassification

    def __init__(self, options: PRMOptions) -> None:
        super().__init__(options)
        if self.model.config.num_labels != 2:
            raise ReasonRLError(
                f"{KEY}: {options.model} has {self.model.config.num_labels} labels for a token; this convention has "
                "two, 0 for a bad step and 1 for a good one"
            )

    def mark(self, messages: Sequence[Message], question: str, steps: Sequence[str]) -> Marked:
        """BOS problem step mark step mark …"""
        return self._apart(question, steps)

    def read(self, ids: Tensor, mask: Tensor, rows: Tensor, ends: Tensor) -> Tensor:
        """P(label 1)."""
        labels: Tensor = self.model(input_ids=ids, attention_mask=mask).logits[rows, ends]
        return labels.float().softmax(-1)[:, 1]


class StepTag(Convention):
    """A language model that says good or bad behind each tag, as Math-Shepherd's."""

    auto = AutoModelForCausalLM

    def __init__(self, options: PRMOptions) -> None:
        super().__init__(options)
        check_head(self.model)
        self._tag, *self._answers = (self._token(one) for one in (options.step_mark, options.good, options.bad))

    def mark(self, messages: Sequence[Message], question: str, steps: Sequence[str]) -> Marked:
        """problem step tag, then a line for each further step."""
        text = f"{question} " + "\n".join(f"{step} {self.options.step_mark}" for step in steps)
        return self._found(self.tokenizer(text)["input_ids"], self._tag, steps)

    def read(self, ids: Tensor, mask: Tensor, rows: Tensor, ends: Tensor) -> Tensor:
        """P(good) of what the model says next, good and bad being all there is."""
        hidden = self._hidden(self.model.base_model, ids, mask, rows, ends)
        return logits(self.model, hidden)[:, self._answers].float().softmax(-1)[:, 0]

    def _token(self, text: str) -> int:
        """The last one of a text: a tokenizer may put a token for the space before it."""
        ids = self._ids(text)
        if not ids or ids[-1] == self.tokenizer.unk_token_id:
            raise ReasonRLError(f"{KEY}: the tokenizer of {self.options.model} has no token for {text!r}")
        return ids[-1]


class WithHead(Convention):
    """A trunk, and a head of linear layers beside it in the checkpoint.

    Class attributes:
        prefix, outputs: of the head, see `load_linear_head`.
    """

    auto = AutoModel
    prefix: str
    outputs: int

    def __init__(self, options: PRMOptions) -> None:
        super().__init__(options)
        width = self.model.config.get_text_config().hidden_size
        head = load_linear_head(options.model, self.prefix, width, self.outputs, revision=options.revision, key=KEY)
        self.head: nn.Module = head.to(self.model.device)

    def scores(self, ids: Tensor, mask: Tensor, rows: Tensor, ends: Tensor) -> Tensor:
        """(N, outputs), in float32."""
        found: Tensor = self.head(self._hidden(self.model, ids, mask, rows, ends).float())
        return found


class SeparatorToken(WithHead):
    """A two-class head read at a special token behind each step, as Qwen2.5-Math-PRM's: class 1 is a good step."""

    prefix, outputs = "score", 2

    def __init__(self, options: PRMOptions) -> None:
        super().__init__(options)
        token = self.tokenizer.convert_tokens_to_ids(options.step_mark)
        if token is None or token == self.tokenizer.unk_token_id:
            raise ReasonRLError(f"{KEY}: the tokenizer of {options.model} has no token {options.step_mark!r}")
        if self.tokenizer.chat_template is None:
            raise ReasonRLError(
                f"{KEY}: the tokenizer of {options.model} has no chat template, as the convention needs"
            )
        self._token: int = token

    def mark(self, messages: Sequence[Message], question: str, steps: Sequence[str]) -> Marked:
        """The chat, with the steps as the assistant's turn, each followed by the token."""
        solution = "".join(f"{step}{self.options.step_mark}" for step in steps)
        chat = [*map(dict, messages), {"role": "assistant", "content": solution}]
        return self._found(self.tokenizer.apply_chat_template(chat, return_dict=True)["input_ids"], self._token, steps)

    def read(self, ids: Tensor, mask: Tensor, rows: Tensor, ends: Tensor) -> Tensor:
        """P(class 1)."""
        return self.scores(ids, mask, rows, ends).softmax(-1)[:, 1]


class ValueHead(WithHead):
    """A value head read at the mark behind each step, as Skywork-o1-Open-PRM's."""

    prefix, outputs = "v_head", 1

    def mark(self, messages: Sequence[Message], question: str, steps: Sequence[str]) -> Marked:
        r"""BOS problem "\n" step mark step mark …"""
        return self._apart(f"{question}\n", steps)

    def read(self, ids: Tensor, mask: Tensor, rows: Tensor, ends: Tensor) -> Tensor:
        """σ(value)."""
        return self.scores(ids, mask, rows, ends)[:, 0].sigmoid()


CONVENTIONS: dict[str, type[Convention]] = {
    "token_classification": TokenClassification,
    "step_tag": StepTag,
    "separator_token": SeparatorToken,
    "value_head": ValueHead,
}
