"""What a pass over a corpus leaves out, and why: excluded, bad and repeated documents."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal

from entity_transformers.corpus.document import CorpusError, Document, WordError
from entity_transformers.corpus.files import shown
from entity_transformers.corpus.mentions import flatten_entities

Policy = Literal["strict", "skip"]


@dataclass
class Ledger:
    """Record of one pass over a corpus.

    policy    ``strict``: the first bad document stops the reading; ``skip``: it is left out and
              recorded here
    exclude   glob patterns of document names to leave out before anything of them is read
    excluded  ids (or names, if a whole file is passed over) left out because of a pattern
    bad       for the id of each document left out because it can't be read, the reason
    unmatched exclude patterns that matched nothing, known after `check_exclude` has been called
    counts    everything else that was repaired or passed over, by kind (``unmatched_brackets``,
              ``files_in_other_languages``, ...)
    """

    policy: Policy = "strict"
    exclude: tuple[str, ...] = ()
    excluded: list[str] = field(default_factory=list)
    bad: dict[str, str] = field(default_factory=dict)
    unmatched: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    _sources: dict[str, str] = field(default_factory=dict)
    _matched: set[str] = field(default_factory=set)

    def admits(self, name: str, part: int | None = None) -> bool:
        """Whether no exclude pattern matches a document's name; a document excluded is recorded."""
        matched = [pattern for pattern in self.exclude if fnmatchcase(name, pattern)]
        self._matched.update(matched)
        if matched:
            self.excluded.append(name if part is None else f"{name}#{part}")
        return not matched

    def admits_file(self, file: Path, name: str) -> bool:
        """Whether a file's name can stand in a list of documents; if not, the file is rejected."""
        if not name.isprintable():
            error = f"{shown(str(file), 200)}: its name can't be printed: rename the file"
            self.reject(ascii(str(file)), CorpusError(error))
        return name.isprintable()

    def reject(self, document: str, error: CorpusError) -> None:
        """Stop at a bad document (strict) or record it (skip)."""
        if isinstance(error, WordError) and not str(error).startswith(document):
            error = CorpusError(f"{document}: {error}")
        if self.policy == "strict":
            raise error
        keys = chain([document], (f"{document} ({copy})" for copy in count(2)))
        self.bad[next(key for key in keys if key not in self.bad)] = str(error)

    @contextmanager
    def recording(self, document: str) -> Iterator[None]:
        """Within this context a CorpusError is the fault of a bad document (`reject`)."""
        try:
            yield
        except CorpusError as error:
            self.reject(document, error)

    def reject_missing(self, names: Iterable[str], folder: Path, listed: str) -> None:
        """Reject, unless excluded, each listed document for which the folder has no file."""
        for name in sorted(names):
            if self.admits(name):
                fault = f"{folder}: no file for {name}, which {listed}: add it, or name it in"
                self.reject(f"{name}#0", CorpusError(f"{fault} corpus.exclude"))

    def check_exclude(self) -> None:
        """At the end, raise for a pattern that matched nothing (strict), or record it (skip)."""
        self.unmatched = [pattern for pattern in self.exclude if pattern not in self._matched]
        if self.unmatched and self.policy == "strict":
            raise CorpusError(
                f"corpus.exclude: {self.unmatched[0]!r} matches no document: correct the pattern or"
                " remove it"
            )

    def accept(self, documents: Iterable[Document], source: str) -> Iterator[Document]:
        """Yield a source's documents without repeated ones, and without named entities inside
        others; a fault of the source counts as one document.
        """
        with self.recording(source):
            for document in documents:
                if earlier := self._sources.get(document.id):
                    where = "occurs twice" if earlier == source else f"is also in {earlier}"
                    message = f"{source}: document {document.id} {where}: keep one copy"
                    self.reject(document.id, CorpusError(message))
                else:
                    self._sources[document.id] = source
                    yield self._flatten(document)

    def _flatten(self, document: Document) -> Document:
        entities = document.named_entities
        if not entities:
            return document
        kept = flatten_entities(entities)
        if lost := len(entities) - len(kept):
            self.counts["named_entities_inside_others"] += lost
        return replace(document, named_entities=kept)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for a manifest."""
        return {
            "documents_read": len(self._sources),
            "excluded": list(self.excluded),
            "bad": dict(self.bad),
            "unmatched": list(self.unmatched),
            "counts": dict(sorted(self.counts.items())),
        }
