"""Linear-time similarities against loops over all pairs."""

import itertools

import numpy as np
import pytest
from tiny_study import make_study

from entity_transformers.artifacts import write_arrays
from entity_transformers.report.build import _compare_models, _find_mentions
from entity_transformers.study.params import load
from entity_transformers.tasks import similarity
from entity_transformers.tasks.similarity import across_rows, measure_cka, measure_similarity

NAMES = ("word_on", "word_off", "context_on", "context_off")


def cosine(a, b) -> float:
    a, b = np.asarray(a, float), np.asarray(b, float)
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def measure_plainly(vectors, entity, memory) -> dict[str, float]:
    """Every mean of the docstring by loops over pairs."""
    vectors = vectors.astype(float)
    chains = [np.flatnonzero(entity == e) for e in sorted(set(entity.tolist()))]
    chains = [chain for chain in chains if len(chain) > 1]
    pairs = itertools.combinations(range(len(entity)), 2)
    different = [(i, j) for i, j in pairs if entity[i] != entity[j]]
    result = {}
    for name, space in (("", vectors), ("_centred", vectors - vectors.mean(0))):
        within = [
            np.mean([cosine(space[i], space[j]) for i, j in itertools.combinations(chain, 2)])
            for chain in chains
        ]
        result[f"mention_similarity{name}"] = np.mean(within)
        apart = [cosine(space[i], space[j]) for i, j in different]
        result[f"between_entities{name}"] = np.mean(apart) if apart else None
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
    for name, value in measure_plainly(vectors, entity, memory).items():
        wanted = None if value is None else pytest.approx(value, abs=1e-9)
        assert measured[name] == wanted, name


def measure_one_chain(count: int, value: float) -> dict:
    vectors, memory = (np.full((n, 4), value, np.float16) for n in (count, 1))
    return measure_similarity(vectors, np.zeros(count, np.int32), memory)


@pytest.mark.parametrize("count", [0, 1])
def test_no_mention_and_a_chain_of_one_are_defined(count):
    measured = measure_one_chain(count, 1)
    assert (measured.pop("mentions"), measured.pop("entities")) == (count, 0)
    assert set(measured.values()) == {None}


def test_a_zero_vector_is_similar_to_nothing_and_one_that_is_not_finite_is_refused():
    measured = measure_one_chain(2, 0)
    assert (measured["mention_similarity"], measured["entity_similarity"]) == (0.0, 0.0)
    with pytest.raises(ValueError, match="not finite"):
        measure_one_chain(2, np.nan)


def test_rows_take_each_group_and_mode_from_its_arrays():
    generator = np.random.default_rng(9)
    sizes = dict.fromkeys(NAMES, 30) | {"memory_on": 5, "memory_off": 5}
    arrays = {name: generator.normal(size=(n, 6)).astype(np.float16) for name, n in sizes.items()}
    arrays["entity"] = generator.integers(0, 5, 30).astype(np.int32)
    arrays["group"] = generator.integers(0, 2, 30).astype(np.uint8)
    found = {
        (row["group"], row["context"], row["entities"], row["measure"]): row["value"]
        for row in similarity.similarity_rows(arrays, ["nouns", "pronouns", "none"])
    }
    rows = arrays["group"] == 1
    for prefix, context, mode in (("context", "context", "off"), ("word", "words", "on")):
        expected = measure_similarity(
            arrays[f"{prefix}_{mode}"][rows], arrays["entity"][rows], arrays[f"memory_{mode}"]
        )
        for name in expected.keys() - {"entities"}:
            assert found["pronouns", context, mode, name] == expected[name]
    assert found["none", "words", "on", "mentions"] == 0


def test_cka_is_its_formula_over_pairs_and_zero_without_anything_in_common():
    """HSIC of the two matrices of inner products between things."""
    generator = np.random.default_rng(4)
    x, y = generator.normal(size=(9, 4)), generator.normal(size=(9, 6))
    centre = np.eye(9) - 1 / 9
    kernels = [centre @ one @ one.T @ centre for one in (x, y)]
    both, first, second = ((a * b).sum() for a, b in (kernels, kernels[:1] * 2, kernels[1:] * 2))
    assert measure_cka(x, y) == pytest.approx(both / np.sqrt(first * second), abs=1e-12)
    apart = np.array([[1.0], [1], [-1], [-1]]), np.array([[1.0], [-1], [1], [-1]])
    assert measure_cka(*apart) == pytest.approx(0, abs=1e-12)
    assert measure_cka(np.ones((3, 2)), x[:3]) is None


def test_rows_across_models_compare_the_same_mentions(tmp_path, monkeypatch):
    generator = np.random.default_rng(5)
    ours, theirs = ({name: generator.normal(size=(30, 6)) for name in NAMES} for _ in range(2))
    ours |= {"entity": np.arange(30) // 2, "group": np.arange(30) % 2}
    theirs |= {"entity": ours["entity"], "word_off": ours["word_off"][:, ::-1]}
    found = {
        (row["group"], row["context"], row["entities"]): row["value"]
        for row in across_rows(ours, theirs, ["nouns", "pronouns", "none"])
    }
    assert found["nouns", "words", "off"] == pytest.approx(1)
    expected = measure_cka(ours["context_on"][1::2], theirs["context_off"][1::2])
    assert found["pronouns", "context", "on"] == expected
    assert (found["none", "context", "off"], len(found)) == (None, 12)
    with pytest.raises(ValueError, match="different mentions"):
        next(across_rows(ours, theirs | {"entity": ours["entity"][1:]}, ["nouns"]))
    monkeypatch.chdir(tmp_path)
    more = "alike: {kind: gpt2, matched_to: gpt2e}, deaf: {kind: gpt2e, only: [lm]},"
    more += " gpt2: {seeds: [1, 2]}, other: {kind: gpt2e, seeds: [3]}"
    params = load(make_study(tmp_path, f"similarity: {{across: true}}\nmodels: {{{more}}}\n"))
    runs = (("gpt2e", 1, ours), ("alike", 1, ours), ("gpt2", 1, theirs), ("gpt2", 2, ours))
    for model, seed, arrays in (*runs, ("other", 3, ours), ("deaf", 1, ours)):
        folder = tmp_path / f"data/tiny/scores/embeddings/{model}/{seed}"
        folder.mkdir(parents=True)
        write_arrays(folder / "mentions.safetensors", arrays)
    rows = list(_compare_models(params))
    about = {(row["step"], row["model"], row["seed"]) for row in rows}
    assert about == {("similarity", model, 1) for model in ("gpt2e", "alike")}
    assert [row["value"] for row in rows[:8]] == list(found.values())[:8]
    fewer = load(tmp_path / "studies/tiny.yaml", {"study.steps": ["corpus", "lm", "perplexity"]})
    assert _find_mentions(fewer, "proposed") == ("gpt2e", {})  # of earlier, when it had the step
    del params.models["gpt2"]
    assert list(_compare_models(params)) == []
