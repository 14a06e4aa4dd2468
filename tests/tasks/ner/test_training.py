"""Training learns, stops, keeps the best epoch and is deterministic; poor data are defined."""

import itertools

import numpy as np
import pytest
import torch

from entity_transformers.corpus.document import Document, NamedEntity
from entity_transformers.steps.ner import NerParams
from entity_transformers.tasks.ner import training
from entity_transformers.tasks.ner.dataset import TaggedSentences, build_sentences
from entity_transformers.tasks.ner.scoring import Score, score_spans
from entity_transformers.tasks.ner.tagger import Tagger
from entity_transformers.tasks.ner.training import bucket, pad, predict, train_epoch, train_tagger

PARAMS = NerParams(
    hidden=16, tanh_layer=True, dropout=0.1, learning_rate=0.02, decay=0.9, epochs=6, patience=2,
    batch=16,
)  # fmt: skip
VECTORS = np.random.default_rng(9).normal(size=(30, 12)).astype(np.float32)


def make_document(seed: int, sentences: int = 200) -> Document:
    """Words 0-4 are names: a run of them is a PERSON after word 5, else a PLACE."""
    generator = np.random.default_rng(seed)
    words: list[int] = []
    starts, entities = [], []
    for _ in range(sentences):
        starts.append(len(words))
        for _ in range(generator.integers(1, 4)):
            title = bool(generator.integers(0, 2))
            words.extend([5] if title else generator.integers(6, 30, generator.integers(1, 4)))
            start, length = len(words), int(generator.integers(1, 4))
            entities.append(NamedEntity(start, start + length, "PERSON" if title else "PLACE"))
            words.extend(generator.integers(0, 5, length))
            words.extend(generator.integers(6, 30, generator.integers(1, 3)))
    texts = tuple(map(str, words))
    return Document("made", seed, "train", "", texts, tuple(starts), named_entities=tuple(entities))


def make_sentences(seed: int, sentences: int = 200) -> TaggedSentences:
    document = make_document(seed, sentences)
    rows = np.array([int(word) for word in document.words])
    return build_sentences([document], rows, ("PERSON", "PLACE"))


def make_plain(words: int, labels: tuple[str, ...] = ()) -> TaggedSentences:
    """One sentence without named entities."""
    document = Document("plain", 0, "train", "", ("w",) * words, (0,), named_entities=())
    return build_sentences([document] if words else [], np.arange(words), labels)


@pytest.fixture(scope="module")
def trained() -> training.Training:
    return train_tagger(make_sentences(1), make_sentences(2), VECTORS, PARAMS, seed=3)


def test_an_easy_task_is_learnt(trained: training.Training) -> None:
    test = make_sentences(4)
    result = score_spans(test, predict(trained.tagger, test, batch=16))
    assert result["average"]["micro"].f1 > 0.95
    assert result["average"]["micro"].support == len(make_document(4).named_entities or ())
    losses = [row["train_loss"] for row in trained.history]
    assert losses[-1] < losses[0] / 4


def test_history_and_learning_rate(trained: training.Training) -> None:
    assert [row["epoch"] for row in trained.history] == list(range(1, len(trained.history) + 1))
    rates = [0.02 * 0.9 ** (row["epoch"] - 1) for row in trained.history]
    assert [row["learning_rate"] for row in trained.history] == pytest.approx(rates)
    best = max(row["dev_f1"] for row in trained.history)
    assert trained.history[trained.best_epoch - 1]["dev_f1"] == best
    again = score_spans(make_sentences(2), predict(trained.tagger, make_sentences(2), batch=16))
    assert again["average"]["micro"].f1 == best  # the tagger that comes back scored best


def test_same_seed_same_bytes_and_the_global_generator_is_left_alone(trained):
    torch.manual_seed(77)
    before = torch.random.get_rng_state()
    again = train_tagger(make_sentences(1), make_sentences(2), VECTORS, PARAMS, seed=3)
    assert torch.equal(before, torch.random.get_rng_state())
    assert again.history == trained.history
    mine, theirs = again.tagger.state_dict(), trained.tagger.state_dict()
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    short = PARAMS.model_copy(update={"epochs": 1})
    other = train_tagger(make_sentences(1), make_sentences(2), VECTORS, short, seed=4)
    assert other.history[0] != trained.history[0]


@pytest.mark.parametrize(("scripted", "epochs", "best"), [
    ([0.5, 0.7, 0.6, 0.7, 0.9], 4, 2),  # equal is not better
    ([0.0, 0.0, 0.0, 0.2, 0.1, 0.3, 0.1, 0.3], 8, 6),  # a slow start is no end
    ([0.4, 0.0, 0.0, 0.9], 3, 1),
    ([0.0] * 8, 8, 8),
])  # fmt: skip
def test_early_stopping_keeps_the_best_epoch(monkeypatch, scripted, epochs, best):
    train, dev = make_sentences(1, 20), make_sentences(2, 5)

    def train_until(epochs: int, f1: list[float]) -> training.Training:
        scores = ({"average": {"micro": Score(0, 0, one, 0, 0)}} for one in f1)
        monkeypatch.setattr(training, "score_spans", lambda gold, predicted: next(scores))
        params = PARAMS.model_copy(update={"epochs": epochs})
        return train_tagger(train, dev, VECTORS, params, seed=1)

    result, shorter = train_until(8, scripted), train_until(best, [0.0] * best)
    assert (len(result.history), result.best_epoch) == (epochs, best)
    mine, theirs = result.tagger.state_dict(), shorter.tagger.state_dict()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_poor_data_give_defined_results() -> None:
    short = PARAMS.model_copy(update={"epochs": 2})
    empty = make_plain(0, ("PERSON", "PLACE"))
    result = train_tagger(make_sentences(1, 5), empty, VECTORS, short, seed=1)
    assert ([row["dev_f1"] for row in result.history], result.best_epoch) == ([0.0, 0.0], 2)
    assert predict(result.tagger, empty, batch=4).tolist() == []
    found = score_spans(empty, predict(result.tagger, empty, batch=4))
    assert found["average"]["micro"].support == 0
    assert predict(result.tagger, make_plain(1, ("PERSON", "PLACE")), batch=4).shape == (1,)
    nothing = train_tagger(make_plain(1), make_plain(1), VECTORS, short, seed=1)
    assert not predict(nothing.tagger, make_plain(3), batch=4).any()  # no label in train


def test_predictions_do_not_depend_on_the_batches(trained: training.Training) -> None:
    test = make_sentences(5, 60)
    whole = predict(trained.tagger, test, batch=1000)
    alone = (pad(test, np.array([n]), torch.device("cpu")) for n in range(len(test)))
    singly = np.concatenate([trained.tagger.decode(r, m)[0].numpy() for r, _, m in alone])
    assert np.array_equal(whole, singly)
    assert np.array_equal(whole, predict(trained.tagger, test, batch=7))


def test_buckets_hold_each_sentence_once_and_like_lengths() -> None:
    lengths = np.random.default_rng(0).integers(1, 60, 1003)
    batches, again, other = (
        list(bucket(lengths, 32, np.random.default_rng(seed))) for seed in (1, 1, 2)
    )
    assert sorted(np.concatenate(batches).tolist()) == list(range(1003))
    assert sorted(map(len, batches)) == [1003 % 32] + [32] * (1003 // 32)
    ranges = sorted((lengths[batch].min(), lengths[batch].max()) for batch in batches)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(ranges))
    assert [batch.tolist() for batch in batches] == [batch.tolist() for batch in again]
    one, two = ({frozenset(batch.tolist()) for batch in some} for some in (batches, other))
    assert len(one & two) < len(batches) / 4  # sentences of one length mix anew
    assert list(bucket(np.zeros(0, np.int64), 4, np.random.default_rng(1))) == []


def test_an_epoch_turns_dropout_on_and_returns_the_mean_loss_of_a_sentence(trained):
    sentences = make_sentences(7, 7)
    tagger = Tagger(VECTORS, sentences.labels, PARAMS.model_copy(update={"dropout": 0.0}))
    tagger.load_state_dict(trained.tagger.state_dict())
    standing = torch.optim.SGD(tagger.parameters(), lr=0.0)
    alone = (pad(sentences, np.array([number]), torch.device("cpu")) for number in range(7))
    singly = [tagger.loss(*one).item() for one in alone]
    found = train_epoch(tagger, standing, sentences, [np.arange(5), np.arange(5, 7)])
    assert found == pytest.approx(np.mean(singly), rel=1e-5)
    assert tagger.training


def test_a_loss_that_is_not_finite_stops() -> None:
    wild = PARAMS.model_copy(update={"learning_rate": 3e37})
    with pytest.raises(ValueError, match=r"training loss is nan: lower ner\.learning_rate"):
        train_tagger(make_sentences(1, 20), make_sentences(2, 5), VECTORS, wild, seed=1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_learns_the_same_task() -> None:
    result = train_tagger(
        make_sentences(1), make_sentences(2), VECTORS, PARAMS, seed=3, device="cuda"
    )
    test = make_sentences(4)
    predicted = predict(result.tagger, test, batch=16)
    assert score_spans(test, predicted)["average"]["micro"].f1 > 0.95
    assert (predict(result.tagger.to("cuda"), test, batch=16) == predicted).mean() > 0.999
