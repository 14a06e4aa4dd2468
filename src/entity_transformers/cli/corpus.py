"""Opens the files of download-*, prepare-*, tag-lambada, train-tokenizer, align-corpus,
inspect-corpus and check-params.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from entity_transformers import runtime
from entity_transformers.artifacts import (
    read_json,
    read_json_lines,
    read_tokenizer,
    write_arrays,
    write_json,
    write_json_lines,
    write_text,
    write_with,
)
from entity_transformers.cli.documents import load_documents
from entity_transformers.corpus.alignment import (
    align_split,
    learn_tokenizer,
    load_gpt2_tokenizer,
    summarise,
)
from entity_transformers.corpus.document import SPLITS, CorpusError, Document
from entity_transformers.corpus.download import list_files, locate
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.lines import open_lines
from entity_transformers.corpus.mentions import drop_singletons
from entity_transformers.corpus.readers import detect_format, find_reader, read_corpus
from entity_transformers.corpus.readers.lambada import Text, parse_passages
from entity_transformers.corpus.rows import to_row
from entity_transformers.corpus.sample import generate_passages
from entity_transformers.corpus.statistics import (
    compare_with_conll2012,
    describe,
    format_comparison,
    format_table,
)
from entity_transformers.corpus.tagging import tag_targets
from entity_transformers.digests import file_digests
from entity_transformers.study.params import Params

log = logging.getLogger(__name__)
SAMPLE_PASSAGES = 400


def check_params(params: Params) -> None:
    """Print the params as JSON, every value typed."""
    print(params.model_dump_json(indent=2))


def download_corpus(params: Params, cache: Path, output: Path) -> None:
    """The corpus' files: on disk, downloaded, or generated."""
    section, reader = params.corpus, find_reader(params.corpus.format)
    if reader.generate:
        files = reader.generate(section.sample_words, section.sample_seed)
        write_json(
            output, _write_sample(files, cache, f"{section.sample_words}-{section.sample_seed}")
        )
    else:
        write_json(
            output, locate(section.format, _path(section.path), cache, revision=section.revision)
        )


def download_lambada(params: Params, cache: Path, output: Path) -> None:
    """The file of passages: on disk, downloaded, or generated."""
    if params.lambada.text == "sample":
        passages = generate_passages(SAMPLE_PASSAGES, params.corpus.sample_seed)
        write_json(
            output,
            _write_sample(
                {"passages.txt": "\n".join(passages) + "\n"},
                cache,
                f"passages-{params.corpus.sample_seed}",
            ),
        )
    else:
        write_json(
            output, locate(f"lambada-{params.lambada.text}", _path(params.lambada.path), cache)
        )


def _path(name: str | None) -> Path | None:
    return None if name is None else Path(name)


def _write_sample(files: dict[str, str], cache: Path, name: str) -> dict[str, Any]:
    """Write generated files below a folder named by their content, and list them."""
    root = cache / f"sample-{name}-{runtime.digest(*files.values())}"
    for path, text in files.items():
        write_text(root / path, text)
    return list_files(root, cache=cache)


def prepare_corpus(params: Params, source: Path, output: Path, cache: Path | None = None) -> None:
    """Every split's documents as JSON lines, and statistics.json. ``cache`` keeps checksums."""
    section, listed = params.corpus, _find_listed(source, cache)
    corpus = read_corpus(
        section.format, listed, exclude=section.exclude, bad_documents=section.bad_documents
    )
    splits: dict[str, list[Document]] = {split: [] for split in SPLITS}
    for document in corpus:
        splits[document.split].append(document if section.singletons else drop_singletons(document))
    for split, documents in splits.items():
        if not documents and split != "test2":
            raise CorpusError(
                f"{listed}: no document of split {split!r}: train, dev and test are all needed"
            )
        write_json_lines(output / f"{split}.jsonl", map(to_row, documents))
    for name, wanted in (
        ("perplexity", params.perplexity.splits),
        ("embeddings", params.embeddings.splits),
    ):
        if empty := [split for split in wanted if not splits[split]]:
            raise CorpusError(
                f"{name}.splits names {', '.join(empty)}, of which {listed} has no document: leave"
                " it out"
            )
    statistics = describe(
        (d for documents in splits.values() for d in documents), section.nested_mentions
    )
    statistics["left_out"] = corpus.ledger.as_dict()
    write_json(output / "statistics.json", statistics)
    log.info("%s", format_table(statistics))
    if section.format == "ontonotes":
        log.info("%s", format_comparison(compare_with_conll2012(statistics)))


def _find_listed(source: Path, cache: Path | None) -> Path:
    """The root of a list of files; one that has gone or changed since raises CorpusError."""
    listed = read_json(source)
    root = Path(listed["root"])
    paths = [root / file["path"] for file in listed["files"]]
    changed = next((path for path in paths if not path.is_file()), None)
    if not changed:
        digests = file_digests(paths, cache)
        pairs = zip(paths, digests, listed["files"], strict=True)
        changed = next((path for path, digest, file in pairs if digest != file["sha256"]), None)
    if changed:
        raise CorpusError(
            f"{changed}: gone or changed since {source} was written: delete {source} and run again"
        )
    return root


def prepare_lambada(params: Params, source: Path, output: Path, cache: Path | None = None) -> None:
    """The passages as JSON lines, and how many they are; corpus.bad_documents says whether a bad
    one stops or is left out and named.
    """
    listed = _find_listed(source, cache)
    path = listed / read_json(source)["files"][0]["path"]
    text: Text = "openai" if params.lambada.text == "openai" else "original"
    ledger = Ledger(policy=params.corpus.bad_documents)
    count = write_json_lines(
        output / "lambada.jsonl", parse_passages(open_lines(path), str(path), text, ledger)
    )
    write_json(output / "lambada_statistics.json", {"passages": count, "bad": ledger.bad})
    log.info("%d passages, %d left out", count, len(ledger.bad))


def tag_lambada(params: Params, corpus: Path, output: Path) -> None:
    """Parts of speech of the passages' target words, and how well the tagger does on dev."""
    passages = list(read_json_lines(corpus / "lambada.jsonl"))
    train, dev = (load_documents(corpus / f"{split}.jsonl") for split in ("train", "dev"))
    tags = {"text": params.lambada.text, **tag_targets(train, dev, passages)}
    write_json(output, tags)
    log.info(
        "%s",
        (
            _dump(tags)
            if tags["shares"]
            else f"{corpus / 'train.jsonl'} has no parts of speech: the targets' are left out"
        ),
    )


def train_tokenizer(params: Params, corpus: Path, cache: Path, output: Path) -> None:
    """tokenizer.json: learnt, or GPT-2's own."""
    if params.tokenizer.kind == "trained":
        documents = load_documents(corpus / "train.jsonl")
        tokenizer = learn_tokenizer(documents, params.tokenizer.vocabulary, params.corpus.spacing)
    else:
        tokenizer = load_gpt2_tokenizer(
            Path(locate("gpt2-bpe", _path(params.tokenizer.path), cache)["root"])
        )
    write_with(output, lambda path: tokenizer.save(str(path)))
    log.info("%d tokens", tokenizer.get_vocab_size())


def align_corpus(params: Params, corpus: Path, tokenizer: Path, output: Path) -> None:
    """Every split's tokens with entity ids, and their counts."""
    encoder = read_tokenizer(tokenizer)
    counts: dict[str, Any] = {
        "tokenizer": {"kind": params.tokenizer.kind, "tokens": encoder.get_vocab_size()}
    }
    for split in SPLITS:
        documents = load_documents(corpus / f"{split}.jsonl")
        aligned = align_split(
            documents,
            encoder,
            split=split,
            policy=params.corpus.nested_mentions,
            spacing=params.corpus.spacing,
        )
        write_arrays(output / f"{split}.safetensors", *aligned.arrays())
        counts[split] = summarise(aligned)
    write_json(output / "alignment.json", counts)
    log.info("%s", json.dumps(counts, indent=2))


def inspect_corpus(
    path: Path,
    format: str,
    nested_mentions: Any,
    bad_documents: Any,
    exclude: Iterable[str],
    json: bool,
) -> None:
    """Print the counts of any corpus on disk, beside the known sizes of a whole CoNLL-2012."""
    found = format
    if format == "auto":
        found, why = detect_format(path)
        log.info("read as %s, since %s (--format names another)", found, why)
    corpus = read_corpus(found, path, exclude=exclude, bad_documents=bad_documents)
    statistics = describe(corpus, nested_mentions)
    statistics["left_out"] = corpus.ledger.as_dict()
    if found == "ontonotes" and {"train", "dev", "test"} <= set(statistics["splits"]):
        statistics["conll2012"] = compare_with_conll2012(statistics)
    print(_dump(statistics) if json else format_table(statistics))
    if "conll2012" in statistics and not json:
        print(format_comparison(statistics["conll2012"]))


def _dump(value: Any) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
