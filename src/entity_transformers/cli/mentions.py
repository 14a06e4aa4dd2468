"""Opens the files of score-mentions, score-short-windows and score-capacity: the loss of the split
mentions.report by kind of token, of a model in some windows, with a memory of some size, and with
caches around it that are tuned on mentions.choose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entity_transformers.artifacts import read_tokenizer, write_json
from entity_transformers.cli.trained import open_model, open_split
from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give
from entity_transformers.freed import give_back
from entity_transformers.kinds import ModelEntry
from entity_transformers.models.base import LanguageModel
from entity_transformers.study.params import Params
from entity_transformers.tasks.cache import choose_all
<<<<<<< HEAD
from entity_transformers.tasks.groups import cut_documents, group_tokens
=======
from entity_transformers.tasks.memory.groups import Groups, group_tokens
from entity_transformers.tasks.memory.training import cut_documents
>>>>>>> h-decisions
from entity_transformers.tasks.mentions import (
    Forgetful,
    count_entities,
    describe_documents,
    list_texts,
    name_condition,
    points,
    read_scores,
    score_sizes,
    summarise,
)


@dataclass(frozen=True)
class Opened:
    """A trained model and its entry, the splits to choose on and to report, and what the step's
    file says of the run.
    """

    entry: ModelEntry
    model: LanguageModel
    chosen: AlignedCorpus
    judged: AlignedCorpus
    facts: dict[str, Any]

    @property
    def labels(self) -> str:
        """The labels that it is given: none, if it can't read any."""
        return self.entry.labels if self.model.can("entities") else "none"

    def score(
        self,
        layer: str,
        groups: Sequence[Groups],
        sizes: Sequence[int],
        reads: Mapping[str, int],
        rows: int | None = None,
        asked: Sequence[int] | None = None,
    ) -> list[dict[str, Any]]:
        """Entries of `summarise` for labels ``layer`` and caches of ``sizes``, of which only those
        ``asked`` for are told, 0 for none; ``rows``: with room for so many entities.
        """
        seed = self.facts["seed"]
        model = self.model if rows is None else Forgetful(self.model, rows)
        text = give(self.judged, layer, seed)
        # one split after the other, since scores are large
        tuned = give(self.chosen, layer, seed)
        how: dict[str, Any] = {"sizes": sizes, **reads}
        choices = choose_all(read_scores(model, tuned, **how)) if sizes else []
        give_back()
        known = count_entities(text)
        held = known if rows is None else [min(rows, one) for one in known]
        name = "none" if layer == "none" else name_condition(self.entry)
        scored = score_sizes(name, read_scores(model, text, **how), choices, sizes, held)
        return summarise((one for one in scored if asked is None or one.size in asked), groups)


def _open(
    params: Params, corpus: Path, lm: Path, model: str, seed: int
) -> tuple[Opened, Callable[[int], list[Groups]]]:
    """What is read, and the groups of its tokens by the window."""
    about = params.mentions
    entry, trained = open_model(params, lm, model, seed)
    judged = open_split(corpus, about.report, "section mentions")
    chosen = cut_documents(open_split(corpus, about.choose, "section mentions"), about.tokens)
    facts = {"model": model, "seed": seed, "labels": about.labels, "split": about.report}
    tokenizer = read_tokenizer(corpus / "tokenizer.json")

    def group(window: int) -> list[Groups]:
        texts = list_texts(judged, about.labels)
        return [group_tokens(text, window, tokenizer.decode) for text in texts]

    return Opened(entry, trained, chosen, judged, facts), group


def score_mentions(
    params: Params, corpus: Path, lm: Path, model: str, seed: int, output: Path
) -> None:
    """In the model's own window, without labels and, of a model that reads entities, with those
    that it is given.
    """
    section = params.mentions
    opened, group = _open(params, corpus, lm, model, seed)
    window = opened.entry.lm.window
    groups, reads = group(window), params.reading(opened.entry)
    # of a model that reads labels the caches are around what it is with them
    labelled = opened.labels != "none"
    plain = () if labelled else (*section.caches, *section.unlabelled_caches)
    scored = opened.score("none", groups, plain, reads)
    if labelled:
        scored += opened.score(opened.labels, groups, section.caches, reads)
    documents = describe_documents(opened.judged.names, groups)
    found = {"window": window, "documents": documents, "scored": scored}
    write_json(output / "mentions.json", opened.facts | found)


def score_short_windows(
    params: Params, corpus: Path, lm: Path, model: str, seed: int, output: Path
) -> None:
    """With the labels that the model is given, in windows of short_windows.sizes that follow one
    another, each with caches tuned in it.
    """
    section = params.short_windows
    opened, group = _open(params, corpus, lm, model, seed)
    windows = []
    for window in section.sizes:
        groups, reads = group(window), {"window": window, "stride": window}
        documents = describe_documents(opened.judged.names, groups)
        scored = opened.score(opened.labels, groups, section.caches, reads)
        windows.append({"window": window, "documents": documents, "scored": scored})
    write_json(output / "short_windows.json", opened.facts | {"windows": windows})


def score_capacity(
    params: Params, corpus: Path, lm: Path, model: str, seed: int, output: Path
) -> None:
    """Of a model with a pointer that has room for so many entities, beside so many recent tokens in
    a cache, as capacity.memories says. A model without a pointer has nothing to forget, and no
    numbers.
    """
    opened, group = _open(params, corpus, lm, model, seed)
    window = opened.entry.lm.window
    groups, reads, scored = group(window), params.reading(opened.entry), []
    for rows, asked in params.capacity.by_entities() if points(opened.entry) else ():
        sizes = [size for size in asked if size]
        some = opened.score(opened.labels, groups, sizes, reads, rows, asked)
        scored += [{"rows": rows, **one} for one in some]
    documents = describe_documents(opened.judged.names, groups)
    found = {"window": window, "documents": documents, "scored": scored}
    write_json(output / "capacity.json", opened.facts | found)
