"""Model folders that nobody vouches for: safetensors are loaded and nothing else."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import tiny_entry, tiny_model

import entity_transformers
from entity_transformers import DocumentReader, add_entity_attention, load_entity_attention
from entity_transformers.artifacts import RECORD, read_json, recorded, write_json, write_record
from entity_transformers.kinds import KINDS
from entity_transformers.models.base import build_model, find_class, load_model
from entity_transformers.models.folders import INDEX

kinds = pytest.mark.parametrize("kind", ["gpt2", "electra", "lstm"])


class Planted(str):
    """The path of a folder, which its pickle makes when it is loaded."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self),)


@pytest.fixture
def folder(kind: str, tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    tiny_model(kind).save(tmp_path / "model")
    return tmp_path / "model"


def refuse(folder: Path, kind: str, message: str) -> None:
    """Neither loaded nor started from."""
    with pytest.raises(ValueError, match=message):
        load_model(folder, KINDS[kind])
    with pytest.raises(ValueError, match=message):
        build_model(tiny_entry(kind, initial_weights=str(folder)), 40, 0, seed=1)


@kinds
@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.safetensors"])
def test_a_pickle_is_never_loaded(folder: Path, kind: str, name: str, tmp_path: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(pickle.dumps(Planted(tmp_path / "run")))
    message = rf"no model\*\.safetensors .*{name}.* a pickle can run code: save it"
    refuse(folder, kind, "model: can't be loaded" if name == "model.safetensors" else message)
    assert not (tmp_path / "run").exists()


def test_a_pickle_of_a_model_with_entity_attention_is_not_loaded(tmp_path: Path) -> None:
    model = add_entity_attention(tiny_model("gpt2").module)
    model.save_pretrained(tmp_path)
    assert load_entity_attention(tmp_path).num_parameters() == model.num_parameters()
    entity_transformers.save_entity_attention(model, tmp_path / "alone")
    file = tmp_path / "alone/entity_attention.safetensors"
    save_file({name: weight / 0 for name, weight in load_file(file).items()}, file)
    with pytest.raises(ValueError, match=r"weight holds NaN or infinity"):
        load_entity_attention(file.parent, tiny_model("gpt2").module)
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match="a pickle can run code"):
        load_entity_attention(tmp_path)


@pytest.mark.parametrize("kind", ["gpt2", "gpt2e", "electra"])
def test_an_adapter_in_the_folder_is_refused(folder: Path, kind: str) -> None:
    """Transformers loads it unasked: other numbers from the same weights."""
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    refuse(folder, kind, r"apply adapter_config\.json")
    (folder / "tokenizer.json").touch()
    with pytest.raises(ValueError, match=r"apply adapter_config\.json"):
        DocumentReader.from_pretrained(folder)


@kinds
def test_a_record_names_what_was_saved_and_nothing_else_is_loaded(folder: Path, kind: str) -> None:
    """Such as a generation_config.json, which transformers reads if it is there."""
    with recorded() as written:
        tiny_model(kind).save(folder)
    assert written == {*folder.iterdir()}
    write_record(folder, [path.name for path in written])
    (folder / "run.stale").write_text("{}")  # the record that the workflow has set aside
    assert tensors(folder, kind)
    (folder / "other.json").write_text("{}")
    refuse(folder, kind, r"model: run\.json does not list other\.json, which may")


@kinds
@pytest.mark.parametrize("shard", ["pytorch_model.bin", "../other.safetensors"])
def test_an_index_names_no_other_file(folder: Path, kind: str, shard: str) -> None:
    (folder / INDEX).write_text(json.dumps({"weight_map": {"transformer.wte.weight": shard}}))
    (folder / shard).write_bytes(b"")
    refuse(folder, kind, "only those are loaded")


@kinds
@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_flipped_bit_of_a_sealed_model_is_refused(folder: Path, kind: str, name: str) -> None:
    """One from elsewhere has no digests, and the bit is taken."""
    before = {key: tensor.clone() for key, tensor in tensors(folder, kind).items()}
    write_record(folder, [path.name for path in folder.iterdir()])
    data = bytearray((folder / name).read_bytes())
    data[-30] ^= 1
    (folder / name).write_bytes(data)
    refuse(folder, kind, rf"{name}: sha256 .*it was changed or damaged")
    if name == "model.safetensors":
        (folder / RECORD).unlink()
        after = tensors(folder, kind)
        assert sum(not torch.equal(before[key], after[key]) for key in before) == 1


Weights = dict[str, torch.Tensor]
CHANGES: dict[str, Callable[[Weights], Weights]] = {
    "one less": lambda weights: {k: weights[k] for k in sorted(weights)[:-1]},
    "none": lambda weights: {},
    "other names": lambda weights: {f"x.{k}": tensor for k, tensor in weights.items()},
    "other shapes": lambda weights: {k: tensor[:-1] for k, tensor in weights.items()},
}


@kinds
@pytest.mark.parametrize("change", CHANGES)
def test_no_weight_is_made_up(folder: Path, kind: str, change: str) -> None:
    """Transformers draws random ones for what is not there."""
    weights = CHANGES[change](load_file(folder / "model.safetensors"))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    refuse(folder, kind, r"model: (not a checkpoint|no |can't be loaded)")


TYPES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], str]] = {
    "int8": (lambda weight: (100 * weight).to(torch.int8), "is int8, expected float32"),
    "float8": (lambda weight: weight.to(torch.float8_e4m3fn), "is float8_e4m3fn, expected"),
    "complex": (lambda weight: weight.to(torch.complex64), "is complex64, expected float32"),
    "nan": (lambda weight: weight.log(), "holds NaN or infinity"),
    "infinite": (lambda weight: weight / 0, "holds NaN or infinity"),
    "float64": (lambda weight: weight.double(), ""),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["gpt2", "lstm"])
@pytest.mark.parametrize("change", TYPES)
def test_no_weight_is_taken_for_another_number(folder: Path, kind: str, change: str) -> None:
    """As transformers takes whole numbers that a quantiser has scaled."""
    altered, message = TYPES[change]
    before = {key: tensor.clone() for key, tensor in tensors(folder, kind).items()}
    weights = load_file(folder / "model.safetensors")
    save_file({k: altered(w) for k, w in weights.items()}, folder / "model.safetensors")
    if message:
        refuse(folder, kind, rf"model\.safetensors: \S*weight\S* {message}")
    else:
        after = tensors(folder, kind)
        assert all(torch.equal(before[key], after[key]) for key in before)


CONFIGS: dict[str, tuple[dict[str, object], str]] = {
    "code of the hub": (
        {"attn_implementation": "somebody/kernel"}, "attn_implementation somebody/kernel is code"),
    "more layers": ({"n_layer": 3}, r"\(transformer\.h\.2\.\S+ is missing\)"),
    "no number": ({"n_layer": "x"}, "can't be loaded .*n_layer"),
    "no heads": ({"n_head": 0}, r"can't be loaded \(ZeroDivisionError"),
    "a library": ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "can't be loaded"),
    "a type that is a list": ({"model_type": [1]}, "can't be loaded"),
    "code of the folder": (
        {"model_type": "x", "auto_map": {"AutoConfig": "x.X", "AutoModelForCausalLM": "x.X"}},
        "can't be loaded .*custom code"),
    "switches": ({"entity_attention": 5}, "can't be loaded"),
}  # fmt: skip


@pytest.mark.parametrize("case", CONFIGS)
def test_a_config_that_nothing_can_be_made_of_is_one_line(tmp_path, case, monkeypatch):
    """Neither is code run, nor is anybody asked whether it may be."""
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked"))
    tiny_model("gpt2").save(tmp_path)
    (tmp_path / "tokenizer.json").touch()
    (tmp_path / "x.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'run')!r})\n")
    change, message = CONFIGS[case]
    write_json(tmp_path / "config.json", read_json(tmp_path / "config.json") | change)
    with pytest.raises(ValueError, match=message) as told:
        DocumentReader.from_pretrained(tmp_path)
    assert str(told.value).startswith(str(tmp_path))
    assert "\n" not in str(told.value)
    assert not (tmp_path / "run").exists()


def test_too_little_memory_is_no_fault_of_the_folder(tmp_path, monkeypatch):
    tiny_model("gpt2").save(tmp_path)
    for fault in (MemoryError, RuntimeError("DefaultCPUAllocator: not enough memory")):
        reader = Mock(side_effect=fault)
        monkeypatch.setattr(find_class(KINDS["gpt2"]).of, "from_pretrained", reader)
        with pytest.raises((MemoryError, RuntimeError)):
            load_model(tmp_path, KINDS["gpt2"])


@pytest.mark.parametrize("index", [[1], {"weight_map": [1]}, {"weight_map": {"a": 5}}, {}])
def test_an_index_of_another_shape_is_one_line(tmp_path: Path, index: object) -> None:
    tiny_model("gpt2").save(tmp_path)
    (tmp_path / INDEX).write_text(json.dumps(index))
    refuse(tmp_path, "gpt2", str(tmp_path))


def tensors(folder: Path, kind: str) -> dict[str, torch.Tensor]:
    parameters = load_model(folder, KINDS[kind]).module.named_parameters()
    return {name: parameter.detach() for name, parameter in parameters}
