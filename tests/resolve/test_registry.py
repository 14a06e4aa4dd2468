"""What is accepted of a resolver's answer, and what is refused."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from written import document_of

from entity_transformers.corpus.document import Document, Mention, NamedEntity
from entity_transformers.resolve.registry import REGISTRY, ResolverError, make_resolver, resolve

DOCUMENT = document_of(
    "Ada met her friend the king of Ruritania .", [(0, 1, 9)], part=3,
    named_entities=(NamedEntity(0, 1, "PERSON"),),
)  # fmt: skip


@dataclass
class Stub:
    """Answers what it was told to, and keeps what it was asked."""

    answer: Sequence[Mention]
    name: str = "stub"
    causal: bool = False
    asked: list[Document] = field(default_factory=list)

    def resolve(self, document: Document) -> Sequence[Mention]:
        self.asked.append(document)
        return self.answer


def test_the_answer_replaces_gold_which_the_resolver_does_not_see() -> None:
    stub = Stub([Mention(4, 8, 2), Mention(0, 1, 1), Mention(2, 3, 1)])
    resolved = resolve(stub, DOCUMENT)
    assert resolved.mentions == (Mention(0, 1, 1), Mention(2, 3, 1), Mention(4, 8, 2))
    assert resolved.named_entities == DOCUMENT.named_entities
    assert (stub.asked[0].mentions, stub.asked[0].named_entities) == ((), None)


@pytest.mark.parametrize("spans", [[(2, 2)], [(8, 10)], [(-1, 1)], [(0, 1), (0, 1)]])
def test_what_is_no_span_is_refused(spans: list[tuple[int, int]]) -> None:
    message = r"stub, document d#3: Mention\(start=.*0 <= start < end <= 9 words, and each span"
    with pytest.raises(ResolverError, match=message):
        resolve(Stub([Mention(*span, 4) for span in spans]), DOCUMENT)


def test_overlaps_are_resolved_by_policy_or_kept() -> None:
    answer = [Mention(4, 8, 1), Mention(7, 8, 2), Mention(2, 4, 3), Mention(2, 3, 4)]
    assert resolve(Stub(answer), DOCUMENT).mentions == (Mention(2, 4, 3), Mention(4, 8, 1))
    assert len(resolve(Stub(answer), DOCUMENT, None).mentions) == 4
    one_span = [Mention(0, 1, 1), Mention(0, 1, 2), Mention(2, 3, 2)]
    assert resolve(Stub(one_span), DOCUMENT).mentions == (Mention(0, 1, 1), Mention(2, 3, 1))


def test_a_resolver_is_called_as_it_is_registered() -> None:
    for name in REGISTRY:
        made = make_resolver(name)
        assert made.name == make_resolver(f"resolver:{name}").name == name
        assert made.causal == name.endswith("-causal")
    with pytest.raises(ResolverError, match="'name', expected one of names, names-causal, names-p"):
        make_resolver("name")
