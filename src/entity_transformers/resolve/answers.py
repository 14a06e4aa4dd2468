"""The answers of any coreference system, from a file, as a resolver."""

from collections.abc import Sequence
from pathlib import Path

from entity_transformers.corpus.document import Document, Mention
from entity_transformers.corpus.files import shown
from entity_transformers.corpus.readers import detect_format, read_corpus
from entity_transformers.resolve.base import ResolverError


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
