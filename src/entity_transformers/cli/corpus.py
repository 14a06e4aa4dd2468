"""Opens the files of download-corpus, prepare-corpus, train-tokenizer, align-corpus, inspect-corpus
and inspect-overlap.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Literal

from tokenizers import Tokenizer

from entity_transformers.artifacts import (
    json_lines_writer,
    read_tokenizer,
    write_json,
    write_with,
)
from entity_transformers.corpus.stored import Documents
from entity_transformers.cli.flags import Flag
from entity_transformers.cli.sources import (
    find_evaluated,
    find_listed,
    read_set,
    user_path,
    write_sample,
)
from entity_transformers.corpus.alignment import (
    align_split,
    learn_tokenizer,
    load_gpt2_tokenizer,
    summarise,
)
from entity_transformers.corpus.document import SPLITS, CorpusError, Document
from entity_transformers.corpus.download import datasets, locate
from entity_transformers.corpus.mentions import drop_singletons
from entity_transformers.corpus.overlap import Overlap, format_overlap, leave_out
from entity_transformers.corpus.parts import WholeSplit, split_parts
from entity_transformers.corpus.pieces import join_parts
from entity_transformers.corpus.readers import detect_format, find_reader, read_corpus
from entity_transformers.corpus.rows import to_row
from entity_transformers.corpus.statistics import (
    compare_with_conll2012,
    describe,
    format_comparison,
    format_table,
)
from entity_transformers.resolve.layers import Summary, add_layer
from entity_transformers.resolve.registry import make_resolver
from entity_transformers.streamed import arrays_writer
from entity_transformers.study.params import Params

log = logging.getLogger(__name__)


def download_corpus(
    params: Params, cache: Path, output: Annotated[Path, Flag("the list (JSON)", "FILE")]
) -> None:
    """The files of the corpus, and of what it must not hold text of, each with its checksum."""
    section, reader = params.corpus, find_reader(params.corpus.format)
    if reader.provide:
        files = reader.provide(section.sample_words)
        listed = write_sample(files, cache, str(section.sample_words))
    else:
        path = user_path(section.path)
        listed = locate(section.format, path, cache, revision=section.revision)
    if section.evaluated:
        listed["evaluated"] = {name: locate(name, None, cache) for name in section.evaluated}
    write_json(output, listed)


def prepare_corpus(
    params: Params,
    source: Annotated[Path, Flag("list of download-corpus", "FILE")],
    output: Path,
    cache: Path | None = None,
) -> None:
    """Every split's documents as JSON lines, and statistics.json. ``cache`` keeps checksums."""
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
    statistics["left_out"] = corpus.ledger.as_dict()
    if section.evaluated:
        statistics["overlap"] = overlap.summary()
    write_json(output / "statistics.json", statistics)
    log.info("%s", format_table(statistics))
    if section.format == "ontonotes":
        log.info("%s", format_comparison(compare_with_conll2012(statistics)))


def _written(
    documents: Iterable[Document], write: Mapping[str, Callable[[Mapping[str, Any]], None]]
) -> Iterator[Document]:
    """The documents, each of which is in its split's file when the next one is asked for."""
    for document in documents:
        write[document.split](to_row(document))
        yield document


def _check_splits(params: Params, listed: Path, found: Collection[str]) -> None:
    for split in ("train", "dev", "test"):
        if split not in found:
            raise CorpusError(
                f"{listed}: no document of split {split!r}: train, dev and test are all needed"
            )
    for name in ("perplexity", "embeddings"):
        wanted = getattr(params, name).splits if params.has(name) else ()
        if empty := [split for split in wanted if split not in found]:
            raise CorpusError(
                f"{name}.splits names {', '.join(empty)}, of which {listed} has no document: leave"
                " it out"
            )


def train_tokenizer(
    params: Params,
    corpus: Path,
    cache: Path,
    output: Annotated[Path, Flag("tokenizer.json", "FILE")],
) -> None:
    """tokenizer.json: learnt, GPT-2's own, or another study's."""
    path = user_path(params.tokenizer.path)
    if params.tokenizer.kind == "trained":
        documents = Documents(corpus / "train.jsonl")
        tokenizer = learn_tokenizer(documents, params.tokenizer.vocabulary, params.corpus.spacing)
    elif params.tokenizer.kind == "study" and path is not None:
        tokenizer = read_tokenizer(path)
    else:
        tokenizer = load_gpt2_tokenizer(Path(locate("gpt2-bpe", path, cache)["root"]))
    write_with(output, lambda path: tokenizer.save(str(path)))
    log.info("%d tokens", tokenizer.get_vocab_size())


def align_corpus(
    params: Params,
    corpus: Path,
    tokenizer: Annotated[Path, Flag("tokenizer.json", "FILE")],
    output: Path,
) -> None:
    """Every split's tokens with entity ids, and their counts."""
    encoder = read_tokenizer(tokenizer)
    counts: dict[str, Any] = {
        "tokenizer": {"kind": params.tokenizer.kind, "tokens": encoder.get_vocab_size()}
    }
    for split in SPLITS:
        counts[split] = _align_split(params, encoder, corpus, split, output)
    write_json(output / "alignment.json", counts)
    log.info("%s", json.dumps(counts, indent=2))


def _align_split(
    params: Params, tokenizer: Tokenizer, corpus: Path, split: str, output: Path
) -> dict[str, int]:
    """Write one split's tokens, part by part; their counts."""
    section, whole = params.corpus, WholeSplit(split)
    resolvers = {name: make_resolver(name) for name in section.resolvers}
    found = {name: Summary() for name in resolvers}
    counts: Counter[str] = Counter()
    with arrays_writer(output / f"{split}.safetensors") as writer:
        for documents in split_parts(Documents(corpus / f"{split}.jsonl")):
            part = align_split(
                documents,
                tokenizer,
                split=split,
                policy=section.nested_mentions,
                spacing=section.spacing,
            )
            for name, resolver in resolvers.items():
                part, own = add_layer(part, documents, resolver, section.nested_mentions)
                found[name].add(own)
            writer.append(whole.place(part))
            counts.update(summarise(part))
        writer.metadata, writer.tables["tags"] = whole.metadata(), whole.table()
    for name, summary in found.items():
        log.info("%s, %s: %s", split, name, "\n".join(summary.lines()))
    return dict(counts)


def fetch_data(
    folder: Annotated[
        Path, Flag("where they go; name it in ENTITY_TRANSFORMERS_DATA", "FOLDER", positional=True)
    ],
) -> None:
    """Download every data set whose files are pinned; what is there already is only checked."""
    for name, dataset in datasets().items():
        if dataset.source:
            found = locate(name, None, folder)
            log.info("%s: %d files in %s", name, len(found["files"]), found["root"])


def inspect_corpus(
    path: Annotated[Path, Flag("a file or folder", positional=True)],
    format: Annotated[str, Flag("auto, or a format of corpus/readers")] = "auto",
    nested_mentions: Annotated[
        Literal["outermost", "innermost", "drop"], Flag("policy that the kept counts follow")
    ] = "outermost",
    bad_documents: Annotated[
        Literal["strict", "skip"], Flag("stop at a bad document, or leave it out and count it")
    ] = "skip",
    exclude: Annotated[tuple[str, ...], Flag("document names to leave out", "PATTERN")] = (),
    json: Annotated[bool, Flag("print a JSON object instead of a table")] = False,
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


def inspect_overlap(
    path: Annotated[Path, Flag("a file or folder to train on", positional=True)],
    evaluation: Annotated[
        tuple[str, ...], Flag("data sets by name (litbank), or files or folders", "SET")
    ],
    cache: Path,
    json: Annotated[bool, Flag("print a JSON object instead of a table")] = False,
) -> None:
    """Print how much of evaluation sets stands in a training text; fail where it is too much."""
    overlap = Overlap.of({name: read_set(name, cache) for name in evaluation})
    corpus = read_corpus(detect_format(path)[0], path, bad_documents="skip")
    for document in corpus:
        if document.split == "train":
            overlap.compare(document)
    summary = overlap.summary()
    print(_dump(summary) if json else "\n".join(format_overlap(summary)))
    overlap.check()


def _dump(value: Any) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
