"""Step passages (section 4.2): LAMBADA's passages and the parts of speech of their last words."""

from pathlib import Path
from typing import Literal

from entity_transformers.step import Rows, Run, step

SPLIT = "lambada"
WORDS = {"words": "all", "last_words": "last"}  # of the dev sentences that test the tagger


@step(
    "passages",
    "[4.2] the LAMBADA passages, their target words and those words' parts of speech",
    phase="corpus",
    also=("lambada", "corpus.bad_documents"),
    reads={"corpus": ("train.jsonl", "dev.jsonl")},
    writes=("source.json", "lambada.jsonl"),
    data=("corpus/checksums/*", "data/*"),
    libraries=("scipy", "sklearn"),
    gpu=False,
)
def passages(run: Run) -> Rows:
    """Counts of passages, shares of their last words' tags, and the tagger's scores on dev."""
    from entity_transformers.artifacts import read_json_lines, write_json, write_json_lines
    from entity_transformers.corpus.download import list_passages
    from entity_transformers.corpus.files import open_lines
    from entity_transformers.corpus.ledger import Ledger
    from entity_transformers.corpus.readers.lambada import parse_passages
    from entity_transformers.corpus.tagging import tag_targets

    section = run.params.lambada
    listed = list_passages(section, run.cache)
    write_json(run.folder / "source.json", listed)
    path = Path(listed["root"]) / listed["files"][0]["path"]
    text: Literal["original", "openai"] = "openai" if section.text == "openai" else "original"
    ledger = Ledger(policy=run.params.corpus.bad_documents)
    read = parse_passages(open_lines(path), str(path), text, ledger)
    count = write_json_lines(run.folder / "lambada.jsonl", read)
    yield {"measure": "passages", "value": count, "split": SPLIT}
    yield {"measure": "bad_passages", "value": len(ledger.bad), "split": SPLIT}
    rows = list(read_json_lines(run.folder / "lambada.jsonl"))
    tags = tag_targets(run.documents("train"), run.documents("dev"), rows)
    for group, share in (tags["shares"] or {}).items():
        about = {"split": SPLIT, "group": group, "count": tags["n"]}
        yield {"measure": "target_share", "value": share, **about}
    case = "lower" if tags["lower_case"] else "kept"
    for words, scores in (tags["dev"] or {}).items():
        about = {"split": "dev", "case": case, "words": WORDS[words]}
        accuracy = {"value": scores["accuracy"], "count": scores["n"]}
        yield {"measure": "tagger_accuracy", **accuracy, **about}
        for group, score in scores["groups"].items():
            own = {**about, "count": score["n"], "group": group}
            for name in ("precision", "recall"):
                yield {"measure": f"tagger_{name}", "value": score[name], **own}
