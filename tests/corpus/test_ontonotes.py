"""CoNLL-2012 rows: a document by hand, random ones there and back, bad rows, WinoBias' counts."""

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from conll_files import split_lines
from drawn import WORD, documents
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

from entity_transformers.corpus.conll2012 import read_rows
from entity_transformers.corpus.document import Document, Mention, NamedEntity
from entity_transformers.corpus.files import open_lines
from entity_transformers.corpus.ledger import Ledger

HAND = """\
#begin document (bn/abc/00/abc_0001); part 000
abc/00/abc_0001 0 0 Ada   NNP   (TOP(S(NP* - - - Ren\u00e9 (PERSON* (ARG0*  (12|(3
abc/00/abc_0001 0 1 Byron NNP   *)         - - - Ren\u00e9 *)       *)  3)
abc/00/abc_0001 0 2 -LRB- -LRB- *          - - - Ren\u00e9 *        *  -
abc/00/abc_0001 0 7 Rome  NNP   *          - - - Ren\u00e9 (GPE)    *  (7)
abc/00/abc_0001 0 8 /.    .     *))        - - - Ren\u00e9 *        *  12)

abc/00/abc_0001 0 0 she   PRP   *          - - - -         *         (3|(7
abc/00/abc_0001 0 1 left  VBD   *          - - - -         *         3)|(9
abc/00/abc_0001 0 2 it    PRP   *          - - - -         *         7)|9)|(3)|(4)
#end document
"""
LINE_2 = r"a\.v4_gold_conll, line 2, column "
MARKED = re.compile(r"[-/\[].+")
WORDS = WORD.filter(lambda word: not MARKED.match(word))
TAGS = st.sampled_from(["NN", "NNP", "PRP$", "-LRB-"])
LABELS = st.sampled_from(["ORG", "DATE", "WORK_OF_ART"])


def read(text: str, **settings: object) -> list[Document]:
    return list(read_rows(split_lines(text), "a.v4_gold_conll", **settings))  # type: ignore[arg-type]


def test_reads_a_document_written_by_hand() -> None:
    """Jumping numbers, 13 then 12 columns, crossing and nested chains, a span in two of them."""
    [document] = read(HAND, split="dev")
    assert document == Document(
        name="bn/abc/00/abc_0001", part=0, split="dev", genre="bn", sentence_starts=(0, 5),
        words=("Ada", "Byron", "(", "Rome", ".", "she", "left", "it"), space_after=None,
        mentions=(
            Mention(0, 5, 12), Mention(0, 2, 3), Mention(3, 4, 7), Mention(5, 8, 7),
            Mention(5, 7, 3), Mention(6, 8, 9), Mention(7, 8, 3), Mention(7, 8, 4),
        ),
        tags=("NNP", "NNP", "-LRB-", "NNP", ".", "PRP", "VBD", "PRP"),
        named_entities=(NamedEntity(0, 2, "PERSON"), NamedEntity(3, 4, "GPE")),
    )  # fmt: skip


def test_a_chain_nests_in_itself() -> None:
    [document] = read(wrap([row("a", "(1"), row("b", "(1"), row("c", "1)"), row("d", "1)|(1)")]))
    assert document.mentions == (Mention(0, 4, 1), Mention(1, 3, 1), Mention(3, 4, 1))


def test_parts_have_their_own_chains() -> None:
    text = wrap([row("a", "(0)")], part=0) + wrap([row("b", "(0)")], part=1)
    found = [(d.id, d.mentions) for d in read(text)]
    assert found == [(f"x/y#{part}", (Mention(0, 1, 0),)) for part in range(2)]


@pytest.mark.parametrize("head", ["(x)", "(x);", "x", "x;", "(x);  part  3", "x; part 3"])
def test_headers_of_scorers_and_of_semeval(head: str) -> None:
    [document] = read(f"#begin document {head}\n0 a (1)\n#end document {head}\n")
    assert document.id == ("x#3" if "part" in head else "x#0")


def test_genre_pt_has_no_named_entities_but_others_without_any_have_none_left_out() -> None:
    [translated] = read(wrap([row("a", "-")], name="pt/nt/40/nt_4001"))
    [other] = read(wrap([row("a", "-")], name="nw/a"))
    assert (translated.named_entities, translated.genre, translated.words) == (None, "pt", ("a",))
    assert other.named_entities == ()


def test_documents_without_part_of_speech_say_so() -> None:
    [document] = read(wrap([row("a", "-", tag="-"), row("b", "-", tag="_")]))
    assert (document.tags, document.named_entities) == (None, None)
    [document] = read(wrap([row("a", "-", tag="-"), row("b", "-", tag="NN")]))
    assert document.tags == ("XX", "NN")


@pytest.mark.parametrize(("cells", "kept"), [
    (("(ORG*", "*", "(GPE))"), [NamedEntity(0, 3, "ORG")]),
    (("(ORG(GPE)", "*)", "(GPE)"), [NamedEntity(0, 2, "ORG"), NamedEntity(2, 3, "GPE")]),
    (("(WORK_OF_ART(ORG(GPE*", "*)))", "*"), [NamedEntity(0, 2, "WORK_OF_ART")]),
])  # fmt: skip
def test_the_outermost_of_nested_named_entities_are_kept_and_the_others_counted(cells, kept):
    ledger = Ledger()
    [document] = read(wrap([row("a", "-", entity=cell) for cell in cells]), ledger=ledger)
    assert document.named_entities == tuple(kept)
    assert ledger.counts["named_entities_inside_others"] == "".join(cells).count("(") - len(kept)


def test_a_tabbed_row_keeps_its_empty_last_field() -> None:
    fields = "\t_" * 8
    rows = f"a_brat\t0\t0\tSir{fields}\t\na_brat\t0\t1\tJ{fields}\t(5)\n"
    [document] = read(f"#begin document (a_brat); part 0\n{rows}#end document\n")
    assert (document.words, document.mentions) == (("Sir", "J"), (Mention(1, 2, 5),))
    assert (document.tags, document.named_entities) == (None, None)


def row(word: str, chain: str, tag: str = "NN", entity: str = "*", name: str = "x/y") -> str:
    return f"{name}  0  0  {word}  {tag}  *  -  -  -  -  {entity}  {chain}\n"


def wrap(rows: list[str], *, name: str = "x/y", part: int = 0) -> str:
    return f"#begin document ({name}); part {part:03d}\n{''.join(rows)}\n#end document\n"


@pytest.mark.parametrize(("name", "text", "message"), [
    ("web page", "<!DOCTYPE html>\n<html>\n", r"line 1: .* is a web page, expected #begin"),
    ("no document", "\n\n", r"no document in this file, expected a line #begin document"),
    ("header", "#begin document (x); part a\n#end document\n", "line 1: .*, expected #begin"),
    ("stray row", row("a", "-") + wrap([row("b", "-")]), r"line 1: 'x/y .* is outside"),
    ("unclosed", wrap([row("a", "(4")]), LINE_2 + r"coreference .*: \(4 opens"),
    ("unopened", wrap([row("a", "4)")]), LINE_2 + r"coreference .*: 4\) closes"),
    ("chain cell", wrap([row("a", "(4(5")]), LINE_2 + r"coreference .*'\(4\(5'"),
    ("entity closed twice", wrap([row("a", "-", entity="(ORG*"), row("b", "-", entity="(GPE)))")]),
     r"line 3, column 11: '\(GPE\)\)\)' closes"),
    ("entity type", wrap([row("a", "-", entity="(ORGAN)")]), LINE_2 + r"11: .*'\(ORGAN\)'"),
    ("entity unclosed", wrap([row("a", "-", entity="(ORG*")]), LINE_2 + r"11: \(ORG opens"),
    ("columns", wrap(["x/y  0  0  word  NN  *\n"]), LINE_2 + r"6: a row of 6 columns"),
    ("columns in a sentence", wrap([row("a", "-"), row("b", "(A0*) -")]), r"line 3, column 13"),
    ("two documents in one", wrap([row("a", "-"), row("b", "-", name="z")]), r"line 3, column 1:"),
    ("word number", wrap(["x/y 0 a b NN * - - - - * -\n"]), LINE_2 + r"3: word number 'a'"),
    ("skeleton", wrap([row("[WORD]", "-")]), LINE_2 + r"4: .*\[WORD\].*run skeleton2conll"),
    *(("space in a word", wrap([row(f"a{odd}b", "-"), row("c", "-")]),
       LINE_2 + re.escape(f"4: the word is {f'a{odd}b'!r}"))
      for odd in "\u00a0\u2028\x0b\x1f\x85"),
    ("cut in a row", wrap([row("a", "-"), row("b", "-")])[:-34], r"line 3: .* has no #end"),
    ("encoding", wrap([row("caf\udce9", "-")]), r"line 2, character 15: byte 0xe9 is not UTF-8"),
    ("long line", wrap([row("a" * 10_000_000, "-")]), r"line 2, character 1000001: a line of more"),
    ("twice", wrap([row("a", "-")]) * 2, r"document x/y#0 occurs twice"),
], ids=lambda value: str(value)[:30])  # fmt: skip
def test_bad_input_is_named_with_its_place_or_left_out(name: str, text: str, message: str):
    with refused(message) as caught:
        read(text)
    assert len(str(caught.value)) < 500
    if name in ("web page", "no document", "twice"):
        return
    ledger, good = Ledger("skip"), wrap([row("fine", "(1)")], name="nw/good")
    assert "nw/good" in {document.name for document in read(good + text, ledger=ledger)}
    [reason] = ledger.bad.values()
    before = len(split_lines(good))
    assert re.search(re.sub(r"line (\d+)", lambda m: f"line {int(m[1]) + before}", message), reason)


def fits(mention: Mention, others: Sequence[Mention]) -> bool:
    """A chain can't cross itself; nested mentions have both ends apart, so that no brackets' order
    is free.
    """
    own = [m for m in others if m.chain == mention.chain]
    beside = [m for m in own if m.start < mention.end and mention.start < m.end]
    return all((m.start - mention.start) * (m.end - mention.end) < 0 for m in beside)


def write(document: Document) -> list[str]:
    """The rows of a document: an independent writer of the format."""
    chains: list[list[str]] = [[] for _ in document.words]
    for m in document.mentions:
        if m.end == m.start + 1:
            chains[m.start].append(f"({m.chain})")
        else:
            chains[m.start].append(f"({m.chain}")
            chains[m.end - 1].append(f"{m.chain})")
    labels = {e.start: e.label for e in document.named_entities or ()}
    lines = [f"#begin document ({document.name}); part {document.part:03d}\n"]
    for index, (word, tag) in enumerate(zip(document.words, document.tags or (), strict=True)):
        if index in document.sentence_starts[1:]:
            lines.append("\n")
        entity = f"({labels[index]})" if index in labels else "*"
        chain = "|".join(chains[index]) or "-"
        lines.append(f"n {document.part} {index} {word} {tag} * - - - - {entity} {chain}\n")
    return [*lines, "\n", "#end document\n"]


@settings(max_examples=200)
@given(documents(WORDS, TAGS, LABELS, st.just("nw/a/b"), keep=fits, split="train"))
def test_random_documents_come_back(document: Document) -> None:
    tags = document.tags or ("NN",) * len(document.words)
    named = document.named_entities or ()
    whole = replace(document, tags=tags, named_entities=named, space_after=None)
    [read_back] = read_rows(write(whole), "f")
    assert read_back == whole


def test_winobias_has_its_published_counts(shared_data):
    folder = shared_data / "winobias"
    pattern = r"^\| (\w+) \| 396 \| (\d+) \| (\d+) \| (\d+) \|$"
    table = re.findall(pattern, (folder / "PROVENANCE.md").read_text(), re.M)
    assert len(table) == 8
    for name, *counts in table:
        path = folder / "conll_format" / f"{name}.v4_auto_conll"
        documents = list(read_rows(open_lines(path), str(path)))
        sizes = [
            (len(d.words), len({m.chain for m in d.mentions}), len(d.mentions)) for d in documents
        ]
        found = list(map(sum, zip(*sizes, strict=True)))
        assert (len(documents), found) == (396, list(map(int, counts)))
        assert all(d.tags is None and d.named_entities is None for d in documents)
