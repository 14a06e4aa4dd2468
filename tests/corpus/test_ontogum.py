"""GUM and OntoGUM: a folder written by hand, what is refused, and every published count."""

import csv
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from conll_files import write
from refused import refused

from entity_transformers.corpus.document import Document, Mention, NamedEntity
from entity_transformers.corpus.files import open_lines
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.readers.ontogum import match_typed, read, read_splits, read_table

NAME = "GUM_bio_ada"
SPLITS = "# Splits\n\n## train\n\n## dev\n\n  * GUM_bio_ada\n"
WORDS = [
    ("1", "Ada", "NNP", "Entity=(1-person-new-sssss-cf1-1-coref-Ada_Lovelace)", "(1)"),
    ("2", "saw", "VBD", "_", None),
    ("3-4", "Rome's", "_", "SpaceAfter=No", None),
    ("3", "Rome", "NNP", "Entity=(2-place-new-nnnnn-cf2-3-sgl(3-place-new-nnnnn-cf2-1-sgl)",
     "(2(3"),
    ("4", "'s", "POS", "_", "3)"),
    ("5", "arch", "NN", "Entity=2)", "2)"),
    ("5.1", "seen", "VBN", "_", None),
    ("6", ".", ".", "Discourse=x|SpaceAfter=No", None),
    (),
    ("1", "The", "DT", "Entity=(4-object-new-nnnnn-cf1-2-sgl", "(3"),
    ("2", "dog", "NN", "Entity=4)", "3)"),
]  # fmt: skip
DEP, CHAINS = "dep", "coref/ontogum/conllu"
HEADS = {DEP: "GRP-etype-infstat-salience-centering-minspan-link-identity", CHAINS: "GRP"}


def write_folder(root: Path, layer="", change: Mapping[str, str] = {}, splits=SPLITS) -> Path:
    """A GUM folder of one document; ``change`` replaces parts of the text of one of its layers."""
    for folder, head in HEADS.items():
        lines = [f"# newdoc id = {NAME}", f"# global.Entity = {head}"]
        for number, word, tag, dep, chains in (word or [""] * 5 for word in WORDS):
            misc = dep if folder == DEP else f"Entity={chains}" if chains else "_"
            lines.append(f"{number}\t{word}\t_\t_\t{tag}\t_\t_\t_\t_\t{misc}" if number else "")
        text = "\n".join(lines) + "\n\n"
        for old, new in change.items() if folder == layer else ():
            assert old in text
            text = text.replace(old, new, 1)
        write(root / folder / f"{NAME}.conllu", text)
    write(root / "splits.md", splits)
    return root


def test_reads_a_folder_written_by_hand(tmp_path: Path) -> None:
    """Joined forms and empty nodes are no words; the place inside the object is no name of it."""
    assert list(read(write_folder(tmp_path), Ledger())) == [
        Document(
            name=NAME, part=0, split="dev", genre="bio", sentence_starts=(0, 6),
            words=("Ada", "saw", "Rome", "'s", "arch", ".", "The", "dog"),
            mentions=(Mention(0, 1, 1), Mention(2, 5, 2), Mention(2, 4, 3), Mention(6, 8, 3)),
            tags=("NNP", "VBD", "NNP", "POS", "NN", ".", "DT", "NN"),
            space_after=(True, True, False, False, True, False, True, True),
            named_entities=(NamedEntity(0, 1, "PERSON"), NamedEntity(2, 3, "PLACE")),
        )
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "layer", "change", "message"), [
    ("unclosed", CHAINS, {"=3)\n": "=(3)\n"}, r"line 6, column 10: \(3 opens"),
    ("other word", CHAINS, {"arch": "arc"}, r"line 8, column 2: .*'arc', expected 'arch' .*line 8"),
    ("other sentences", CHAINS, {"\n\n1\t": "\n1\t"}, r"words or sentences differ from"),
    ("word number", DEP, {"\n2\tsaw": "\ntwo\tsaw"}, r"line 4, column 1: 'two', expected a word"),
    ("no tag", DEP, {"\tVBD": "\t_"}, r"line 4, column 5: '_', expected a Penn"),
    ("blanked", DEP, {"\tsaw": "\t___"}, r"line 4, column 2: .*'___': a blanked text .*corpus.ex"),
    ("another document", DEP, {"id = GUM_bio_ada": "id = GUM_bio_eve"}, r"'GUM_bio_eve', expected"),
    ("two documents", DEP, {"\n\n": "\n\n# newdoc id = b\n"}, r"holds 'GUM_bio_ada' and 'b'"),
    ("entity fields", DEP, {"etype": "type"}, r"line 3, column 10: .*expected a type \(etype\)"),
    ("typed unopened", DEP, {"=4)": "=4)5)"}, r"line 13, column 10: 5\) closes a mention"),
    ("minspan", DEP, {"cf1-2-sgl": "cf1-3-sgl"}, r"line 12, column 10: .*the head's words inside"),
    ("cut in a row", DEP, {"Entity=4)\n\n": "Enti"}, r"line 13: the last line has no line break"),
    ("web page", DEP, {"# newdoc": "<html> newdoc"}, r"line 1: a web page"),
])  # fmt: skip
def test_bad_input_is_named_with_its_place(tmp_path, name, layer, change, message):
    root = write_folder(tmp_path, layer, change)
    with refused(message) as caught:
        list(read(root, Ledger()))
    assert NAME in str(caught.value)
    ledger = Ledger("skip")
    documents = list(read(root, ledger))
    if name == "unclosed":
        assert (len(documents), ledger.bad) == (1, {})
        assert ledger.counts["unmatched_brackets"] == 1
    else:
        assert (documents, [*ledger.bad]) == ([], [f"{NAME}#0"])
        assert re.search(message, ledger.bad[f"{NAME}#0"])


def test_a_document_without_chains_or_split_is_bad(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "a", splits=SPLITS.replace("GUM_bio_ada", "GUM_bio_eve"))
    with refused(r"GUM_bio_ada has no split in splits.md"):
        list(read(root, Ledger()))
    root = write_folder(tmp_path / "b")
    layer = root / "coref/ontogum/conllu"
    (layer / f"{NAME}.conllu").rename(layer / "GUM_bio_eve.conllu")
    with refused(r"GUM_bio_ada has no chains in coref/ontogum: .*corpus.exclude"):
        list(read(root, Ledger()))
    assert list(read(root, Ledger(exclude=("GUM_*",)))) == []


def test_a_document_of_a_list_or_with_chains_but_without_a_file_is_bad(tmp_path: Path) -> None:
    root = write_folder(tmp_path, splits=SPLITS + "  * GUM_bio_eve\n  * GUM_reddit_x\n")
    chains = root / "coref/ontogum/conllu"
    (chains / "GUM_bio_eva.conllu").write_bytes((chains / f"{NAME}.conllu").read_bytes())
    told = r"dep: no file for GUM_bio_eva, which splits.md or coref/ontogum names: .*corpus.exclude"
    with refused(told):
        list(read(root, Ledger(exclude=("GUM_reddit_*",))))
    ledger = Ledger("skip", exclude=("GUM_reddit_*",))
    assert [d.name for d in read(root, ledger)] == [NAME]
    assert list(ledger.bad) == ["GUM_bio_eva#0", "GUM_bio_eve#0"]
    assert ledger.excluded == ["GUM_reddit_x"]
    ledger.check_exclude()
    assert ledger.unmatched == []


def test_a_folder_without_splits_is_an_error(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "a")
    (root / "splits.md").unlink()
    with refused(r"splits.md: No such file"):
        read(root, Ledger("skip"))
    with refused(r"s.md, line 2: '\* a' below the heading 'other', expected train, dev"):
        read_splits(["## other\n", "  * a\n"], "s.md")
    with refused(r"s.md: no document is listed"):
        read_splits([], "s.md")


@pytest.fixture(scope="module")
def gum(shared_data: Path) -> tuple[list[Document], Ledger]:
    ledger = Ledger("skip", exclude=("GUM_reddit_*",))
    return list(read(shared_data / "gum", ledger)), ledger


@pytest.mark.slow
def test_every_count_of_every_document_is_the_published_one(shared_data, gum):
    documents, ledger = gum
    with (shared_data / "gum" / "counts.tsv").open(encoding="utf-8") as file:
        rows = {row["doc"]: row for row in csv.DictReader(file, delimiter="\t")}
    reddit = {name for name in rows if "_reddit_" in name}
    assert (len(documents), len(reddit), set(ledger.excluded), ledger.bad) == (263, 18, reddit, {})
    for d in documents:
        row, chains = rows.pop(d.name), {m.chain for m in d.mentions}
        columns = "split genre sentences tokens ontogum_chains ontogum_mentions".split()
        counts = [len(d.sentence_starts), len(d.words), len(chains), len(d.mentions)]
        assert [d.split, d.genre, *map(str, counts)] == [row[key] for key in columns]
    assert set(rows) == reddit
    assert ledger.counts["unmatched_brackets"] == 2


def test_spaces_rebuild_the_published_text_of_every_sentence(shared_data, gum):
    sentences = 0
    for d in gum[0]:
        lines = open_lines(shared_data / "gum" / "dep" / f"{d.name}.conllu.gz")
        texts = [line[9:].strip() for line in lines if line.startswith("# text = ")]
        parts = [word + " " * space for word, space in zip(d.words, d.space_after, strict=True)]
        assert ["".join(parts[s.start : s.stop]).strip() for s in d.sentences()] == texts
        sentences += len(texts)
    assert sentences == 14597


@pytest.mark.slow
def test_entity_types_are_the_published_ones(shared_data: Path) -> None:
    """Of all 281 documents, the blanked ones included; names have a proper noun as their head."""
    every, named = Counter[str](), Counter[str]()
    for path in sorted((shared_data / "gum" / "dep").glob("*.gz")):
        for mention, is_name in match_typed(read_table(list(open_lines(path)), path.name)):
            every[mention.label.lower()] += 1
            named[mention.label.lower()] += is_name
    text = " ".join((shared_data / "gum" / "PROVENANCE.md").read_text(encoding="utf-8").split())
    for found, start in ((every, r"named\)"), (named, r"tokens\)")):
        [published] = re.findall(rf"{start}: (.*?plant \d+)", text)
        numbers = re.findall(r"(\w+) (\d+)", published)
        assert found == {label: int(number) for label, number in numbers}
