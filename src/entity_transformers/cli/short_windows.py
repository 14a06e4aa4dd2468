"""Opens the files of score-short-windows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from entity_transformers.artifacts import read_tokenizer, write_json
from entity_transformers.cli.trained import open_model, open_split
from entity_transformers.corpus.labels import give
from entity_transformers.study.params import Params
from entity_transformers.tasks.cache import choose_all
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


def score_short_windows(
    params: Params, corpus: Path, lm: Path, model: str, seed: int, output: Path
) -> None:
    """The loss of the split mentions.report with the labels that the model is given, by kind of
    token, read in windows of short_windows.sizes that follow one another, each with caches tuned
    in it.
    """
    section, about = params.short_windows, params.mentions
    entry, trained = open_model(params, lm, model, seed)
    judged = open_split(corpus, about.report, "section mentions")
    chosen = cut_documents(open_split(corpus, about.choose, "section mentions"), about.tokens)
    reads = trained.can("entities") and entry.labels != "none"
    labels, layer = (name_condition(entry), entry.labels) if reads else ("none", "none")
    text, other = give(judged, layer, seed), give(chosen, layer, seed)
    tokenizer = read_tokenizer(corpus / "tokenizer.json")
    windows = []
    for window in section.sizes:
        sizes = section.caches
        how: dict[str, Any] = {"sizes": sizes, "window": window, "stride": window}
        choices = choose_all(read_scores(trained, other, **how))
        found = read_scores(trained, text, **how)
        scored = score_sizes(labels, found, choices, sizes, count_entities(text))
        texts = list_texts(judged, about.labels)
        groups = [group_tokens(one, window, tokenizer.decode) for one in texts]
        windows.append(
            {
                "window": window,
                "documents": describe_documents(judged.names, groups),
                "scored": summarise(scored, groups),
            }
        )
    facts = {"model": model, "seed": seed, "labels": about.labels, "split": about.report}
    write_json(output / "short_windows.json", facts | {"windows": windows})
