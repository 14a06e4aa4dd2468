"""How models of transformers are saved to a folder, loaded, and started from saved weights."""

import copy
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import safe_open
from tokenizers import Tokenizer
from torch import nn
from transformers import PreTrainedTokenizerFast
from transformers.utils import logging as transformers_logging

from entity_transformers import runtime
from entity_transformers.artifacts import (
    RECORD,
    check,
    named_errors,
    note_written,
    read_json,
    read_record,
)
from entity_transformers.corpus.alignment import END
from entity_transformers.corpus.files import shown
from entity_transformers.kinds import ModelEntry
from entity_transformers.models.base import LanguageModel, find_blocks

TRUSTED = {"use_safetensors": True, "trust_remote_code": False, "local_files_only": True}
INDEX = "model.safetensors.index.json"
PATTERNS = ("config.json", "model*.safetensors", INDEX)
ADAPTER, FACTS = "adapter.safetensors", "adapter.json"
"""What the top blocks of a base model have learnt, and its settings; next to the base's files."""

transformers_logging.disable_progress_bar()  # progress bars are of no use in a log


class Pretrained(LanguageModel):
    """A `LanguageModel` whose module is a model of transformers, of class ``of``."""

    of: Any

    def __init__(self, module: Any) -> None:
        config = module.config.get_text_config(decoder=True)
        self.module, self.width = module, config.hidden_size
        self.context = getattr(config, "max_position_embeddings", None)
        self.mask = getattr(config, "mask_token_id", None)
        self.memory_write = getattr(config, "memory_write", "last")

    @classmethod
    def configure(cls, entry: ModelEntry, vocabulary: int, end: int) -> Any:
        """Return the transformers config; ``end`` is the id of ``<|endoftext|>``."""
        raise NotImplementedError(f"{cls.kind.label} models are not built, but loaded")

    @classmethod
    def build(cls, entry: ModelEntry, vocabulary: int, end: int, seed: int) -> Self:
        config, weights = cls.configure(entry, vocabulary, end), entry.lm.initial_weights
        torch.manual_seed(seed)
        if weights is None:
            return cls(cls.initialise(config))
        return cls(cls.start_from(Path(weights), config))

    @classmethod
    def initialise(cls, config: Any) -> Any:
        """Return the module with random weights from torch's generator."""
        return cls.of(config)

    @classmethod
    def load(cls, folder: Path) -> Self:
        with opened(folder):
            cls.check_type(folder, {cls.of.config_class.model_type})
            return cls(load_whole(cls.of, folder, dtype=torch.float32))

    @classmethod
    def check_type(cls, folder: Path, expected: Collection[str]) -> None:
        """Check the saved model as `check_type` does."""
        check_type(folder, expected)

    @classmethod
    def start_from(cls, folder: Path, config: Any) -> Any:
        """Return the module of ``config`` with a folder's weights, in float32: of more positions
        the first. Weights for entities may be missing if the kind can start from another kind.
        """
        with opened(folder):
            cls.check_type(folder, {config.model_type, *cls.kind.also})
            given = copy.deepcopy(config)
            saved = read_json(folder / "config.json").get("n_positions")
            cut = isinstance(saved, int) and saved > getattr(config, "n_positions", saved)
            if cut:
                given.n_positions = saved
            model = load_whole(
                cls.of,
                folder,
                new="entity" if cls.kind.also else None,
                what=f"checkpoint of type {config.model_type} in this shape",
                do="give the entry its layers, heads, width and window, or leave initial_weights"
                " out",
                config=given,
                dtype=torch.float32,
            )
        if not cut:
            return model
        shorter, weights = cls.of(config), model.state_dict()
        for name, own in shorter.state_dict().items():
            weights[name] = weights[name][: len(own)]  # cuts position embeddings alone
        shorter.load_state_dict(weights)
        return shorter.eval()  # as from_pretrained returns a model

    def save(self, folder: Path) -> None:
        with named_errors(folder):
            self.module.save_pretrained(folder)
        note_written(folder)

    def checkpoint_activations(self) -> None:
        if self.module.supports_gradient_checkpointing:
            # transformers 5.23 has renamed this method
            enable = getattr(self.module, "activation_checkpointing_enable", None)
            (enable or self.module.gradient_checkpointing_enable)()
        else:
            super().checkpoint_activations()

    @property
    def parts(self) -> Sequence[nn.Module]:
        return [self.module.base_model]

    @property
    def blocks(self) -> Sequence[nn.Module]:
        base = self.module.base_model
        return find_blocks(base, base.config.get_text_config(decoder=True).num_hidden_layers)


def load_whole(
    of: Any,
    folder: Path,
    new: str | None = None,
    *,
    strict: bool = True,
    what: str = "checkpoint that fits config.json",
    do: str = "save the model again",
    **how: Any,
) -> Any:
    """Load a folder's model with ``from_pretrained`` of the class ``of`` and its keywords ``how``.

    Raises ValueError for a weight that is missing or has another shape, where transformers would
    fill in random numbers, and, if ``strict``, for a weight that the model does not have. Weights
    with ``new`` in their names may be missing.
    """
    how |= {"output_loading_info": True, "ignore_mismatched_sizes": True, **TRUSTED}
    model, info = of.from_pretrained(folder, **how)
    shapes, missing = info["mismatched_keys"], info["missing_keys"]
    wrong = [f"{key} is {list(found)}, not {list(wanted)}" for key, found, wanted in shapes]
    wrong += [f"{key} is missing" for key in missing if new is None or new not in key]
    wrong += [f"{key} is unexpected" for key in info["unexpected_keys"] if strict]
    if wrong:
        raise ValueError(f"{folder}: not a {what} ({min(wrong)}): {do}")
    return model


def check_type(folder: Path, expected: Collection[str]) -> None:
    """Raise ValueError for a saved model of another type than those ``expected``."""
    found = read_json(folder / "config.json").get("model_type")
    if found not in expected:
        raise ValueError(
            f"{folder}: a model of type {found!r}, expected"
            f" {' or '.join(map(repr, sorted(expected)))}: name another folder"
        )


@contextmanager
def opened(folder: Path) -> Iterator[None]:
    """Guard the loading of a saved model, whose weights are read from safetensors alone.

    Raises FileNotFoundError where no model was saved, and ValueError for weights of another format
    (a pickle can run code), for files that are damaged or differ from the folder's record, for
    other things that transformers would read (`_refuse_others`), and for weights that are not
    finite floating-point numbers (`check_weights`).
    """
    if not (folder / "config.json").is_file():
        raise FileNotFoundError(
            f"{folder}: no saved model there (config.json is missing): train it first, or correct"
            " the path"
        )
    with faults_named(folder):
        _refuse_others(folder)
        files, index = list_weights(folder), folder / INDEX
        scaled = "quantization_config" in read_json(folder / "config.json")
        shards = set(read_json(index)["weight_map"].values()) if index.is_file() else set()
        names = {file.name for file in files}
        if not shards <= names or not any(name.endswith(".safetensors") for name in names):
            others = sorted(shards | {file.name for file in folder.iterdir()} - names)
            raise ValueError(
                f"{folder}: no model*.safetensors with all its weights (it has"
                f" {', '.join(others) or 'nothing else'}), and only those are loaded, since a"
                " pickle can run code: save it with transformers as safetensors"
            )
        for file in files:
            check(file)
            if file.suffix == ".safetensors" and not scaled:
                check_weights(file)
        yield


def check_weights(file: Path) -> None:
    """Raise ValueError for NaN or infinity, and for integers or 8 bits, which would be misread
    without the scale that a quantiser has stored elsewhere.
    """
    with safe_open(file, "pt") as tensors:
        for name in tensors.keys():  # noqa: SIM118
            if "weight" in name:  # and not a buffer, such as a mask
                weight = tensors.get_tensor(name)
                fault = ""
                if not weight.is_floating_point() or weight.itemsize < 2:
                    kind = str(weight.dtype).removeprefix("torch.")
                    fault = f"is {kind}, expected float32, float16 or bfloat16"
                elif not weight.isfinite().all():
                    fault = "holds NaN or infinity"
                if fault:
                    raise ValueError(f"{file}: {name} {fault}: save the model again")


@contextmanager
def faults_named(folder: Path) -> Iterator[None]:
    """Turn any error of transformers and torch inside into a ValueError that names the folder."""
    try:
        yield
    except Exception as error:
        told = str(error).strip()
        named = isinstance(error, ValueError | OSError) and str(folder) in told
        if runtime.is_out_of_memory(error) or (named and "\n" not in told):
            raise
        told = shown(" ".join(told.split()), 200)
        raise ValueError(
            f"{folder}: can't be loaded ({type(error).__name__}: {told}): save the model again, or"
            " name another folder"
        ) from error


def _refuse_others(folder: Path) -> None:
    """Raise ValueError for a folder with a PEFT adapter, which transformers would put into the
    model; for a config with an attention from the hub, whose code it would fetch and run; and,
    where the folder's record names the weights, for any file that it does not name.
    """
    found = {path.name for path in folder.iterdir() if path.is_file() and path.name[0] != "."}
    named = read_record(folder).get("files", {})
    aside = str(Path(RECORD).with_suffix(".stale"))  # exists while the workflow repeats the run
    others = sorted(found.difference(named, [RECORD, aside]))
    if others and any(name.endswith(".safetensors") for name in named):
        raise ValueError(
            f"{folder}: {RECORD} does not list {', '.join(others)}, which may change the model:"
            " remove what it does not list"
        )
    if (folder / "adapter_config.json").exists():
        raise ValueError(
            f"{folder}: transformers would apply adapter_config.json to the model: remove it and"
            " the adapter's weights, or merge the adapter into the model and save that"
        )
    for key, value in read_json(folder / "config.json").items():
        if key.endswith("attn_implementation") and "/" in str(value):
            raise ValueError(
                f"{folder}: {key} {value} is code from the hub: remove it from config.json"
            )


def list_weights(folder: Path | None) -> list[Path]:
    """List the files that a model is loaded from; none if ``folder`` is None."""
    return sorted(path for name in PATTERNS for path in folder.glob(name)) if folder else []


def save_tokenizer(
    tokenizer: Tokenizer, folder: Path, longest: int | None, **more: str
) -> PreTrainedTokenizerFast:
    """Write the files of a transformers tokenizer, with ``more`` special tokens and remarks, for a
    model that reads ``longest`` tokens at once (None: any number).
    """
    ends = {"bos_token": END, "eos_token": END}
    limit = {} if longest is None else {"model_max_length": longest}
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **ends, **limit, **more)
    made.save_pretrained(folder)
    return made
