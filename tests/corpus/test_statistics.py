"""Counts against loops over words, and CoNLL-2012's known sizes."""

from collections import Counter

from drawn import documents
from hypothesis import given, settings
from hypothesis import strategies as st
from written import document_of

from entity_transformers.corpus import statistics as module
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.mentions import flatten
from entity_transformers.corpus.statistics import CONLL2012, describe, format_table

TAGS = st.sampled_from(["NN", "NNS", "NNP", "NNPS", "PRP", "PRP$", "VB", "XX", "DT"])


@settings(max_examples=150)
@given(st.lists(documents(tag=TAGS, label=st.sampled_from("AB")), max_size=6))
def test_counts_equal_loops_over_words(corpus: list[Document]) -> None:
    statistics = describe(corpus, "outermost")
    total = statistics["total"]
    coverage = [Counter(word for m in d.mentions for word in range(m.start, m.end)) for d in corpus]
    kept = [flatten(d.mentions, len(d.words), "outermost")[0] for d in corpus]
    expected = {
        "documents": len(corpus),
        "words": sum(len(d.words) for d in corpus),
        "sentences": sum(len(d.sentence_starts) for d in corpus),
        "chains": sum(len({m.chain for m in d.mentions}) for d in corpus),
        "mentions": sum(len(d.mentions) for d in corpus),
        "words_in_mentions": sum(map(len, coverage)),
        "words_in_several_mentions": sum(n > 1 for words in coverage for n in words.values()),
        "kept_words_in_mentions": sum(m.end - m.start for own in kept for m in own),
        "kept_mentions": sum(map(len, kept)),
        "kept_chains": sum(len({m.chain for m in own}) for own in kept),
        "ne_spans": Counter(e.label for d in corpus for e in d.named_entities or ()),
        "documents_without_named_entities": sum(d.named_entities is None for d in corpus),
    }
    assert {key: total[key] for key in expected} == expected
    assert statistics["nesting"] == "outermost"
    for policy, found in total["lost"].items():
        lost = [flatten(d.mentions, len(d.words), policy)[1] for d in corpus]
        assert found == {name: sum(one[name] for one in lost) for name in found}
    assert total["lost"].keys() == {"outermost", "innermost", "drop"}
    tags = Counter(tag for d in corpus for tag in d.tags or ["XX"] * len(d.words))
    found = {
        "nouns": tags["NN"] + tags["NNS"],
        "proper_nouns": tags["NNP"] + tags["NNPS"],
        "pronouns": tags["PRP"] + tags["PRP$"],
        "unknown": tags["XX"],
    }
    assert total["pos"] == found | {"other": tags.total() - sum(found.values())}


def test_the_table_shows_counts_and_what_was_left_out() -> None:
    documents = [document_of("a", split=one, tags=("NN",)) for one in ("train", "dev", "train")]
    statistics = describe(documents, "outermost")
    bad, counts = {"c#0": "c.conll, line 3: cut"}, {"unmatched_brackets": 2, "other": 0}
    statistics["left_out"] = {"excluded": ["a", "b"], "bad": bad, "counts": counts}
    lines = [" ".join(line.split()) for line in format_table(statistics).splitlines()]
    assert {"train dev total", "words 2 1 3", "pos: nouns 2 1 3"} <= {*lines}
    assert lines[-3:] == ["excluded by pattern: 2", "left out as bad: c#0: c.conll, line 3: cut",
                          "unmatched brackets: 2"]  # fmt: skip


def test_comparison_names_each_size_that_differs() -> None:
    statistics = {"splits": {split: dict(sizes) for split, sizes in CONLL2012.items()}}
    assert module.compare_with_conll2012(statistics).startswith("All sizes equal")
    statistics["splits"]["dev"]["mentions"] = 7
    del statistics["splits"]["test"]
    text = module.compare_with_conll2012(statistics)
    assert text.count("known") == 5
    assert "dev mentions: 7, known 19156" in text
    assert "test documents: 0, known 348" in text
