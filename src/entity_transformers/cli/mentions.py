"""Opens the files of score-mentions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from entity_transformers.artifacts import read_tokenizer, write_json
from entity_transformers.cli.trained import open_model, open_split
from entity_transformers.corpus.labels import give
from entity_transformers.freed import give_back
from entity_transformers.study.params import Params
from entity_transformers.tasks.cache import choose_all
from entity_transformers.tasks.groups import cut_documents, group_tokens
from entity_transformers.tasks.mentions import (
    Scored,
    count_entities,
    describe_documents,
    list_texts,
    name_condition,
    read_scores,
    score_sizes,
    summarise,
)


def score_mentions(
    params: Params, corpus: Path, lm: Path, model: str, seed: int, output: Path
) -> None:
    """The loss of the split mentions.report without labels, and of a model that reads entities with
    those that it is given too, by kind of token; with caches tuned on mentions.choose.
    """
    section = params.mentions
    entry, trained = open_model(params, lm, model, seed)
    judged = open_split(corpus, section.report, "section mentions")
    chosen = cut_documents(open_split(corpus, section.choose, "section mentions"), section.tokens)
    window = entry.lm.window
    reads: dict[str, Any] = {**params.reading(entry)}
    # of a model that reads labels the caches are around what it is with them
    labelled = trained.can("entities") and entry.labels != "none"
    plain = () if labelled else (*section.caches, *section.unlabelled_caches)
    conditions = [("none", "none", plain)]
    if labelled:
        conditions.append((name_condition(entry), entry.labels, section.caches))

    def score() -> Iterator[Scored]:
        for labels, layer, sizes in conditions:
            own = reads | {"sizes": sizes}
            text = give(judged, layer, seed)
            # one split after the other, since scores are large
            tuned = give(chosen, layer, seed)
            choices = choose_all(read_scores(trained, tuned, **own)) if sizes else []
            give_back()
            known = count_entities(text)
            yield from score_sizes(labels, read_scores(trained, text, **own), choices, sizes, known)

    tokenizer = read_tokenizer(corpus / "tokenizer.json")
    texts = list_texts(judged, section.labels)
    groups = [group_tokens(text, window, tokenizer.decode) for text in texts]
    facts = {
        "model": model,
        "seed": seed,
        "labels": section.labels,
        "split": section.report,
        "window": window,
        "documents": describe_documents(judged.names, groups),
    }
    write_json(output / "mentions.json", facts | {"scored": summarise(score(), groups)})
