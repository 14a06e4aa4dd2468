"""The example passage: words with their entities and tokens (table 1) and its chains drawn by
spaCy's displaCy.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from entity_transformers.corpus.alignment import AlignedCorpus, spaced_words
from entity_transformers.corpus.document import Document, Mention

CHAIN_COLOURS = (
    "#9ec9f0",
    "#f7c59f",
    "#b5dfa8",
    "#e3b5e3",
    "#f2a9a9",
    "#a8e0d8",
    "#e6d98a",
    "#c3bdf0",
    "#f0b8d0",
    "#cbd6a0",
)
LONE_COLOUR = "#e2e2e2"


@dataclass(frozen=True, slots=True)
class Example:
    """A passage of one document, one entry per word.

    entities     id after the nesting policy, 0 for a word outside every mention
    tokens       the texts of each word's tokens, spaces kept
    mentions     gold mentions that lie inside the passage, nested ones too, as word indices into it
    table_words  how many of the words table 1 shows
    """

    document: str
    words: tuple[str, ...]
    space_after: tuple[bool, ...]
    entities: tuple[int, ...]
    tokens: tuple[tuple[str, ...], ...]
    mentions: tuple[Mention, ...]
    table_words: int


def take_example(
    documents: Sequence[Document],
    corpus: AlignedCorpus,
    decode: Callable[[int], str],
    table_words: int,
    page_words: int = 110,
) -> Example | None:
    """The passage whose first ``table_words`` words, from a sentence's start, hold the most
    entities that come back.

    ``documents`` and ``corpus`` are one split in the same order; ``decode`` gives the text of one
    token. None without documents.
    """
    starts = [
        (number, sentence.start)
        for number, document in enumerate(documents)
        for sentence in document.sentences()
    ]
    if not starts:
        return None
    by_word = [
        label_words(corpus, number, len(document.words))
        for number, document in enumerate(documents)
    ]
    number, start = max(
        starts,
        key=lambda at: _interest(
            by_word[at[0]][at[1] : at[1] + table_words], documents[at[0]], at[1]
        ),
    )
    tokens = group_tokens(corpus, number, len(documents[number].words), decode)
    return cut_example(documents[number], by_word[number], tokens, start, table_words, page_words)


def label_words(corpus: AlignedCorpus, number: int, n_words: int) -> np.ndarray:
    """Entity id of each word [n_words] of document ``number``, read from the word's tokens."""
    span = corpus.document(number)
    words, labels = np.asarray(corpus.words[span]), np.zeros(n_words, dtype=np.int64)
    labels[words[words >= 0]] = corpus.gold[span][words >= 0]
    return labels


def group_tokens(
    corpus: AlignedCorpus, number: int, n_words: int, decode: Callable[[int], str]
) -> list[tuple[str, ...]]:
    """The texts of every word's tokens, [n_words] tuples; the leading <|endoftext|> belongs to
    none.
    """
    groups: list[list[str]] = [[] for _ in range(n_words)]
    span = corpus.document(number)
    for word, token in zip(corpus.words[span].tolist(), corpus.tokens[span].tolist(), strict=True):
        if word >= 0:
            groups[word].append(decode(token))
    return [tuple(group) for group in groups]


def cut_example(
    document: Document,
    labels: np.ndarray,
    tokens: Sequence[tuple[str, ...]],
    start: int,
    table_words: int,
    page_words: int,
) -> Example:
    """The passage from word ``start`` to the end of the sentence in which ``page_words`` words are
    full.
    """
    least = min(len(document.words), start + max(page_words, table_words))
    end = min(
        (edge for edge in (*document.sentence_starts, len(document.words)) if edge >= least),
        default=len(document.words),
    )
    spaces = [*(word.startswith(" ") for word in spaced_words(document, "natural")[1:]), False]
    inside = tuple(
        Mention(m.start - start, m.end - start, m.chain)
        for m in document.mentions
        if m.start >= start and m.end <= end
    )
    return Example(
        document=document.id,
        words=document.words[start:end],
        space_after=tuple(spaces[start:end]),
        entities=tuple(int(label) for label in labels[start:end]),
        tokens=tuple(tokens[start:end]),
        mentions=inside,
        table_words=min(table_words, end - start),
    )


def _interest(labels: np.ndarray, document: Document, start: int) -> tuple[int, int, int, int]:
    """How much a passage shows: entities that come back, entities, letters (no tables of figures),
    and words that fit.
    """
    counts = Counter(entity for entity, _ in _runs(labels.tolist()))
    words = document.words[start : start + len(labels)]
    return (
        sum(n > 1 for n in counts.values()),
        len(counts),
        sum(word.isalpha() for word in words),
        len(labels),
    )


def _runs(labels: Sequence[int]) -> Iterator[tuple[int, int]]:
    """(entity, first word) of each unbroken run of words with one entity."""
    previous = 0
    for index, label in enumerate(labels):
        if label and label != previous:
            yield label, index
        previous = label


def colour_chains(example: Example) -> dict[int, str]:
    """A colour for each chain of the passage in order of appearance; chains with one mention in it
    share a grey.
    """
    counts = Counter(mention.chain for mention in example.mentions)
    repeated = [chain for chain in counts if counts[chain] > 1]
    colours = {chain: CHAIN_COLOURS[i % len(CHAIN_COLOURS)] for i, chain in enumerate(repeated)}
    return {chain: colours.get(chain, LONE_COLOUR) for chain in counts}


def number_chains(example: Example) -> dict[int, str]:
    """The entity that each chain is in table 1; a letter for one that the nesting policy leaves
    without words of its own in the passage.
    """
    votes: dict[int, Counter[int]] = {}
    bounded = [0, *example.entities, 0]
    for mention in example.mentions:
        own = set(example.entities[mention.start : mention.end])
        edges = {bounded[mention.start], bounded[mention.end + 1]}
        if len(own) == 1 and not own & {0, *edges}:  # a whole run of the entity's words
            votes.setdefault(mention.chain, Counter())[own.pop()] += 1
    letters = (chr(code) for code in itertools.count(ord("a")))
    return {
        chain: str(votes[chain].most_common(1)[0][0]) if chain in votes else next(letters)
        for chain in colour_chains(example)
    }


def draw_spans(example: Example) -> str:
    """The passage as self-contained HTML: every gold mention underlined in its chain's colour,
    labelled with the number of `number_chains`.
    """
    from spacy import displacy
    from spacy.tokens import Doc, Span
    from spacy.vocab import Vocab

    numbers = number_chains(example)
    document = Doc(Vocab(), words=list(example.words), spaces=list(example.space_after))
    document.spans["chains"] = [
        Span(document, m.start, m.end, label=numbers[m.chain]) for m in example.mentions
    ]
    colours = {numbers[chain]: colour for chain, colour in colour_chains(example).items()}
    if not example.mentions:
        return f"<p>{_escape(document.text)}</p>"
    return str(
        displacy.render(
            document,
            style="span",
            jupyter=False,
            options={"spans_key": "chains", "colors": colours},
        )
    )


def list_chains(example: Example) -> list[tuple[str, str, str]]:
    """Number, colour and mentions (joined by a dot) of each chain that has at least two mentions in
    the passage.
    """
    legend, numbers = [], number_chains(example)
    for chain, colour in colour_chains(example).items():
        texts = [
            " ".join(example.words[m.start : m.end]) for m in example.mentions if m.chain == chain
        ]
        if len(texts) > 1:
            legend.append((numbers[chain], colour, " · ".join(texts)))
    return legend


def name_entities(documents: Sequence[Document], corpus: AlignedCorpus) -> list[str]:
    """A name for each entity of a split, numbered through all documents: its shortest mention that
    is no pronoun, else its first.
    """
    names: list[str] = []
    for number, document in enumerate(documents):
        labels = label_words(corpus, number, len(document.words))
        texts: dict[int, list[tuple[bool, int, str]]] = {}
        for mention in document.mentions:
            inside = set(labels[mention.start : mention.end].tolist())
            if len(inside) == 1 and 0 not in inside:
                texts.setdefault(inside.pop(), []).append(_describe(document, mention))
        count = int(corpus.gold[corpus.document(number)].max(initial=0))
        names += [
            min(texts.get(entity, [(True, 0, f"{document.id} {entity}")]))[-1]
            for entity in range(1, count + 1)
        ]
    return names


def _describe(document: Document, mention: Mention) -> tuple[bool, int, str]:
    words = document.words[mention.start : mention.end]
    pronoun = (
        document.tags is not None
        and len(words) == 1
        and document.tags[mention.start].startswith(("PRP", "WP", "DT"))
    )
    return pronoun, sum(map(len, words)), " ".join(words)[:28]


def _escape(text: str) -> str:
    from markupsafe import escape

    return str(escape(text))
