"""LAMBADA scores against lm-evaluation-harness's rule, re-derived here passage by passage, and
against logits by hand.
"""

import json
import math
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from tiny import lively_model
from tokenizers import Tokenizer

from entity_transformers.corpus.alignment import END, learn_tokenizer, load_gpt2_tokenizer
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.readers.sample import read_passages
from entity_transformers.models.base import LanguageModel
from entity_transformers.tasks.lambada import encode_passages, passage_rows, score_passages


@pytest.fixture(
    scope="module", params=["sample", "original", pytest.param("openai", marks=pytest.mark.slow)]
)
def material(request) -> tuple[Tokenizer, list[str]]:
    """A tokenizer and 40 passages: a learnt one and the generated ones, or GPT-2's own and real
    LAMBADA's, both variants.
    """
    if request.param == "sample":
        return learn_tokenizer(
            map(make_document, read_passages()), 2000, "every_word"
        ), read_passages()[:40]
    folder = request.getfixturevalue("shared_data")
    return load_gpt2_tokenizer(folder / "gpt2-bpe"), read_texts(folder / "lambada", request.param)


def make_document(text: str) -> Document:
    return Document(
        name="passage",
        part=0,
        split="train",
        genre="",
        words=tuple(text.split()),
        sentence_starts=(0,),
    )


def read_texts(folder: Path, variant: str) -> list[str]:
    name = "lambada_test.jsonl" if variant == "openai" else "lambada_test_plain_text.txt"
    with (folder / name).open(encoding="utf-8") as file:
        lines = list(islice(file, 40))
    return [
        json.loads(line)["text"] if variant == "openai" else line.rstrip("\n") for line in lines
    ]


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
    """What `passage_rows` measures of all passages."""
    return {row["measure"]: row["value"] for row in passage_rows(scores) if "unit" not in row}


def list_nats(scores) -> dict[str, float]:
    return {row["unit"]: row["value"] for row in passage_rows(scores) if "unit" in row}


def read_rows(texts: list[str]) -> list[dict]:
    return [{"text": text, "target_start": text.rfind(" ") + 1} for text in texts]


def score_by_harness_rule(model, tokenizer, text, window) -> tuple[float, bool, bool]:
    """Log-probability of the target, all greedy, truncated: the rule of lm-evaluation-harness 0.4
    for one passage.
    """
    context, target = " ".join(text.split(" ")[:-1]), " " + text.split(" ")[-1]
    spaces = len(context) - len(context.rstrip())
    if spaces:
        context, target = context[:-spaces], context[-spaces:] + target
    whole = tokenizer.encode(context + target, add_special_tokens=False).ids
    continuation = whole[len(tokenizer.encode(context, add_special_tokens=False).ids) :]
    if not context:  # its prefix token
        whole = [tokenizer.token_to_id(END), *whole]
    inputs = whole[-(window + 1) :][:-1]
    with torch.no_grad():
        logs = model.module(torch.tensor([inputs])).logits[0].log_softmax(-1)[-len(continuation) :]
    right = torch.tensor(continuation)
    return (
        float(logs.gather(1, right[:, None]).sum()),
        bool((logs.argmax(-1) == right).all()),
        len(whole) > window + 1,
    )


@pytest.mark.parametrize("window", [128, 60])
def test_last_word_equals_the_harness_rule(model, tokenizer, texts, window):
    scores = score_passages(
        model, encode_passages(read_rows(texts), tokenizer), window=window, batch=7
    )
    expected = [score_by_harness_rule(model, tokenizer, text, window) for text in texts]
    np.testing.assert_allclose(scores.target_nll, [-nll for nll, _, _ in expected], rtol=1e-4)
    assert (scores.target_misses == 0).tolist() == [greedy for _, greedy, _ in expected]
    assert scores.truncated.tolist() == [cut for _, _, cut in expected]
    assert scores.truncated.any() == (window == 60)
    assert summarise(scores)["last_word_perplexity"] == pytest.approx(
        math.exp(-np.mean([nll for nll, _, _ in expected])), rel=1e-4
    )


def test_target_tokens_from_offsets_equal_encoding_context_and_target_apart(tokenizer, texts):
    for text, passage in zip(texts, encode_passages(read_rows(texts), tokenizer), strict=True):
        context, target = text.rsplit(" ", 1)
        apart = [
            tokenizer.encode(part, add_special_tokens=False).ids for part in (context, " " + target)
        ]
        assert [
            passage.tokens[: passage.target].tolist(),
            passage.tokens[passage.target :].tolist(),
        ] == apart


def rank_next_words(model, tokenizer, context) -> list[str]:
    """Single-token words by the logits that the model gives them after ``context``, if the first of
    all tokens is one; else none.
    """
    with torch.no_grad():
        order = (
            model.module(torch.tensor([tokenizer.encode(context).ids]))
            .logits[0, -1]
            .argsort(descending=True)[:200]
            .tolist()
        )
    words = [
        token if (token := tokenizer.decode([i])).startswith(" ") and token[1:].isalpha() else ""
        for i in order
    ]
    return [word for word in words if word] if words[0] else []


def test_the_models_own_next_word_is_right_and_its_second_choice_wrong(model, tokenizer, texts):
    ranked = {
        text[:40].strip(): rank_next_words(model, tokenizer, text[:40].strip()) for text in texts
    }
    ranked = {context: words for context, words in ranked.items() if len(words) > 1}
    assert len(ranked) > 5
    for choice, accuracy in ((0, 1.0), (1, 0.0)):
        rows = read_rows([context + words[choice] for context, words in ranked.items()])
        scores = score_passages(model, encode_passages(rows, tokenizer), window=64, batch=4)
        summary = summarise(scores)
        assert summary["last_word_accuracy"] == summary["last_token_accuracy"] == accuracy


def test_a_target_of_several_tokens_is_right_only_if_all_are(model, tokenizer, texts):
    passages = encode_passages(read_rows(texts), tokenizer)
    scores = score_passages(model, passages, window=128, batch=2)
    for passage, misses, tokens in zip(
        passages, scores.target_misses, scores.target_tokens, strict=True
    ):
        with torch.no_grad():
            logits = model.module(torch.tensor(passage.tokens[None, :-1].astype(np.int64))).logits[
                0
            ]
        wrong = logits.argmax(-1).numpy()[passage.target - 1 :] != passage.tokens[passage.target :]
        assert (misses, tokens) == (wrong.sum(), len(wrong))
    right = scores.assign(target_misses=np.arange(len(passages)) % 3)
    assert summarise(right)["last_word_accuracy"] == pytest.approx(
        np.mean(np.arange(len(passages)) % 3 == 0)
    )


@pytest.mark.parametrize("window", [128, 60])
def test_passage_and_word_measures_equal_logits_by_hand(model, tokenizer, texts, window):
    passages = encode_passages(read_rows(texts[:12]), tokenizer)
    scores = score_passages(model, passages, window=window, batch=5)
    for i, passage in enumerate(passages):
        kept = passage.tokens[-(window + 1) :].astype(np.int64)
        with torch.no_grad():
            logs = model.module(torch.tensor(kept[None, :-1])).logits[0].double().log_softmax(-1)
        nll = -logs.gather(1, torch.tensor(kept[1:, None]))[:, 0].numpy()
        assert scores.passage_nll[i] == pytest.approx(nll.sum(), rel=1e-4)
        assert scores.passage_tokens[i] == len(kept) - 1
        assert scores.last_nll[i] == pytest.approx(nll[-1], rel=1e-4)
        assert scores.last_misses[i] == (logs[-1].argmax() != kept[-1])
        start = next(j for j in range(1, len(kept)) if starts_word(tokenizer, kept, j))
        assert scores.word_count[i] == len(tokenizer.decode(kept[start:].tolist()).split())
        assert scores.word_nll[i] == pytest.approx(nll[start - 1 :].sum(), rel=1e-4)


def starts_word(tokenizer, tokens, j) -> bool:
    """Does token ``j`` begin a white-space word?"""
    before, token = tokenizer.decode([tokens[j - 1]]), tokenizer.decode([tokens[j]])
    return bool(token.strip()) and (token[0].isspace() or before[-1:].isspace())


def test_batch_size_changes_nothing(model, tokenizer, texts):
    passages = encode_passages(read_rows(texts[:12]), tokenizer)
    alone, together = (score_passages(model, passages, window=60, batch=b) for b in (1, 12))
    pd.testing.assert_frame_equal(alone, together, rtol=1e-5)


def test_summary_adds_up(model, tokenizer, texts):
    scores = score_passages(model, encode_passages(read_rows(texts), tokenizer), window=60, batch=8)
    summary = summarise(scores)
    assert summary["passages"] == 40
    assert summary["truncated"] == scores.truncated.sum() > 0
    nats = scores.target_nll.tolist()
    assert summary["last_word_nll"] == pytest.approx(math.fsum(nats))
    measures = {"perplexity": ("passage_nll", "passage_tokens")}
    measures["perplexity_word"] = ("word_nll", "word_count")
    for measure, (part, count) in measures.items():
        loss = scores[part].sum() / scores[count].sum()
        assert summary[measure] == pytest.approx(math.exp(loss))
    assert summary["last_token_perplexity"] == pytest.approx(math.exp(scores.last_nll.mean()))
    assert list_nats(scores) == {str(i): value for i, value in enumerate(nats, start=1)}


def test_a_passage_of_one_word_equals_the_harness_rule(model, tokenizer, texts):
    words = ["the", "unforeseeable"]
    passages = encode_passages(read_rows([texts[0], *words]), tokenizer)
    assert [passage.tokens[0] == tokenizer.token_to_id(END) for passage in passages] == [
        False,
        True,
        True,
    ]
    scores = score_passages(model, passages, window=128, batch=2)
    expected = [score_by_harness_rule(model, tokenizer, text, 128) for text in [texts[0], *words]]
    np.testing.assert_allclose(scores.target_nll, [-nll for nll, _, _ in expected], rtol=1e-4)
    assert (scores.target_misses == 0).tolist() == [greedy for _, greedy, _ in expected]
    assert scores.without_context.tolist() == [False, True, True]
    for column in (scores.passage_nll, scores.word_nll):
        np.testing.assert_allclose(column[1:], scores.target_nll[1:])
    assert scores.word_count[1:].tolist() == [1, 1]
    summary = summarise(scores)
    assert (summary["passages"], summary["without_context"]) == (3, 2)


@pytest.mark.parametrize("text", [" alone", "  \n alone"])
def test_white_space_is_no_context(tokenizer, text):
    [passage], [alone] = (encode_passages(read_rows([one]), tokenizer) for one in (text, "alone"))
    assert (passage.tokens.tolist(), passage.words.tolist(), passage.target) == (
        alone.tokens.tolist(),
        alone.words.tolist(),
        1,
    )


def test_a_target_longer_than_the_window_is_refused(model, tokenizer):
    passages = encode_passages(
        read_rows(["the streets", "short context antidisestablishmentarianism"]), tokenizer
    )
    tokens = len(passages[1].tokens) - passages[1].target
    with pytest.raises(
        ValueError, match=f"passage 2: its last word has {tokens} tokens, the window only 3"
    ):
        score_passages(model, passages, window=3, batch=1)
    assert score_passages(model, passages, window=tokens, batch=1).target_tokens[1] == tokens
