"""Supervised fine-tuning on padded rows and on rows packed end to end: forward and backward of the same demonstrations.

    OMP_NUM_THREADS=1 python benchmarks/packing.py --model models/SmolLM2-135M-Instruct
    python benchmarks/packing.py --model FOLDER --device cuda --dtype bfloat16 --attention flash_attention_2

For each way: response tokens per second (of processor time; on a GPU, of the wall clock), the share of computed tokens
that is padding, and how far loss and gradient are from those of the padded rows (of the gradient, the norm of the
difference relative to its norm). The ways take turns; the ratio is the median of theirs.
"""

import argparse
import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from reasonrl.algorithms.aggregation import aggregate
from reasonrl.batch import Batch, Row, collate, micro_batches, pack
from reasonrl.models.forward import check_packing
from reasonrl.models.logprobs import response_logprobs


@dataclass(frozen=True)
class Case:
    """A model and its demonstrations, of lengths (shortest, longest), drawn so that their logarithms are uniform."""

    name: str
    model: Any
    demonstrations: int
    prompt: tuple[int, int]
    response: tuple[int, int]
    micro_batch_tokens: int


def tiny_model(attention: str, dtype: torch.dtype) -> Any:
    """A random Llama of 1.1 M parameters."""
    config = LlamaConfig(
        vocab_size=17, hidden_size=192, intermediate_size=336, num_hidden_layers=3, num_attention_heads=6,
        tie_word_embeddings=True, attn_implementation=attention,
    )  # fmt: skip
    torch.manual_seed(0)
    return LlamaForCausalLM(config).to(dtype).eval()


def rows_of(case: Case) -> list[Row]:
    """Random token ids."""
    draw, top = random.Random(0), case.model.config.vocab_size

    def ids(lengths: tuple[int, int]) -> tuple[int, ...]:
        low, high = lengths
        return tuple(draw.randrange(top) for _ in range(round(low * (high / low) ** draw.random())))

    return [Row(ids(case.prompt), ids(case.response), group=at) for at in range(case.demonstrations)]


def batches_of(case: Case, rows: list[Row], packed: bool) -> list[Batch]:
    """The micro-batches of one update."""
    if packed:
        cut = pack(rows, case.micro_batch_tokens)
    else:
        cut = micro_batches(rows, case.micro_batch_tokens, share_prompt=False)
    return [collate(one, pad_id=0).to(case.model.device) for one in cut]


def update(case: Case, batches: list[Batch], packed: bool) -> tuple[float, float]:
    """Loss, and seconds of the forward and the backward; the gradient is left in the model."""
    case.model.zero_grad()
    on_gpu = case.model.device.type == "cuda"
    clock = time.perf_counter if on_gpu else time.process_time
    tokens, loss = sum(int(batch.response_mask.sum()) for batch in batches), torch.zeros((), device=case.model.device)
    started = clock()
    for batch in batches:
        scores = response_logprobs(case.model, batch, temperature=1.0, share_prompt=False, packed=packed)
        share = aggregate(-scores.logprobs, batch.response_mask, "token_mean", sequences=1, tokens=tokens)
        torch.autograd.backward(share)
        loss += share.detach()
    if on_gpu:
        torch.cuda.synchronize()
    return float(loss), clock() - started


def padding(batches: list[Batch], packed: bool) -> float:
    """Share of the tokens fed that are padding."""
    if packed:
        return 0.0
    fed = sum(len(batch.response_ids) * (batch.prompt_ids.shape[1] + batch.response_ids.shape[1]) for batch in batches)
    real = sum(int(batch.prompt_mask.sum() + batch.response_mask.sum()) for batch in batches)
    return 1 - real / fed


def measure(case: Case, rounds: int) -> Iterator[str]:
    """The rows of the table, one for each way."""
    rows = rows_of(case)
    tokens = sum(len(row.response_ids) for row in rows)
    ways = {False: batches_of(case, rows, False), True: batches_of(case, rows, True)}
    times: dict[bool, list[float]] = {False: [], True: []}
    losses: dict[bool, float] = {}
    gradients: dict[bool, torch.Tensor] = {}
    for turn in range(rounds + 1):
        for packed in (False, True) if turn % 2 else (True, False):
            losses[packed], seconds = update(case, ways[packed], packed)
            if turn:  # the first one warms up
                times[packed].append(seconds)
            gradients[packed] = torch.cat([p.grad.flatten().float() for p in case.model.parameters()])
    for packed, name in ((False, "padded"), (True, "packed")):
        ratios = [padded / ours for padded, ours in zip(times[False], times[packed], strict=True)]
        off = float((gradients[packed] - gradients[False]).norm() / gradients[False].norm())
        yield (
            f"| {case.name} | {name} | {len(ways[packed])} | {padding(ways[packed], packed):.0%} | "
            f"{tokens / statistics.median(times[packed]):.0f} | {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f}–{max(ratios):.2f}) | {abs(losses[packed] - losses[False]):.0e} | {off:.0e} |"
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="also measure the model in this folder")
    parser.add_argument("--demonstrations", type=int, default=16, help="of the model in the folder")
    parser.add_argument("--response", type=int, nargs=2, default=(32, 512), help="tokens of its responses, from and to")
    parser.add_argument("--micro-batch-tokens", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--attention", choices=["sdpa", "eager", "flash_attention_2"], default="sdpa")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    dtype, most = getattr(torch, arguments.dtype), arguments.micro_batch_tokens
    tiny = tiny_model(arguments.attention, dtype).to(arguments.device)
    cases = [
        Case("1.1 M, 128 × prompt 6, response 18–26", tiny, 128, (6, 6), (18, 26), most),
        Case("1.1 M, 64 × prompt 20–80, response 16–256", tiny, 64, (20, 80), (16, 256), most),
    ]
    if arguments.model is not None:
        model = AutoModelForCausalLM.from_pretrained(
            arguments.model, dtype=dtype, attn_implementation=arguments.attention
        )
        low, high = arguments.response
        name = f"{Path(arguments.model).name}, {arguments.demonstrations} × prompt 40–160, response {low}–{high}"
        model = model.to(arguments.device).eval()
        cases.append(Case(name, model, arguments.demonstrations, (40, 160), (low, high), most))
    print(
        "| model and demonstrations | way | micro-batches | padding | tokens/s | × padded | loss off | gradient off |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for case in cases:
        check_packing(case.model)
        for line in measure(case, arguments.rounds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
