"""What a model reads while entity decisions are learnt from it: labels that follow from the text,
and no others.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny import lively_model, tiny_corpus, tiny_entry
from torch import Tensor

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import LAG, give
from entity_transformers.resolve.registry import REGISTRY, follow_from_text
from entity_transformers.tasks.cache import read_documents
from entity_transformers.tasks.decisions.training import ReadStory, name_labels, read_stories
from entity_transformers.tasks.perplexity import score_corpus

LAGGED = "lagged-resolver:names-causal"
TELLING = ("gold", "lagged", "surface", "resolver:names-causal", "lagged-resolver:names")


def named_corpus(seed: int = 3) -> AlignedCorpus:
    """The gold mentions are a causal resolver's and another one's too."""
    corpus = tiny_corpus(3, seed=seed)
    layers = {}
    for name in ("names-causal", "names"):
        layers |= {f"resolver:{name}": corpus.gold, f"mentions:{name}": corpus.mentions}
    return replace(corpus, layers=layers)


def read(corpus: AlignedCorpus, given: str) -> list[ReadStory]:
    model = lively_model("gpt2e")
    model.module.requires_grad_(False)
    return read_stories(model, corpus, "gold", given=given, window=8, longest=2)


def test_the_words_are_those_of_the_model_with_its_labels() -> None:
    """Step perplexity gives each token as much."""
    corpus = named_corpus()
    scores = score_corpus(lively_model("gpt2e"), give(corpus, LAGGED), window=8, stride=8, batch=1)
    told, untold = read(corpus, LAGGED), read(corpus, "none")
    for d, one in enumerate(told):
        place = corpus.document(d)
        assert one.plain == pytest.approx(scores[place.start + 1 : place.stop], abs=1e-5)
    changes = [
        np.abs(one.plain - other.plain).max() for one, other in zip(told, untold, strict=True)
    ]
    assert max(changes) > 0.01  # labels matter to this model


def mention(entity: int) -> AlignedCorpus:
    """A document of 24 words of a token each: entities 1 and 2 in the first window, and then a
    mention of ``entity`` in tokens 10 to 12.
    """
    corpus = tiny_corpus(1, seed=3, shortest=25, longest=26)
    labels, spans = np.zeros(25, np.int32), np.full(25, -1, np.int32)
    labels[[2, 4]], spans[[2, 4]] = [1, 2], [0, 1]
    labels[10:13], spans[10:13] = entity, 2
    return replace(corpus, layers={"resolver:names-causal": labels, "mentions:names-causal": spans})


def first_difference(one: Tensor, other: Tensor) -> int:
    """The first token whose state, which has read it, is another."""
    return int((one != other).any(1).nonzero()[0])


def test_no_label_tells_of_a_mention_that_has_not_ended() -> None:
    """Another entity in a mention shows two words after its last one. With the labels as the
    resolver has them, which are refused, it would show in the mention's first word.
    """
    one, other = (read(mention(entity), LAGGED)[0].states for entity in (1, 2))
    assert first_difference(one, other) == 12 + LAG
    reads = {"window": 8, "stride": 8, "batch": 1}
    with torch.inference_mode():
        one, other = (
            next(read_documents(lively_model("gpt2e"), give(mention(n), LAGGED[7:]), **reads))[0]
            for n in (1, 2)
        )
    assert first_difference(one, other) == 10


@pytest.mark.parametrize("given", TELLING)
def test_labels_that_tell_more_are_refused(given: str) -> None:
    assert not follow_from_text(given)
    with pytest.raises(ValueError, match=f"labels {given!r} tell more than the text does"):
        read(named_corpus(), given)


def test_what_follows_from_the_text() -> None:
    causal = {name for name in REGISTRY if follow_from_text(f"lagged-resolver:{name}")}
    assert causal == {name for name in REGISTRY if name.endswith("-causal")}
    assert not follow_from_text("shuffled-resolver:names-causal")
    assert not follow_from_text("none")


def test_a_model_reads_its_own_labels_only_where_they_follow_from_the_text() -> None:
    assert name_labels(tiny_entry("gpt2e", LAGGED)) == LAGGED
    assert name_labels(tiny_entry("gpt2", "none")) == "none"
    for labels in ("gold", "lagged", "resolver:names-causal"):
        assert name_labels(tiny_entry("gpt2e", labels)) == "none"
    assert name_labels(tiny_entry("gpt2e-pointer", "resolver:names-causal")) == "none"
