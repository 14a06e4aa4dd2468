"""Vectors of words (section 4.1): the final hidden state of a word's last token, stored as float16,
for words alone, the paper's "words without context", or in their sentence or document.

Dimensions: S sequences, N tokens in all, B sequences side by side, T tokens of the longest.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from entity_transformers.corpus.alignment import QUOTES, AlignedCorpus, find_end, spelled_out
from entity_transformers.corpus.document import Document
from entity_transformers.encode.reader import batch_by_length, gather, lay_out
from entity_transformers.logs import log_progress
from entity_transformers.models.base import Batch, LanguageModel

Context = Literal["word", "sentence", "document"]
PART = 1 << 18
"""Number of tokens, or of distinct words, whose vectors are computed before they are written."""


class LastTokens:
    """The vector of each word, the hidden state of its last token, filled window by window.

    slots    int64 [N]: the word's number on its last token, else -1
    vectors  float16 [words, width]; zeros where nothing was read
    """

    def __init__(self, model: LanguageModel, words: np.ndarray, count: int) -> None:
        """``words`` [N] gives the number of each token's word; -1 for none."""
        self.slots = np.where(words != np.append(words[1:], -1), words, -1)
        self.vectors = np.zeros((count, model.width), np.float16)

    def add(self, hidden: Tensor, where: np.ndarray, valid: np.ndarray) -> None:
        """Store hidden states [B, T, width] of tokens ``where`` [B, T], if they end a word."""
        slots = np.where(valid, self.slots[where], -1)
        used = slots >= 0
        states = hidden[torch.from_numpy(used).to(hidden.device)]
        self.vectors[slots[used]] = states.float().cpu().numpy()


@torch.inference_mode()
def embed_sequences(
    model: LanguageModel,
    tokens: np.ndarray,
    bounds: np.ndarray,
    words: np.ndarray,
    count: int,
    *,
    batch: int,
    given: np.ndarray | None = None,
) -> np.ndarray:
    """Return the vector of each word, float16 [count, width]. Sequences of tokens, of which s is
    ``tokens[bounds[s]:bounds[s + 1]]``, are read apart; ``words`` [N] is each token's word.
    ``given`` [S, width]: the memory's entity vector that all tokens of a sequence read, or None.
    """
    found, lengths = LastTokens(model, words, count), np.diff(bounds)
    for rows in log_progress(batch_by_length(lengths, batch), "batches of words"):
        where, valid = lay_out(bounds[rows], lengths[rows])
        ids = gather(tokens, where, valid, model.device)
        state = model.start(len(rows), 0 if given is None else 1)
        labels = None
        if given is not None:
            vectors = torch.from_numpy(given[rows]).to(model.device)
            first = torch.arange(len(rows), device=model.device)
            state = state.put(first, torch.ones_like(first), vectors.float())
            labels = torch.ones_like(ids)
        known = torch.from_numpy(lengths[rows]).to(model.device)
        found.add(model.encode(Batch(ids, labels, lengths=known), state)[0], where, valid)
    return found.vectors


def cut_long(bounds: np.ndarray, window: int) -> np.ndarray:
    """Return the bounds with sequences longer than ``window`` cut into consecutive parts."""
    if np.diff(bounds).max(initial=0) <= window:
        return bounds
    parts = [np.arange(start, end, window) for start, end in itertools.pairwise(bounds)]
    return np.concatenate([*parts, bounds[-1:]])


def begin_sequences(
    tokens: np.ndarray, slots: np.ndarray, bounds: np.ndarray, end: int | None, window: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the tokens [N], slots [N] and bounds of sequences, cut to ``window``, with ``end``
    (None: nothing) before each that does not begin with it: large models turn their first token
    into an attention sink, whose state says nothing about the token (Xiao et al., 2023).
    """
    if end is None:
        return tokens, slots, cut_long(bounds, window)
    bounds = cut_long(bounds, window - 1)
    bare = bounds[:-1][np.diff(bounds) > 0]
    bare = bare[tokens[bare] != end]
    begun = bounds + np.searchsorted(bare, bounds)
    return np.insert(tokens, bare, end), np.insert(slots, bare, slots[bare]), begun


def embed_vocabulary(
    splits: Mapping[str, Iterable[Document]],
    embed: Callable[[list[str]], np.ndarray],
    most: int = PART,
) -> Iterator[dict[str, np.ndarray]]:
    """Yield words.safetensors part by part for vectors that a word has wherever it occurs: an empty
    array for each split, then for each of its documents the rows of its words, int32 [words]; at
    last ``vectors`` [V, width], a row per distinct word of all splits in order of appearance.
    ``embed`` computes them for at most ``most`` words at a time, also for none.
    """
    vocabulary: dict[str, int] = {}
    for split, documents in splits.items():
        yield {split: np.zeros(0, np.int32)}
        for document in documents:
            rows = (vocabulary.setdefault(word, len(vocabulary)) for word in document.words)
            yield {split: np.fromiter(rows, np.int32, len(document.words))}
    words = list(vocabulary)
    for start in range(0, max(1, len(words)), most):
        yield {"vectors": embed(words[start : start + most])}


def split_documents(
    documents: Sequence[Document], corpus: AlignedCorpus, *, tokens: int
) -> Iterator[tuple[Sequence[Document], AlignedCorpus]]:
    """Yield a split in the parts of `AlignedCorpus.parts`."""
    for part in corpus.parts(tokens):
        yield documents[part], corpus.part(part)


def embed_words(
    model: LanguageModel,
    words: Sequence[str],
    tokenizer: Tokenizer,
    *,
    window: int,
    batch: int,
    given: np.ndarray | None = None,
) -> np.ndarray:
    """Return the vector of each word read without context, float16 [words, width]. ``given``
    [words, width]: the entity vectors that the words read, or None. A space precedes each word, and
    the Penn Treebank's quotes are encoded as in running text. A long word is read in several parts.
    """
    with spelled_out(tokenizer):
        texts = [" " + QUOTES.get(word, word) for word in words]
        ids = [one.ids for one in tokenizer.encode_batch(texts, add_special_tokens=False)]
    flat, lengths = np.array(list(itertools.chain(*ids)), np.int32), list(map(len, ids))
    slots = np.repeat(np.arange(len(words)), lengths)
    end = find_end(tokenizer) if model.can("pretrained") else None
    flat, slots, bounds = begin_sequences(flat, slots, np.cumsum([0, *lengths]), end, window)
    if given is not None:
        given = given[slots[bounds[:-1]]]
    return embed_sequences(model, flat, bounds, slots, len(words), batch=batch, given=given)


def embed_words_in_context(
    model: LanguageModel,
    documents: Sequence[Document],
    corpus: AlignedCorpus,
    *,
    context: Literal["sentence", "document"],
    window: int,
    batch: int,
) -> np.ndarray:
    """Return the vector of every word in its sentence or document, read without entities: float16
    [words of the documents, width]. A sentence is read alone; a document starts with
    ``<|endoftext|>`` and is read in consecutive windows. A pretrained model reads
    ``<|endoftext|>``, or its [CLS], before either. A word without a token of its own has the vector
    of the word before it, whose token it shares.
    """
    sizes = np.array([len(document.words) for document in documents], np.int64)
    base = np.repeat(np.cumsum(sizes) - sizes, np.diff(corpus.offsets))
    slots = np.where(corpus.words >= 0, corpus.words + base, -1)
    bounds = corpus.offsets
    if context == "sentence":  # each <|endoftext|> is a sequence of its own that no slot reads
        starts = [
            np.searchsorted(corpus.words[part], [-1, *document.sentence_starts]) + part.start
            for document, part in zip(documents, corpus.slices, strict=True)
        ]
        bounds = np.concatenate([*starts, corpus.offsets[-1:]])
    end, count = int(corpus.tokens[0]) if model.can("pretrained") else None, int(sizes.sum())
    tokens, slots, parts = begin_sequences(corpus.tokens, slots, bounds, end, window)
    vectors = embed_sequences(model, tokens, parts, slots, count, batch=batch)
    for word in np.setdiff1d(np.arange(count), slots):
        vectors[word] = vectors[word - 1]
    return vectors


def embed_splits(
    model: LanguageModel,
    splits: Mapping[str, tuple[Sequence[Document], AlignedCorpus]],
    tokenizer: Tokenizer,
    *,
    context: Context,
    window: int,
    batch: int,
    tokens: int = PART,
) -> Iterator[dict[str, np.ndarray]]:
    """Yield words.safetensors part by part: ``vectors`` float16 [V, width] of all parts together,
    and for each split the row of each of its words, int32 [words]. A part covers documents of about
    ``tokens`` tokens, and may lack some arrays. With context ``word`` it covers as many distinct
    words, each with one row, after all the splits' rows.
    """
    how: dict[str, Any] = {"window": window, "batch": batch}
    if context == "word":
        texts = {split: documents for split, (documents, _) in splits.items()}
        embed = partial(embed_words, model, tokenizer=tokenizer, **how)
        yield from embed_vocabulary(texts, embed, tokens)
        return
    end = 0
    for split, pair in splits.items():
        for some, aligned in split_documents(*pair, tokens=tokens):
            vectors = embed_words_in_context(model, some, aligned, context=context, **how)
            end += len(vectors)
            yield {"vectors": vectors, split: np.arange(end - len(vectors), end, dtype=np.int32)}


class LayerEncoder(LanguageModel):
    """A model whose `encode` gives ``count`` evenly spaced layers (or all) side by side, float32
    [B, T, count W], for taggers that mix them (Peters et al. 2018, equation 1): the input of its
    first block is layer 0, the output of block n layer n; the last one is the final hidden states.
    """

    def __init__(self, model: LanguageModel, count: int) -> None:
        self.model, self.module, self.kind = model, model.module, model.kind  # type: ignore[misc]
        last = len(model.blocks)
        self.layers = tuple(sorted({round(at) for at in np.linspace(0, last, count)}))
        self.width = model.width * len(self.layers)

    def start(self, rows: int, entities: int = 0) -> Any:
        return self.model.start(rows, entities)

    def save(self, folder: Any) -> None:
        self.model.save(folder)

    def encode(self, batch: Batch, state: Any) -> tuple[Tensor, Any]:
        found: list[Tensor] = []

        def keep_input(_: Any, inputs: Any, keywords: Any) -> None:
            found.append(self.model.block_states([*inputs, *keywords.values()][0]))

        def keep_output(_: Any, __: Any, output: Any) -> None:
            found.append(self.model.block_states(output))

        with ExitStack() as hooks:
            first, *_ = self.model.blocks
            hooks.enter_context(first.register_forward_pre_hook(keep_input, with_kwargs=True))
            for block in self.model.blocks[:-1]:
                hooks.enter_context(block.register_forward_hook(keep_output))
            hidden, state = self.model.encode(batch, state)
        found.append(hidden)
        return torch.cat([found[layer].float() for layer in self.layers], -1), state

    def split_layers(self, vectors: np.ndarray) -> dict[str, np.ndarray]:
        return {"vectors": vectors.reshape(len(vectors), len(self.layers), -1)}
