"""The resolvers by name."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from entity_transformers.corpus.document import Document, Mention
from entity_transformers.corpus.files import shown
from entity_transformers.corpus.layers import RESOLVER, is_resolver, split_layer
from entity_transformers.corpus.readers import detect_format, read_corpus
from entity_transformers.resolve.base import Resolver, ResolverError

FILE = "file:"
SLOTS = 512
"""About as many as a novel has names."""


class Slots:
    """Resolver ``slots-causal``, a control without coreference: every word is a mention, and its
    entity one of `SLOTS` numbers in turn, so that a memory of entities becomes one of slots that
    are written by recency.
    """

    causal = True
    name = "slots-causal"

    def resolve(self, document: Document) -> list[Mention]:
        """Mentions in reading order; entities are numbered from 1, again after the last slot."""
        return [Mention(at, at + 1, at % SLOTS + 1) for at in range(len(document.words))]


class Answers:
    """Resolver ``file:PATH``: the chains of a corpus in any format, of the same words."""

    causal = False
    name = "file"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._documents = {one.id: one for one in read_corpus(detect_format(path)[0], path)}

    def resolve(self, document: Document) -> Sequence[Mention]:
        """The mentions of the document of that name, or of the only one; ResolverError where there
        is none, or one of other words.
        """
        [*found] = self._documents.values()
        if document.id in self._documents:
            found = [self._documents[document.id]]
        if len(found) != 1:
            raise ResolverError(
                f"{self._path}: no document {document.id}, expected the names of the corpus that is"
                " annotated"
            )
        ours, theirs = found[0].words, document.words
        if ours != theirs:
            common = min(len(ours), len(theirs))
            at = next((i for i in range(common) if ours[i] != theirs[i]), common)
            here, there = (shown(" ".join(words[at : at + 3])) for words in (ours, theirs))
            raise ResolverError(
                f"{self._path}, document {found[0].id}, word {at + 1}: {here}, but {there} in the"
                " text that is annotated: cut both into the same words"
            )
        return found[0].mentions


def _names(causal: bool = False, pronouns: bool = False) -> Resolver:
    # imported here, and by name, so that a study's digest covers the rules of its resolver
    from entity_transformers.resolve.names import Names

    return Names(causal, pronouns)


def _library(name: str) -> Resolver:
    from entity_transformers.resolve import libraries

    made: Resolver = getattr(libraries, name)()
    return made


REGISTRY: dict[str, Callable[[], Resolver]] = {
    # LitBank's and OntoGUM's training splits were looked at while the rules of names were written
    "names": _names,
    "names-causal": partial(_names, causal=True),
    "names-pronouns": partial(_names, pronouns=True),
    "names-pronouns-causal": partial(_names, causal=True, pronouns=True),
    "slots-causal": Slots,
    # the English models have learnt from ParCor and LitBank
    "coreferee": partial(_library, "Coreferee"),
    # udcoref has learnt from CorefUD, which holds GUM's texts and, since 1.2, LitBank; gum from GUM
    "stanza": partial(_library, "Stanza"),
}
"""What makes each resolver; a program may add its own."""


def make_resolver(name: str) -> Resolver:
    """The resolver of that name (with or without the ``resolver:`` of a label layer), or the
    answers of file:PATH; ResolverError for an unknown one.
    """
    name = name.removeprefix("resolver:")
    if name.startswith(FILE):
        return Answers(Path(name.removeprefix(FILE)))
    if name not in REGISTRY:
        raise ResolverError(f"resolver {name!r}, expected one of {', '.join(REGISTRY)}, {FILE}PATH")
    return REGISTRY[name]()


def check_layer(key: str, labels: str, resolvers: Sequence[str], lag: bool = False) -> None:
    """ValueError where ``key`` names labels of a resolver that is not among ``resolvers``, or of
    one that reads on where labels lag: lagged ones, and those that the model will ``lag`` itself.
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
    """ValueError where ``labels`` are of a resolver that reads on before it decides."""
    causal = [name for name in REGISTRY if name.endswith("-causal")]
    if resolver in REGISTRY and resolver not in causal:
        raise ValueError(
            f"{labels!r}: {resolver} reads on before it decides, so that its labels tell what"
            f" comes: expected {', '.join(causal)} or gold chains"
        )
