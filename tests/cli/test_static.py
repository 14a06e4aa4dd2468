"""The commands of static vectors: the step's files, restored when they are there, and one line
where a library is missing.
"""

from __future__ import annotations

import inspect
import json
import re
import shutil
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from entity_transformers.study.steps import STEPS
from tiny import tiny_params
from written import write_documents

from entity_transformers.artifacts import (
    DIGESTS,
    read_arrays,
    write_arrays,
    write_json,
    write_json_lines,
)
from entity_transformers.cli import find_function, main
from entity_transformers.corpus.alignment import align_split, learn_tokenizer
from entity_transformers.corpus.document import to_row
from entity_transformers.kinds import KINDS
from entity_transformers.models.static import glove
from entity_transformers.study.params import parse
from entity_transformers.study.plan import Plan

MODELS = {
    "glove": {"kind": "glove", "min_count": 2, "epochs": 3},
    "word2vec": {"kind": "word2vec", "min_count": 2},
    "gpt2": {"kind": "gpt2"},
}
STATIC = [name for name, kind in KINDS.items() if "static" in kind.can]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A params.yaml and a small prepared corpus without a test split."""
    values = tiny_params().model_dump(mode="json")
    values |= {"models": MODELS, "analogies": {"most_frequent": 30_000}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(values))
    documents = write_documents(12, longest=50, mentions=8)
    tokenizer = learn_tokenizer(documents, 300, "natural")
    for split, part in {"train": documents[:8], "dev": documents[8:], "test": []}.items():
        aligned = align_split(part, tokenizer, split=split, policy="outermost", spacing="natural")
        write_arrays(tmp_path / "corpus" / f"{split}.safetensors", *aligned.arrays())
        write_json_lines(tmp_path / "corpus" / f"{split}.jsonl", map(to_row, part))
    write_json_lines(tmp_path / "corpus" / "test2.jsonl", [])
    return tmp_path


def train(study: Path, model: str = "glove", *more: str) -> dict[str, bytes]:
    """The bytes of what train-lm wrote."""
    main([
        "train-lm", "--params", str(study / "params.yaml"), "--corpus", str(study / "corpus"),
        "--model", model, "--seed", "1", "--work", str(study / "work"),
        "--output", str(study / "out"), *more,
    ])  # fmt: skip
    return {path.name: path.read_bytes() for path in (study / "out").iterdir()}


def test_a_training_writes_the_step_s_files_and_is_restored(
    study: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    first = train(study)
    assert set(first) == {*STEPS["lm"].outputs, DIGESTS}
    monkeypatch.setattr(glove, "train", None)  # it is not asked again
    assert train(study) == first
    assert "finished before: restored from" in caplog.text
    with pytest.raises(TypeError):  # another value is another training
        train(study, "glove", "--kinds.glove.rate", "0.07")


def test_the_numbers_of_a_training(study: Path) -> None:
    written = train(study)
    metrics, timing, manifest = (
        json.loads(written[f"{name}.json"]) for name in ("metrics", "timing", "manifest")
    )
    arrays, _ = read_arrays(study / "corpus" / "train.safetensors")
    tokens = len(arrays["tokens"]) - 8
    vectors = glove.load(study / "out")
    assert metrics == {
        "model": "glove", "seed": 1, "labels": "none", "epochs": 3, "tokens_seen": 3 * tokens,
        "word_vectors": len(vectors.words), "parameters": 2 * len(vectors.words) * 17,
        "steps": None, "train_loss": None, "dev_loss_on": None, "dev_loss_off": None,
        "best_dev_loss": None, "best_step": None, "skipped_steps": None,
    }  # fmt: skip
    assert timing["tokens_per_second"] * timing["seconds_total"] == pytest.approx(3 * tokens)
    assert set(manifest["inputs"]) == {"train.jsonl", "train.safetensors"}
    assert manifest["params"]["kind"] == "glove"
    rows = [line.split(",") for line in written["curve.csv"].decode().splitlines()]
    assert rows[0][:2] + rows[0][-1:] == ["step", "tokens", "objective"]
    assert [row[:2] for row in rows[1:]] == [[str(n), str(n * tokens)] for n in (1, 2, 3)]
    assert all(float(row[-1]) > 0 and not any(row[2:-1]) for row in rows[1:])


def test_vectors_that_another_study_has_learnt_are_taken_as_they_are(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learnt = train(study)
    shutil.move(study / "out", study / "learnt")
    values = yaml.safe_load((study / "params.yaml").read_text())
    values["models"]["glove"]["initial_weights"] = "learnt"
    (study / "params.yaml").write_text(yaml.safe_dump(values))
    taken = train(study)
    assert taken["model.safetensors"] == learnt["model.safetensors"]
    before, after = (json.loads(files["metrics.json"]) for files in (learnt, taken))
    assert after["tokens_before"] == before["tokens_seen"] > 0
    assert after["parameters"] == before["parameters"]
    assert (after["epochs"], after["tokens_seen"]) == (0, 0)
    timings = [json.loads(files["timing.json"]) for files in (learnt, taken)]
    assert timings[1]["seconds_before"] == timings[0]["seconds_total"]
    assert set(json.loads(taken["manifest.json"])["inputs"]) >= {"model.safetensors"}
    with pytest.raises(SystemExit):
        train(study, "glove", "--lm.width", "32")
    told = "learnt: vectors of 16 numbers, but models.glove has width 32"
    assert told in capsys.readouterr().err


def test_the_manifest_names_the_library(study: Path) -> None:
    gensim = pytest.importorskip("gensim", reason="needs gensim, extra vectors")
    manifest = json.loads(train(study, "word2vec")["manifest.json"])
    assert manifest["versions"]["gensim"] == gensim.__version__


def extract(study: Path) -> None:
    main([
        "extract-embeddings", "--params", str(study / "params.yaml"),
        "--corpus", str(study / "corpus"), "--lm", str(study / "out"), "--model", "glove",
        "--seed", "1", "--output", str(study / "embeddings"),
    ])  # fmt: skip


@pytest.mark.parametrize("most", [1, 7, 60])
def test_parts_of_any_size_give_the_same_bytes(
    study: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    def read() -> dict[str, bytes]:
        extract(study)
        return {path.name: path.read_bytes() for path in (study / "embeddings").iterdir()}

    train(study)
    whole = read()
    for module in ("cli.static.embeddings", "encode.static"):
        monkeypatch.setattr(f"entity_transformers.{module}.PART", most)
    assert read() == whole


def test_documents_that_came_after_the_alignment_are_refused(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(study)
    dev = study / "corpus" / "dev.jsonl"
    dev.write_text(dev.read_text() + dev.read_text().splitlines()[-1] + "\n")
    with pytest.raises(SystemExit):
        extract(study)
    assert "5 documents, but 4 are aligned: align the corpus again" in capsys.readouterr().err


def test_vectors_of_words_and_mentions_are_written(study: Path) -> None:
    train(study)
    extract(study)
    names = {path.name for path in (study / "embeddings").iterdir()}
    assert names == {*STEPS["embeddings"].outputs, DIGESTS}
    words, facts = read_arrays(study / "embeddings" / "words.safetensors")
    assert set(words) == {"vectors", "train", "dev"}
    assert (words["vectors"].dtype, words["vectors"].shape[1]) == (np.float16, 16)
    assert facts == {"model": "glove", "seed": 1}
    mentions, facts = read_arrays(study / "embeddings" / "mentions.safetensors")
    assert facts["groups"] == ["nouns", "pronouns"]
    assert len(mentions["word_on"]) == len(mentions["entity"]) > 5


@pytest.mark.parametrize("model", ["glove", "word2vec"])
def test_exported_vectors_are_read_by_gensim(
    study: Path, model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the card says; where they went is told."""
    pytest.importorskip("gensim", reason="needs gensim, extra vectors")
    train(study, model)
    results = study / "results"
    shutil.copytree(study / "out", results / "lm" / model / "1")
    write_json(results / "corpus" / "statistics.json", {"splits": {"train": {"words": 1234}}})
    main([
        "export-model", "--params", str(study / "params.yaml"), "--results", str(results),
        "--model", model, "--seed", "1", "--output", str(study / "shared"),
    ])  # fmt: skip
    assert capsys.readouterr().out.splitlines()[-1] == (
        f"{study / 'shared'}: {model}, seed 1; README.md there says how it is used"
    )
    names = {path.name for path in (study / "shared").iterdir()}
    assert names == {"README.md", "config.json", "model.safetensors", "vectors.txt"}
    card = (study / "shared" / "README.md").read_text()
    assert "1,234 words" in card
    (code,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    found = KINDS[model].module().load(study / "shared")
    monkeypatch.chdir(study / "shared")
    names = {}
    exec(code, names)
    keyed = names["vectors"]
    assert tuple(keyed.index_to_key) == found.words
    np.testing.assert_array_equal(keyed.vectors, found.vectors)


def score_analogies(study: Path) -> dict[str, Any]:
    main([
        "score-analogies", "--params", str(study / "params.yaml"), "--lm", str(study / "out"),
        "--model", "glove", "--seed", "1", "--output", str(study / "scored"),
    ])  # fmt: skip
    return json.loads((study / "scored" / "analogies.json").read_text())


def test_gensim_s_questions_are_asked(study: Path) -> None:
    """Of which the small corpus knows hardly a word."""
    pytest.importorskip("gensim", reason="needs gensim, extra vectors")
    train(study)
    found = score_analogies(study)
    assert {name: score["asked"] for name, score in found["groups"].items()} == {
        "meaning": 8869, "grammar": 10675,
    }  # fmt: skip
    assert {name: score["asked"] for name, score in found["pairs"].items()} == {
        "WordSim-353": 353, "SimLex-999": 999,
    }  # fmt: skip
    assert found["words"] == len(glove.load(study / "out").words)


def test_several_processes_are_refused(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from entity_transformers.cli.static import lm

    from entity_transformers.train.distributed import World

    class Joined:
        def __init__(self, device: str) -> None: ...
        def __enter__(self) -> World:
            return World(size=2)

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(lm, "joined_world", Joined)
    with pytest.raises(SystemExit):
        train(study)
    assert not (study / "work").exists()


@pytest.mark.parametrize("kind", STATIC)
@pytest.mark.parametrize("command", ["train-lm", "extract-embeddings"])
def test_a_kind_s_own_command_takes_what_the_step_s_takes(kind: str, command: str) -> None:
    theirs, own = find_function(command, KINDS["gpt2"]), find_function(command, KINDS[kind])
    assert theirs is find_function(command)
    assert theirs.__module__ in ("entity_transformers.cli.lm", "entity_transformers.cli.embeddings")
    assert own.__module__ == theirs.__module__.replace("cli.", "cli.static.")
    parameters = [list(inspect.signature(f).parameters.values()) for f in (theirs, own)]
    assert [(p.name, p.default) for p in parameters[0]] == [
        (p.name, p.default) for p in parameters[1]
    ]


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without gensim."""
    found = util.find_spec
    monkeypatch.setattr(
        "entity_transformers.kinds.find_spec",
        lambda name: None if name == "gensim" else found(name),
    )


LINE = (
    "models.word2vec: kind word2vec needs gensim, which is not installed: pip install"
    " 'entity-transformers[vectors]', or leave the models of this kind out"
)


@pytest.mark.usefixtures("bare")
def test_a_missing_library_is_one_line_that_names_the_extra(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        train(study, "word2vec")
    assert stop.value.code == 2
    assert capsys.readouterr().err == f"entity-transformers train-lm: {LINE}\n"
    assert not (study / "work").exists()


@pytest.mark.usefixtures("bare")
def test_a_step_without_its_library_says_so(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(study)  # GloVe needs nothing
    capsys.readouterr()
    line = (
        "step analogies needs gensim, which is not installed: pip install"
        " 'entity-transformers[vectors]', or leave it out"
    )
    with pytest.raises(SystemExit):
        score_analogies(study)
    assert capsys.readouterr().err == f"entity-transformers score-analogies: {line}\n"
    values: dict[str, Any] = yaml.safe_load((study / "params.yaml").read_text())
    values["study"] |= {"steps": ["corpus", "lm", "analogies"], "seeds": [1]}
    del values["models"]["word2vec"]
    plan = Plan(parse(values, "x"), study)
    assert plan.missing_library() == f"study.steps: {line}"


@pytest.mark.usefixtures("bare")
def test_a_study_stops_at_once_unless_all_that_needs_it_is_there(study: Path) -> None:
    values: dict[str, Any] = yaml.safe_load((study / "params.yaml").read_text())
    values["study"] |= {"steps": ["corpus", "lm", "embeddings", "similarity"], "seeds": [1]}
    plan = Plan(parse(values, "x"), study)
    assert plan.missing_library() == LINE
    for step in ("lm", "embeddings"):
        for name in STEPS[step].outputs:
            path = study / "results" / step / "word2vec" / "1" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    assert plan.missing_library() == ""
    del values["models"]["word2vec"]
    assert Plan(parse(values, "x"), study / "elsewhere").missing_library() == ""


def test_what_static_vectors_read_is_verified_too(study: Path) -> None:
    values = yaml.safe_load((study / "params.yaml").read_text())
    values["study"] |= {"steps": ["corpus", "lm"], "seeds": [1]}
    (study / "params.yaml").write_text(yaml.safe_dump(values))
    train(study)
    shutil.copytree(study / "out", study / "results/lm/glove/1")
    shutil.copytree(study / "corpus", study / "results/corpus")
    main(["verify", str(study)])
    path = study / "results/corpus/train.jsonl"
    path.write_text(path.read_text().replace("a", "b"))
    with pytest.raises(SystemExit):
        main(["verify", str(study)])
