"""Scores of a split, also where each token is hidden alone, against one-document,
one-window-at-a-time loops over transformers' models, and against sums by hand.
"""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from mixed import VOCABULARY, WINDOW
from plainly import latest_run
from tiny import lively_model

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import first_mentions, give, shuffle_given
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.tasks import perplexity

GROUPS = {"nouns": ["NN", "NNS"], "pronouns": ["PRP"]}
HOW = {"window": 12, "stride": 12, "batch": 3}


def score_plainly(model, corpus, window, stride):
    """One document, window and token at a time, with one vector an entity in a dictionary."""
    result = np.zeros(len(corpus.tokens))
    labels = corpus.given if model.can("entities") else None
    for d in range(len(corpus)):
        part = corpus.document(d)
        tokens, vectors, scored = corpus.tokens[part].astype(int), {}, 0
        while scored < len(tokens) - 1:
            last = window if scored == 0 else scored + stride
            start, end = max(0, last - window), min(len(tokens), last)
            given = {}
            if labels is not None:
                ids = labels[part].astype(int)
                read = [vectors.get(entity, torch.ones(16)) for entity in ids[start:end]]
                given = {"entity_states": torch.stack(read)[None]}
            given |= {"output_hidden_states": True, "use_cache": False}
            with torch.no_grad():
                output = model.module(torch.tensor(tokens[None, start:end]), **given)
            logs = output.logits[0].double().log_softmax(-1)
            for t in range(scored, min(end, len(tokens) - 1)):
                result[part.start + t + 1] = -logs[t - start, tokens[t + 1]]
            if labels is not None:
                hidden, new = output.hidden_states[-1][0, scored - start :], ids[scored:end]
                for entity in set(new) - {0}:
                    vectors[entity] = hidden[latest_run(new, entity, model.memory_write)].mean(0)
            scored = end
    return result


@pytest.mark.parametrize("stride", [12, 5, 1])
@pytest.mark.parametrize("labels", ["gold", "none", "shuffled"])
def test_scores_equal_the_plain_loop(gpt2, gpt2e, corpus, stride, labels):
    given = give(corpus, labels, seed=2)
    for model in (gpt2, gpt2e):
        nll = perplexity.score_corpus(model, given, window=12, stride=stride, batch=3)
        expected = score_plainly(model, given, 12, stride)
        np.testing.assert_allclose(nll, expected, rtol=1e-4, atol=1e-5)
        assert nll.dtype == np.float32
        assert np.flatnonzero(nll == 0).tolist() == corpus.offsets[:-1].tolist()


@pytest.mark.parametrize("layer", ["gold", "first-only"])
def test_modes_shuffle_the_labels_that_are_given(gpt2e, gpt2, corpus, layer):
    given = give(corpus, layer)
    modes, plain = (perplexity.score_modes(m, given, **HOW, seed=1) for m in (gpt2e, gpt2))
    assert list(modes) == ["on", "off", "shuffled"]
    assert abs(modes["on"] - modes["off"]).max() > 1e-2
    for mode, labels in (("on", given.given), ("shuffled", shuffle_given(given, 1).given)):
        expected = score_plainly(gpt2e, replace(corpus, given=labels), 12, 12)
        np.testing.assert_allclose(modes[mode], expected, rtol=1e-4, atol=1e-5)
        assert (plain[mode] == plain["off"]).all()


def test_modes_without_labels_are_those_without_entities(gpt2e, corpus):
    for unlabelled in (replace(corpus, given=np.zeros_like(corpus.gold)), give(corpus, "none")):
        modes = perplexity.score_modes(gpt2e, unlabelled, **HOW, seed=1)
        read = perplexity.score_corpus(gpt2e, unlabelled, **HOW)
        for mode in ("on", "off", "shuffled"):
            np.testing.assert_allclose(modes[mode], read, rtol=1e-5, atol=1e-6)


def test_mention_distances_equal_a_search_backwards(corpus):
    distances = perplexity.mention_distances(corpus)
    for d in range(len(corpus)):
        part = corpus.document(d)
        entities, mentions = corpus.gold[part], corpus.mentions[part]
        for t in range(len(entities)):
            if mentions[t] < 0:
                assert distances[part][t] == -1
                continue
            start = next(s for s in range(len(entities)) if mentions[s] == mentions[t])
            earlier = [s for s in range(start) if entities[s] == entities[t]]
            assert distances[part][t] == (start - max(earlier) if earlier else 0)
    assert ((distances == 0) == first_mentions(corpus)).all()


@pytest.fixture(scope="module")
def scores(corpus):
    generator = np.random.default_rng(0)
    drawn = generator.exponential(3, (2, len(corpus.tokens))).astype(np.float32)
    return dict(zip(("on", "off"), np.where(corpus.words < 0, 0, drawn), strict=True))


@pytest.fixture(scope="module")
def rows(corpus, scores):
    return list(perplexity.split_rows(corpus, scores, GROUPS))


def find(rows, mode: str, measure: str, **part: str):
    """Value and count of the row of a mode and a part, none: of the whole split."""
    columns = {"class", "group", "distance", "unit"}
    [row] = [
        row for row in rows
        if (row.get("entities"), row["measure"]) == (mode, measure)
        and {key: row[key] for key in columns & row.keys()} == part
    ]  # fmt: skip
    return row["value"], row["count"]


def test_summary_equals_sums_by_hand(corpus, scores, rows):
    predicted = [i for i in range(len(corpus.tokens)) if corpus.words[i] >= 0]
    total = math.fsum(float(scores["on"][i]) for i in predicted)
    documents = np.searchsorted(corpus.offsets, predicted, side="right").tolist()
    words = len(set(zip(documents, corpus.words[predicted].tolist(), strict=True)))
    size = sum(int(b) for b in corpus.bytes)
    counts = {row["measure"]: row["value"] for row in rows if "entities" not in row}
    assert counts == {"documents": 8, "words": words, "bytes": size}
    for measure, value in {
        "nll": total,
        "loss": total / len(predicted),
        "perplexity": math.exp(total / len(predicted)),
        "perplexity_word": math.exp(total / words),
        "bits_per_byte": total / math.log(2) / size,
    }.items():
        assert find(rows, "on", measure) == (pytest.approx(value, rel=1e-12), len(predicted))


def test_classes_groups_and_distances_each_cover_every_token_once(corpus, scores, rows):
    names, off = {}, [r for r in rows if (r.get("entities"), r["measure"]) == ("off", "nll")]
    for column in ("class", "group", "distance"):
        own = [row for row in off if column in row]
        names[column] = {row[column] for row in own}
        part = {"class": "later"} if column == "distance" else {}
        nll, tokens = find(rows, "off", "nll", **part)
        assert sum(row["count"] for row in own) == tokens
        assert sum(row["value"] for row in own) == pytest.approx(nll, rel=1e-12)
    assert names["class"] == {"outside", "first", "later"}
    assert names["group"] == {"nouns", "pronouns", "other", "unknown"}
    first, distances = first_mentions(corpus), perplexity.mention_distances(corpus)
    nouns = (corpus.tags == corpus.tag_names.index("NN")) & (corpus.words >= 0)
    near = (distances >= 1) & (distances < 16)
    for part, where in (
        ({"group": "nouns"}, nouns), ({"class": "first"}, first), ({"distance": "1-15"}, near)
    ):  # fmt: skip
        total = scores["on"][where].sum(dtype=np.float64)
        assert find(rows, "on", "nll", **part) == (pytest.approx(total, rel=1e-12), where.sum())


def test_document_rows_sum_to_the_split(corpus, scores, rows):
    for mode, nll in scores.items():
        own = [row for row in rows if "unit" in row and row["entities"] == mode]
        assert [row["unit"] for row in own] == list(corpus.names)
        for d, row in enumerate(own):
            part = corpus.document(d)
            assert row["value"] == pytest.approx(math.fsum(nll[part].tolist()), abs=1e-9)
            assert row["count"] == (corpus.words[part] >= 0).sum()


def test_an_empty_split_and_one_without_mentions_are_defined(gpt2, corpus):
    empty = corpus.head(0)
    assert perplexity.score_corpus(gpt2, empty, **HOW).shape == (0,)
    found = list(perplexity.split_rows(empty, {"on": np.zeros(0, np.float32)}, GROUPS))
    assert find(found, "on", "loss") == (None, 0)
    bare = replace(corpus, gold=np.zeros_like(corpus.gold), given=None)
    assert perplexity.score_corpus(gpt2, bare, **HOW).any()


def test_perplexity_of_a_hopeless_loss_is_none_not_infinite():
    assert perplexity.exp_or_none(1000.0) is None
    assert perplexity.exp_or_none(None) is None
    assert perplexity.exp_or_none(1.0) == pytest.approx(math.e)


@torch.no_grad()
def hide_plainly(model: LanguageModel, corpus: AlignedCorpus) -> list[float]:
    """One document, window and hidden token at a time: minus its log-probability, by transformers'
    own model where it has no entity attention, else with a memory of its own.
    """
    found, labels = [], corpus.given if model.can("entities") else None
    for d in range(len(corpus)):
        part, state = corpus.document(d), model.start(1, 9)
        for start in range(part.start, part.stop, WINDOW):
            where = slice(start, min(start + WINDOW, part.stop))
            window = torch.from_numpy(corpus.tokens[where].astype(np.int64))[None]
            known = None if labels is None else torch.from_numpy(labels[where]).long()[None]
            for i, token in enumerate(window[0].tolist()):
                shown = window.clone()
                shown[0, i] = VOCABULARY
                if model.can("entities"):
                    logits = model.module.cls(model.encode(Batch(shown, known), state)[0])
                else:
                    logits = model.module(shown).logits
                nats = -logits[0, i].double().log_softmax(-1)[token].item()
                found.append(nats if start + i > part.start else 0.0)
            _, state = model.encode(Batch(window, known), state)
    return found


@pytest.mark.parametrize("kind", ["bert", "berte"])
def test_each_token_is_hidden_alone(kind: str, corpus: AlignedCorpus) -> None:
    """With the entities and their memory, if the model reads any, in each window."""
    model, found = lively_model(kind, VOCABULARY, window=WINDOW), {}
    for layer, batches in (("gold", (1, 5, 64)), ("none", (5,))):
        expected = hide_plainly(model, split := give(corpus, layer))
        for batch in batches:
            found[layer] = perplexity.score_hidden(model, split, window=WINDOW, batch=batch)
            assert found[layer].dtype == np.float32
            np.testing.assert_allclose(found[layer], expected, rtol=1e-4, atol=1e-4)
    assert (found["gold"][corpus.offsets[:-1]] == 0).all()
    assert (np.delete(found["gold"], corpus.offsets[:-1]) > 0).all()
    assert (np.abs(found["gold"] - found["none"]).max() > 0.1) == (kind == "berte")


def test_sums_are_those_of_the_tokens(corpus: AlignedCorpus) -> None:
    nll = np.random.default_rng(1).random(len(corpus.tokens)).astype(np.float32)
    nll[corpus.offsets[:-1]] = 0
    rows = list(perplexity.hidden_rows(corpus, {"off": nll}))
    assert all(row["measure"].startswith("pseudo_") for row in rows)
    distances, text = perplexity.mention_distances(corpus), corpus.words >= 0
    classes = {None: text, "outside": text & (corpus.mentions < 0)}
    classes |= {"first": text & (distances == 0), "later": text & (distances > 0)}
    for name, where in classes.items():
        own = [row for row in rows if "unit" not in row and row["class"] == name]
        found = {row["measure"]: row["value"] for row in own}
        assert {row["count"] for row in own} == {where.sum()} != {0}
        total = math.fsum(nll[where].tolist())
        loss = total / where.sum()
        expected = {"nll": total, "loss": loss, "perplexity": math.exp(loss)}
        assert found == pytest.approx({f"pseudo_{k}": v for k, v in expected.items()}, rel=1e-9)
    units = [row for row in rows if "unit" in row]
    for row, (start, end) in zip(units, pairwise(corpus.offsets), strict=True):
        assert row["count"] == end - start - 1
        assert row["value"] == pytest.approx(math.fsum(nll[start:end].tolist()), abs=1e-6)
