"""Opens the files of score-capacity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from entity_transformers.artifacts import read_tokenizer, write_json
from entity_transformers.cli.trained import open_model, open_split
from entity_transformers.corpus.labels import give
from entity_transformers.study.params import Params
from entity_transformers.tasks.cache import choose_all
from entity_transformers.tasks.capacity import Forgetful
from entity_transformers.tasks.groups import cut_documents, group_tokens
from entity_transformers.tasks.mentions import (
    count_entities,
    describe_documents,
    list_texts,
    name_condition,
    read_scores,
    score_sizes,
    summarise,
)


def score_capacity(
    params: Params, corpus: Path, lm: Path, model: str, seed: int, output: Path
) -> None:
    """The loss of the split mentions.report, by kind of token, of a model with a pointer that has
    room for so many entities, beside so many recent tokens in a cache, as capacity.memories says.
    A model without a pointer has nothing to forget, and no numbers.
    """
    section, about = params.capacity, params.mentions
    entry, trained = open_model(params, lm, model, seed)
    judged = open_split(corpus, about.report, "section mentions")
    chosen = cut_documents(open_split(corpus, about.choose, "section mentions"), about.tokens)
    window = entry.lm.window
    how: dict[str, Any] = {**params.reading(entry)}
    tokenizer = read_tokenizer(corpus / "tokenizer.json")
    groups = [
        group_tokens(one, window, tokenizer.decode) for one in list_texts(judged, about.labels)
    ]
    points = getattr(entry.lm, "entity_output", "none") == "pointer" and entry.labels != "none"
    text, other = (give(one, entry.labels, seed) for one in (judged, chosen))
    known, scored = count_entities(text), list[dict[str, Any]]()
    for rows, sizes in section.by_entities() if points else ():
        small, cached = Forgetful(trained, rows), [size for size in sizes if size]
        choices = choose_all(read_scores(small, other, sizes=cached, **how)) if cached else []
        found = read_scores(small, text, sizes=cached, **how)
        held = [min(rows, one) for one in known]
        everything = score_sizes(name_condition(entry), found, choices, cached, held)
        asked = (one for one in everything if one.size in sizes)
        scored += [{"rows": rows, **one} for one in summarise(asked, groups)]
    facts = {
        "model": model,
        "seed": seed,
        "labels": about.labels,
        "split": about.report,
        "window": window,
        "documents": describe_documents(judged.names, groups),
    }
    write_json(output / "capacity.json", facts | {"scored": scored})
