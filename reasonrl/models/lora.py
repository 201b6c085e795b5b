"""LoRA (Hu et al. 2021, arXiv 2106.09685): a linear layer computes with W + (alpha / rank)·B·A; A and B are trained.

peft puts the adapters into the model in place, so that its class and its parts stay what they were. It is imported
where adapters are made: a run without them does not wait for it. There is no dropout: what samples is what is trained.
"""

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from reasonrl.config import LoRAConfig
from reasonrl.errors import ReasonRLError

_ADAPTER = "default"  # peft's name for the only one


def add_adapters(model: Any, config: LoRAConfig, seed: int) -> None:
    """Freeze the model and put adapters into its linear layers, which at first change nothing: B is 0.

    Adapters are float32 at least, whatever the model is: updates of a bfloat16 one would be rounded away.

    Args:
        model: a causal language model of transformers.
        config: rank, alpha, and which layers.
        seed: draws A, the same on every process, without touching the global random state.

    Raises:
        ReasonRLError: a target is no linear layer of the model, or one whose weight is also the input embedding's.
    """
    from peft import LoraConfig, inject_adapter_in_model

    layers = _targets(model, config.targets)
    settings = LoraConfig(
        task_type="CAUSAL_LM",
        r=config.rank,
        lora_alpha=config.alpha,
        target_modules=list(layers),  # by their full names: short ones may mean other layers too, to peft
        fan_in_fan_out=any(isinstance(layer, Conv1D) for layer in layers.values()),
        base_model_name_or_path=model.config._name_or_path or None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inject_adapter_in_model(settings, model, _ADAPTER)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.to(torch.promote_types(parameter.dtype, torch.float32))


def adapted_layers(model: nn.Module) -> dict[str, Any]:
    """The layers that have an adapter, by the names they have without one; none where the model has no LoRA."""
    if getattr(model, "peft_config", None) is None:
        return {}
    from peft.tuners.lora import LoraLayer

    return {name: module for name, module in model.named_modules() if isinstance(module, LoraLayer)}


@contextmanager
def adapters_off(model: nn.Module) -> Iterator[None]:
    """Meanwhile the model computes as it did before it had adapters."""
    layers = adapted_layers(model).values()
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)


def without_adapters(model: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The model's own tensors among its parameters or state, under the names they have without adapters."""
    renamed: dict[str, str | None] = {}
    for name, layer in adapted_layers(model).items():
        for key in layer.state_dict():
            first, _, rest = key.partition(".")
            renamed[f"{name}.{key}"] = f"{name}.{rest}" if first == "base_layer" else None
    named = ((renamed.get(name, name), tensor) for name, tensor in tensors.items())
    return {name: tensor for name, tensor in named if name is not None}


@torch.no_grad()
def merged_weight(layer: Any) -> Tensor:
    """W + (alpha / rank)·B·A of a layer with an adapter, computed in float32 at least, in the dtype of W."""
    weight: Tensor = layer.base_layer.weight
    exact = torch.promote_types(weight.dtype, torch.float32)
    down, up = layer.lora_A[_ADAPTER].weight.to(exact), layer.lora_B[_ADAPTER].weight.to(exact)
    update = layer.scaling[_ADAPTER] * (up @ down)
    # GPT-2 keeps its weights as (inputs, outputs).
    merged: Tensor = weight.to(exact) + (update.T if isinstance(layer.base_layer, Conv1D) else update)
    return merged.to(weight.dtype)


def merged_state(model: nn.Module) -> dict[str, Tensor]:
    """The state of the model that computes the same without adapters; what had to be merged lies on the CPU."""
    state = without_adapters(model, model.state_dict())
    return state | {f"{name}.weight": merged_weight(layer).cpu() for name, layer in adapted_layers(model).items()}


def save_adapter(model: Any, folder: Path) -> None:
    """Write the adapter alone in peft's format: `PeftModel.from_pretrained(base, folder)` loads it."""
    from peft.utils import SAFETENSORS_WEIGHTS_NAME, get_peft_model_state_dict

    folder.mkdir(parents=True, exist_ok=True)
    state = get_peft_model_state_dict(model, adapter_name=_ADAPTER, save_embedding_layers=False)
    tensors = {f"base_model.model.{name}": tensor.contiguous() for name, tensor in state.items()}
    save_file(tensors, folder / SAFETENSORS_WEIGHTS_NAME, metadata={"format": "pt"})
    settings = copy.copy(model.peft_config[_ADAPTER])
    settings.inference_mode = True
    settings.save_pretrained(str(folder))


def _targets(model: Any, targets: str | tuple[str, ...]) -> dict[str, nn.Module]:
    """The layers that get an adapter, by name: all linear ones but the head, or those asked for."""
    linear = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear | Conv1D)}
    head, embedding = model.get_output_embeddings() or getattr(model, "score", None), model.get_input_embeddings()
    if isinstance(targets, str):
        chosen = {name: layer for name, layer in linear.items() if layer is not head}
        if not chosen:
            raise ReasonRLError(f"model.lora: {type(model).__name__} has no linear layers to adapt")
        return chosen
    found = {target: [n for n in linear if n == target or n.endswith(f".{target}")] for target in targets}
    if missing := [repr(target) for target, names in found.items() if not names]:
        ends = dict.fromkeys(n.rpartition(".")[2] for n, one in linear.items() if one.weight is not embedding.weight)
        raise ReasonRLError(
            f"model.lora.targets: {type(model).__name__} has no linear layer named {', '.join(missing)}; "
            f"there are: {', '.join(ends)}"
        )
    chosen = {name: linear[name] for names in found.values() for name in names}
    for name, layer in chosen.items():
        if layer.weight is embedding.weight:
            raise ReasonRLError(
                f"model.lora.targets: the weight of {name} is also that of the input embedding (tied), which an "
                "adapter would tear apart; leave it out"
            )
    return chosen
