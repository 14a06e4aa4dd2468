"""From files to documents, an encoder and tokens with entity ids: what step corpus does."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from entity_transformers.artifacts import json_lines_writer, read_tokenizer
from entity_transformers.corpus.alignment import (
    WholeSplit,
    align_split,
    learn_tokenizer,
    load_gpt2_tokenizer,
    split_parts,
    summarise,
)
from entity_transformers.corpus.document import SPLITS, CorpusError, Document, join_parts, to_row
from entity_transformers.corpus.download import (
    find_evaluated,
    find_listed,
    locate,
    user_path,
    write_sample,
)
from entity_transformers.corpus.mentions import drop_singletons
from entity_transformers.corpus.overlap import Overlap, leave_out
from entity_transformers.corpus.readers import find_reader, read_corpus
from entity_transformers.corpus.statistics import (
    compare_with_conll2012,
    describe,
    format_comparison,
    format_table,
)
from entity_transformers.corpus.stored import Documents
from entity_transformers.resolve.layers import Summary, add_layer
from entity_transformers.resolve.registry import make_resolver
from entity_transformers.streamed import arrays_writer
from entity_transformers.study.origin import find_path

log = logging.getLogger(__name__)


def list_corpus(section: Any, cache: Path) -> dict[str, Any]:
    """The files of the corpus, and of what it must not hold text of, each with its checksum."""
    reader = find_reader(section.format)
    if reader.provide:
        listed = write_sample(
            reader.provide(section.sample_words), cache, str(section.sample_words)
        )
    else:
        path = user_path(section.path)
        listed = locate(section.format, path, cache, revision=section.revision)
    if section.evaluated:
        listed["evaluated"] = {name: locate(name, None, cache) for name in section.evaluated}
    return listed


def write_documents(
    params: Any, source: Path, cache: Path, output: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Every split's documents as JSON lines, their statistics, and what was left out and why."""
    section, listed = params.corpus, find_listed(source, cache)
    corpus = read_corpus(
        section.format, listed, exclude=section.exclude, bad_documents=section.bad_documents
    )
    overlap = Overlap.of(find_evaluated(source, cache))
    documents = join_parts(corpus) if section.unit == "book" else iter(corpus)
    if not section.singletons:
        documents = map(drop_singletons, documents)
    documents = leave_out(documents, overlap, corpus.ledger)
    with ExitStack() as files:
        write: dict[str, Callable[[Mapping[str, Any]], None]] = {
            split: files.enter_context(json_lines_writer(output / f"{split}.jsonl"))
            for split in SPLITS
        }
        statistics = describe(_written(documents, write), section.nested_mentions)
        _check_splits(params, listed, statistics["splits"])
        overlap.check()
    left_out = {"counts": {}, "excluded": [], "bad": {}, "documents_read": 0}
    left_out |= corpus.ledger.as_dict()
    if section.evaluated:
        left_out["overlap"] = overlap.summary()
    log.info("%s", format_table({**statistics, "left_out": left_out}))
    if section.format == "ontonotes":
        log.info("%s", format_comparison(compare_with_conll2012(statistics)))
    return statistics, left_out


def _written(
    documents: Iterable[Document], write: Mapping[str, Callable[[Mapping[str, Any]], None]]
) -> Iterator[Document]:
    """The documents, each of which is in its split's file when the next one is asked for."""
    for document in documents:
        write[document.split](to_row(document))
        yield document


def _check_splits(params: Any, listed: Path, found: Collection[str]) -> None:
    for split in ("train", "dev", "test"):
        if split not in found:
            raise CorpusError(
                f"{listed}: no document of split {split!r}: train, dev and test are all needed"
            )
    for name in filter(params.runs_step, ("perplexity", "embeddings")):
        wanted = getattr(params, name).splits
        if empty := [split for split in wanted if split not in found]:
            raise CorpusError(
                f"{name}.splits names {', '.join(empty)}, of which {listed} has no document: leave"
                " it out"
            )


def make_tokenizer(params: Any, corpus: Path, cache: Path) -> Tokenizer:
    """The encoder: learnt from the training split, GPT-2's own, another study's, or a pretrained
    model's.
    """
    section = params.tokenizer
    path = user_path(find_path(section.path))
    if section.kind == "trained":
        documents = Documents(corpus / "train.jsonl")
        tokenizer = learn_tokenizer(documents, section.vocabulary, params.corpus.spacing)
    elif section.kind == "study" and path is not None:
        tokenizer = read_tokenizer(path)
    elif section.kind == "pretrained":
        from entity_transformers.models.weights import find_tokenizer  # which loads torch

        tokenizer = find_tokenizer(section.path)
    else:
        tokenizer = load_gpt2_tokenizer(Path(locate("gpt2-bpe", path, cache)["root"]))
    log.info("%d tokens", tokenizer.get_vocab_size())
    return tokenizer


def align(params: Any, tokenizer: Tokenizer, folder: Path) -> Iterator[tuple[str, dict[str, int]]]:
    """Write every split's tokens with entity ids, part by part; each split and its counts."""
    section = params.corpus
    for split in SPLITS:
        whole = WholeSplit(split)
        resolvers = {name: make_resolver(name) for name in section.resolvers}
        found = {name: Summary() for name in resolvers}
        counts: Counter[str] = Counter()
        with arrays_writer(folder / f"{split}.safetensors") as writer:
            for documents in split_parts(Documents(folder / f"{split}.jsonl")):
                part = align_split(
                    documents,
                    tokenizer,
                    split=split,
                    policy=section.nested_mentions,
                    spacing=section.spacing,
                    running_text=params.tokenizer.kind == "pretrained",
                )
                for name, resolver in resolvers.items():
                    part, own = add_layer(part, documents, resolver, section.nested_mentions)
                    found[name].add(own)
                writer.append(whole.place(part))
                counts.update(summarise(part))
            writer.metadata, writer.tables["tags"] = whole.metadata(), whole.table()
        for name, summary in found.items():
            log.info("%s, %s: %s", split, name, "\n".join(summary.lines()))
        yield split, dict(counts)
