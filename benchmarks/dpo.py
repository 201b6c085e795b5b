"""DPO beside TRL's: the same model, pairs and numbers; do the losses agree, and who is faster?

TRL needs an environment of its own: python3 -m venv trl && trl/bin/pip install torch==2.13.0 trl
Then: python benchmarks/dpo.py --trl trl/bin/python --pairs PAIRS.jsonl.gz

CPU-seconds of one thread each, of the reference's log-probabilities and of all steps, without loading and tokenising.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from rich.console import Console
from rich.table import Table
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from reasonrl.config import DPOConfig, ModelConfig
from reasonrl.models.forward import can_share_prompt
from reasonrl.models.load import load_policy
from reasonrl.pairs.read import Preference, Preferences, read_preferences
from reasonrl.tracking import Tracker
from reasonrl.trainers.dpo import tokenised, train_dpo
from reasonrl.trainers.preferences import PreferenceLoss, Scoring
from reasonrl.trainers.reference import with_cached_reference
from reasonrl.trainers.session import Session
from reasonrl.trainers.sft import epoch_indices

ROOT = Path(__file__).parents[1]
OPTIMIZER = {"learning_rate": 1e-4, "betas": [0.9, 0.999], "epsilon": 1e-8, "max_grad_norm": 1.0}
SMALL = {"hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 6, "num_attention_heads": 8}


def prompts(pairs: list[Preference], shots: int, number: int) -> list[Preference]:
    """The first so many pairs, each behind worked examples taken from the ones after them."""
    examples = pairs[number:]
    found = []
    for index, pair in enumerate(pairs[:number]):
        shown = [examples[(index * shots + k) % len(examples)] for k in range(shots)]
        worked = "".join(f"Question: {one.prompt}\nAnswer:\n{one.chosen}\n\n" for one in shown)
        found.append(Preference(f"{worked}Question: {pair.prompt}\nAnswer:\n", pair.chosen, pair.rejected))
    return found


def small_model(tokenizer: str, folder: Path) -> str:
    """A random Llama of some 17 M parameters with a real tokenizer; its embeddings are tied."""
    vocabulary = AutoTokenizer.from_pretrained(tokenizer)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary), max_position_embeddings=4096, tie_word_embeddings=True, initializer_range=0.05,
        bos_token_id=vocabulary.bos_token_id, eos_token_id=vocabulary.eos_token_id,
        pad_token_id=vocabulary.pad_token_id, **SMALL,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    vocabulary.save_pretrained(folder)
    return str(folder)


def ours(spec: dict[str, Any], pairs: list[Preference], references: Path) -> dict[str, Any]:
    """Losses, seconds and token ids of our trainer; `references` is where reference log-probabilities are kept."""
    policy = load_policy(ModelConfig(path=spec["model"]), seed=0)
    ready = tokenised(Preferences(list(pairs)), policy, None)
    config = DPOConfig.model_validate(
        {"pairs": ["given"], "optimizer": OPTIMIZER} | {key: spec[key] for key in ("steps", "batch_size", "beta")}
    )
    accelerator = Accelerator(cpu=True)
    scoring = Scoring(
        policy.pad_id, can_share_prompt(policy.model), 2**26, config.micro_batch_tokens, torch.device("cpu"),
        accelerator.autocast,
    )  # fmt: skip
    session = Session(policy.model, accelerator, config.optimizer, config.steps)
    metrics = Path(spec["folder"]) / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    tracker = Tracker(metrics, Console(quiet=True))
    began, wall = time.process_time(), time.monotonic()
    known, _ = with_cached_reference(policy.model, policy.model.state_dict(), ready, scoring, session, references)
    train_dpo(config, known, PreferenceLoss(config, policy.model, scoring), session, tracker, seed=0)
    seconds, wall = time.process_time() - began, time.monotonic() - wall
    tracker.close()
    losses = [json.loads(line)["loss"] for line in metrics.read_text().splitlines()]
    ids = [[list(p.prompt_ids), list(p.chosen_ids), list(p.rejected_ids)] for p in ready]
    return {"losses": losses, "cpu_seconds": seconds, "wall_seconds": wall, "ids": ids}


def trl(python: str, spec: dict[str, Any], *, precompute: bool) -> dict[str, Any]:
    """The same of TRL, in a process of its own environment."""
    folder = Path(spec["folder"])
    (folder / "spec.json").write_text(json.dumps(spec | {"precompute": precompute}))
    script = str(Path(__file__).with_name("dpo_trl.py"))
    subprocess.run([python, script, str(folder / "spec.json"), str(folder / "out.json")], check=True)
    found: dict[str, Any] = json.loads((folder / "out.json").read_text())
    return found


def main() -> int:
    """Print the table; 1 if the losses differ by more than 1e-4, or ours is less than 1.5 times as fast."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trl", required=True, help="the Python of an environment with TRL")
    parser.add_argument("--pairs", required=True, help="a file of pairs with texts")
    parser.add_argument("--model", help="a model folder; a random one of some 17 M parameters by default")
    parser.add_argument("--tokenizer", default=str(ROOT / "models" / "SmolLM2-135M-Instruct"), help="of the random one")
    parser.add_argument("--shots", type=int, nargs="+", default=[0, 4], help="worked examples before each question")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    given = [pair for pair in read_preferences([options.pairs]).pairs if isinstance(pair.prompt, str)]
    title = f"{options.steps} steps of {options.batch_size} pairs, CPU-seconds of one thread, best of {options.rounds}"
    table = Table("examples", "prompt / response, tokens", "ours", "ours, reference kept", "TRL", "TRL, precomputed",
                  "ratio", "ratio to precomputed", "losses differ by", title=title)  # fmt: skip
    good = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = options.model or small_model(options.tokenizer, folder / "model")
        for shots in options.shots:
            good &= compare(options, given, model, folder, shots, table)
    Console(width=160).print(table)
    return 0 if good else 1


def compare(
    options: argparse.Namespace, given: list[Preference], model: str, folder: Path, shots: int, table: Table
) -> bool:
    """A row of the table; do losses agree, and is ours fast enough?"""
    number = options.steps * options.batch_size
    pairs = prompts(given, shots, number)
    order = epoch_indices(number, 0, number, 0)  # ours is shuffled by the seed: TRL gets the pairs in this order
    file = folder / "pairs.jsonl"
    file.write_text("".join(json.dumps(vars(pairs[at])) + "\n" for at in order))
    spec = {
        "model": model, "pairs": str(file), "folder": str(folder), "steps": options.steps, "threads": 1,
        "batch_size": options.batch_size, "beta": 0.1, "optimizer": OPTIMIZER,
    }  # fmt: skip
    best: dict[str, dict[str, Any]] = {}
    for turn in range(options.rounds):
        references = folder / f"references-{shots}-{turn}"
        for which, found in (
            ("ours", ours(spec, pairs, references)),
            ("kept", ours(spec, pairs, references)),
            ("trl", trl(options.trl, spec, precompute=False)),
            ("precomputed", trl(options.trl, spec, precompute=True)),
        ):
            print(f"{shots} examples, {which}: {found['cpu_seconds']:.1f} CPU-seconds", flush=True)
            if which not in best or found["cpu_seconds"] < best[which]["cpu_seconds"]:
                best[which] = found
    same = best["trl"]["ids"] == [best["ours"]["ids"][at] for at in order]
    if not same:
        print("the two tokenise differently: their losses cannot be compared", file=sys.stderr)
    differ = max(
        abs(a - b)
        for which in ("trl", "precomputed")
        for a, b in zip(best["ours"]["losses"], best[which]["losses"], strict=True)
    )
    seconds = {which: one["cpu_seconds"] for which, one in best.items()}
    prompt = sum(len(p) for p, _, _ in best["ours"]["ids"]) / number
    response = sum(len(c) + len(r) for _, c, r in best["ours"]["ids"]) / (2 * number)
    ratio, fair = seconds["trl"] / seconds["ours"], seconds["precomputed"] / seconds["ours"]
    shown = [f"{seconds[which]:.1f}" for which in ("ours", "kept", "trl", "precomputed")]
    table.add_row(str(shots), f"{prompt:.0f} / {response:.0f}", *shown, f"{ratio:.2f}", f"{fair:.2f}", f"{differ:.0e}")
    return bool(same and differ <= 1e-4 and ratio >= 1.5)


if __name__ == "__main__":
    sys.exit(main())
