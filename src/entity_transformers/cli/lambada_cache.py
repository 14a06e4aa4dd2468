"""Opens the files of score-lambada-cache."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from entity_transformers.artifacts import read_json, read_json_lines, read_tokenizer, write_json
from entity_transformers.cli.flags import Flag
from entity_transformers.cli.trained import open_model
from entity_transformers.study.params import Params
from entity_transformers.tasks.lambada import encode_passages
from entity_transformers.tasks.lambada_cache import compare_caches, read_last_words


def score_lambada_cache(
    params: Params,
    corpus: Path,
    passages: Path,
    lm: Path,
    cache: Annotated[Path, Flag("what step cache found (results/cache/MODEL/SEED)", "FOLDER")],
    model: str,
    seed: int,
    output: Path,
) -> None:
    """Perplexity and accuracy of last words with a cache of all of the passage before them, theta
    and lambda those of step cache's largest size, or chosen on the other half of the passages.
    """
    entry, trained = open_model(params, lm, model, seed)
    tokenizer = read_tokenizer(corpus / "tokenizer.json")
    encoded = encode_passages(list(read_json_lines(passages / "lambada.jsonl")), tokenizer)
    largest = max(read_json(cache / "cache.json")["sizes"], key=lambda one: one["size"])
    words = read_last_words(trained, encoded, window=entry.lm.window, batch=params.perplexity.batch)
    scores = compare_caches(words, len(encoded), largest["theta"], largest["weight"])
    facts = {"model": model, "seed": seed, "labels": "none", "size": largest["size"]}
    write_json(output / "lambada_cache.json", facts | {"caches": scores})
