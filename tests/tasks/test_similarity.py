"""Linear-time similarities against loops over all pairs."""

import itertools

import numpy as np
import pytest

from entity_transformers.tasks.similarity import measure_similarity, similarity_rows


def cosine(a, b) -> float:
    a, b = np.asarray(a, float), np.asarray(b, float)
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def measure_plainly(vectors, entity, memory) -> dict[str, float]:
    """Every mean of the docstring by loops over pairs."""
    vectors = vectors.astype(float)
    chains = [
        chain for e in sorted(set(entity.tolist())) if len(chain := np.flatnonzero(entity == e)) > 1
    ]
    different = [
        (i, j) for i, j in itertools.combinations(range(len(entity)), 2) if entity[i] != entity[j]
    ]
    result = {}
    for name, space in (("", vectors), ("_centred", vectors - vectors.mean(0))):
        within = [
            np.mean([cosine(space[i], space[j]) for i, j in itertools.combinations(chain, 2)])
            for chain in chains
        ]
        result[f"mention_similarity{name}"] = np.mean(within)
        result[f"between_entities{name}"] = np.mean(
            [cosine(space[i], space[j]) for i, j in different]
        )
    for name, other in (("", memory), ("_to_ones", np.ones_like(memory))):
        result[f"entity_similarity{name}"] = np.mean(
            [np.mean([cosine(vectors[i], other[entity[i]]) for i in chain]) for chain in chains]
        )
    return result


@pytest.mark.parametrize(("mentions", "entities", "seed"), [(40, 6, 0), (90, 60, 1), (7, 1, 2)])
def test_similarities_equal_loops_over_all_pairs(mentions, entities, seed):
    generator = np.random.default_rng(seed)
    vectors = (generator.normal(size=(mentions, 12)) + 0.7).astype(np.float16)
    memory = generator.normal(size=(entities, 12)).astype(np.float16)
    entity = generator.integers(0, entities, mentions).astype(np.int32)
    measured = measure_similarity(vectors, entity, memory)
    counts = np.bincount(entity)
    assert (measured["mentions"], measured["entities"]) == (mentions, (counts > 1).sum())
    if entities == 1:
        assert measured["between_entities"] is None
        assert measured["mention_similarity"] == pytest.approx(
            np.mean([cosine(a, b) for a, b in itertools.combinations(vectors, 2)])
        )
        return
    for name, value in measure_plainly(vectors, entity, memory).items():
        assert measured[name] == pytest.approx(value, abs=1e-9), name


def test_equal_mentions_are_similar_by_one_and_opposite_ones_by_minus_one():
    vectors = np.array([[1, 2], [2, 4], [1, 0], [-3, 0]], np.float16)
    measured = measure_similarity(
        vectors, np.array([0, 0, 1, 1]), np.array([[2, 4], [5, 0]], np.float16)
    )
    assert measured["mention_similarity"] == pytest.approx(0.0)
    assert measured["entity_similarity"] == pytest.approx(0.5)
    alone = measure_similarity(vectors[:2], np.array([0, 0]), np.array([[2, 4]], np.float16))
    assert (alone["mention_similarity"], alone["entity_similarity"]) == (
        pytest.approx(1.0),
        pytest.approx(1.0),
    )


def test_layer_normed_states_have_no_similarity_to_ones():
    """The paper's entity rows lie near 0: that is what a state of mean 0 gives against a memory
    that is still ones.
    """
    states = np.random.default_rng(0).normal(3, 2, size=(50, 64))
    states = (states - states.mean(1, keepdims=True)) / states.std(1, keepdims=True)
    measured = measure_similarity(
        states.astype(np.float32), np.arange(50) // 2, np.ones((25, 64), np.float16)
    )
    assert measured["entity_similarity_to_ones"] == pytest.approx(0, abs=1e-6)
    assert measured["entity_similarity"] == pytest.approx(
        measured["entity_similarity_to_ones"], abs=1e-9
    )


@pytest.mark.parametrize("count", [0, 1])
def test_no_mention_and_a_chain_of_one_are_defined(count):
    measured = measure_similarity(
        np.ones((count, 4), np.float16), np.zeros(count, np.int32), np.ones((1, 4), np.float16)
    )
    assert (measured.pop("mentions"), measured.pop("entities")) == (count, 0)
    assert set(measured.values()) == {None}


def test_a_zero_vector_is_similar_to_nothing():
    measured = measure_similarity(
        np.zeros((2, 4), np.float16), np.zeros(2, np.int32), np.zeros((1, 4), np.float16)
    )
    assert (measured["mention_similarity"], measured["entity_similarity"]) == (0.0, 0.0)


def test_a_vector_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="not finite"):
        measure_similarity(
            np.full((2, 4), np.nan, np.float16), np.zeros(2, np.int32), np.ones((1, 4), np.float16)
        )


def test_rows_take_each_group_and_mode_from_its_arrays():
    generator = np.random.default_rng(9)
    names = ("word_on", "word_off", "context_on", "context_off")
    arrays = {name: generator.normal(size=(30, 6)).astype(np.float16) for name in names}
    arrays |= {
        name: generator.normal(size=(5, 6)).astype(np.float16)
        for name in ("memory_on", "memory_off")
    }
    arrays |= {
        "entity": generator.integers(0, 5, 30).astype(np.int32),
        "group": generator.integers(0, 2, 30).astype(np.uint8),
    }
    found = {
        (row["group"], row["context"], row["entities"], row["measure"]): row["value"]
        for row in similarity_rows(arrays, ["nouns", "pronouns", "none"])
    }
    rows = arrays["group"] == 1
    for prefix, context, mode in (("context", "context", "off"), ("word", "words", "on")):
        expected = measure_similarity(
            arrays[f"{prefix}_{mode}"][rows], arrays["entity"][rows], arrays[f"memory_{mode}"]
        )
        for name in expected.keys() - {"entities"}:
            assert found["pronouns", context, mode, name] == expected[name]
    assert found["none", "words", "on", "mentions"] == 0
