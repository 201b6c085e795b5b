"""TRL's side of benchmarks/dpo.py, run with the Python of TRL's environment: `dpo_trl.py SPEC.json OUT.json`."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from torch.utils.data import SequentialSampler
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer


class Measured(DPOTrainer):  # type: ignore[misc]
    """Keeps every loss to all its digits, and takes the pairs in their order."""

    losses: list[float]

    def compute_loss(self, *arguments: Any, **named: Any) -> Any:
        loss = super().compute_loss(*arguments, **named)
        self.losses.append(float((loss[0] if isinstance(loss, tuple) else loss).detach()))
        return loss

    def _get_train_sampler(self, *_: Any, **__: Any) -> Any:
        return SequentialSampler(self.train_dataset)


def main(spec: dict[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(spec["threads"])
    model = AutoModelForCausalLM.from_pretrained(spec["model"], dtype=torch.float32, attn_implementation="sdpa")
    optimizer = spec["optimizer"]
    config = DPOConfig(
        output_dir=spec["folder"], per_device_train_batch_size=spec["batch_size"], max_steps=spec["steps"],
        learning_rate=optimizer["learning_rate"], adam_beta1=optimizer["betas"][0], adam_beta2=optimizer["betas"][1],
        adam_epsilon=optimizer["epsilon"], weight_decay=0.0, max_grad_norm=optimizer["max_grad_norm"],
        lr_scheduler_type="constant", warmup_steps=0, beta=spec["beta"], max_length=None, bf16=False, use_cpu=True,
        gradient_checkpointing=False, precompute_ref_log_probs=spec["precompute"], save_strategy="no",
        logging_strategy="no", report_to=[], disable_tqdm=True, dataloader_num_workers=0, optim="adamw_torch",
    )  # fmt: skip
    dataset = Dataset.from_json(spec["pairs"])
    tokenizer = AutoTokenizer.from_pretrained(spec["model"])
    trainer = Measured(model=model, args=config, train_dataset=dataset, processing_class=tokenizer)
    trainer.losses = []
    began, wall = time.process_time(), time.monotonic()
    trainer.train()
    seconds, wall = time.process_time() - began, time.monotonic() - wall
    rows = trainer.train_dataset
    ids = [[row["prompt_ids"], row["chosen_ids"], row["rejected_ids"]] for row in rows]
    return {"losses": trainer.losses, "cpu_seconds": seconds, "wall_seconds": wall, "ids": ids}


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(main(json.loads(Path(sys.argv[1]).read_text()))))
