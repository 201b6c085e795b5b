"""The Hugging Face engine: samples with the trained model itself, on any device. Fastest for small models.

A problem's prompt is computed once and its KV cache handed to the whole group; responses leave the batch when they
are finished; every response draws from its own seed, so that it does not depend on what else is in the batch.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reasonrl.rollout.decoding import Decoder, survivors
from reasonrl.rollout.engine import Engine, Request, Sampling
from reasonrl.rollout.finished import decoded, finished_rollout
from reasonrl.rollout.sampler import draw
from reasonrl.types import Rollout


@dataclass(frozen=True)
class _Row:
    """One response to sample."""

    request: Request
    sample: int

    @property
    def seed(self) -> int:
        return self.request.seeds[self.sample]


class HuggingFaceEngine(Engine):
    """Samples from a causal language model of transformers.

    Args:
        model: the model. If it is the trainer's own, `sync` has nothing to copy.
        tokenizer: decodes responses.
        eos_ids: ids that end a response.
        pad_id: fills shorter prompts.
        logits: the model's head, from hidden states (…, H) to logits (…, V).
        max_batch: most responses decoded at once.
        autocast: makes the context of mixed precision, as the trainer uses it.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        eos_ids: Sequence[int],
        pad_id: int,
        logits: Callable[[Any, Tensor], Tensor],
        max_batch: int = 256,
        autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.eos_ids = frozenset(eos_ids)
        self._eos_tensor = torch.tensor(sorted(self.eos_ids), dtype=torch.long, device=model.device)
        self.pad_id = pad_id
        self.logits = logits
        self.max_batch = max_batch
        self.autocast = autocast
        self.version = 0

    def sample(self, requests: Sequence[Request], sampling: Sampling) -> Iterator[Rollout]:
        """Yield responses as they finish. Prompts of like length are decoded together.

        Raises:
            ValueError: a prompt is empty.
            ReasonRLError: the model gives logits that are not finite, or keeps no KV cache.
        """
        for request in requests:
            if not request.prompt_ids:
                raise ValueError(f"problem {request.problem_id}: the prompt is empty")
        for rows in _batches(requests, self.max_batch):
            yield from self._decode(rows, sampling)

    def sync(self, weights: Iterator[tuple[str, Tensor]], version: int) -> None:
        """Copy the weights, unless they are this model's own already. Tied parameters may come under any name.

        Raises:
            KeyError: a name the model does not have.
            ValueError: a shape differs, or parameters are missing. What came before has been copied by then.
        """
        own = dict(self.model.named_parameters(remove_duplicate=False))
        missing = {id(parameter): name for name, parameter in own.items()}
        with torch.no_grad():
            for name, tensor in weights:
                if name not in own:
                    raise KeyError(f"the engine's model has no parameter {name}")
                if own[name].shape != tensor.shape:
                    raise ValueError(f"{name}: shape {tuple(tensor.shape)} for {tuple(own[name].shape)}")
                if own[name].data_ptr() != tensor.data_ptr():
                    own[name].copy_(tensor)
                missing.pop(id(own[name]), None)
        if missing:
            raise ValueError(f"the sync left {len(missing)} parameters out, among them {min(missing.values())}")
        self.version = version

    def close(self) -> None:
        """Nothing to give back: the model belongs to the trainer."""

    @torch.no_grad()
    def _decode(self, rows: Sequence[_Row], sampling: Sampling) -> Iterator[Rollout]:
        """Sample a batch of responses together."""
        decoder, device = self._decoder(rows, sampling), self.model.device
        draws = torch.from_numpy(_uniforms([row.seed for row in rows], sampling)).to(device)
        ids = torch.empty(draws.shape, dtype=torch.long, device=device)
        logprobs = torch.empty(draws.shape, device=device)
        for position in range(sampling.max_tokens):
            live, so_far = decoder.live, position + 1
            with self.autocast():
                scores = self.logits(self.model, decoder.hidden)
            new, chosen = draw(scores, draws[live, position], sampling)
            ids[live, position], logprobs[live, position] = new, chosen.float()
            ended = self._ended(new, ids[live, :so_far], sampling)
            if ended.any():
                done = live[torch.from_numpy(ended).to(device)]
                columns = (done.tolist(), ids[done, :so_far].tolist(), logprobs[done, :so_far].tolist())
                for index, row_ids, row_logprobs in zip(*columns, strict=True):
                    yield self._rollout(rows[index], row_ids, row_logprobs, sampling.stop)
                order = torch.from_numpy(survivors(ended)).to(device)
                if len(order) == 0:
                    return
                decoder.keep(order)
                new = new[order]
            decoder.feed(new)

    def _decoder(self, rows: Sequence[_Row], sampling: Sampling) -> Decoder:
        # Requests are told apart by identity: two may share a problem and a prompt.
        position = {key: at for at, key in enumerate(dict.fromkeys(id(row.request) for row in rows))}
        prompts = {id(row.request): row.request.prompt_ids for row in rows}
        return Decoder(
            self.model,
            list(prompts.values()),
            [position[id(row.request)] for row in rows],
            max_tokens=sampling.max_tokens,
            pad_id=self.pad_id,
            autocast=self.autocast,
        )

    def _ended(self, new: Tensor, ids: Tensor, sampling: Sampling) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which rows (n,) are finished, after ids (n, tokens so far) that end in `new` (n,)."""
        if ids.shape[1] == sampling.max_tokens:
            return np.ones(len(ids), dtype=np.bool_)
        ended: np.ndarray[Any, np.dtype[np.bool_]] = torch.isin(new, self._eos_tensor).cpu().numpy()
        if sampling.stop:
            ended = ended | [self._stops(row, sampling.stop) for row in ids.tolist()]
        return ended

    def _stops(self, ids: list[int], stop: tuple[str, ...]) -> bool:
        # A stop text of n characters lies within the last n + 1 tokens, unless tokens decode to nothing; 8 to spare.
        # The tail decodes like the whole but for its first characters, so the whole has the last word.
        tail = ids[-(max(map(len, stop)) + 8) :]
        return all(any(text in decoded(self.tokenizer, part) for text in stop) for part in (tail, ids))

    def _rollout(self, row: _Row, ids: list[int], logprobs: list[float], stop: tuple[str, ...]) -> Rollout:
        return finished_rollout(
            row.request,
            row.sample,
            ids,
            logprobs,
            tokenizer=self.tokenizer,
            eos_ids=self.eos_ids,
            stop=stop,
            version=self.version,
            seed=row.seed,
        )


def _batches(requests: Sequence[Request], max_batch: int) -> Iterator[list[_Row]]:
    """Rows with like prompt lengths, at most `max_batch` together; a request's rows are cut only if they must be."""
    batch: list[_Row] = []
    for request in sorted(requests, key=lambda r: len(r.prompt_ids)):
        rows = [_Row(request, sample) for sample in range(len(request.seeds))]
        if batch and len(batch) + len(rows) > max_batch:
            yield batch
            batch = []
        while len(rows) > max_batch:
            yield rows[:max_batch]
            rows = rows[max_batch:]
        batch += rows
    if batch:
        yield batch


def _uniforms(seeds: Sequence[int], sampling: Sampling) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The random draws (B, max_tokens) of the responses, in [0, 1); greedy sampling draws nothing."""
    if sampling.temperature == 0:
        return np.zeros((len(seeds), sampling.max_tokens))
    # Philox is counter-based: every key is a stream of its own.
    return np.stack([np.random.Generator(np.random.Philox(key=seed)).random(sampling.max_tokens) for seed in seeds])
