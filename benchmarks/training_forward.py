"""The training forward and backward three ways: prompts shared, padded rows, and one response after the other.

    OMP_NUM_THREADS=1 python benchmarks/training_forward.py

For each way: response tokens per second of processor time, and how far its gradient is from that of the unpadded
one-by-one forwards (the largest difference of a parameter's gradient, relative to the largest entry of that gradient).
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from reasonrl.batch import Row, collate, micro_batches
from reasonrl.models.logprobs import response_logprobs

Way = Callable[[Any, list[Row]], Iterator[Tensor]]


@dataclass(frozen=True)
class Case:
    """A model and the groups it is trained on: prompts and responses of lengths (shortest, longest)."""

    name: str
    model: Any
    groups: int
    size: int
    prompt: tuple[int, int]
    response: tuple[int, int]


def model_of(layers: int, hidden: int, heads: int, key_heads: int, vocabulary: int) -> Any:
    """A random Llama."""
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=hidden, intermediate_size=hidden * 8 // 3, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=key_heads, tie_word_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(0)
    return LlamaForCausalLM(config).eval()


def rows_of(case: Case) -> list[Row]:
    """Random token ids, in groups with one prompt each."""
    draw, top = random.Random(0), case.model.config.vocab_size

    def ids(lengths: tuple[int, int]) -> tuple[int, ...]:
        return tuple(draw.randrange(top) for _ in range(draw.randint(*lengths)))

    prompts = [ids(case.prompt) for _ in range(case.groups)]
    return [Row(p, ids(case.response), group=at) for at, p in enumerate(prompts) for _ in range(case.size)]


def batched(share_prompt: bool, max_tokens: int) -> Way:
    """The product's way, with its micro-batches."""

    def scores(model: Any, rows: list[Row]) -> Iterator[Tensor]:
        for batch in micro_batches(rows, max_tokens, share_prompt=share_prompt):
            tensors = collate(batch, pad_id=0)
            yield response_logprobs(model, tensors, temperature=1.0, share_prompt=share_prompt).logprobs

    return scores


def one_by_one(model: Any, rows: list[Row]) -> Iterator[Tensor]:
    """Unpadded, through the model's own forward."""
    for row in rows:
        logits = model(input_ids=torch.tensor([row.prompt_ids + row.response_ids])).logits[0]
        log_p = logits[len(row.prompt_ids) - 1 : -1].float().log_softmax(-1)
        yield log_p.gather(-1, torch.tensor(row.response_ids)[:, None])


def seconds(way: Way, case: Case, rows: list[Row]) -> float:
    """Processor time of one gradient."""
    case.model.zero_grad()
    started = time.process_time()
    for scores in way(case.model, rows):
        torch.autograd.backward(scores.sum())
    return time.process_time() - started


def gradients(case: Case) -> list[Tensor]:
    """Of every parameter, as the last way left them."""
    return [p.grad.clone() for p in case.model.parameters()]


def measure(case: Case, rounds: int, max_tokens: int) -> Iterator[str]:
    """The rows of the table, one for each way; the ways take turns."""
    rows = rows_of(case)
    tokens = sum(len(row.response_ids) for row in rows)
    ways = {"shared": batched(True, max_tokens), "padded": batched(False, max_tokens), "one by one": one_by_one}
    times: dict[str, list[float]] = {name: [] for name in ways}
    found: dict[str, list[Tensor]] = {}
    for _ in range(rounds):
        for name, way in ways.items():
            times[name].append(seconds(way, case, rows))
            found[name] = gradients(case)
    wanted = found["one by one"]
    for name in ways:
        off = max(float((g - w).abs().max() / w.abs().max()) for g, w in zip(found[name], wanted, strict=True))
        ratio = statistics.median(p / t for p, t in zip(times["padded"], times[name], strict=True))
        speed = tokens / statistics.median(times[name])
        yield f"| {case.name} | {name} | {speed:.0f} | {ratio:.2f} | {off:.1e} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--micro-batch-tokens", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    tiny, middle = model_of(3, 192, 6, 6, 17), model_of(8, 320, 5, 5, 8192)
    cases = [
        Case("1.1 M, 32 × 8, prompt 6, response 18–26", tiny, 32, 8, (6, 6), (18, 26)),
        Case("1.1 M, 8 × 8, prompt 60–80, response 16–64", tiny, 8, 8, (60, 80), (16, 64)),
        Case("14 M, 2 × 8, prompt 60–80, response 16–64", middle, 2, 8, (60, 80), (16, 64)),
    ]
    print("| model and rows | way | response tokens/s | × padded | gradient off by |")
    print("|---|---|---|---|---|")
    for case in cases:
        for line in measure(case, arguments.rounds, arguments.micro_batch_tokens):
            print(line, flush=True)


if __name__ == "__main__":
    main()
