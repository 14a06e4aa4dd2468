"""A trained model read in some windows, with a memory of some size, and with caches around it: what
steps mentions, short_windows and capacity are made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give
from entity_transformers.step import Rows, Run
from entity_transformers.tasks.cache import choose_all
from entity_transformers.tasks.groups import Groups, cut_documents, group_tokens
from entity_transformers.tasks.mentions import (
    Forgetful,
    count_entities,
    describe_documents,
    list_texts,
    name_condition,
    read_scores,
    score_sizes,
    summarise,
)


@dataclass
class Readings:
    """A run's model, and the splits on which caches are chosen and losses are reported."""

    run: Run
    chosen: AlignedCorpus
    judged: AlignedCorpus

    @property
    def labels(self) -> str:
        """The layer of labels that the model is given: none, if it can't read any."""
        return self.run.entry.labels if self.run.trained.can("entities") else "none"

    @property
    def own_window(self) -> tuple[int, int]:
        """The window and stride of the model itself."""
        reading = self.run.params.reading(self.run.entry)
        return reading["window"], reading["stride"]

    def group(self, window: int) -> list[Groups]:
        """The kinds of the tokens of each document, by how far an entity's last mention is."""
        texts = list_texts(self.judged, self.run.params.mentions.labels)
        return [group_tokens(text, window, self.run.tokenizer.decode) for text in texts]

    def score(
        self, layer: str, sizes: Sequence[int], window: int, stride: int, rows: int | None = None
    ) -> Rows:
        """With the labels of ``layer`` and caches of each of ``sizes`` (0: none): the loss, by
        group of tokens too, the cache's theta and weight, the entities of a document at its end,
        and the nats of each document, of all its tokens and of those far from their entity's last
        mention (``scope``). ``rows``: the memory has room for so many entities.
        """
        model, seed = self.run.trained, self.run.seed
        if rows is not None:
            model = Forgetful(model, rows)
        text = give(self.judged, layer, seed)
        tuned = give(self.chosen, layer, seed)
        how: dict[str, Any] = {"sizes": sizes, "window": window, "stride": stride}
        # one split after the other, since scores are large
        choices = choose_all(read_scores(model, tuned, **how)) if sizes else []
        known = count_entities(text)
        held = known if rows is None else [min(rows, one) for one in known]
        name = "none" if layer == "none" else name_condition(self.run.entry)
        groups = self.group(window)
        scored = score_sizes(name, read_scores(model, text, **how), choices, sizes, held)
        documents = describe_documents(self.judged.names, groups)
        for entry in summarise(scored, groups):
            yield from self._list_rows(entry, documents)

    def _list_rows(self, entry: dict[str, Any], documents: Sequence[dict[str, Any]]) -> Rows:
        about = {"split": self.judged.split, "labels": entry["labels"], "size": entry["size"]}
        total = sum(document["tokens"]["all"] for document in documents)
        yield {"measure": "loss", "value": entry["loss"], "count": total, **about}
        for name in ("theta", "weight") if entry["size"] else ():
            yield {"measure": name, "value": entry[name], **about}
        entities = fmean(entry["entities"])
        yield {"measure": "entities", "value": entities, "count": len(documents), **about}
        for grouping, groups in entry["groups"].items():
            for name, part in groups.items():
                own = {**about, grouping: name, "count": part["tokens"]}
                yield {"measure": "loss", "value": part["loss"], **own}
        for scope, nats in entry["documents"].items():
            for document, value in zip(documents, nats, strict=True):
                own = {**about, "scope": scope, "unit": document["document"]}
                count = document["tokens"][scope]
                yield {"measure": "nll", "value": value, "count": count, **own}


def open_readings(run: Run) -> Readings:
    """What the study's section mentions says is read."""
    about = run.params.mentions
    chosen = cut_documents(run.split(about.choose), about.tokens)
    return Readings(run, chosen, run.split(about.report))
