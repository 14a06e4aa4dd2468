"""Chains -> byte-pair tokens (section 4.2, table 1): each token carries the entity of its word.

For a model trained here, words are encoded one by one, with a leading space where running text has
one, so that no token straddles two words. A pretrained model gets the tokens of the running text,
as in its own training (on OntoGUM 3 % fewer bits per byte), aligned by their offsets. A document
starts with ``<|endoftext|>``, from which its first token is predicted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from entity_transformers.artifacts import panics_told, read_arrays
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.mentions import Nesting, flatten

END = "<|endoftext|>"
BORDERS = (END, "<|begin_of_text|>", "<s>", "<bos>", "[CLS]")
"""The token before a document: in GPT-2 and the encoders learnt here, then in other models."""


class WordEncoder:
    """Encodes each distinct word once, since a word's neighbours do not change its tokens."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer, self._bytes = tokenizer, token_bytes(tokenizer)
        self._known: dict[str, list[int]] = {}

    def encode(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return ``<|endoftext|>`` and the words' tokens, the index of each token's word (-1 for
        ``<|endoftext|>``), and each token's bytes.
        """
        new = [word for word in dict.fromkeys(words) if word not in self._known]
        with spelled_out(self._tokenizer):
            encoding = self._tokenizer.encode(new, is_pretokenized=True, add_special_tokens=False)
        self._known |= {word: [] for word in new}
        for token, place in zip(encoding.ids, cast(list[int], encoding.word_ids), strict=True):
            self._known[new[place]].append(token)
        found = [self._known[word] for word in words]
        lengths = np.fromiter(map(len, found), np.int64, len(found))
        end = find_end(self._tokenizer)
        tokens = np.fromiter(chain([end], *found), np.int32, 1 + int(lengths.sum()))
        places = np.repeat(np.arange(-1, len(words), dtype=np.int32), [1, *lengths])
        return tokens, places, self._bytes[tokens]


def encode_text(
    tokenizer: Tokenizer, words: Sequence[str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Encode the running text of a document like `WordEncoder.encode`, with any tokenizer that
    gives offsets. A token that straddles words ("-known" of *well - known*) belongs to the one that
    has most of its characters, so a short word may have no token of its own. ValueError if the
    offsets cannot be those of the text.
    """
    text = "".join(words)
    with spelled_out(tokenizer):
        encoding = tokenizer.encode(text, add_special_tokens=False)
    starts, ends = np.array(encoding.offsets, np.int64).reshape(-1, 2).T
    # a tokenizer may drop characters, such as control characters, but not most of a text
    if 2 * ends.max(initial=0) < len(text) or (np.diff(starts) < 0).any():
        raise ValueError(
            "the tokenizer gives no offsets with which to align its tokens with the words:"
            " name a fast tokenizer (tokenizer.json)"
        )
    owner = np.repeat(np.arange(len(words)), [len(word) for word in words])
    first, last = owner[np.minimum(starts, len(text) - 1)], owner[np.maximum(ends, 1) - 1]
    for token in np.flatnonzero(first != last):
        first[token] += np.bincount(owner[starts[token] : ends[token]] - first[token]).argmax()
    size = np.cumsum([0, *(len(letter.encode()) for letter in text)])
    # the tokens of one character, which share its offsets, count its bytes once
    sizes = np.diff(np.maximum.accumulate(size[ends]), prepend=0)
    return (
        np.array([find_end(tokenizer), *encoding.ids], np.int32),
        np.array([-1, *first], np.int32),
        np.array([0, *sizes], np.uint16),
    )


def find_end(tokenizer: Tokenizer) -> int:
    """Return the token that stands before a document: ``<|endoftext|>``, or the tokenizer's
    equivalent; ValueError if it has none.
    """
    for border in BORDERS:
        if (found := tokenizer.token_to_id(border)) is not None:
            return found
    raise ValueError(
        f"the tokenizer has none of {', '.join(BORDERS)} to begin a document with: name"
        " another tokenizer"
    )


@contextlib.contextmanager
def spelled_out(tokenizer: Tokenizer) -> Iterator[None]:
    """Within this context a word that spells ``<|endoftext|>`` is text, not a document's border."""
    before, tokenizer.encode_special_tokens = tokenizer.encode_special_tokens, True
    try:
        with panics_told("text"):
            yield
    finally:
        tokenizer.encode_special_tokens = before


QUOTES = {"``": '"', "''": '"'}
NO_SPACE_BEFORE = frozenset(
    ", . : ; ? ! % ) ] } '' ... 's 'S 'm 'M 're 'RE 've 'VE 'd 'D 'll 'LL n't N'T '".split()
)
NO_SPACE_AFTER = frozenset("( [ { `` $ # US$ C$ A$ HK$".split())


def _byte_level(model: models.BPE) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(END, special=True)])
    return tokenizer


def load_gpt2_tokenizer(folder: Path) -> Tokenizer:
    """Load GPT-2's own byte-pair encoder from its vocabulary and merges. FileNotFoundError names
    what the folder lacks; files that can't be read as such raise ValueError.
    """
    found = []
    for names in (("encoder.json", "vocab.json"), ("vocab.bpe", "merges.txt")):
        there = [folder / name for name in names if (folder / name).is_file()]
        if not there:
            raise FileNotFoundError(
                f"{folder}: has no {' or '.join(names)}: set tokenizer.path to the folder with"
                " GPT-2's two files"
            )
        found.append(str(there[0]))
    try:
        return _byte_level(models.BPE.from_file(*found))
    except Exception as error:  # tokenizers raises nothing narrower
        raise ValueError(
            f"{', '.join(found)}: not GPT-2's two files, or truncated ({error}): fetch them again"
        ) from error


def learn_tokenizer(documents: Iterable[Document], vocabulary: int, spacing: str) -> Tokenizer:
    """Learn a byte-level BPE of at most ``vocabulary`` tokens from spaced words."""
    tokenizer = _byte_level(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(
        (spaced_words(document, spacing) for document in documents), trainer
    )
    return tokenizer


def spaced_words(document: Document, spacing: str) -> list[str]:
    """Return the document's words as they are encoded, each with a leading space where one precedes
    it; joined, they are the text.

    ``natural``: spaces as in the source if it tells (``space_after``), else by the Penn Treebank's
    conventions, whose double backquotes and apostrophes become ``"``. ``every_word``: a space
    before each word but the first.
    """
    if spacing == "every_word":
        return [word if i == 0 else " " + word for i, word in enumerate(document.words)]
    if document.space_after is not None:
        spaces = (False, *document.space_after[:-1])
        return [" " * space + word for word, space in zip(document.words, spaces, strict=True)]
    result, glue, open_quote = [], True, False
    for word in document.words:
        closing = word in NO_SPACE_BEFORE or (word == '"' and open_quote)
        result.append(("" if glue or closing else " ") + QUOTES.get(word, word))
        opening = word == '"' and not open_quote
        open_quote = opening if word == '"' else open_quote
        glue = opening or word in NO_SPACE_AFTER
    return result


@dataclass(frozen=True)
class AlignedCorpus:
    """One split as parallel arrays over its N tokens, document after document.

    tokens    int32 [N]    token ids; every document starts with ``<|endoftext|>``
    gold      int32 [N]    entity of the token's word by the corpus' chains, numbered 1.. by first
              appearance in the document; 0: none. All evaluation is against these labels
    mentions  int32 [N]    index of the token's mention among the document's kept mentions; -1: none
    words     int32 [N]    index of the token's word in the document; -1 for ``<|endoftext|>``
    tags      uint16 [N]   index of the word's Penn Treebank tag in ``tag_names`` ("" where unknown)
    bytes     uint16 [N]   UTF-8 bytes of the token; 0 for ``<|endoftext|>``
    offsets   int64 [D+1]  document d is ``[offsets[d], offsets[d + 1])``
    layers    by name, further labels like ``gold``, found by resolvers
    given     int32 [N]    the labels given to a model, chosen by `labels.give`; None: no labels
    layer     the name of the layer given
    """

    split: str
    names: tuple[str, ...]
    tag_names: tuple[str, ...]
    tokens: np.ndarray
    gold: np.ndarray
    mentions: np.ndarray
    words: np.ndarray
    tags: np.ndarray
    bytes: np.ndarray
    offsets: np.ndarray
    layers: Mapping[str, np.ndarray] = field(default_factory=dict)
    given: np.ndarray | None = None
    layer: str = "none"

    def __len__(self) -> int:
        return len(self.names)

    @property
    def slices(self) -> list[slice]:
        """Where each document lies in the arrays."""
        return [slice(start, end) for start, end in pairwise(self.offsets.tolist())]

    def document(self, index: int) -> slice:
        """Return where document ``index`` lies in the arrays."""
        return slice(int(self.offsets[index]), int(self.offsets[index + 1]))

    def highest(self, values: np.ndarray) -> np.ndarray:
        """Return the highest of ``values`` [N] in each document, at least 0: int64 [D]. For labels
        this is the number of entities.
        """
        return np.array([values[part].max(initial=0) for part in self.slices], np.int64)

    def head(self, documents: int | None) -> AlignedCorpus:
        """Return the first ``documents`` documents (all of them for None), as `part` does."""
        return self.part(slice(documents))

    def part(self, documents: slice) -> AlignedCorpus:
        """Return consecutive documents as views of the same arrays; their entities and mentions
        keep their numbers, their offsets begin at 0.
        """
        first, last, _ = documents.indices(len(self))
        offsets = self.offsets[first : max(first, last) + 1]
        inside = slice(int(offsets[0]), int(offsets[-1]))
        return self.take(self.names[documents], offsets - offsets[0], inside)

    def pick(self, documents: Sequence[int], tokens: int | None = None) -> AlignedCorpus:
        """Copy these documents, or the first ``tokens`` tokens of each."""
        spans = [np.arange(*self.offsets[d : d + 2])[:tokens] for d in documents]
        kept = np.concatenate([np.zeros(0, np.int64), *spans])
        names = tuple(self.names[d] for d in documents)
        return self.take(names, np.cumsum([0, *map(len, spans)]), kept)

    def take(self, names: tuple[str, ...], offsets: np.ndarray, which: Any) -> AlignedCorpus:
        """Return the tokens ``which`` (a slice or their places) as documents of these names."""
        return replace(
            self,
            names=names,
            offsets=offsets,
            layers={name: layer[which] for name, layer in self.layers.items()},
            given=None if self.given is None else self.given[which],
            **{name: getattr(self, name)[which] for name in TOKEN_ARRAYS},
        )

    def parts(self, tokens: int) -> Iterator[slice]:
        """Yield slices of consecutive documents, for `part`, of at most ``tokens`` tokens together,
        or of one longer document; an empty slice if the split has no documents.
        """
        first = 0
        while first < len(self):
            end = np.searchsorted(self.offsets, self.offsets[first] + tokens, side="right") - 1
            last = max(first + 1, int(end))
            yield slice(first, last)
            first = last
        if not len(self):
            yield slice(0, 0)

    def arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return arrays and metadata for `artifacts.write_arrays`; `load` is the way back."""
        arrays = {name: getattr(self, name) for name in TOKEN_ARRAYS} | {"documents": self.offsets}
        arrays |= self.layers
        return arrays, {"split": self.split, "names": self.names, "tags": self.tag_names}

    @classmethod
    def load(cls, path: Path) -> AlignedCorpus:
        """Memory-map a file of `arrays`; another kind of file raises ValueError."""
        arrays, metadata = read_arrays(path)
        try:
            about = metadata["split"], tuple(metadata["names"]), tuple(metadata["tags"])
            offsets = arrays.pop("documents")
            layers = {name: arrays.pop(name) for name in list(arrays) if ":" in name}
            tokens: dict[str, Any] = arrays
            return cls(*about, offsets=offsets, layers=layers, **tokens)
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"{path}: not an aligned corpus of this version ({error}): run step corpus again"
            ) from error


TOKEN_ARRAYS = ("tokens", "gold", "mentions", "words", "tags", "bytes")


def align_split(
    documents: Iterable[Document],
    tokenizer: Tokenizer,
    *,
    split: str,
    policy: Nesting,
    spacing: str,
    running_text: bool = False,
) -> AlignedCorpus:
    """Encode the documents of one split as tokens, with their chains, mentions and tags. With
    ``running_text`` a document is encoded as a whole (`encode_text`), else word by word.
    """
    encode = partial(encode_text, tokenizer) if running_text else WordEncoder(tokenizer).encode
    names, lengths, numbers = list[str](), [0], dict[str, int]()
    columns: dict[str, list[np.ndarray]] = {name: [] for name in TOKEN_ARRAYS}
    for document in documents:
        tokens, words, sizes = encode(spaced_words(document, spacing))
        entity, mention = word_labels(document, policy)
        tags = document.tags or ("",) * len(document.words)
        tag = np.array([numbers.setdefault(name, len(numbers)) for name in tags], np.uint16)
        found = tokens, entity[words], mention[words], words, tag[words], sizes
        for name, values in zip(TOKEN_ARRAYS, found, strict=True):
            columns[name].append(values)
        names.append(document.id)
        lengths.append(len(tokens))
    joined: dict[str, Any] = {
        name: np.concatenate(parts or [np.zeros(0, np.int32)]) for name, parts in columns.items()
    }
    if names:  # tags are numbered in alphabetical order
        order = np.argsort(np.argsort(list(numbers))).astype(np.uint16)
        joined["tags"] = np.where(joined["words"] < 0, 0, order[joined["tags"]]).astype(np.uint16)
    joined["bytes"] = joined["bytes"].astype(np.uint16)
    offsets, tag_names = np.cumsum(lengths, dtype=np.int64), tuple(sorted(numbers))
    return AlignedCorpus(split, tuple(names), tag_names, offsets=offsets, **joined)


def word_labels(document: Document, policy: Nesting) -> tuple[np.ndarray, np.ndarray]:
    """Return the entity (numbered from 1 by first appearance; 0: none) and the kept mention (-1:
    none) of each word, both int32 [words + 1]; the last value is that of tokens outside any word.
    """
    size, numbers = len(document.words), dict[int, int]()
    entity, mention = np.zeros(size + 1, np.int32), np.full(size + 1, -1, np.int32)
    for i, kept in enumerate(flatten(document.mentions, size, policy)[0]):
        entity[kept.start : kept.end] = numbers.setdefault(kept.chain, len(numbers) + 1)
        mention[kept.start : kept.end] = i
    return entity, mention


def token_bytes(tokenizer: Tokenizer) -> np.ndarray:
    """Count the UTF-8 bytes of every token: a character of its byte-level name is one byte."""
    vocabulary = tokenizer.get_vocab()
    lengths = np.zeros(max(vocabulary.values()) + 1, np.uint16)
    for token, index in vocabulary.items():
        lengths[index] = 0 if token == END else len(token)
    return lengths


def summarise(corpus: AlignedCorpus) -> dict[str, int]:
    """Return the counts of an aligned split, with ``<|endoftext|>`` left out of the tokens."""
    return {
        "documents": len(corpus),
        "words": int(corpus.highest(corpus.words + 1).sum()),
        "tokens": len(corpus.tokens) - len(corpus),
        "tokens_in_mentions": int((corpus.gold > 0).sum()),
        "entities": int(corpus.highest(corpus.gold).sum()),
        "mentions": int(corpus.highest(corpus.mentions + 1).sum()),
    }
