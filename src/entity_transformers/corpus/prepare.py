"""From files to documents, an encoder and tokens with entity ids: what step corpus does."""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from entity_transformers.artifacts import json_lines_writer, read_tokenizer, write_arrays
from entity_transformers.corpus.alignment import (
    AlignedCorpus,
    align_split,
    learn_tokenizer,
    load_gpt2_tokenizer,
    summarise,
    word_labels,
)
from entity_transformers.corpus.document import (
    SPLITS,
    CorpusError,
    Document,
    Documents,
    join_parts,
    to_row,
)
from entity_transformers.corpus.download import (
    Manifest,
    locate,
    open_evaluated,
    read_evaluated,
    write_sample,
)
from entity_transformers.corpus.mentions import Nesting, drop_singletons
from entity_transformers.corpus.overlap import Overlap, leave_out
from entity_transformers.corpus.readers import find_reader, read_corpus
from entity_transformers.corpus.statistics import compare_with_conll2012, describe, format_table
from entity_transformers.resolve.registry import Resolver, annotate, make_resolver, show_counts
from entity_transformers.study.origin import find_path

log = logging.getLogger(__name__)


def list_corpus(section: Any, cache: Path) -> Manifest:
    """List the files of the corpus and of the evaluation sets it names, each with its checksum."""
    reader = find_reader(section.format)
    if reader.provide:
        words = section.sample_words
        listed = write_sample(reader.provide(words), cache, str(words))
    else:
        listed = locate(section.format, section.path, cache, revision=section.revision)
    if section.evaluated:
        listed["evaluated"] = {name: locate(name, None, cache) for name in section.evaluated}
    if section.second_test:
        listed["second_test"] = {section.second_test: locate(section.second_test, None, cache)}
    return listed


def write_documents(
    params: Any, listed: Manifest, output: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Write every split's documents as JSON lines; return their statistics, and what was left out
    and why.
    """
    section, root = params.corpus, Path(listed["root"])
    how = {"exclude": section.exclude, "bad_documents": section.bad_documents}
    corpus = read_corpus(section.format, root, **how)
    overlap = Overlap(read_evaluated(listed.get("evaluated", {})))
    documents = join_parts(corpus) if section.unit == "book" else iter(corpus)
    if section.second_test:
        name, files = section.second_test, listed["second_test"][section.second_test]
        second = open_evaluated(name, files, bad_documents=section.bad_documents)
        documents = _add_second_test(documents, name, second)
    if not section.singletons:
        documents = map(drop_singletons, documents)
    documents = leave_out(documents, overlap)
    with ExitStack() as files:
        write: dict[str, Callable[[Mapping[str, Any]], None]] = {
            split: files.enter_context(json_lines_writer(output / f"{split}.jsonl"))
            for split in SPLITS
        }
        statistics = describe(_written(documents, write), section.nested_mentions)
        _check_splits(params, root, statistics["splits"])
        overlap.check()
    left_out = corpus.ledger.as_dict()
    if section.second_test:
        left_out["second_test"] = second.ledger.as_dict()
    if section.evaluated:
        left_out["overlap"] = overlap.summary()
    log.info("%s", format_table({**statistics, "left_out": left_out}))
    if section.format == "ontonotes":
        log.info("%s", compare_with_conll2012(statistics))
    return statistics, left_out


def _written(
    documents: Iterable[Document], write: Mapping[str, Callable[[Mapping[str, Any]], None]]
) -> Iterator[Document]:
    """Yield the documents, each after it has been written to the file of its split."""
    for document in documents:
        write[document.split](to_row(document))
        yield document


def _add_second_test(
    documents: Iterable[Document], name: str, second: Iterable[Document]
) -> Iterator[Document]:
    """Yield the documents, then the whole data set ``name`` as split test2. CorpusError if a
    document has this split already.
    """
    for document in documents:
        if document.split == "test2":
            raise CorpusError(
                f"corpus.second_test: {name} is to be split test2, but the corpus already has one,"
                f" with document {document.name}: leave second_test out"
            )
        yield document
    for document in second:
        yield replace(document, split="test2")


def _check_splits(params: Any, root: Path, found: Collection[str]) -> None:
    for split in ("train", "dev", "test"):
        if split not in found:
            raise CorpusError(
                f"{root}: no document of split {split!r}: train, dev and test are all needed"
            )
    for name in filter(params.runs_step, ("perplexity", "embeddings")):
        if empty := [split for split in getattr(params, name).splits if split not in found]:
            raise CorpusError(
                f"{name}.splits names {', '.join(empty)}, for which {root} has no document:"
                " leave it out"
            )


def make_tokenizer(params: Any, corpus: Path, cache: Path) -> Tokenizer:
    """Return the encoder: learnt from the training split, GPT-2's own, another study's, or a
    pretrained model's.
    """
    section = params.tokenizer
    path = find_path(section.path)
    if section.kind == "trained":
        documents = Documents(corpus / "train.jsonl")
        tokenizer = learn_tokenizer(documents, section.vocabulary, params.corpus.spacing)
    elif section.kind == "study" and path is not None:
        tokenizer = read_tokenizer(Path(path))
    elif section.kind == "pretrained":
        from entity_transformers.models.weights import find_tokenizer  # which loads torch

        tokenizer = find_tokenizer(section.path)
    else:
        tokenizer = load_gpt2_tokenizer(Path(locate("gpt2-bpe", path, cache)["root"]))
    log.info("%d tokens", tokenizer.get_vocab_size())
    return tokenizer


def align(params: Any, tokenizer: Tokenizer, folder: Path) -> Iterator[tuple[str, dict[str, int]]]:
    """Write every split's tokens with entity ids and the layers of resolvers; yield each split and
    its counts.
    """
    section, policy = params.corpus, params.corpus.nested_mentions
    running_text = params.tokenizer.kind == "pretrained"
    how = {"policy": policy, "spacing": section.spacing, "running_text": running_text}
    for split in SPLITS:
        documents = Documents(folder / f"{split}.jsonl")
        corpus = align_split(documents, tokenizer, split=split, **how)
        for name in section.resolvers:
            corpus, counts = add_layer(corpus, documents, make_resolver(name), policy)
            log.info("%s, %s: %s", split, name, show_counts(counts))
        write_arrays(folder / f"{split}.safetensors", *corpus.arrays())
        yield split, summarise(corpus)


def add_layer(
    corpus: AlignedCorpus, documents: Sequence[Document], resolver: Resolver, policy: Nesting
) -> tuple[AlignedCorpus, Counter[str]]:
    """Return the aligned split with the resolver's labels as layer ``resolver:NAME``, and the
    counts of `annotate`. The labels are made like the gold ones: entities numbered 1.. by first
    appearance in the document, by the same nesting policy; ``mentions:NAME`` numbers the mentions.

    ``documents`` are those that the split was aligned from, in that order.
    """
    counts: Counter[str] = Counter()
    labels = np.zeros(len(corpus.tokens), np.int32)
    spans = np.full(len(corpus.tokens), -1, np.int32)
    annotated = annotate(documents, resolver, policy, counts)
    for part, document in zip(corpus.slices, annotated, strict=True):
        entity, mention = word_labels(document, policy)
        labels[part], spans[part] = entity[corpus.words[part]], mention[corpus.words[part]]
    found = {f"resolver:{resolver.name}": labels, f"mentions:{resolver.name}": spans}
    return replace(corpus, layers={**corpus.layers, **found}), counts
