"""Sampling speed of the Hugging Face engine against transformers' own `generate`, in the same process by turns.

    OMP_NUM_THREADS=1 python benchmarks/generate.py

Both draw as many responses from the same random models at temperature 1. `generate` gets each problem's prompt once
per response, as it takes it, and the same batch size; both stop a response at the end-of-sequence token. Tokens count
up to and including that one. Speeds are per second of processor time, which other programs disturb less.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from reasonrl.config import ModelConfig, TinyModelConfig
from reasonrl.evaluation.engines import huggingface_engine
from reasonrl.models.load import Policy, load_policy
from reasonrl.rollout.engine import Request, Sampling

CHARACTERS = "0123456789+=,:"


@dataclass(frozen=True)
class Case:
    """A model and what is sampled from it: problems × group responses, prompts of lengths (shortest, longest)."""

    name: str
    policy: Policy
    problems: int
    group: int
    prompt: tuple[int, int]
    max_tokens: int
    max_batch: int


def tiny_policy() -> Policy:
    """The quickstart's size, 1.1 M parameters; its random weights end a response after some 15 tokens."""
    return load_policy(ModelConfig(tiny=TinyModelConfig(characters=CHARACTERS, max_positions=64)), seed=0)


def middle_policy() -> Policy:
    """The shape of SmolLM2-135M: 30 layers, 9 query heads on 3 key heads. Random weights: responses rarely end."""
    config = LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, tie_word_embeddings=True, pad_token_id=0, bos_token_id=None, eos_token_id=1,
    )  # fmt: skip
    tokenizer = tiny_policy().tokenizer
    torch.manual_seed(0)
    return Policy(tokenizer, eos_ids=(1,), pad_id=0, max_positions=2048, model=LlamaForCausalLM(config).eval())


def requests_of(case: Case) -> list[Request]:
    """The same prompts in each round."""
    generator = random.Random(0)
    prompts = [
        tuple(generator.randrange(3, 17) for _ in range(generator.randint(*case.prompt))) for _ in range(case.problems)
    ]
    return [
        Request(str(at), prompt, tuple(at * case.group + j for j in range(case.group)))
        for at, prompt in enumerate(prompts)
    ]


def with_engine(case: Case) -> int:
    """Sample with the engine; how many tokens came."""
    engine = huggingface_engine(case.policy, case.max_batch)
    rollouts = engine.sample(requests_of(case), Sampling(max_tokens=case.max_tokens))
    return sum(len(rollout.response_ids) for rollout in rollouts)


@torch.no_grad()
def with_generate(case: Case) -> int:
    """Sample with transformers; how many tokens came."""
    model: Any = case.policy.model
    prompts = sorted((r.prompt_ids for r in requests_of(case) for _ in r.seeds), key=len)
    tokens = 0
    for start in range(0, len(prompts), case.max_batch):
        batch = prompts[start : start + case.max_batch]
        width = max(map(len, batch))
        ids = torch.tensor([[case.policy.pad_id] * (width - len(p)) + list(p) for p in batch])
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in batch])
        output = model.generate(
            ids, attention_mask=mask, do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
            max_new_tokens=case.max_tokens, eos_token_id=list(case.policy.eos_ids), pad_token_id=case.policy.pad_id,
        )[:, width:]  # fmt: skip
        ended = torch.isin(output, torch.tensor(case.policy.eos_ids))
        # Up to the first end-of-sequence token: those before which none has come.
        tokens += int((ended.cumsum(1) - ended.long() == 0).sum())
    return tokens


def speed(sample: Callable[[Case], int], case: Case) -> float:
    """Tokens per second of processor time."""
    started = time.process_time()
    return sample(case) / (time.process_time() - started)


def measure(case: Case, rounds: int) -> str:
    """One row of the table: medians over rounds in which the two take turns in going first."""
    engine, generate = [], []
    for turn in range(rounds):
        if turn % 2:
            generate.append(speed(with_generate, case))
        engine.append(speed(with_engine, case))
        if not turn % 2:
            generate.append(speed(with_generate, case))
    ratios = [ours / theirs for ours, theirs in zip(engine, generate, strict=True)]
    what = f"{case.problems} × {case.group}, ≤ {case.max_tokens} tokens, batch {case.max_batch}"
    medians = f"{statistics.median(engine):.0f} | {statistics.median(generate):.0f} | {statistics.median(ratios):.2f}"
    return f"| {case.name} | {what} | {medians} | {min(ratios):.2f}–{max(ratios):.2f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=["tiny", "middle"], default=["tiny", "middle"])
    parser.add_argument("--rounds", type=int, default=5, help="of the tiny model")
    parser.add_argument("--middle-rounds", type=int, default=1)
    parser.add_argument("--middle-tokens", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print("| model | responses | engine, tokens/s | generate, tokens/s | ratio (median) | ratio (range) |")
    print("|---|---|---|---|---|---|")
    if "tiny" in arguments.cases:
        policy = tiny_policy()
        with_engine(Case("warm-up", policy, 4, 4, (4, 8), 4, 16))
        for max_batch in (128, 256, 512):
            print(measure(Case("1.1 M", policy, 64, 8, (4, 8), 26, max_batch), arguments.rounds), flush=True)
    if "middle" in arguments.cases:
        case = Case("135 M", middle_policy(), 4, 8, (60, 80), arguments.middle_tokens, 32)
        print(measure(case, arguments.middle_rounds), flush=True)


if __name__ == "__main__":
    main()
