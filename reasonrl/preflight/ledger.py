"""Bytes of the tensors that a computation on torch's meta device would hold: shapes alone, no memory and no arithmetic.

The real code of model, loss and optimiser runs on tensors without data; every storage made meanwhile is entered when it
appears and struck off when the last tensor on it is gone, as an allocator would see it. Where code asks for data, the
answer is that every mask is full: no padding, the largest a batch of this shape can be.
"""

import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten
from transformers import AttentionInterface, AttentionMaskInterface

NAME = "reasonrl_ledger"
_aten = torch.ops.aten


class Ledger(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's registration is not typed
    """While it is entered, counts the bytes of new storages on the meta device.

    Args:
        kind: names what a tensor is, as it is made, given its shape.

    Attributes:
        live: bytes that are held now, by kind.
        peak: the same when they were most.
    """

    def __init__(self, kind: Callable[[tuple[int, ...]], str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._kind = kind
        self._known: set[int] = set()
        self.live: Counter[str] = Counter()
        self.peak: Mapping[str, int] = {}
        self._most = self._now = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and enter what it made."""
        answer = self._unknown(func, args)
        found = func(*args, **(kwargs or {})) if answer is None else answer
        for one in tree_flatten(found)[0]:
            if isinstance(one, Tensor) and one.device.type == "meta":
                self._enter(one)
        return found

    def keep(self, tensors: Sequence[Tensor]) -> None:
        """These were there before, and do not count."""
        self._known.update(one.untyped_storage()._cdata for one in tensors)

    def _enter(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self._known:
            return
        self._known.add(key)
        kind = self._kind(tuple(tensor.shape))
        weakref.finalize(storage, self._strike, key, kind, size)
        self.live[kind] += size
        self._now += size
        if self._now > self._most:
            self._most, self.peak = self._now, dict(self.live)

    def _strike(self, key: int, kind: str, size: int) -> None:
        self._known.discard(key)
        self.live[kind] -= size
        self._now -= size

    def _unknown(self, func: Any, args: Any) -> Any:
        """What depends on data: all masks are full, and no number is missing."""
        if func in (_aten._local_scalar_dense.default, _aten.is_nonzero.default, _aten.equal.default):
            return True if args[0].dtype == torch.bool or func is not _aten._local_scalar_dense.default else 1.0
        if func is _aten.index.Tensor and _is_mask(args[1]):
            mask, given = args[1][0], args[0]
            return given.new_empty((mask.numel(), *given.shape[mask.dim() :]))
        if func in (_aten.index_put_.default, _aten._index_put_impl_.default) and _is_mask(args[1]):
            return args[0]
        if func is _aten.index_put.default and _is_mask(args[1]):
            return torch.empty_like(args[0])
        return None


def _is_mask(indices: Sequence[Tensor | None]) -> bool:
    return len(indices) == 1 and indices[0] is not None and indices[0].dtype == torch.bool


def _attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, None]:
    """What a fused kernel holds: queries, keys, values and its output, no scores. On the meta device sdpa would not."""
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = (states.repeat_interleave(groups, dim=1) for states in (key, value))
    output, _ = _aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, 0.0, False)
    return output.transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, _attention)
AttentionMaskInterface.register(NAME, lambda *args, **kwargs: None)


@contextmanager
def fused_attention(model: Any, *, scores: bool = False) -> Iterator[None]:
    """Let a model on the meta device attend as a fused kernel does, where it does so in earnest; or hold all scores."""
    own = model.config._attn_implementation
    if own != "eager":
        model.config._attn_implementation = "eager" if scores else NAME
    try:
        yield
    finally:
        model.config._attn_implementation = own
