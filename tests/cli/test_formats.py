"""The formats of docs/own-corpus.md: what it prints is read, and the commands take it."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from entity_transformers.cli import main
from entity_transformers.corpus.document import Mention
from entity_transformers.corpus.readers import detect_format, read_corpus

ROOT = Path(__file__).resolve().parents[2]
ENDINGS = {
    "conllu": ("conllu",), "clusters": ("json",), "booknlp": ("tokens", "entities"),
    "brat": ("txt", "ann"),
}  # fmt: skip
WORDS = ("Ada", "met", "her", "friend", ".", "She", "ran", ".")


def examples(format: str) -> Iterator[tuple[str, str]]:
    page = (ROOT / "docs" / "own-corpus.md").read_text(encoding="utf-8")
    for ending in ENDINGS[format]:
        [text] = re.findall(rf"```{ending}\n(.*?)```", page, re.DOTALL)
        yield "jsonl" if ending == "json" else ending, text


@pytest.mark.parametrize("format", ENDINGS)
def test_the_example_of_a_format_is_read_and_makes_a_study(format, tmp_path, monkeypatch, capsys):
    for name in ("params.yaml", "Snakefile"):
        shutil.copy(ROOT / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    for split in ("train", "dev", "test"):
        Path("letters", split).mkdir(parents=True)
        for ending, text in examples(format):
            own = text.replace("newdoc id = letter", f"newdoc id = {split}")
            Path("letters", split, f"letter.{ending}").write_text(own)
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
