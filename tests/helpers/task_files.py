"""A few examples of every task, in the form of its own files."""

import json
import zipfile
from pathlib import Path

CONLL = "\t".join(["{name}", "0", "{place}", "{word}", *["-"] * 5, "Speaker#1", *["*"] * 4, "{}"])
GAP_HEADER = "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL"
GAP_TEXT = 'Ann met Beth; "she" was glad, and Bob took her bag.'


def gap_row(**other: str) -> str:
    values = f"test-1|{GAP_TEXT}|she|15|Ann|0|TRUE|Beth|8|FALSE|u".split("|")
    row = dict(zip(GAP_HEADER.split("\t"), values, strict=True))
    return "\t".join((row | other).values())


def wsc_block(sentence: str, candidates: str, right: str) -> str:
    return f"{sentence} \n[MASK]\n{candidates} \n{right} \n"


REFUSED = "The men refused the women a permit because [MASK]  feared violence."
WSC = (
    wsc_block(REFUSED, "The men ,The women", "The men"),
    wsc_block('Tom said "Check" to Ralph as he moved  [MASK]  bishop.', " Tom , Ralph", " Tom"),
)


def conll(name: str, words: str, *mentions: tuple[int, int]) -> str:
    marks = ["-"] * len(words.split())
    for start, end in mentions:
        marks[start] = "(1)" if end == start + 1 else "(1"
        if end > start + 1:
            marks[end - 1] = "1)"
    marked = enumerate(zip(words.split(), marks, strict=True))
    rows = [CONLL.format(mark, name=name, place=i, word=word) for i, (word, mark) in marked]
    return "\n".join([f"#begin document ({name}); part 000", *rows, "", "#end document", ""])


def write_tasks(folder: Path, rows: int = 12) -> Path:
    """The folder, with the files of the tasks that are shipped, ``rows`` examples or so of each."""
    _write(folder / "winogrande" / "train_l.jsonl", _winogrande("A", 2 * rows))
    _write(folder / "winogrande" / "dev.jsonl", _winogrande("B", rows))
    for part in ("development", "validation", "test"):
        names = [gap_row(ID=f"{part}-{i}") for i in range(rows)]
        names[1:2] = [gap_row(ID=f"{part}-n", **{"A-coref": "FALSE"})]
        _write(folder / "gap-coreference" / f"gap-{part}.tsv", [GAP_HEADER, *names])
    _write(folder / "wsc273" / "wsc273.txt", [block for _ in range(rows // 2) for block in WSC])
    for split in ("dev", "test"):
        for kind in "12":
            for version, pronoun, name in (("pro", "his", ""), ("anti", "her", "not_")):
                text = f"The guard told the nurse that {pronoun} shift was over ."
                file = f"{split}_type{kind}_{version}_stereotype.v4_auto_conll"
                place = f"nw/{split}_type{kind}/{name}stereotype/"
                spans = ((0, 2), (3, 5))  # the guard, the nurse
                documents = [conll(f"{place}/{i}", text, spans[i % 2], (6, 7)) for i in range(rows)]
                _write(folder / "winobias" / "conll_format" / file, documents)
    for part in ("dev", "test"):
        labels = ("entailment", "neutral", "contradiction")
        _write(folder / "snli" / f"s1.{part}", [f"A man {i} runs ." for i in range(rows)])
        _write(folder / "snli" / f"s2.{part}", [f"A person {i} moves ." for i in range(rows)])
        _write(folder / "snli" / f"labels.{part}", [labels[i % 3] for i in range(rows)])
    (folder / "sentence-polarity").mkdir(parents=True)
    with zipfile.ZipFile(folder / "sentence-polarity" / "sentence_polarity.zip", "w") as packed:
        for ending, word in (("pos", "good"), ("neg", "bad")):
            lines = "".join(f"a {word} film , number {i} \n" for i in range(2 * rows))
            packed.writestr(f"sentence_polarity/rt-polarity.{ending}", lines)
    return folder


def _winogrande(name: str, rows: int) -> list[str]:
    places = [divmod(i, 2) for i in range(rows)]
    text = "Sarah was a better surgeon than Maria so _ got the hard cases."
    row = {"sentence": text, "option1": "Sarah", "option2": "Maria"}
    return [json.dumps(row | {"qID": f"{name}{i}-{j}", "answer": str(1 + j)}) for i, j in places]


def _write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
