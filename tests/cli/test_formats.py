"""The formats of docs/own-corpus.md: what it prints is read, and the commands take it."""

import json
import re
import shutil
from itertools import product
from pathlib import Path

import pytest
import yaml
from conll_files import write

from entity_transformers.cli import main
from entity_transformers.corpus.document import Mention
from entity_transformers.corpus.readers import detect_format, read_corpus

ENDINGS = {
    "conllu": ("conllu",), "clusters": ("json",), "booknlp": ("tokens", "entities"),
    "brat": ("txt", "ann"),
}  # fmt: skip
WORDS = ("Ada", "met", "her", "friend", ".", "She", "ran", ".")


@pytest.mark.parametrize("format", ENDINGS)
def test_the_example_of_a_format_makes_a_study(format, root, tmp_path, monkeypatch, capsys):
    for name in ("params.yaml", "Snakefile"):
        shutil.copy(root / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    page = (root / "docs" / "own-corpus.md").read_text(encoding="utf-8")
    for split, ending in product(("train", "dev", "test"), ENDINGS[format]):
        [text] = re.findall(rf"```{ending}\n(.*?)```", page, re.DOTALL)
        name = f"letter.{ending}".replace(".json", ".jsonl")
        text = text.replace("newdoc id = letter", f"newdoc id = {split}")
        write(Path("letters", split, name), text)
    one = max(Path("letters/dev").iterdir())
    assert detect_format(Path("letters"))[0] == detect_format(one)[0] == format
    [document] = read_corpus(format, one)
    assert document.words == WORDS
    ada, friend = sorted({m.chain for m in document.mentions})
    spans = ((0, 1, ada), (2, 4, friend), (2, 3, ada), (5, 6, friend))
    assert document.mentions == tuple(Mention(*span) for span in spans)
    assert document.space_after in (None, (*(True,) * 3, False, True, True, False, True))

    main(["inspect-corpus", "letters", "--json"])
    counts = json.loads(capsys.readouterr().out)["splits"]
    assert {s: one["mentions"] for s, one in counts.items()} == {"train": 4, "dev": 4, "test": 4}
    main(["annotate", str(one), "--output", "out.jsonl", "--resolver", "names"])
    assert json.loads(Path("out.jsonl").read_text())["words"] == list(WORDS)
    main(["init", "letters", "--corpus", "letters"])
    study = yaml.safe_load(Path("studies/letters.yaml").read_text())
    assert (study["corpus"]["format"], study["models"]["gpt2e"]["labels"]) == (format, "gold")
    main(["run", "corpus", "--study", "studies/letters.yaml"])
    source = json.loads(Path("data/letters/text/corpus/source.json").read_text())
    assert len(source["files"]) == 3 * len(ENDINGS[format])
