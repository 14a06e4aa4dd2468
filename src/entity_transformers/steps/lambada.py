"""Step lambada (section 5, table 3): nats of whole passages and of their last words."""

from typing import Any, Literal

from entity_transformers.step import MODEL, Rows, Run, step
from entity_transformers.study.sections import Section


class LambadaParams(Section):
    """The out-of-domain passages (section 4.2)."""

    text: Literal["original", "openai", "sample"]
    """original: lower case, tokenised; openai: detokenised; sample: our own"""
    path: str | None
    """local file; null: download"""


@step(
    "lambada",
    "[5, table 3] perplexity and accuracy on LAMBADA",
    params=LambadaParams,
    also=("perplexity",),
    reads={"corpus": ("tokenizer.json",), "passages": ("lambada.jsonl",), "lm": MODEL},
    needs={"causal"},
    libraries=("pandas",),
    title="Last words of passages",
)
def lambada(run: Run) -> Rows:
    """Last words, last tokens and whole passages, without entities; the nats of each last word."""
    from entity_transformers.artifacts import read_json_lines
    from entity_transformers.tasks.lambada import encode_passages, passage_rows, score_passages

    passages = list(read_json_lines(run.home("passages") / "lambada.jsonl"))
    encoded = encode_passages(passages, run.tokenizer)
    how: dict[str, Any] = {"window": run.entry.lm.window, "batch": run.params.perplexity.batch}
    scores = score_passages(run.trained, encoded, **how, above=run.above)
    yield from passage_rows(scores)
