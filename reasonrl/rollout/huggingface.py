"""The Hugging Face engine: samples with the trained model itself, on any device. Fastest for small models.

A problem's prompt is computed once and its KV cache handed to the whole group; responses leave the batch when they
are finished; every response draws from its own seed, so that it does not depend on what else is in the batch.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reasonrl.rollout.engine import Engine, Request, Sampling
from reasonrl.rollout.sampler import draw
from reasonrl.types import FinishReason, Rollout


@dataclass
class _Growing:
    """A response being sampled."""

    request: Request
    sample: int
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


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
        self.eos_ids = torch.tensor(sorted(eos_ids), device=model.device)
        self.pad_id = pad_id
        self.logits = logits
        self.max_batch = max_batch
        self.autocast = autocast
        self.version = 0

    def sample(self, requests: Sequence[Request], sampling: Sampling) -> Iterator[Rollout]:
        """Yield responses as they finish. Prompts of like length are decoded together.

        Raises:
            ValueError: a prompt is empty.
        """
        for request in requests:
            if not request.prompt_ids:
                raise ValueError(f"problem {request.problem_id}: the prompt is empty")
        chunk: list[Request] = []
        for request in sorted(requests, key=lambda r: len(r.prompt_ids)):
            if chunk and sum(len(r.seeds) for r in [*chunk, request]) > self.max_batch:
                yield from self._decode(chunk, sampling)
                chunk = []
            chunk.append(request)
        if chunk:
            yield from self._decode(chunk, sampling)

    def sync(self, weights: Iterator[tuple[str, Tensor]], version: int) -> None:
        """Copy the weights, unless they are this model's own already.

        Raises:
            KeyError: a name the model does not have. ValueError: a shape differs, or parameters are missing.
        """
        own = dict(self.model.named_parameters())
        missing = set(own)
        with torch.no_grad():
            for name, tensor in weights:
                if own[name].shape != tensor.shape:
                    raise ValueError(f"{name}: shape {tuple(tensor.shape)} for {tuple(own[name].shape)}")
                if own[name].data_ptr() != tensor.data_ptr():
                    own[name].copy_(tensor)
                missing.discard(name)
        if missing:
            raise ValueError(f"the sync left {len(missing)} parameters out, among them {min(missing)}")
        self.version = version

    def close(self) -> None:
        """Nothing to give back: the model belongs to the trainer."""

    @torch.no_grad()
    def _decode(self, requests: Sequence[Request], sampling: Sampling) -> Iterator[Rollout]:
        rows = [_Growing(request, j) for request in requests for j in range(len(request.seeds))]
        uniforms = np.stack([_uniforms(row.request.seeds[row.sample], sampling.max_tokens) for row in rows])
        device = self.model.device
        draws = torch.from_numpy(uniforms).to(device)
        hidden, cache, mask = self._prefill(requests)
        prompt_of_row = torch.tensor([i for i, r in enumerate(requests) for _ in r.seeds], device=device)
        cache.batch_select_indices(prompt_of_row)
        hidden, mask = hidden[prompt_of_row], mask[prompt_of_row]
        live = torch.arange(len(rows), device=device)  # rows still in the batch, by index into `rows`
        done = torch.zeros(len(rows), dtype=torch.bool, device=device)
        for position in range(sampling.max_tokens):
            with self.autocast():
                scores = self.logits(self.model, hidden)
            ids, logprobs = draw(scores, draws[live, position], sampling)
            ended = torch.isin(ids, self.eos_ids)
            finished = self._append(rows, live, done, ids, logprobs, ended, sampling, position)
            done = done.index_fill(0, torch.tensor(finished, dtype=torch.long, device=device), True)
            yield from (self._rollout(rows[i], sampling) for i in finished)
            keep = ~done[live]
            alive = int(keep.sum())
            if alive == 0:
                return
            if alive < 0.9 * len(live):  # gathering the cache costs about as much as one decoding step
                cache.batch_select_indices(keep.nonzero().squeeze(1))
                live, mask, ids = live[keep], mask[keep], ids[keep]
            mask = torch.cat([mask, mask.new_ones(len(live), 1)], dim=1)
            with self.autocast():
                hidden = self.model.base_model(
                    input_ids=ids[:, None],
                    attention_mask=mask,
                    position_ids=mask.sum(1, keepdim=True) - 1,
                    past_key_values=cache,
                    use_cache=True,
                ).last_hidden_state[:, -1]

    def _prefill(self, requests: Sequence[Request]) -> tuple[Tensor, Any, Tensor]:
        """Last hidden state (Q, H), KV cache and mask (Q, S) of the prompts, padded on the left."""
        width = max(len(r.prompt_ids) for r in requests)
        padded = [[self.pad_id] * (width - len(r.prompt_ids)) + list(r.prompt_ids) for r in requests]
        masked = [[0] * (width - len(r.prompt_ids)) + [1] * len(r.prompt_ids) for r in requests]
        mask = torch.tensor(masked, device=self.model.device)
        with self.autocast():
            output = self.model.base_model(
                input_ids=torch.tensor(padded, device=self.model.device),
                attention_mask=mask,
                position_ids=(mask.cumsum(1) - 1).clamp(min=0),
                use_cache=True,
            )
        return output.last_hidden_state[:, -1], output.past_key_values, mask

    def _append(
        self,
        rows: list[_Growing],
        live: Tensor,
        done: Tensor,
        ids: Tensor,
        logprobs: Tensor,
        ended: Tensor,
        sampling: Sampling,
        position: int,
    ) -> list[int]:
        """Add a token to every row that is not done; the rows that are finished with it."""
        last = position + 1 == sampling.max_tokens
        finished = []
        columns = (live.tolist(), done[live].tolist(), ids.tolist(), logprobs.tolist(), ended.tolist())
        for index, over, token, logprob, eos in zip(*columns, strict=True):
            if over:
                continue
            row = rows[index]
            row.ids.append(token)
            row.logprobs.append(logprob)
            if eos or last or (sampling.stop and self._stops(row.ids, sampling.stop)):
                finished.append(index)
        return finished

    def _stops(self, ids: list[int], stop: tuple[str, ...]) -> bool:
        # A stop text of n characters lies within the last n + 1 tokens, unless tokens decode to nothing; 8 to spare.
        tail = self.tokenizer.decode(ids[-(max(map(len, stop)) + 8) :], skip_special_tokens=True)
        return any(text in tail for text in stop)

    def _rollout(self, row: _Growing, sampling: Sampling) -> Rollout:
        text = self.tokenizer.decode(row.ids, skip_special_tokens=True)
        cuts = [at for stop in sampling.stop if (at := text.find(stop)) >= 0]
        ended = row.ids[-1] in set(self.eos_ids.tolist())
        reason: FinishReason = "stop" if ended or cuts else "length"
        return Rollout(
            problem_id=row.request.problem_id,
            sample=row.sample,
            prompt_ids=row.request.prompt_ids,
            response_ids=tuple(row.ids),
            logprobs=tuple(row.logprobs),
            text=text[: min(cuts)] if cuts else text,
            finish_reason=reason,
            version=self.version,
            seed=row.request.seeds[row.sample],
        )


def _uniforms(seed: int, count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The random draws of one response: Philox is counter-based, so a seed is a stream of its own."""
    return np.random.Generator(np.random.Philox(seed)).random(count)
