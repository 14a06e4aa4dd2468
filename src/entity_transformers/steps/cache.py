"""Step cache (beyond the paper): a memory of recent tokens, which an entity memory has to beat."""

from typing import Annotated

from pydantic import Field

from entity_transformers.step import MODEL, TOKENS, Rows, Run, step
from entity_transformers.study.sections import Ascending, ChoosingSection, PositiveInt


class CacheParams(ChoosingSection):
    """A continuous cache over recent tokens (Grave et al., 2017), its theta and lambda chosen."""

    sizes: Annotated[tuple[PositiveInt, ...], Ascending, Field(min_length=1)]
    """tokens that the cache holds, the latest of the document"""


@step(
    "cache",
    "perplexity with a continuous cache of recent tokens, of several sizes",
    params=CacheParams,
    also=("perplexity.stride",),
    reads={"corpus": TOKENS, "lm": MODEL},
    needs={"causal"},
)
def cache(run: Run) -> Rows:
    """The loss of the split ``report`` in nats per token with a cache of each size (0: none), theta
    and lambda (``weight``) chosen on ``choose``, and the nats of each document.
    """
    import numpy as np

    from entity_transformers.corpus.labels import give
    from entity_transformers.tasks.cache import score_sizes
    from entity_transformers.tasks.perplexity import sum_documents

    section = run.section
    how = {"sizes": section.sizes, **run.params.reading(run.entry)}
    chosen, judged = (give(run.split(name), "none") for name in (section.choose, section.report))
    lengths = np.diff(judged.offsets) - 1
    found = score_sizes(run.trained, chosen, judged, **how)
    for one in found:
        about = {"split": section.report, "size": one.size}
        loss = float(one.nats.mean())
        yield {"measure": "loss", "value": loss, "count": len(one.nats), **about}
        if one.theta is not None:
            yield {"measure": "theta", "value": one.theta, **about}
        yield {"measure": "weight", "value": one.weight, **about}
    for one in found:
        totals = sum_documents(one.nats, np.cumsum([0, *lengths])).tolist()
        for name, tokens, total in zip(judged.names, lengths.tolist(), totals, strict=True):
            about = {"split": section.report, "unit": name, "size": one.size}
            yield {"measure": "nll", "value": total, "count": tokens, **about}
