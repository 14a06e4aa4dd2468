"""Resolvers beside one another: what is scored, and the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from entity_transformers.corpus.document import Document, Mention
from entity_transformers.resolve import compare
from entity_transformers.resolve.compare import TESTS, main, score_resolver

GOLD = (Mention(0, 1, 1), Mention(2, 3, 1), Mention(4, 5, 2), Mention(6, 7, 3))
DOCUMENT = Document("d", 0, "test", "", tuple("Ada saw Bob and her in Rome".split()), (0,), GOLD)


@dataclass
class Fixed:
    answer: Sequence[Mention]
    name: str = "fixed"
    causal: bool = False

    def resolve(self, document: Document) -> Sequence[Mention]:
        assert document.mentions == ()
        return self.answer


def test_shared_mentions_are_scored_apart() -> None:
    joined = Fixed([Mention(0, 1, 5), Mention(2, 3, 5), Mention(4, 5, 5), Mention(5, 6, 5)])
    row = score_resolver([DOCUMENT], joined)
    assert row.shared.mentions.found == row.shared.mentions.gold == 3
    assert row.shared.b_cubed.recall == 1.0
    assert row.shared.b_cubed.precision == pytest.approx((4 / 3 + 1 / 3) / 3)


def test_the_documented_figures_are_those_of_today(
    shared_data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four rows of docs/own-corpus.md, but for the times; a change of the rules shows in them."""
    name = "LitBank, the 20 of dev and test"
    monkeypatch.setattr(compare, "TESTS", {"litbank": {name: TESTS["litbank"][name]}})
    main([f"litbank={shared_data / 'litbank'}"])
    printed = [line.rsplit("|", 2)[0] for line in capsys.readouterr().out.splitlines()[2:]]
    text = (Path(__file__).parents[2] / "docs" / "own-corpus.md").read_text(encoding="utf-8")
    stated = [line.rsplit("|", 2)[0] for line in text.splitlines() if line.startswith(f"| {name}")]
    assert stated == printed
    assert len(stated) == 4
