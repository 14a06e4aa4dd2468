"""Run the demo on a tiny GPT2E where the wheel alone is installed, and see that nothing but the
package's own requirements came with it.
"""

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import entity_transformers

ROOT = Path(__file__).resolve().parents[1]
ABSENT = ("spacy", "pyarrow", "sklearn", "scipy", "matplotlib", "seqeval", "snakemake", "dvc")

assert ROOT not in Path(entity_transformers.__file__).resolve().parents, "not the installed one"
found = [name for name in ABSENT if importlib.util.find_spec(name)]
assert not found, f"{found} should need an extra"
assert "torch" not in sys.modules, "importing the package imports torch"

from transformers import GPT2Config, GPT2LMHeadModel  # noqa: E402

from entity_transformers.corpus.alignment import learn_tokenizer  # noqa: E402
from entity_transformers.corpus.marked import read_marked  # noqa: E402


def run(*words: str) -> str:
    """What the command prints."""
    command = [str(Path(sys.executable).with_name("entity-transformers")), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


TEXT = "[1 Anna] met [2 Bob]. [1 She] gave [2 him] a book, and [2 Bob] thanked [1 Anna]."
with tempfile.TemporaryDirectory() as folder:
    GPT2LMHeadModel(GPT2Config(n_embd=16, n_layer=2, n_head=2)).save_pretrained(folder)
    encoder = str(Path(folder, "tokenizer.json"))
    learn_tokenizer([read_marked(TEXT)], 300, "natural").save(encoder)
    entity_transformers.GPT2EForCausalLM.from_pretrained(folder).save_pretrained(folder)
    shown = run("demo", TEXT, "--model", folder)
assert "nats per token, all" in shown, shown
assert run("--version").split()[-1] == entity_transformers.__version__
print(f"{entity_transformers.__version__}: the demo runs")
