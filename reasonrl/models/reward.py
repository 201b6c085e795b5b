"""Models that score text: loaded with heads that were trained, and run over texts of different lengths in batches."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForSequenceClassification
from transformers.utils import logging

from reasonrl.errors import ReasonRLError
from reasonrl.models.load import DTYPES, load_tokenizer, loading, switch_dropout_off

_NO_LIMIT = 10**9  # what tokenizers without a limit of their own say is more
_TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.1}  # of a score's two ways, relative to 1 + its size


@dataclass(frozen=True)
class RewardModel:
    """A sequence classifier of transformers with one logit.

    Attributes:
        model, tokenizer: of transformers.
        context: tokens of the longest text it takes; None if nothing says.
        pad_id: fills short rows; what stands there is read by nobody.
        reads_last: is its logit that of the last token? Else the model's own forward finds the place (BERT's [CLS]).
    """

    model: Any
    tokenizer: Any
    context: int | None
    pad_id: int
    reads_last: bool

    @torch.no_grad()
    def scores(self, rows: Sequence[Sequence[int]], batch_size: int) -> list[float]:
        """The logit of each row of token ids, in their order.

        Where the model reads the last token, that is the last of the row by its length. transformers looks for the
        last token that is not `pad_token_id`: without one it takes no batch at all, and where padding and end of
        sequence have one id it would read the token before the end.
        """
        found = [0.0] * len(rows)
        for chosen in batches(rows, batch_size):
            ids, mask = padded([rows[index] for index in chosen], self.pad_id, self.model.device)
            for index, score in zip(chosen, self._logits(ids, mask).tolist(), strict=True):
                found[index] = score
        return found

    def _logits(self, ids: Tensor, mask: Tensor) -> Tensor:
        """(B,), in float32."""
        if not self.reads_last:
            logits: Tensor = self.model(input_ids=ids, attention_mask=mask).logits
            return logits[:, 0].float()
        hidden = self.model.base_model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
        last = hidden[torch.arange(len(ids), device=ids.device), mask.sum(1) - 1]
        scores: Tensor = self.model.score(last)
        return scores[:, 0].float()


def load_reward_model(
    path: str,
    *,
    revision: str | None = None,
    dtype: str = "float32",
    device: str = "auto",
    attention: str = "sdpa",
    context: int | None = None,
    key: str = "model",
) -> RewardModel:
    """A reward model to ask for scores, in evaluation mode.

    Args:
        path, revision: a folder or hub id.
        dtype, device, attention: see `DTYPES` and `device_of`; attention as in transformers.
        context: tokens of the longest text, in place of what model and tokenizer say; at most that.
        key: where the path was given, for messages.

    Raises:
        ReasonRLError: it cannot be loaded, its head was never trained, it has more than one logit, or it finds its
            logit in a way unknown to us.
    """
    model = load_trained(AutoModelForSequenceClassification, path, revision, dtype, attention, key)
    if model.config.num_labels != 1:
        raise ReasonRLError(
            f"{key}: {path} gives {model.config.num_labels} logits for a text; a reward model gives one (num_labels 1)"
        )
    model.to(device_of(device, key)).eval()
    tokenizer = load_tokenizer(path, revision, key)
    longest = context_of(model.config, tokenizer, context, key)
    return RewardModel(model, tokenizer, longest, pad_id_of(model.config, tokenizer), _reads_last(model, path, key))


def load_trained(
    auto: Any, path: str, revision: str | None, dtype: str, attention: str, key: str, **settings: Any
) -> Any:
    """A model of transformers of which every weight is the checkpoint's, without dropout.

    Args:
        auto: the class of transformers that loads it, such as `AutoModelForSequenceClassification`.
        path, revision, dtype, attention: as in a run's `model`.
        key: where the path was given, for messages.
        settings: further ones of `from_pretrained`.

    Raises:
        ReasonRLError: it cannot be loaded, or lacks weights, which transformers would draw at random with a warning.
    """
    options = {"revision": revision, "dtype": DTYPES[dtype], "attn_implementation": attention} | settings
    with loading(path, key) as source, without_report():
        config = AutoConfig.from_pretrained(source, revision=revision)
        # use_safetensors: the other format is a pickle
        model, info = auto.from_pretrained(
            source, config=config, output_loading_info=True, use_safetensors=True, **options
        )
    if missing := sorted(info["missing_keys"]):
        saved = (config.architectures or ["model of no known kind"])[0]
        raise ReasonRLError(
            f"{key}: {path} is a {saved} without {', '.join(missing[:3])}{' …' if len(missing) > 3 else ''}, which "
            f"{type(model).__name__} needs: untrained weights would give random rewards; name a checkpoint that was "
            "trained to score"
        )
    switch_dropout_off(model)
    return model


@contextmanager
def without_report() -> Iterator[None]:
    """transformers warns of weights that a model does not read, as of a head that we read ourselves, and of those it
    lacks, which are an error here."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


def device_of(name: str, key: str = "device") -> torch.device:
    """A torch device; `auto` is the process's GPU if there is one, else the CPU.

    Raises:
        ReasonRLError: there is no such device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ReasonRLError(f"{key}: there is no device {name!r} here: {str(error).splitlines()[0]}") from None
    return device


def context_of(config: Any, tokenizer: Any, wanted: int | None, key: str) -> int | None:
    """Tokens of the longest text a model takes: by its config, by its tokenizer, and as wanted; None if nothing says.

    Raises:
        ReasonRLError: more is wanted than the model takes.
    """
    positions = getattr(config.get_text_config(), "max_position_embeddings", None)
    # A tokenizer knows better where some positions are no text's, as RoBERTa's first two.
    limits = [limit for limit in (positions, tokenizer.model_max_length) if limit is not None and limit < _NO_LIMIT]
    if wanted is not None and limits and wanted > min(limits):
        raise ReasonRLError(f"{key}: the model takes {min(limits)} tokens, not {wanted}; lower max_tokens")
    return wanted if wanted is not None else min(limits, default=None)


def pad_id_of(config: Any, tokenizer: Any) -> int:
    """The id that fills short rows behind the attention mask; any will do where a model has none."""
    known = (tokenizer.pad_token_id, config.get_text_config().pad_token_id)
    return next((pad for pad in known if pad is not None and pad >= 0), 0)


def batches(rows: Sequence[Sequence[int]], size: int) -> Iterator[list[int]]:
    """The rows' indices in batches of rows of like length, so that little is padded. The longest come first: where
    memory is too small it shows at once."""
    order = sorted(range(len(rows)), key=lambda index: -len(rows[index]))
    for start in range(0, len(order), size):
        yield order[start : start + size]


def padded(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Token ids (B, L), padded on the right, and their attention mask (B, L), both long."""
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[pad_id] * (longest - len(row))] for row in rows], device=device)
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows], device=device)
    return ids, mask


@torch.no_grad()
def _reads_last(model: Any, path: str, key: str) -> bool:
    """Is the logit that of the last token, as in all decoders of transformers, whose head is called `score`?"""
    if not isinstance(getattr(model, "score", None), nn.Linear):
        return False
    pad = model.config.get_text_config().pad_token_id
    ids = torch.tensor([[id_ for id_ in range(4) if id_ != pad][:3]], device=model.device)
    own = model(input_ids=ids).logits[0, 0].float()
    ours = model.score(model.base_model(input_ids=ids).last_hidden_state[:, -1])[0, 0].float()
    if abs(own - ours) > _TOLERANCE[model.dtype] * (1 + abs(own)):
        raise ReasonRLError(
            f"{key}: {path} is a {type(model).__name__}, whose score of a text is not that of its last token "
            f"({own:.3g}, not {ours:.3g}); please report the model"
        )
    return True
