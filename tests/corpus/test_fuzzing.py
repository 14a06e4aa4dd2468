"""Mutated real rows and files: a reader makes a whole document or one error of its own."""

import gzip
import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

import pyarrow
import pyarrow.parquet
import pytest
from conll_files import SENTENCE, conll, split_lines, write
from hypothesis import given, settings
from hypothesis import strategies as st

from entity_transformers.corpus import conll2012, readers
from entity_transformers.corpus.document import CorpusError, Document, from_row, to_row
from entity_transformers.corpus.ledger import Ledger, Policy
from entity_transformers.corpus.readers import File, booknlp, brat, clusters, conllu, jsonl, lambada
from entity_transformers.corpus.readers.ontogum import join_layers, read_table
from entity_transformers.corpus.statistics import describe

NASTY = [
    "\t", " ", "\n", "\n\n", "\r", "\r\n", "\0", "\udcff", "\u2028", "\u00a0", "\x0b", "\x1f",
    "\ufeff", "\u00b2", "\u0663", *"()|*-_=[]{},:\"\\", "__", "\\u", "\\ud800", "null", "true",
    "-1", "1e999", "NaN", "9" * 30, "9" * 5000, "(1", "1)", "(1)", "(1|(1", "1)|1)", "(ORG*",
    "*)", "(XYZ)", "#begin document (x); part 000\n", "#begin document", "#end document\n",
    "# newdoc id = x\n", "[WORD]", "<html>", "Entity=", "1-2", "1.1", '{"words": ["a"]}\n',
    "x" * 2000,
]  # fmt: skip

COREFUD = (
    "# newdoc id = d\n# global.Entity = eid-etype-head-other\n"
    "1\ta\t_\tNOUN\tNN\t_\t_\t_\t_\tEntity=(e1[1/2]-x-1-)\n"
    "1.1\t_\t_\t_\t_\t_\t_\t_\t_\tEntity=(e2-x-1-\n"
    "2\tb\t_\tNOUN\tNN\t_\t_\t_\t_\tEntity=(e1[2/2]-x-1-)e2)\n\n"
)
CLUSTERS = [
    '{"tokens": ["a", " ", "b"], "clusters": [[[0, 0], [1, 2]]]}\n',
    '{"text": "a b.", "clusters": [[[0, 1]], [[0, 3]]], "clusters_strings": [["a"], ["a b"]]}\n',
]
BOOK = (
    "token_ID_within_document\tsentence_ID\tbyte_onset\tbyte_offset\tword\tfine_POS_tag\n"
    "0\t0\t0\t1\ta\tNN\n1\t1\t2\t3\tb\tNN\n"
    "#ENTITIES\nCOREF\tstart_token\tend_token\tprop\tcat\n0\t0\t0\tPROP\tPER\n-1\t0\t1\tNOM\t\n"
)
BRAT = "a b.\nc"
ANNOTATIONS = "T1\tX 0 1\ta\nT2\tX 2 3;5 6\tb c\nR1\tCoref Arg1:T1 Arg2:T2\n*\tEquiv T1 T2\n"
CHAINS = "coref/ontogum/conllu"
Edits = list[tuple[str, float, float, str]]
"""Kind, place and size as fractions, and new text."""


@st.composite
def edits(draw: st.DrawFn) -> Edits:
    kinds = st.sampled_from(["insert", "delete", "replace", "repeat", "cut", "swap"])
    place = st.floats(0, 1, exclude_max=True)
    text = st.sampled_from(NASTY) | st.text(max_size=3)
    return draw(st.lists(st.tuples(kinds, place, place, text), min_size=1, max_size=5))


def mutate(text: str, changes: Edits) -> str:
    """Apply edits at relative places; spans are up to 40 characters long."""
    for kind, at, size, new in changes:
        start = int(at * (len(text) + 1))
        end = min(len(text), start + int(size * 40))
        piece = text[start:end]
        made = {"repeat": piece * 2, "swap": piece[::-1], "delete": "", "cut": ""}
        rest = {"insert": text[start:], "cut": ""}.get(kind, text[end:])
        text = text[:start] + made.get(kind, new) + rest
    return text


def check(documents: Iterable[Document], ledger: Ledger) -> None:
    """Whatever is read is a whole document, and only the project's own error comes out."""
    try:
        found = list(documents)
    except CorpusError:
        assert ledger.policy == "strict"
        return
    for document in found:
        row = json.loads(json.dumps(to_row(document)))
        assert jsonl.parse_row(row, "row") == from_row(row) == document
    describe(found, "innermost")


def read_gum(text: str, ledger: Ledger) -> Iterator[Document]:
    """Both layers from one text, cut in two at a line of its own."""
    dep, _, chains = text.partition("#CHAINS\n")
    try:
        tables = [read_table(split_lines(layer), "f") for layer in (dep, chains)]
        yield join_layers("GUM_bio_byron", "train", *tables, ledger)
    except CorpusError as error:
        ledger.reject("f", error)


def read_book(file: File, ledger: Ledger) -> Iterator[Document]:
    """Both files from one text, cut in two at a line of its own."""
    tokens, _, entities = "".join(file.lines).partition("#ENTITIES\n")
    lines = split_lines(tokens)
    yield booknlp.read_book(file._replace(lines=lines), split_lines(entities), ledger)


def read_brat(file: File, ledger: Ledger) -> Iterator[Document]:
    """Annotations of a text that stays as it is."""
    yield brat.read_annotations(BRAT, file, ledger)


def accepted(read: Any) -> Any:
    """What `read_files` makes of a reader of files."""
    return lambda text, ledger: ledger.accept(
        read(File(split_lines(text), "f", "f", "train"), ledger), "f"
    )


def read_lambada(text: lambada.Text) -> Any:
    return lambda file, ledger: lambada.make_documents(file.lines, "f", text, "test", ledger)


FUZZED: dict[str, Any] = {
    "conll": lambda text, ledger: conll2012.read_rows(split_lines(text), "f", ledger=ledger),
    "jsonl": accepted(jsonl.read_rows),
    "gum": read_gum,
    "conllu": accepted(conllu.read_documents),
    "clusters": accepted(clusters.read_clusters),
    "booknlp": accepted(read_book),
    "brat": accepted(read_brat),
    "original": accepted(read_lambada("original")),
    "openai": accepted(read_lambada("openai")),
}


@pytest.fixture(scope="module")
def real_texts(shared_data: Path) -> dict[str, list[str]]:
    """Tokens of the real files, short enough that an edit hits something."""

    def read_text(path: str) -> str:
        data = (shared_data / path).read_bytes()
        return (gzip.decompress(data) if path.endswith(".gz") else data).decode()

    def cut(path: str, lines: int) -> str:
        return "\n".join(read_text(path).split("\n")[:lines]) + "\n"

    winobias = read_text("winobias/conll_format/dev_type1_pro_stereotype.v4_auto_conll")
    sentences = random.Random(1).sample(winobias.split("#end document\n")[:-1], 5)
    rows = [f"{sentence}#end document\n" for sentence in sentences]
    litbank = cut("litbank/coref/conll/105_persuasion_brat.conll.gz", 60)
    rows += [f"{litbank}\n#end document\n", conll("bn/a", parts=2)]
    layers = [read_text(f"gum/{one}/GUM_bio_byron.conllu.gz") for one in ("dep", CHAINS)]
    heads = ["\n\n".join(layer.split("\n\n")[:3]) + "\n\n" for layer in layers]
    lines = [split_lines(text.replace("42)", "")) for text in rows]
    documents = [d for own in lines for d in conll2012.read_rows(own, "f", ledger=Ledger("skip"))]
    return {
        "conll": rows,
        "gum": ["#CHAINS\n".join(heads)],
        "jsonl": [json.dumps(to_row(document)) + "\n" for document in documents],
        "conllu": [COREFUD, COREFUD * 2],
        "clusters": CLUSTERS,
        "booknlp": [BOOK],
        "brat": [ANNOTATIONS],
        "original": [cut("lambada/lambada_test_plain_text.txt", 3)],
        "openai": [cut("lambada/lambada_test.jsonl", 3)],
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", FUZZED)
@settings(max_examples=300)
@given(data=st.data())
def test_mutated_real_rows_raise_nothing_but_the_projects_error(kind, real_texts, data):
    text = mutate(data.draw(st.sampled_from(real_texts[kind])), data.draw(edits()))
    ledger = Ledger(data.draw(st.sampled_from(["strict", "skip"])))
    check(FUZZED[kind](text, ledger), ledger)


@pytest.mark.slow
@settings(max_examples=100)
@given(edits(), st.sampled_from([".v4_gold_conll", ".v4_gold_conll.gz", ".jsonl", ".parquet"]))
def test_mutated_files_raise_nothing_but_the_projects_error(tmp_path, changes, kind):
    """The same below the door, byte by byte, for packed files too."""
    source = tmp_path / f"source{kind}"
    if kind == ".parquet" and not source.exists():
        table = pyarrow.Table.from_pylist([{"document_id": "nw/a", "sentences": [SENTENCE] * 3}])
        pyarrow.parquet.write_table(table, source)
    elif not source.exists():
        write(source, '{"name": "a", "words": ["b"]}\n' if kind == ".jsonl" else conll("nw/a"))
    target = tmp_path / f"mutated{kind}"
    mutated = mutate(source.read_bytes().decode("latin-1"), changes)
    target.write_bytes(mutated.encode("latin-1", "replace"))
    format = "jsonl" if kind == ".jsonl" else "ontonotes"
    for policy in get_args(Policy):
        try:
            found = list(readers.read_corpus(format, target, bad_documents=policy))
        except CorpusError as error:
            assert str(target) in str(error)  # noqa: PT017
        else:
            check(found, Ledger(policy))
