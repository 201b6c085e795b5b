"""What every trainer does to a model: one optimiser step from micro-batch losses, over one process or several.

Gradients are summed over micro-batches and then over processes, and every loss is a share of the global batch's loss
(`algorithms.aggregation`), so that the same global batch gives the same update however it is cut or spread. That is
why the model is not wrapped in DistributedDataParallel: it averages, and wants the same number of forwards everywhere.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import Tensor

from reasonrl.config import OptimizerConfig
from reasonrl.errors import ReasonRLError

Item = TypeVar("Item")


@dataclass(frozen=True)
class Update:
    """One optimiser step.

    Attributes:
        loss: of the global batch.
        grad_norm: L2 norm of the gradient before clipping.
        learning_rate: it was taken with.
        applied: False if loss or gradient was not finite, or the step was refused, and the parameters were left as they
            were.
        refused: was it computed, and not wanted then?
    """

    loss: float
    grad_norm: float
    learning_rate: float
    applied: bool
    refused: bool = False


class Session:
    """A model, its optimiser and schedule, and the processes it is trained on.

    Args:
        model: the trained model, on the accelerator's device, in evaluation mode, its parameters the same everywhere.
        accelerator: device, mixed precision and processes.
        config: optimiser, schedule, clipping.
        updates: optimiser steps of the whole training, for the schedule.
        head: parameters trained with the model that are none of it.
        cure: what to do where one update after the other is not finite.

    Attributes:
        done: updates so far, those included that were skipped or had nothing to learn from.
        skipped: updates that were not finite.
        skipped_in_a_row: so many of them in a row, up to now.
        parameters: what is trained.
        names: of the parameters, in the same order.
    """

    def __init__(
        self,
        model: Any,
        accelerator: Accelerator,
        config: OptimizerConfig,
        updates: int,
        head: Sequence[Tensor] = (),
        cure: str = "lower optimizer.learning_rate",
    ) -> None:
        self.model = model
        self.accelerator = accelerator
        self.config = config
        self.updates = updates
        self._cure = cure
        self.done = 0
        self.skipped = 0
        self.skipped_in_a_row = 0
        named = [*model.named_parameters(), *((f"head.{index}", part) for index, part in enumerate(head))]
        self.parameters = [p for _, p in named if p.requires_grad]
        self.names = [name for name, p in named if p.requires_grad]
        self.optimizer = torch.optim.AdamW(
            self.parameters,
            lr=config.learning_rate,
            betas=config.betas,
            eps=config.epsilon,
            weight_decay=config.weight_decay,
        )

    @property
    def learning_rate(self) -> float:
        """The rate of the next update."""
        return self.config.learning_rate * rate_factor(self.done, self.updates, self.config)

    def update(self, losses: Iterable[Tensor], wanted: Callable[[], bool] = lambda: True) -> Update:
        """Backward each micro-batch's share of the loss as it comes, sum gradients over processes, step.

        All processes must call this together; one without micro-batches gives an empty iterable. `wanted` is asked when
        all losses have been computed, and must say the same on all processes.

        Raises:
            ReasonRLError: `max_nonfinite` updates in a row had a non-finite loss or gradient.
        """
        loss = self.sum(self._backward(losses))
        self._sum_gradients()
        norm = float(torch.nn.utils.clip_grad_norm_(self.parameters, self.config.max_grad_norm))
        # Loss and gradient are sums over processes: what is not finite on one is not finite on all, and all skip.
        finite = math.isfinite(loss) and math.isfinite(norm)
        rate, refused = self.learning_rate, finite and not wanted()
        if finite and not refused:
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.done += 1
        self.count(finite, loss, norm)
        return Update(loss=loss, grad_norm=norm, learning_rate=rate, applied=finite and not refused, refused=refused)

    def pass_over(self) -> None:
        """Move the schedule on past an update that has nothing to learn from."""
        self.done += 1

    def sum(self, value: float) -> float:
        """The sum of a number over all processes (float64)."""
        if self.accelerator.num_processes == 1:
            return value
        tensor = torch.tensor(value, dtype=torch.float64, device=self.accelerator.device)
        total: Tensor = self.accelerator.reduce(tensor, reduction="sum")
        return total.item()

    def sum_tensor(self, tensor: Tensor) -> Tensor:
        """The sum of a tensor over all processes, on the device it is on."""
        if self.accelerator.num_processes == 1:
            return tensor
        total: Tensor = self.accelerator.reduce(tensor.to(self.accelerator.device), reduction="sum")
        return total.to(tensor.device)

    def max(self, value: float) -> float:
        """The largest of a number over all processes (float64); NaN if it is NaN on one."""
        if self.accelerator.num_processes == 1:
            return value
        tensor = torch.tensor([value], dtype=torch.float64, device=self.accelerator.device)
        gathered: Tensor = self.accelerator.gather(tensor)
        return gathered.max().item()

    def _backward(self, losses: Iterable[Tensor]) -> float:
        """Accumulate this process's gradients; its share of the loss."""
        # transformers checkpoints activations in training mode only, and in that mode without a KV cache, which the
        # sampler needs. The modes differ in nothing else: dropout is off.
        self.model.train(bool(getattr(self.model, "is_gradient_checkpointing", False)))
        total = 0.0
        for loss in losses:
            self.accelerator.backward(loss)
            total += loss.item()
        self.model.eval()
        return total

    def _sum_gradients(self) -> None:
        for parameter in self.parameters:
            # A parameter without a gradient is left alone by AdamW, one with gradient 0 decays: a process that has
            # nothing to learn from must not differ from the others, nor one process from two.
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        if self.accelerator.num_processes == 1:
            return
        flat = torch.cat([p.grad.flatten() for p in self.parameters if p.grad is not None])
        flat = self.accelerator.reduce(flat, reduction="sum")
        for parameter, part in zip(self.parameters, flat.split([p.numel() for p in self.parameters]), strict=True):
            parameter.grad = part.view_as(parameter).to(parameter.dtype)  # with a float32 head, all are summed in it

    def count(self, finite: bool, loss: float, norm: float) -> None:
        """Count an update that was finite, or was not and has been skipped.

        Raises:
            ReasonRLError: `max_nonfinite` in a row were not.
        """
        self.skipped_in_a_row = 0 if finite else self.skipped_in_a_row + 1
        self.skipped += not finite
        if self.skipped_in_a_row >= self.config.max_nonfinite:
            raise ReasonRLError(
                f"{self.skipped_in_a_row} updates in a row had a non-finite loss ({loss}) or gradient norm ({norm}); "
                f"all were skipped. To go on, {self._cure}, or train in float32 (model.dtype, precision)"
            )


def gather(accelerator: Accelerator, items: Sequence[Item]) -> list[Item]:
    """The items of all processes, on all of them, process by process."""
    if accelerator.num_processes == 1:
        return list(items)
    gathered: list[Item] = gather_object(list(items))
    return gathered


def rate_factor(done: int, updates: int, config: OptimizerConfig) -> float:
    """The share of the peak learning rate after `done` of `updates` optimiser steps.

    Linear warm-up over `warmup_steps` (the first step already learns), then the schedule down to `final_ratio`, which
    it would reach with the step after the last: no step is wasted on a rate of 0.
    """
    if done < config.warmup_steps:
        return (done + 1) / (config.warmup_steps + 1)
    if config.schedule == "constant":
        return 1.0
    progress = min(1.0, (done - config.warmup_steps) / max(1, updates - config.warmup_steps))
    shape = 1 - progress if config.schedule == "linear" else (1 + math.cos(math.pi * progress)) / 2
    return config.final_ratio + (1 - config.final_ratio) * shape
