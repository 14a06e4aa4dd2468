"""LAMBADA against lm-evaluation-harness's rule passage by passage, and logits by hand."""

import json
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from plainly import score_continuation
from tiny import lively_model
from tokenizers import Tokenizer
from written import teach

from entity_transformers.corpus.alignment import END, load_gpt2_tokenizer
from entity_transformers.corpus.readers.sample import read_passages
from entity_transformers.models.base import LanguageModel
from entity_transformers.tasks.lambada import encode_passages, passage_rows, score_passages


@pytest.fixture(
    scope="module", params=["sample", "original", pytest.param("openai", marks=pytest.mark.slow)]
)
def material(request) -> tuple[Tokenizer, list[str]]:
    """A tokenizer and ten passages: learnt and generated, or GPT-2's own and real LAMBADA's."""
    if request.param == "sample":
        texts = read_passages()
        return teach(" ".join(texts), 2000, "every_word"), texts[:10]
    folder = request.getfixturevalue("shared_data")
    return load_gpt2_tokenizer(folder / "gpt2-bpe"), read_texts(folder / "lambada", request.param)


def read_texts(folder: Path, variant: str) -> list[str]:
    name = "lambada_test.jsonl" if variant == "openai" else "lambada_test_plain_text.txt"
    lines = (folder / name).read_text(encoding="utf-8").split("\n")[:10]
    return [json.loads(line)["text"] for line in lines] if variant == "openai" else lines


@pytest.fixture(scope="module")
def tokenizer(material) -> Tokenizer:
    return material[0]


@pytest.fixture(scope="module")
def texts(material) -> list[str]:
    return material[1]


@pytest.fixture(scope="module")
def model(tokenizer) -> LanguageModel:
    return lively_model("gpt2", tokenizer.get_vocab_size(), window=128)


def summarise(scores) -> dict[str, float]:
    return {row["measure"]: row["value"] for row in passage_rows(scores) if "unit" not in row}


def list_units(scores, measure: str) -> dict[str, float]:
    rows = [row for row in passage_rows(scores) if "unit" in row]
    return {row["unit"]: row["value"] for row in rows if row["measure"] == measure}


def read_rows(texts: list[str]) -> list[dict]:
    return [{"text": text, "target_start": text.rfind(" ") + 1} for text in texts]


def score_by_harness_rule(model, tokenizer, text, window) -> tuple[float, bool, bool]:
    context, _, target = text.rpartition(" ")
    return score_continuation(model, tokenizer, context, f" {target}", window)


@pytest.mark.parametrize("window", [128, 60])
def test_last_word_equals_the_harness_rule(model, tokenizer, texts, window):
    """Also of passages of one word."""
    texts = [*texts, "the", "unforeseeable"]
    passages = encode_passages(read_rows(texts), tokenizer)
    begun = [passage.tokens[0] == tokenizer.token_to_id(END) for passage in passages]
    scores = score_passages(model, passages, window=window, batch=7)
    assert scores.without_context.tolist() == begun == [False] * 10 + [True] * 2
    expected = [score_by_harness_rule(model, tokenizer, text, window) for text in texts]
    logs, greedy, cut = map(list, zip(*expected, strict=True))
    np.testing.assert_allclose(scores.target_nll, np.negative(logs), rtol=1e-4)
    assert (scores.target_misses == 0).tolist() == greedy
    assert scores.truncated.tolist() == cut
    assert scores.truncated.any() == (window == 60)
    summary = summarise(scores)
    expected_perplexity = math.exp(-np.mean(logs))
    assert summary["last_word_perplexity"] == pytest.approx(expected_perplexity, rel=1e-4)
    assert (summary["passages"], summary["without_context"]) == (12, 2)
    for column in (scores.passage_nll, scores.word_nll):
        np.testing.assert_allclose(column[10:], scores.target_nll[10:])
    assert scores.word_count[10:].tolist() == [1, 1]


@pytest.mark.parametrize("window", [128, 60])
def test_passage_and_word_measures_equal_logits_by_hand(model, tokenizer, texts, window):
    passages = encode_passages(read_rows(texts), tokenizer)
    scores = score_passages(model, passages, window=window, batch=5)
    for i, passage in enumerate(passages):
        kept = passage.tokens[-(window + 1) :].astype(np.int64)
        with torch.no_grad():
            logs = model.module(torch.tensor(kept[None, :-1])).logits[0].double().log_softmax(-1)
        nll = -logs.gather(1, torch.tensor(kept[1:, None]))[:, 0].numpy()
        assert scores.passage_nll[i] == pytest.approx(nll.sum(), rel=1e-4)
        assert scores.passage_tokens[i] == len(kept) - 1
        assert scores.last_nll[i] == pytest.approx(nll[-1], rel=1e-4)
        wrong = (logs.argmax(-1).numpy() != kept[1:])[passage.target - len(passage.tokens) :]
        assert (scores.target_misses[i], scores.target_tokens[i]) == (wrong.sum(), len(wrong))
        assert scores.last_misses[i] == wrong[-1]
        pairs = enumerate(pairwise([tokenizer.decode([token]) for token in kept]), 1)
        start = next(
            j for j, (before, token) in pairs
            if token.strip() and (token[0].isspace() or before[-1:].isspace())
        )  # fmt: skip
        assert scores.word_count[i] == len(tokenizer.decode(kept[start:].tolist()).split())
        assert scores.word_nll[i] == pytest.approx(nll[start - 1 :].sum(), rel=1e-4)


def test_summary_adds_up(model, tokenizer, texts):
    scores = score_passages(model, encode_passages(read_rows(texts), tokenizer), window=60, batch=8)
    summary = summarise(scores)
    assert summary["passages"] == 10
    assert summary["truncated"] == scores.truncated.sum() > 0
    nats = scores.target_nll.tolist()
    assert summary["last_word_nll"] == pytest.approx(math.fsum(nats))
    by_token = scores.passage_nll.sum() / scores.passage_tokens.sum()
    by_word = scores.word_nll.sum() / scores.word_count.sum()
    assert summary["perplexity"] == pytest.approx(math.exp(by_token))
    assert summary["perplexity_word"] == pytest.approx(math.exp(by_word))
    assert summary["last_token_perplexity"] == pytest.approx(math.exp(scores.last_nll.mean()))
    assert list_units(scores, "nll") == {str(i): value for i, value in enumerate(nats, start=1)}
    assert [*list_units(scores, "right").values()] == (scores.target_misses == 0).tolist()
    places = np.arange(10)
    found = summarise(scores.assign(target_misses=places % 3, last_misses=places % 2))
    assert found["last_word_accuracy"] == pytest.approx(np.mean(places % 3 == 0))
    assert found["last_token_accuracy"] == pytest.approx(np.mean(places % 2 == 0))


@pytest.mark.parametrize("text", [" alone", "  \n alone"])
def test_white_space_is_no_context(tokenizer, text):
    [passage], [alone] = (encode_passages(read_rows([one]), tokenizer) for one in (text, "alone"))
    np.testing.assert_array_equal(passage.tokens, alone.tokens)
    np.testing.assert_array_equal(passage.words, alone.words)
    assert passage.target == 1


def test_a_target_longer_than_the_window_is_refused(model, tokenizer):
    long = "short context antidisestablishmentarianism"
    passages = encode_passages(read_rows(["the streets", long]), tokenizer)
    tokens = len(passages[1].tokens) - passages[1].target
    told = f"passage 2: its last word has {tokens} tokens, but the window has only 3"
    with pytest.raises(ValueError, match=told):
        score_passages(model, passages, window=3, batch=1)
    assert score_passages(model, passages, window=tokens, batch=1).target_tokens[1] == tokens
