"""Sampling speed of the vLLM engine, the Hugging Face engine and bare vLLM on the same work, by turns in one run.

    python benchmarks/rollout.py                                  # a tiny model and, if it is there, SmolLM2-135M
    python benchmarks/rollout.py --dtype bfloat16 --models models/SmolLM2-135M-Instruct

Bare vLLM is a script of its own process that calls `LLM.generate` with the same settings and seeds. Tokens per second
of the wall clock, medians over the rounds. Also: the seconds of a weight sync, and where the start of the engine goes.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from reasonrl.config import EngineConfig, ModelConfig, TinyModelConfig
from reasonrl.evaluation.engines import environment, huggingface_engine, vllm_engine
from reasonrl.models.load import Policy, checkpoint_weights, load_policy, save_policy
from reasonrl.rollout.engine import Engine, Request, Sampling
from reasonrl.rollout.messages import Setup
from reasonrl.rollout.vllm import VLLMEngine

SMOLLM = "models/SmolLM2-135M-Instruct"
TINY = TinyModelConfig(characters="0123456789+=,:", max_positions=256)
QUESTION = "A train leaves at {} and travels at {} km an hour for {} hours, then stops. How far has it come in all? "


def requests_of(policy: Policy, problems: int, samples: int) -> list[Request]:
    """Prompts of some 60 tokens, the same in each round."""
    requests = []
    for at in range(problems):
        text = QUESTION.format(at + 7, 10 * at + 40, at % 5 + 1) * 2
        ids = tuple(policy.tokenizer(text)["input_ids"][:64])
        requests.append(Request(str(at), ids, tuple(at * samples + j for j in range(samples))))
    return requests


def speed(engine: Engine, requests: list[Request], sampling: Sampling) -> float:
    """Tokens per second of one round."""
    started = time.monotonic()
    tokens = sum(len(rollout.response_ids) for rollout in engine.sample(requests, sampling))
    return tokens / (time.monotonic() - started)


class Bare:
    """Bare vLLM in a process of its own that runs a round whenever it is told to."""

    def __init__(self, setup: Setup, config: EngineConfig, requests: list[Request], sampling: Sampling) -> None:
        work = {
            "setup": asdict(setup),
            "prompts": [list(request.prompt_ids) for request in requests],
            "seeds": [request.seeds[0] for request in requests],
            "samples": len(requests[0].seeds),
            "max_tokens": sampling.max_tokens,
        }
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--bare", json.dumps(work)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **environment(config, cpu=not torch.cuda.is_available())},
        )

    def speed(self) -> float:
        """Tokens per second of one round."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("speed "):
                return float(line.split()[1])
        raise RuntimeError("bare vLLM ended")

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def run_bare(work: dict[str, Any]) -> None:
    """What the process of `Bare` does."""
    from vllm import LLM, SamplingParams
    from vllm.inputs.engine import tokens_input

    settings = Setup(**work["setup"]).arguments()
    del settings["worker_extension_cls"]
    llm = LLM(**settings)
    prompts = [tokens_input(prompt) for prompt in work["prompts"]]
    parameters = [
        SamplingParams(n=work["samples"], seed=seed, temperature=1.0, max_tokens=work["max_tokens"], logprobs=0)
        for seed in work["seeds"]
    ]
    for _ in sys.stdin:
        started = time.monotonic()
        outputs = llm.generate(prompts, parameters, use_tqdm=False)
        tokens = sum(len(part.token_ids) for output in outputs for part in output.outputs)
        print(f"speed {tokens / (time.monotonic() - started)}", flush=True)


def measure(name: str, policy: Policy, path: str, arguments: argparse.Namespace) -> None:
    """Print a model's row, the seconds of a sync, and those of the start."""
    sampling = Sampling(max_tokens=arguments.tokens)
    requests = requests_of(policy, arguments.problems, arguments.samples)
    config = EngineConfig(name="vllm", dtype=arguments.dtype, threads=arguments.threads, max_batch=64, kv_cache_gib=1)
    longest = max(len(request.prompt_ids) for request in requests) + sampling.max_tokens
    settings = ModelConfig(path=path)
    ours = vllm_engine(config, policy, settings, longest=longest, own_weights=True)
    assert isinstance(ours, VLLMEngine)
    parts = ours.wait()
    bare = Bare(ours.setup, config, requests, sampling)
    engines = {"vLLM engine": lambda: speed(ours, requests, sampling), "bare vLLM": bare.speed}
    if not arguments.without_huggingface:
        plain = huggingface_engine(policy, 64)
        engines["Hugging Face engine"] = lambda: speed(plain, requests, sampling)
    found: dict[str, list[float]] = {each: [] for each in engines}
    for turn in range(arguments.rounds + 1):
        order = list(engines) if turn % 2 else list(engines)[::-1]
        for each in order:
            measured = engines[each]()
            if turn:  # the first round warms up
                found[each].append(measured)
    bare.close()
    syncs = []
    for version in range(4):
        started = time.monotonic()
        ours.sync(checkpoint_weights(policy.model), version)
        syncs.append(time.monotonic() - started)
    ours.close()
    medians = {each: statistics.median(values) for each, values in found.items()}
    ratios = [a / b for a, b in zip(found["vLLM engine"], found["bare vLLM"], strict=True)]
    other = f"{medians['Hugging Face engine']:.0f}" if "Hugging Face engine" in medians else "–"
    print(
        f"| {name}, {arguments.dtype} | {medians['vLLM engine']:.0f} | {medians['bare vLLM']:.0f} | {other} "
        f"| {statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f}) | {syncs[0]:.2f} / "
        f"{statistics.median(syncs[1:]):.2f} | {parts['import']:.1f} + {parts['engine']:.1f} |",
        flush=True,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", help="folders; `tiny` is made on the spot")
    parser.add_argument("--problems", type=int, default=8)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--without-huggingface", action="store_true")
    parser.add_argument("--bare", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bare:
        run_bare(json.loads(arguments.bare))
        return
    torch.set_num_threads(arguments.threads)
    models = arguments.models or ["tiny", *([SMOLLM] if Path(SMOLLM).is_dir() else [])]
    print(f"{arguments.problems} × {arguments.samples} responses of up to {arguments.tokens} tokens\n")
    print("| model | vLLM engine, tok/s | bare vLLM | Hugging Face engine | engine ÷ bare | sync, s | start, s |")
    print("|---|---|---|---|---|---|---|")
    for model in models:
        with tempfile.TemporaryDirectory() as folder:
            if model == "tiny":
                policy = load_policy(ModelConfig(tiny=TINY), seed=0)
                save_policy(policy, Path(folder))
                measure("1.1 M", policy, folder, arguments)
            else:
                measure(Path(model).name, load_policy(ModelConfig(path=model), seed=0), model, arguments)


if __name__ == "__main__":
    main()
