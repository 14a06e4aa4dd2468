"""Resolvers, which find the chains of unannotated text; `registry` has them by name."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from entity_transformers.corpus.document import Document, Mention, reading_order
from entity_transformers.corpus.mentions import Nesting, flatten


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
