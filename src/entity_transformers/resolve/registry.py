"""Resolvers, which find the chains of unannotated text, by name."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from entity_transformers.corpus.document import Document, Mention, reading_order
from entity_transformers.corpus.files import shown
from entity_transformers.corpus.layers import RESOLVER, is_resolver, split_layer
from entity_transformers.corpus.mentions import Nesting, flatten
from entity_transformers.corpus.readers import detect_format, read_corpus

FILE = "file:"
SLOTS = 512
"""Number of slots: about as many as a novel has names."""


class ResolverError(ValueError):
    """A resolver failed; the message names it, document, place and value, and what to do."""


@dataclass(frozen=True)
class Resolver:
    """Finds the entities of one document.

    name     how layers (``resolver:NAME``) and tables write it
    resolve  is given words, sentence starts, and tags and spaces where they are known, never gold
             chains or named entities, and returns mentions with any integers as their entities
    """

    name: str
    resolve: Callable[[Document], Sequence[Mention]]

    @property
    def causal(self) -> bool:
        """Whether a mention depends on nothing after the word that follows it, as the name says;
        changing the words after word t then changes no mention whose ``end`` is at most t, nor its
        entity.
        """
        return self.name.endswith("-causal")


def resolve(
    resolver: Resolver, document: Document, policy: Nesting | None = "outermost"
) -> Document:
    """Return the document with the resolver's mentions in place of its own. Of overlapping mentions
    those that ``policy`` keeps remain; None keeps all. ResolverError for a span that does not lie
    in the document, or is returned twice for the same entity.
    """
    bare = replace(document, mentions=(), named_entities=None)
    mentions = sorted(resolver.resolve(bare), key=reading_order)
    for i, mention in enumerate(mentions):
        inside = 0 <= mention.start < mention.end <= len(document.words)
        if not inside or (i and mention == mentions[i - 1]):
            raise ResolverError(
                f"resolver {resolver.name}, document {document.id}: {mention}, expected 0 <= start"
                f" < end <= {len(document.words)} words, and each span once for an entity"
            )
    if policy is not None:
        mentions = list(flatten(mentions, len(document.words), policy)[0])
    return replace(document, mentions=tuple(mentions))


def annotate(
    documents: Iterable[Document], resolver: Resolver, policy: Nesting | None, counts: Counter[str]
) -> Iterator[Document]:
    """Yield the documents with the resolver's mentions in place of their own, and add the numbers
    of documents, words, mentions and entities to ``counts``.
    """
    for document in documents:
        found = resolve(resolver, document, policy)
        counts["documents"] += 1
        counts["words"] += len(found.words)
        counts["mentions"] += len(found.mentions)
        counts["entities"] += len({mention.chain for mention in found.mentions})
        yield found


def show_counts(counts: Counter[str]) -> str:
    """Format the counts as one line."""
    return ", ".join(f"{number:,} {what}" for what, number in counts.items())


def _fill_slots(document: Document) -> list[Mention]:
    """Resolver ``slots-causal``, a control without coreference: every word is a mention, and its
    entity is one of `SLOTS` numbers in turn, from 1, so that a memory of entities becomes one of
    slots that hold the latest words.
    """
    return [Mention(at, at + 1, at % SLOTS + 1) for at in range(len(document.words))]


def _read_answers(path: Path) -> Resolver:
    """Return resolver ``file:PATH``: the chains of a corpus file in any format, which must have a
    document of the same name, or only one document, with the same words.
    """
    documents = {one.id: one for one in read_corpus(detect_format(path)[0], path)}

    def resolve(document: Document) -> Sequence[Mention]:
        own = documents.get(document.id)
        if own is None and len(documents) == 1:
            [own] = documents.values()
        if own is None:
            raise ResolverError(
                f"{path}: no document {document.id}, expected the names of the annotated corpus"
            )
        ours, theirs = own.words, document.words
        if ours != theirs:
            common = min(len(ours), len(theirs))
            at = next((i for i in range(common) if ours[i] != theirs[i]), common)
            here, there = (shown(" ".join(words[at : at + 3])) for words in (ours, theirs))
            raise ResolverError(
                f"{path}, document {own.id}, word {at + 1}: {here}, but {there} in the annotated"
                " text: split both into the same words"
            )
        return own.mentions

    return Resolver("file", resolve)


def _names(**how: bool) -> Resolver:
    # imported here, and by name, so that a study's digest covers the rules of its resolver
    from entity_transformers.resolve.names import find_names

    return find_names(**how)


REGISTRY: dict[str, Callable[[], Resolver]] = {
    # LitBank's and OntoGUM's training splits were looked at while the rules of names were written
    "names": _names,
    "names-causal": partial(_names, causal=True),
    "names-pronouns": partial(_names, pronouns=True),
    "names-pronouns-causal": partial(_names, causal=True, pronouns=True),
    "slots-causal": lambda: Resolver("slots-causal", _fill_slots),
}
"""What creates each resolver, by name; a program may add its own."""


def make_resolver(name: str) -> Resolver:
    """Return the resolver of that name (with or without the ``resolver:`` of a label layer), or the
    answers of file:PATH; ResolverError for an unknown name.
    """
    name = name.removeprefix("resolver:")
    if name.startswith(FILE):
        return _read_answers(Path(name.removeprefix(FILE)))
    if name not in REGISTRY:
        raise ResolverError(f"resolver {name!r}, expected one of {', '.join(REGISTRY)}, {FILE}PATH")
    return REGISTRY[name]()


def check_layer(key: str, labels: str, resolvers: Sequence[str], lag: bool = False) -> None:
    """Raise ValueError if ``key`` names labels of a resolver that is not among ``resolvers``, or
    lagged labels of a resolver that reads ahead; with ``lag`` the model lags any labels itself.
    """
    change, base = split_layer(labels)
    resolver = base.removeprefix(RESOLVER)
    if is_resolver(base) and resolver not in resolvers:
        raise ValueError(
            f"{key}: {labels!r}, but corpus.resolvers does not name {resolver}: add it there"
        )
    if lag or change == "lagged":
        check_causal(labels, resolver)


def check_causal(labels: str, resolver: str) -> None:
    """Raise ValueError if ``labels`` come from a resolver that reads ahead before it decides."""
    causal = [name for name in REGISTRY if name.endswith("-causal")]
    if resolver in REGISTRY and resolver not in causal:
        raise ValueError(
            f"{labels!r}: {resolver} reads ahead, so its labels reveal later text: expected"
            f" {', '.join(causal)} or gold chains"
        )
