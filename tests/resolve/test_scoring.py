"""The measures: worked examples of the papers, and enumeration of all alignments."""

import math
import sys
from collections.abc import Iterable, Sequence
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from written import document_of

from entity_transformers.corpus.document import Document, Mention

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import resolvers as scoring

KEY = ("a", "bc", "def")
CHAINS = st.lists(st.integers(0, 5), min_size=9, max_size=9)
PARTITIONS = CHAINS.map(lambda drawn: [Mention(i, i + 1, n) for i, n in enumerate(drawn) if n])
"""Up to nine spans, each in one of five chains or in none."""


def mentions(*chains: str) -> list[Mention]:
    """A chain per text, a mention per letter."""
    letters = ((ord(letter), number) for number, chain in enumerate(chains) for letter in chain)
    return [Mention(letter, letter + 1, number) for letter, number in letters]


def rates(score: scoring.Score) -> tuple[float, float]:
    return score.recall, score.precision


# key, response, then recall and precision of MUC, B-cubed and CEAF-e
@pytest.mark.parametrize(("example", "key", "response", "muc", "b_cubed", "ceaf_e"), [
    ("Pradhan et al. 2014, section 3",
        ("abc", "defg"), ("ab", "cd", "fghi"),
        (2 / 5, 2 / 5), ((4 / 3 + 1 / 3 + 1 / 4 + 1) / 7, 4 / 8), (1.3 / 2, 1.3 / 3),
    ),
    ("Bagga and Baldwin 1998, the two small chains joined",
        ("abcde", "fg", "hijkl"), ("abcde", "fghijkl"),
        (1.0, 9 / 10), (1.0, (5 + 4 / 7 + 25 / 7) / 12), ((1 + 10 / 12) / 3, (1 + 10 / 12) / 2),
    ),
    ("Bagga and Baldwin 1998, the two large chains joined",
        ("abcde", "fg", "hijkl"), ("abcdehijkl", "fg"),
        (1.0, 9 / 10), (1.0, (25 / 10 + 25 / 10 + 2) / 12), ((1 + 10 / 15) / 3, (1 + 10 / 15) / 2),
    ),
    ("Luo 2005, everything is one",
        ("abcde", "fg", "hijkl"), ("abcdefghijkl",),
        (1.0, 9 / 11), (1.0, (25 + 4 + 25) / 12 / 12), (10 / 17 / 3, 10 / 17),
    ),
    ("Luo 2005, everything is a singleton",
        ("abcde", "fg", "hijkl"), tuple("abcdefghijkl"),
        (0.0, 0.0), (3 / 12, 1.0), ((2 / 6 + 2 / 3 + 2 / 6) / 3, (2 / 6 + 2 / 3 + 2 / 6) / 12),
    ),
    ("the same", ("abc", "d"), ("d", "abc"), (1.0, 1.0), (1.0, 1.0), (1.0, 1.0)),
    ("nothing in common", ("ab",), ("cd",), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0)),
    ("no answer", ("ab",), (), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0)),
    ("no key", (), ("ab",), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0)),
])  # fmt: skip
def test_worked_examples(example, key, response, muc, b_cubed, ceaf_e):
    scores = score_chains((mentions(*key), mentions(*response)))
    assert rates(scores.muc) == pytest.approx(muc)
    assert rates(scores.b_cubed) == pytest.approx(b_cubed)
    assert rates(scores.ceaf_e) == pytest.approx(ceaf_e)


def score_chains(*pairs: tuple[Iterable[Mention], Iterable[Mention]]) -> scoring.Scores:
    scores = scoring.Scores()
    for gold, found in pairs:
        scores.add(gold, found)
    return scores


def list_f1(key: Iterable[Mention], response: Iterable[Mention]) -> tuple[float, float, float]:
    scores = score_chains((key, response))
    return scores.muc.f1, scores.b_cubed.f1, scores.ceaf_e.f1


def test_documents_are_summed_before_they_are_divided() -> None:
    documents = [(mentions("ab"), mentions("ab")), (mentions("abc", "defg"), mentions("hi"))]
    scores = score_chains(*documents)
    assert rates(scores.muc) == pytest.approx((1 / 6, 1 / 2))
    assert rates(scores.b_cubed) == pytest.approx((2 / 9, 2 / 4))
    assert rates(scores.ceaf_e) == pytest.approx((1 / 3, 1 / 2))
    assert rates(scores.mentions) == pytest.approx((2 / 9, 2 / 4))


@pytest.mark.parametrize(("case", "key", "response", "expected"), [
    ("A-8", KEY, ("a", "bcx", "dy", "bz"), (0.33333, 0.46832, 0.62857)),
    ("A-7", KEY, ("a", "bcxb", "dy", "z"), (0.33333, 0.46832, 0.62857)),
    ("x is not in the key", KEY, ("ax", "bcx", "dx"), (0.28571, 0.41667, 0.62222)),
    ("key", ("abc", "cd"), ("ab", "cd"), (0.8, 0.8, 0.9)),
    ("both", ("abc", "bcd", "e"), ("abe", "bcd", "de"), (0.28571, 0.55556, 0.58667)),
])  # fmt: skip
def test_spans_in_two_chains(case, key, response, expected):
    """Cases of the reference scorer and others, and what its version 8.01 gives."""
    assert list_f1(mentions(*key), mentions(*response)) == pytest.approx(expected, abs=5e-6)


def test_the_chain_that_begins_first_is_that_of_the_reference_scorer() -> None:
    """Of two at one word it reads the one of one word first, where ours has the longest first."""
    gold = [Mention(0, 2, 1), Mention(0, 1, 2), Mention(3, 4, 1)]
    assert list_f1(gold, [*gold, Mention(3, 4, 2)]) == pytest.approx((0, 2 / 3, 2 / 3))


def brute_force(key: Sequence[scoring.Chain], response: Sequence[scoring.Chain]) -> list[float]:
    """Numerators and denominators of recall from the definitions; CEAF-e by all alignments."""
    links = 0
    for chain in key:
        parts = [chain & other for other in response if chain & other]
        parts += [frozenset([span]) for span in chain - frozenset().union(*response)]
        links += len(chain) - len(parts)
    shares = [
        len(chain & next((r for r in response if span in r), frozenset())) / len(chain)
        for chain in key
        for span in chain
    ]
    width = max(len(key), len(response))
    padded = [*response, *[frozenset[tuple[int, int]]()] * (width - len(response))]
    best = max(
        math.fsum(2 * len(k & r) / (len(k) + len(r)) for k, r in zip(key, order, strict=False))
        for order in permutations(padded)
    )
    return [links, sum(len(chain) - 1 for chain in key), math.fsum(shares), len(shares), best]


@given(PARTITIONS, PARTITIONS)
def test_brute_force(gold: list[Mention], found: list[Mention]) -> None:
    key, response = scoring.make_chains(gold), scoring.make_chains(found)
    links, shares = scoring.count_links(key, response), scoring.count_shares(key, response)
    best = scoring.align_chains(key, response)
    assert [*links[:2], *shares[:2], best] == pytest.approx(brute_force(key, response))
    assert [*links[2:], *shares[2:], best] == pytest.approx(brute_force(response, key))


def test_shared_mentions_are_scored_apart() -> None:
    """Of three spans that both sides have, gold has two entities and the answer one."""

    def join(document: Document) -> list[Mention]:
        assert document.mentions == ()
        return [Mention(start, start + 1, 5) for start in (0, 2, 4, 5)]

    gold = [(0, 1, 1), (2, 3, 1), (4, 5, 2), (6, 7, 3)]
    document = document_of("Ada saw Bob and her in Rome", gold, split="test")
    joined = SimpleNamespace(name="fixed", causal=False, resolve=join)
    precision = (4 / 3 + 1 / 3) / 3
    expected = 100 * 2 * precision / (1 + precision)
    assert scoring.score_resolver([document], joined, True)[6] == pytest.approx(expected)


def test_the_documented_figures_are_those_of_today(shared_data, capsys, monkeypatch):
    """Four rows of docs/own-corpus.md, but for the times; a change of the rules shows in them."""
    name = "LitBank, the 20 of dev and test"
    monkeypatch.setattr(scoring, "TESTS", {"litbank": {name: scoring.TESTS["litbank"][name]}})
    scoring.main([f"litbank={shared_data / 'litbank'}"])
    printed = [line.rsplit("|", 2)[0] for line in capsys.readouterr().out.splitlines()[2:]]
    text = (Path(__file__).parents[2] / "docs" / "own-corpus.md").read_text(encoding="utf-8")
    stated = [line.rsplit("|", 2)[0] for line in text.splitlines() if line.startswith(f"| {name}")]
    assert stated == printed
    assert len(stated) == 4
