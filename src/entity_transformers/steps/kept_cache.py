"""Step kept_cache (beyond the paper): what a continuous cache of a few earlier tokens, kept by some
policy, is worth beside the window of a model. Nothing is trained.
"""

from __future__ import annotations

from entity_transformers.step import MODEL, TOKENS, Rows, Run, step
from entity_transformers.steps.text_memory import MemoryParams


class KeptCacheParams(MemoryParams):
    """A continuous cache of what is kept; theta and lambda are chosen on every other text."""


@step(
    "kept_cache",
    "nats per token with a continuous cache of a few earlier tokens, kept by some policy",
    params=KeptCacheParams,
    reads={"corpus": TOKENS, "lm": MODEL},
    needs={"causal", "encode"},
    title="A cache of what is kept",
)
def kept_cache(run: Run) -> Rows:
    """The loss of the texts and the nats of each, without a cache and with each, over all tokens
    and by kind of token; the bytes that each holds, and those of a window's keys and values.
    """
    from entity_transformers.models.folders import list_weights
    from entity_transformers.tasks.kept_cache import score_caches

    [weights] = [one for one in list_weights(run.home("lm")) if one.suffix == ".safetensors"]
    seed, section = run.seed or 0, run.section
    yield from section.score(
        run, lambda text: score_caches(run.trained, weights, text, section, seed)
    )
