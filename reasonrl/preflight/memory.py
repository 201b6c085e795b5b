"""How much memory each phase of a run holds, found without holding it.

The run's own code for the forward, the loss and the backward of its largest micro-batch runs on tensors without data
(`ledger`); what stays through a phase, as weights, copies and moments of the optimiser, is counted from the parameters.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from reasonrl.batch import Row, collate
from reasonrl.config import OnlineDPOConfig, PolicyConfig, PPOConfig, RolloutConfig, RunConfig, SFTConfig, TRPOConfig
from reasonrl.models.forward import response_hidden
from reasonrl.models.heads import logits
from reasonrl.models.load import Policy
from reasonrl.models.logprobs import response_logprobs
from reasonrl.preflight.arithmetic import evaluated
from reasonrl.preflight.ledger import Ledger, fused_attention
from reasonrl.preflight.records import Data, Phase
from reasonrl.preflight.shapes import Sizes, has_optimiser, processes, sft_cut, update_cut
from reasonrl.rollout.engine import Sampling
from reasonrl.rollout.sampler import draw

Parts = dict[str, int]
_MOMENTS = 2  # AdamW's, of each trained number
_GIB = 2**30


def phases(config: RunConfig, policy: Policy, sizes: Sizes, sampling: Sampling, engine: str, data: Data) -> list[Phase]:
    """What each phase holds at its peak, in the order of the run.

    Args:
        config: the run.
        policy: on the meta device.
        sizes: the longest sequences.
        sampling: of its responses.
        engine: "huggingface" or "vllm".
        data: how many problems there are.
    """
    weights, trained = _bytes(policy.model.parameters()), _trained(policy.model)
    found = []
    held = {"weights": weights}
    if config.warm_start is not None:
        held["optimiser state"] = _MOMENTS * trained  # until another takes its place
        batches = sft_cut(config.warm_start, sizes).batches
        update = _update(config, policy, batches, share_prompt=False, packed=config.warm_start.packing)
        found.append(Phase("warm start", held | update))
    if engine == "huggingface":
        responses = evaluated(config, data)  # the greedy ones are sampled by themselves
        responses = max(1, responses - responses // (1 + config.evaluation.samples))
        found.append(Phase("evaluation", held | _sampled(config, policy, sizes, sampling, responses)))
    else:
        found.append(Phase("vLLM", _vllm(config, weights), beside=True))
    held = {"weights": weights, **_copies(config, weights, trained)}
    if has_optimiser(config):
        held["optimiser state"] = _MOMENTS * trained
    if isinstance(config.algorithm, RolloutConfig) and engine == "huggingface":
        responses = config.algorithm.responses_per_step // processes()
        found.append(Phase("sampling", held | _sampled(config, policy, sizes, sampling, responses)))
    return found + _updates(config, policy, sizes, held)


def _updates(config: RunConfig, policy: Policy, sizes: Sizes, held: Parts) -> list[Phase]:
    """The phases in which something is learnt."""
    found = []
    share_prompt = config.model.share_prompt and not config.model.gradient_checkpointing
    batches = update_cut(config, sizes, share_prompt=share_prompt).batches
    if isinstance(config.algorithm, PPOConfig) and not config.algorithm.critic.shared:
        found.append(Phase("update of the critic", held | _critic_update(policy, batches, share_prompt=share_prompt)))
    packed = isinstance(config.algorithm, SFTConfig) and config.algorithm.packing
    update = _update(config, policy, batches, share_prompt=share_prompt, packed=packed)
    found.append(Phase("update", held | update))
    if has_optimiser(config):
        largest = max((_bytes([p]) for p in policy.model.parameters() if p.requires_grad), default=0)
        step = {"gradients": _trained(policy.model), "working space": 2 * largest}
        found.append(Phase("optimiser step", held | step))
    return found


def _copies(config: RunConfig, weights: int, trained: int) -> Parts:
    """Further models: what is frozen, as under LoRA, copies share."""
    algorithm, found = config.algorithm, {}
    if isinstance(algorithm, PolicyConfig) and algorithm.kl.coefficient > 0:
        found["reference"] = trained
    starts_bare = config.model.lora is not None and config.warm_start is None
    if isinstance(algorithm, OnlineDPOConfig) and algorithm.reference == "start" and not starts_bare:
        found["reference"] = trained
    if isinstance(algorithm, PPOConfig):
        if not algorithm.critic.shared:
            own = trained if algorithm.critic.path is None else weights
            found["critic and its optimiser state"] = own + _MOMENTS * own
        if algorithm.loss == "penalty":
            found["copy of the policy before the step"] = trained
    if isinstance(algorithm, TRPOConfig):
        found["copy of the policy before the step"] = trained
        found["vectors of the conjugate gradient"] = 5 * trained
    return found


def _update(
    config: RunConfig, policy: Policy, batches: Sequence[Sequence[Row]], *, share_prompt: bool, packed: bool
) -> Parts:
    """Forward and backward of the largest micro-batches, gradients staying from one to the next."""
    model, algorithm = policy.model, config.algorithm
    second_order = isinstance(algorithm, TRPOConfig)
    bonus = getattr(algorithm, "entropy_bonus", 0.0) > 0
    penalty = isinstance(algorithm, PPOConfig) and algorithm.loss == "penalty"
    parameters = [p for p in model.parameters() if p.requires_grad]
    model.train(config.model.gradient_checkpointing)  # as the session does
    ledger = _ledger(model)
    with ledger, fused_attention(model, scores=second_order):
        for rows in batches[:2]:
            scores = response_logprobs(
                model,
                collate(rows, policy.pad_id).to(torch.device("meta")),
                temperature=1.0,
                share_prompt=share_prompt,
                packed=packed,
                logits_chunk=config.model.logits_chunk,
                entropy=bool(getattr(algorithm, "entropy", False)) or bonus,
                entropy_gradient=bonus,
                old_model=model if second_order or penalty else None,
            )
            loss = scores.logprobs.sum()
            for extra in (scores.entropy if bonus else None, scores.divergence):
                loss = loss if extra is None else loss + extra.sum()
            if second_order:
                first = torch.autograd.grad(loss, parameters, create_graph=True, materialize_grads=True)
                torch.autograd.grad(torch.cat([g.flatten() for g in first]).sum(), parameters, materialize_grads=True)
                del first
            else:
                loss.backward()  # type: ignore[no-untyped-call]
            del scores, loss, extra
    model.eval()
    model.zero_grad(set_to_none=True)
    masks = _masks(config, model, batches[0]) if packed else {}
    return dict(ledger.peak) | masks


def _masks(config: RunConfig, model: Any, rows: Sequence[Row]) -> Parts:
    """What torch's attention keeps of a packed row's tokens × tokens: a mask, and each layer's own copy, as numbers."""
    if config.model.attention != "sdpa" or len(rows) == 1:
        return {}
    tokens = sum(len(row.prompt_ids) + len(row.response_ids) - 1 for row in rows)
    layers = 1 if config.model.gradient_checkpointing else model.config.get_text_config().num_hidden_layers
    return {"masks of packed rows": tokens**2 * (1 + layers * model.dtype.itemsize)}


def _critic_update(policy: Policy, batches: Sequence[Sequence[Row]], *, share_prompt: bool) -> Parts:
    """The same of a critic with a trunk of its own, taken to be of the policy's family."""
    trunk = copy.deepcopy(policy.model.base_model)
    trunk.train(bool(getattr(trunk, "is_gradient_checkpointing", False)))
    head = nn.Linear(trunk.config.get_text_config().hidden_size, 1, device="meta")
    ledger = _ledger(trunk)
    ledger.keep(list(head.parameters()))
    with ledger, fused_attention(trunk):
        for rows in batches[:2]:
            batch = collate(rows, policy.pad_id).to(torch.device("meta"))
            head(response_hidden(trunk, batch, share_prompt=share_prompt).float()).sum().backward()
    return dict(ledger.peak)


@torch.no_grad()
def _sampled(config: RunConfig, policy: Policy, sizes: Sizes, sampling: Sampling, responses: int) -> Parts:
    """The KV cache of the largest batch of responses as they end, and the logits of one position."""
    model, rows = policy.model, max(1, min(config.engine.max_batch, responses))
    ledger = _ledger(model)
    with ledger, fused_attention(model):
        ids = torch.zeros((1, 1), dtype=torch.long, device="meta")
        output = model.base_model(input_ids=ids, use_cache=True)
        layers = getattr(output.past_key_values, "layers", [])
        of_position = sum(_bytes([one.keys, one.values]) for one in layers if getattr(one, "keys", None) is not None)
        hidden = torch.empty((rows, output.last_hidden_state.shape[-1]), dtype=model.dtype, device="meta")
        draw(logits(model, hidden), torch.zeros(rows, dtype=torch.float64, device="meta"), sampling)
    positions = sizes.prompt + sampling.max_tokens - 1
    return {"KV cache": of_position * rows * positions, "logits": ledger.peak.get("logits", 0)}


def _vllm(config: RunConfig, weights: int) -> Parts:
    """vLLM's own process: on a GPU, the share of it that it is given."""
    if torch.cuda.is_available():
        _, total = torch.cuda.mem_get_info()
        return {"share of the GPU": int(total * config.engine.gpu_memory_utilization)}
    return {"weights": weights, "KV cache": config.engine.kv_cache_gib * _GIB}


def _ledger(model: Any) -> Ledger:
    vocabulary = model.config.get_text_config().vocab_size
    shapes = {tuple(p.shape) for p in model.parameters() if p.requires_grad}

    def kind(shape: tuple[int, ...]) -> str:
        if shape in shapes:
            return "gradients"
        return "logits" if len(shape) == 2 and shape[-1] == vocabulary else "activations"

    ledger = Ledger(kind)
    ledger.keep([*model.parameters(), *model.buffers()])
    return ledger


def _trained(model: Any) -> int:
    return _bytes(p for p in model.parameters() if p.requires_grad)


def _bytes(tensors: Any) -> int:
    found: dict[int, Tensor] = {id(tensor): tensor for tensor in tensors}
    return sum(tensor.numel() * tensor.element_size() for tensor in found.values())
