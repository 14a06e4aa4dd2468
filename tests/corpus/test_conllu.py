"""CoNLL-U with coreference: public cases, another method than the reader's, GUM, bad input."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from conll_files import write
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

from entity_transformers.corpus.document import Document, Mention
from entity_transformers.corpus.files import open_lines
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.readers import conllu, detect_format, read_corpus

COREFUD = "# global.Entity = eid-etype-head-other\n"
Row = tuple[str, str, str]
"""Number, word and MISC."""
Nodes = list[tuple[int, list[int]]]


def make_rows(cells: str) -> list[Row]:
    """Words that have these for Entity, or _; a full stop before it marks that of an empty node."""
    rows, number, empty = [], 0, 0
    for cell in cells.split():
        empty = empty + 1 if cell[0] == "." else 0
        number += not empty
        entity = cell.removeprefix(".")
        misc = entity if entity == "_" else f"Entity={entity}"
        rows.append((f"{number}.{empty}" if empty else f"{number}", "w", misc))
    return rows


def wrap(rows: Sequence[Row], head: str = "# newdoc id = d\n" + COREFUD) -> str:
    fields = "\t".join("_" * 7)
    return head + "".join(f"{n}\t{word}\t{fields}\t{misc}\n" for n, word, misc in rows) + "\n"


def read_text(folder: Path, text: str, ledger: Ledger | None = None) -> list[Document]:
    return list(conllu.READER.read(write(folder / "a.conllu", text), ledger or Ledger()))


@pytest.mark.parametrize(("name", "head", "cells", "mentions"), [
    ("a piece at an empty node",
        COREFUD, "(e1[1/2]-x-1-) _ .(e1[2/2]-x-1-) _ (e1-x-1-)", [(0, 1, 1), (3, 4, 1)]),
    ("a start at an empty node",
        COREFUD, "_ .(e1-x-1- _ e1) (e1-x-1-)", [(1, 3, 1), (3, 4, 1)]),
    ("an end at an empty node",
        COREFUD, "(e1-x-1- _ .e1) _ (e1-x-1-)", [(0, 2, 1), (3, 4, 1)]),
    ("empty nodes alone", COREFUD, "_ .(e1-x-1- .e1) (e1-x-1-)", [(1, 2, 1)]),
    ("two pieces that cross another mention",
        COREFUD, "(e1[1/2]-x-1-) (e1-x-1- (e1[2/2]-x-1-) e1)", [(0, 3, 1), (1, 4, 1)]),
    ("crossing mentions of one entity",
        COREFUD, "(e1[1/1]-x-1- (e1-x-1- e1[1/1]) e1)", [(0, 3, 1), (1, 4, 1)]),
    ("a mention in another of its entity",
        COREFUD, "(e1-x-1- (e1-x-1- e1)e1) _", [(0, 3, 1), (1, 3, 1)]),
    ("GUM up to 2.8",
        "", "(place-103 (person-7) place-103)(place-103)", [(0, 3, 103), (1, 2, 7), (2, 3, 103)]),
    ("the type before the entity",
        "# global.Entity = entity-GRP-infstat-MIN-coref_type-identity\n",
        "(place-103-new-1-coref-New-York _ place-103)(place-103-giv-1-coref-New-York)",
        [(0, 3, 103), (2, 3, 103)]),
    ("entities alone", "", "(e5 e5)(e5)", [(0, 2, 5), (1, 2, 5)]),
])  # fmt: skip
def test_the_mentions_of_an_entity_are_right(tmp_path, name, head, cells, mentions):
    """And counted, where they are of empty nodes alone or in pieces."""
    ledger = Ledger()
    [document] = read_text(tmp_path, wrap(make_rows(cells), f"# newdoc id = d\n{head}"), ledger)
    assert document.mentions == tuple(Mention(*one) for one in mentions)
    empty, pieces = name == "empty nodes alone", name.startswith("two pieces")
    assert ledger.counts == Counter(mentions_of_empty_nodes=empty, discontinuous_mentions=pieces)


@st.composite
def draw_mentions(draw: st.DrawFn) -> tuple[list[bool], Nodes]:
    """Which nodes are words; entity and nodes of mentions that a file can tell apart."""
    words = [True, *draw(st.lists(st.sampled_from([True, True, False]), min_size=2, max_size=9))]
    mentions: Nodes = []
    for entity in range(draw(st.integers(1, 3))):
        sets = draw(st.lists(st.sets(st.integers(0, len(words) - 1), min_size=1), max_size=3))
        kept: list[list[int]] = []
        for nodes in map(sorted, sets):
            whole = len(split_runs(nodes)) == 1
            pairs = (pair for other in kept for pair in ((nodes, other), (other, nodes)))
            crossing = any(a[0] < b[0] <= a[-1] < b[-1] for a, b in pairs)
            several = any(len(split_runs(one)) > 1 for one in kept)
            if not (crossing if whole else several):
                kept.append(nodes)
        mentions += [(entity + 1, nodes) for nodes in kept]
    return words, mentions


def split_runs(nodes: Sequence[int]) -> list[list[int]]:
    cuts = [i for i, (one, two) in enumerate(pairwise(nodes), 1) if two != one + 1]
    return [[*nodes[a:b]] for a, b in pairwise([0, *cuts, len(nodes)])]


def write_cells(size: int, mentions: Nodes) -> list[str]:
    """The Entity of each node: what closes there before what opens, the longest first."""
    closing: list[list[tuple[int, str]]] = [[] for _ in range(size)]
    opening: list[list[tuple[int, str]]] = [[] for _ in range(size)]
    for entity, nodes in mentions:
        runs = split_runs(nodes)
        for piece, run in enumerate(runs, 1):
            key = f"e{entity}" + (f"[{piece}/{len(runs)}]" if len(runs) > 1 else "")
            end = ")" if len(run) == 1 else ""
            opening[run[0]].append((-run[-1], f"({key}-x-1-{end}"))
            if not end:
                closing[run[-1]].append((-run[0], f"{key})"))
    return [
        "".join(text for side in pair for _, text in sorted(side, key=lambda one: one[0]))
        for pair in zip(closing, opening, strict=True)
    ]


@given(draw_mentions())
def test_mentions_that_were_written_from_sets_of_nodes_are_read(drawn):
    """What a mention's words are is known before any bracket is."""
    words, mentions = drawn
    cells = zip(words, write_cells(len(words), mentions), strict=True)
    rows = make_rows(" ".join("." * (not is_word) + (cell or "_") for is_word, cell in cells))
    [block] = conllu.split_documents(wrap(rows).splitlines(keepends=True))
    place = {node: sum(words[:node]) for node, is_word in enumerate(words) if is_word}
    real = [(entity, [place[n] for n in nodes if words[n]]) for entity, nodes in mentions]
    expected = [Mention(own[0], own[-1] + 1, entity) for entity, own in real if own]
    assert sorted(conllu.read_mentions(conllu.read_table(block, "f"), Ledger())) == sorted(expected)


def pair_backwards(cells: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """By looking back through all brackets: each takes the nearest open one of its entity."""
    left: list[tuple[int, str]] = []
    for word, cell in enumerate(cells):
        for text in re.findall(r"\([^()]+\)?|[^()]+\)", cell):
            entity = re.split(r"[-)]", text.strip("("))[0]
            if text[0] == "(":
                left.append((word, entity))
            if text[-1] == ")":
                at = next(i for i in reversed(range(len(left))) if left[i][1] == entity)
                yield left.pop(at)[0], word + 1, entity


def as_old_gum(line: str) -> str:
    """(place-103 and place-103) for (103-place-... and 103)."""
    types: dict[str, str] = {}

    def rewrite(match: re.Match[str]) -> str:
        if not match[1]:
            return f"x-{match[0]}"
        types[match[2]] = match[3]
        return f"({match[3]}-{match[2]}" + (")" if match[0].endswith(")") else "")

    misc = re.search(r"(?<=Entity=)[^|\n]+", line)
    if line.startswith("# global.Entity") or not misc:
        return "" if line.startswith("# global.Entity") else line
    cell = re.sub(r"(\()([0-9]+)-(\w+)[^()]*\)?|[0-9]+\)", rewrite, misc[0])
    return line.replace(misc[0], cell)


@pytest.mark.parametrize("name", ["GUM_bio_byron", "GUM_academic_art", "GENTLE_legal_abortion"])
def test_gum_s_files_are_read_as_by_another_parser_and_in_old_notation(shared_data, name, tmp_path):
    lines = list(open_lines(shared_data / "gum" / "dep" / f"{name}.conllu.gz"))
    rows = [line.rstrip("\n").split("\t") for line in lines if re.match(r"[0-9]+\t", line)]
    cells = [re.search(r"(?:^|\|)Entity=([^|]+)", row[9]) for row in rows]
    pairs = pair_backwards([one[1] if one else "" for one in cells])
    expected = {(start, end, int(entity)) for start, end, entity in pairs}
    [new] = read_text(tmp_path, "".join(lines))
    assert {(m.start, m.end, m.chain) for m in new.mentions} == expected
    assert len(expected) > 100
    assert new.words == tuple(row[1] for row in rows)
    assert new.tags == tuple(row[4] for row in rows)
    assert read_text(tmp_path, "".join(map(as_old_gum, lines))) == [new]


TWO = (
    "# newdoc id = one\n" + COREFUD + "# sent_id = 1\n"
    "1\tAda\t_\tPROPN\t_\t_\t_\t_\t_\tSpaceAfter=No|Entity=(e7-person-1-)\n"
    "2-3\tcan't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n"
    "2\tca\t_\tAUX\t_\t_\t_\t_\t_\t_\n"
    "3\tn't\t_\tPART\t_\t_\t_\t_\t_\t_\n\n"
    "# newpar\n1\tShe\t_\tPRON\t_\t_\t_\t_\t_\tEntity=(e7-person-1-)\n\n"
    "# newdoc id = two\n1\tBye\tbye\tINTJ\tUH\t_\t_\t_\t_\tEntity=(x-thing-1-)\n\n"
)


def test_documents_sentences_spaces_tags_and_splits(tmp_path: Path) -> None:
    """global.Entity holds for the rest of the file; tags are XPOS, or what UPOS stands for."""
    write(tmp_path / "ud" / "x-ud-dev.conllu", TWO)
    write(tmp_path / "ud" / "train" / "b.conllu.gz", wrap([("1", "a", "_")] * 2, ""))
    assert detect_format(tmp_path / "ud")[0] == "conllu"
    assert list(read_corpus("conllu", tmp_path / "ud")) == [
        Document("train/b", 0, "train", "", ("a", "a"), (0,), (), None, (True, True)),
        Document(
            name="one", part=0, split="dev", genre="", words=("Ada", "ca", "n't", "She"),
            sentence_starts=(0, 3), mentions=(Mention(0, 1, 7), Mention(3, 4, 7)),
            tags=("NNP", "VB", "RP", "PRP"), space_after=(False, False, False, True),
        ),
        Document("two", 0, "dev", "", ("Bye",), (0,), (Mention(0, 1, 1),), ("UH",), (True,)),
    ]  # fmt: skip


@pytest.mark.parametrize(("columns", "tags"), [
    ([("NOUN", "NNFS1"), ("X", "NN")], ("NN", "FW")),  # one is not the Treebank's: none is
    ([("NOUN", "NNS"), ("_", "_")], ("NNS", "XX")),
    ([("NOUN", "_"), ("_", "_")], ("NN", "XX")),
    ([("_", "XX"), ("_", "_")], ("XX", "XX")),
    ([("_", "NE"), ("_", "_")], None),
])  # fmt: skip
def test_tags_are_the_treebank_s_or_stand_for_universal_ones(tmp_path, columns, tags):
    rows = (f"{i}\ta\t_\t{u}\t{x}\t_\t_\t_\t_\t_\n" for i, (u, x) in enumerate(columns, 1))
    [document] = read_text(tmp_path, "".join(rows) + "\n")
    assert document.tags == tags


def test_documents_without_a_name_are_numbered(tmp_path: Path) -> None:
    text = wrap([("1", "a", "_")], "") + "# newdoc\n" + wrap([("1", "b", "_")], "")
    found = [(d.id, d.words) for d in read_text(tmp_path, text)]
    assert found == [("a#0", ("a",)), ("a-2#0", ("b",))]


@pytest.mark.parametrize(("name", "text", "message"), [
    ("no head", wrap([("1", "a", "Entity=(e1-person-1-)")], ""), "line 1, column 1"),
    ("no entity", wrap([("1", "a", "Entity=(e1-x)")], "# global.Entity = a-b\n"), "line 2, col"),
    ("twice", wrap([("1", "a", "Entity=(e1-x)|Entity=(e2-x)")]), "10: Entity occurs twice"),
    ("never opened", wrap([("1", "a", "Entity=e1)")]), r"line 3, column 10: e1\) closes"),
    ("never closed", wrap([("1", "a", "Entity=(e1-x")]), r"line 3, column 10: \(e1 opens"),
    ("at an empty node", wrap([("1", "a", "_"), ("1.1", "_", "Entity=(e1-x")]), "line 4.*opens"),
    ("a missing piece", wrap([("1", "a", "Entity=(e1[1/2]-x)")]), r"line 3.*\[2/2\] is missing"),
    ("one too many", wrap([("1", "a", "Entity=(e1[2/2]-x)")]), r"line 3.*\[2/2\] has no"),
    ("many pieces", wrap([("1", "a", "Entity=(e1[1/99999]-x)")]), "line 3.*expected pieces"),
    ("no bracket", wrap([("1", "a", "Entity=e1")]), r"line 3, column 10: .*expected brackets"),
    ("a joined form's", wrap([("1-2", "ab", "Entity=(e1-x)"), ("1", "a", "_"), ("2", "b", "_")]),
     r"line 3, column 10: .*on a multiword token"),
    ("CorefUD 0.2", wrap([("1", "a", "ClusterId=c1|MentionSpan=1")]), "line 3, .*ClusterId"),
    ("a word with a space", wrap([("1", "10 000", "_")]), r"line 3, column 2: '10 000'"),
    ("blanked", wrap([("1", "_", "_")] * 3 + [("2", ".", "_")]), "line 3, .*most words are _"),
    ("another", wrap([("1", "a", "_")]) + "# newdoc id = e\n1\ta\n\n", r"line 6: 2 columns"),
    ("no words", "# newdoc id = d\n\n", r"line 1: no words in this document"),
    ("nothing", "\n", r"no words in this file"),
    ("a name of no UTF-8", "# newdoc id = \0\n1\ta\n", r"line 1, character 1: a NUL"),
], ids=lambda value: str(value)[:30])  # fmt: skip
def test_bad_input_is_named_with_its_place(tmp_path, name, text, message):
    with refused(f"a.conllu.*{message}"):
        read_text(tmp_path, text)


def test_skip_drops_a_bracket_or_a_document(tmp_path: Path) -> None:
    good = "# newdoc id = good\n1\ta\t_\t_\t_\t_\t_\t_\t_\tEntity=(e1-x)e2)\n\n"
    ledger = Ledger("skip")
    [document] = read_text(tmp_path, wrap(make_rows("e1")) + good, ledger)
    assert (document.name, document.mentions) == ("good", (Mention(0, 1, 1),))
    assert (list(ledger.bad), ledger.counts) == (["d#0"], {"unmatched_brackets": 1})
