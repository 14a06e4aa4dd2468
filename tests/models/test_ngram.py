"""The n-gram model against counts in plain Python."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import ROOT, tiny_corpus
from tiny import VOCABULARY as VOCABULARY_OF_TEXTS
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from entity_transformers.artifacts import write_arrays
from entity_transformers.corpus.labels import give
from entity_transformers.models.base import Batch
from entity_transformers.models.ngram import Counts, NGram, find_share, list_grams, train
from entity_transformers.step import Run
from entity_transformers.study.params import STEPS, parse
from entity_transformers.study.values import read_values
from entity_transformers.tasks.perplexity import mean_loss

END, VOCABULARY = 0, 12


@pytest.fixture(scope="module")
def texts() -> list[np.ndarray]:
    random = np.random.default_rng(1)
    return [np.concatenate([[END], random.integers(1, 9, n)]) for n in (40, 25, 60)]


@pytest.fixture(scope="module")
def model(texts: list[np.ndarray]) -> NGram:
    return NGram(Counts.of(texts, 3, VOCABULARY, END), END).eval()


def witten_bell(texts: list[np.ndarray], history: tuple[int, ...], word: int, k: int) -> float:
    """The equation as it stands, by counting every time anew."""
    if k == 0:
        return 1 / VOCABULARY
    counts: Counter[tuple[int, ...]] = Counter()
    for text in texts:
        whole = [END, END, *text.tolist()]  # the leading <|endoftext|> is not predicted
        counts.update(tuple(whole[i - k + 1 : i + 1]) for i in range(3, len(whole)))
    context = history[len(history) - k + 1 :]
    follow = {gram[-1]: n for gram, n in counts.items() if gram[:-1] == context}
    below = witten_bell(texts, history, word, k - 1)
    if not follow:
        return below
    total, types = sum(follow.values()), len(follow)
    return (follow.get(word, 0) + types * below) / (total + types)


def test_probabilities_are_those_of_the_equation_and_sum_to_1(texts, model):
    for context in ((END, END), (END, 3), (4, 5), (11, 2), (10, 11)):
        expected = [witten_bell(texts, context, word, 3) for word in range(VOCABULARY)]
        assert sum(expected) == pytest.approx(1)
        contexts, words = np.array([context] * VOCABULARY), np.arange(VOCABULARY)
        found = model.counts.probabilities(contexts, words)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        logits = model.logits(torch.tensor([[context]], dtype=torch.float32))
        np.testing.assert_allclose(logits[0, 0].exp().numpy(), expected, rtol=1e-6)


def test_windows_read_one_after_the_other_are_the_text_read_at_once(texts, model):
    tokens = torch.from_numpy(texts[0][None])
    whole = model.nats(model.encode(Batch(tokens[:, :-1]), model.start(1))[0], tokens[:, 1:])
    state, parts = model.start(1), []
    for part, wanted in zip(tokens[:, :-1].split(7, 1), tokens[:, 1:].split(7, 1), strict=True):
        hidden, state = model.encode(Batch(part), state)
        parts.append(model.nats(hidden, wanted))
    assert torch.equal(torch.cat(parts, 1), whole)
    again = model.encode(Batch(tokens[:, :9]), state.reset(torch.tensor([True])))[0]
    assert torch.equal(model.nats(again, tokens[:, 1:10]), whole[:, :9])


def test_a_saved_model_is_the_same_and_guesses_the_likeliest(tmp_path, texts, model):
    model.save(tmp_path)
    again, tokens = NGram.load(tmp_path), torch.from_numpy(texts[1][None])
    hidden, _ = model.encode(Batch(tokens), model.start(1))
    assert torch.equal(again.logits(hidden), model.logits(hidden))
    assert torch.equal(model.guess(hidden), model.logits(hidden).argmax(-1))
    assert again.count_parameters() == model.count_parameters() > 100


def test_two_texts_are_mixed_by_the_share_that_is_best(tmp_path: Path, texts, model) -> None:
    other = Counts.of([texts[1][::-1].copy()], 3, VOCABULARY, END)
    grams = list_grams([texts[2]], 3, END)
    contexts, words = grams[:, :-1], grams[:, -1]
    own, others = (one.probabilities(contexts, words) for one in (model.counts, other))
    own = own**0.1  # no better than the other, so that the best share lies between
    share = find_share(own, others)

    def loss(one: float) -> float:
        return -float(np.log(one * own + (1 - one) * others).mean())

    assert loss(share) <= min(map(loss, np.linspace(0, 1, 201))) + 1e-6
    NGram(model.counts, END, other, 0.3).save(tmp_path)
    mixed = NGram.load(tmp_path)
    expected = 0.3 * model.counts.probabilities(contexts, words) + 0.7 * others
    np.testing.assert_allclose(mixed.probabilities(contexts, words), expected)
    assert mixed.count_parameters() > model.count_parameters()


def test_the_loss_on_dev_is_of_the_documents_that_other_kinds_are_validated_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    values = read_values(ROOT / "params.yaml")
    values["lm"] |= {"validation_documents": 2}
    values["models"] = {"ngram": {"kind": "ngram"}}
    values["study"]["steps"] = ["corpus", "lm"]
    run = Run(parse(values, "tiny"), STEPS["lm"], "ngram", 1)
    splits = {name: tiny_corpus(5, seed, split=name) for seed, name in enumerate(("train", "dev"))}
    for name, corpus in splits.items():
        write_arrays(run.home("corpus") / f"{name}.safetensors", *corpus.arrays())
    words = {"<|endoftext|>": 0} | {f"w{i}": i for i in range(1, VOCABULARY_OF_TEXTS)}
    Tokenizer(WordLevel(words)).save(str(run.home("corpus") / "tokenizer.json"))
    rows = train(run)
    two = give(splits["dev"].head(2), "none")
    expected = mean_loss(NGram.load(run.folder).eval(), two, window=run.entry.lm.window)
    found = [row["value"] for row in rows if row["measure"] in ("loss", "best_loss")]
    assert found == [None, expected, expected, expected]


def test_more_than_a_key_can_hold_is_refused(texts: list[np.ndarray]) -> None:
    message = "order 5 over 12 tokens, expected at most order 4 and 65536"
    with pytest.raises(ValueError, match=message):
        Counts.of(texts, 5, VOCABULARY, END)
