"""What is accepted of a resolver's answer, and what is said of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entity_transformers.corpus.document import Document, Mention, NamedEntity
from entity_transformers.corpus.mentions import count_overlaps, flatten
from entity_transformers.resolve.base import ResolverError, find_overlaps, require, resolve
from entity_transformers.resolve.registry import REGISTRY, make_resolver

DOCUMENT = Document(
    "d", 3, "train", "", tuple("Ada met her friend the king of Ruritania .".split()), (0,),
    mentions=(Mention(0, 1, 9),), named_entities=(NamedEntity(0, 1, "PERSON"),),
)  # fmt: skip


@dataclass
class Stub:
    """Answers what it was told to, and keeps what it was asked."""

    answer: Sequence[object]
    name: str = "stub"
    causal: bool = False
    asked: list[Document] = field(default_factory=list)

    def resolve(self, document: Document) -> Sequence[Mention]:
        self.asked.append(document)
        return self.answer  # type: ignore[return-value]


def test_the_answer_replaces_gold_which_the_resolver_does_not_see() -> None:
    stub = Stub([Mention(4, 8, 2), Mention(0, 1, 1), Mention(2, 3, 1)])
    resolved = resolve(stub, DOCUMENT)
    assert resolved.document.mentions == (Mention(0, 1, 1), Mention(2, 3, 1), Mention(4, 8, 2))
    assert resolved.document.named_entities == DOCUMENT.named_entities
    assert (resolved.overlaps, resolved.lost, resolved.report()) == ((), {}, [])
    assert (stub.asked[0].mentions, stub.asked[0].named_entities) == ((), None)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([Mention(2, 2, 0)], r"stub, document d#3: Mention\(start=2, end=2.*0 <= start < end <= 9"),
        ([Mention(8, 10, 0)], r"end=10.*expected 0 <= start < end <= 9"),
        ([Mention(-1, 1, 0)], r"start=-1"),
        ([Mention(0, 1, 4), Mention(0, 1, 4)], r"words 0-1 'Ada': .* twice for entity 4"),
        ([Mention(0, 1, "4")], r"expected a Mention of three integers"),  # type: ignore[arg-type]
        ([Mention(0, True, 4)], r"expected a Mention of three integers"),
        ([(0, 1, 2)], r"\(0, 1, 2\), expected a Mention"),
    ],
)
def test_what_is_no_span_is_refused(answer: Sequence[object], message: str) -> None:
    with pytest.raises(ResolverError, match=message):
        resolve(Stub(answer), DOCUMENT)


NESTED = [Mention(4, 8, 1), Mention(7, 8, 2), Mention(2, 4, 3), Mention(2, 3, 4), Mention(3, 5, 5)]


def test_overlaps_are_described_and_resolved_by_policy() -> None:
    resolved = resolve(Stub(NESTED), DOCUMENT, "outermost")
    kept, lost = flatten(NESTED, 9, "outermost")
    assert resolved.document.mentions == kept == (Mention(2, 4, 3), Mention(4, 8, 1))
    assert resolved.lost == +lost
    assert resolved.lost["mentions"] == 3
    assert resolved.report() == [
        "d#3, words 2-3 'her' of entity 4 lies inside words 2-4 'her friend' of entity 3",
        "d#3, words 3-5 'friend the' of entity 5 crosses words 2-4 'her friend' of entity 3",
        "d#3, words 4-8 'the king of Ruritania' of entity 1 crosses words 3-5 'friend the' of"
        " entity 5",
        "d#3: and 1 more overlaps",
    ]


def test_overlaps_can_be_kept_or_refused() -> None:
    assert len(resolve(Stub(NESTED), DOCUMENT, "keep").document.mentions) == 5
    message = r"stub: d#3, words 2-3 'her' of entity 4 lies inside .* \(4 such\): set overlaps"
    with pytest.raises(ResolverError, match=message):
        resolve(Stub(NESTED), DOCUMENT, "refuse")
    with pytest.raises(ResolverError, match="overlaps is 'some', expected one of outermost"):
        resolve(Stub(NESTED), DOCUMENT, "some")  # type: ignore[arg-type]


def test_one_span_of_two_entities_is_an_overlap() -> None:
    answer = [Mention(0, 1, 1), Mention(0, 1, 2), Mention(2, 3, 2)]
    resolved = resolve(Stub(answer), DOCUMENT)
    assert resolved.report() == ["d#3, words 0-1 'Ada' of entity 1 is also a mention of entity 2"]
    assert resolved.document.mentions == (Mention(0, 1, 1), Mention(2, 3, 1))
    assert resolved.lost == {"merged_spans": 1, "merged_chains": 1}


@given(
    st.lists(
        st.builds(
            lambda start, size, chain: Mention(start, min(start + size, 9), chain),
            st.integers(0, 8), st.integers(1, 5), st.integers(0, 2),
        ),
        max_size=8, unique=True,
    )
)  # fmt: skip
def test_overlaps_are_those_that_the_corpora_count(mentions: list[Mention]) -> None:
    pairs = find_overlaps(mentions)
    assert all(first.start <= second.start < first.end for first, second in pairs)
    apart = set(mentions) - {second for _, second in pairs}
    assert not any(count_overlaps(apart).values())
    assert bool(pairs) == any(count_overlaps(mentions).values())


def test_resolvers_by_name() -> None:
    assert (make_resolver("names").name, make_resolver("names").causal) == ("names", False)
    causal = make_resolver("resolver:names-causal")
    assert (causal.name, causal.causal) == ("names-causal", True)
    with pytest.raises(
        ResolverError, match="'name', expected one of names, names-causal, names-pronouns"
    ):
        make_resolver("name")
    with pytest.raises(ResolverError, match=r"names: .*colour.*; its options: causal, pronouns"):
        make_resolver("names", colour="blue")
    with pytest.raises(ResolverError, match=r"file: missing a required argument: 'path'"):
        make_resolver("file")


def test_a_resolver_is_called_as_it_is_registered() -> None:
    """The registry counts for no step's code: what a name stands for shows in the layer's name."""
    others = {"file", "coreferee", "stanza"}  # which take more options
    for name in REGISTRY.keys() - others:
        made = make_resolver(name)
        assert made.name == name
        assert made.causal == bool(REGISTRY[name].options.get("causal")) == name.endswith("causal")


def test_a_library_that_is_missing_names_its_extra() -> None:
    with pytest.raises(ResolverError, match=r"needs no_such_thing, .*'\.\[x\]'"):
        require("no_such_thing", "x")
