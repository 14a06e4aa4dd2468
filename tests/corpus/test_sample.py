"""The embedded sample corpus: genuine rows, sound annotations, readable English, and a pure
function of size and seed.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from entity_transformers.corpus.conll2012 import read_rows
from entity_transformers.corpus.sample import generate_corpus, generate_passages
from entity_transformers.corpus.sample.lexicon import PENN_TAGS

NAMED_ENTITY_TYPES = set(
    "PERSON NORP FAC ORG GPE LOC PRODUCT EVENT WORK_OF_ART LAW LANGUAGE DATE TIME PERCENT MONEY"
    " QUANTITY ORDINAL CARDINAL".split()
)
WORDS = 60_000


@dataclass
class Part:
    """One part, read by the test's own few lines: sentences of rows, mentions as (sentence, start,
    end, chain).
    """

    file: str
    name: str
    number: int
    sentences: list[list[list[str]]] = field(default_factory=list)
    mentions: list[tuple[int, int, int, int]] = field(default_factory=list)

    @property
    def words(self) -> list[str]:
        return [row[3] for sentence in self.sentences for row in sentence]


def read_parts(files: dict[str, str]) -> Iterator[Part]:
    for file, text in files.items():
        for block in text.split("#end document\n")[:-1]:
            header, body = block.split("\n", 1)
            match = re.fullmatch(r"#begin document \((\S+)\); part (\d{3})", header)
            assert match, header
            part = Part(file, match[1], int(match[2]))
            part.sentences = [
                [line.split() for line in lines.splitlines()]
                for lines in body.strip().split("\n\n")
            ]
            part.mentions = [
                mention
                for index, rows in enumerate(part.sentences)
                for mention in read_mentions(index, rows)
            ]
            yield part


def read_mentions(sentence: int, rows: list[list[str]]) -> Iterator[tuple[int, int, int, int]]:
    """Fails where a bracket closes what is not the innermost open one, or stays open: the sample's
    mentions never cross.
    """
    stack: list[tuple[int, int]] = []
    for index, row in enumerate(rows):
        for item in row[-1].split("|") if row[-1] != "-" else []:
            chain = int(item.strip("()"))
            if item.startswith("("):
                stack.append((chain, index))
            if item.endswith(")"):
                opened, start = stack.pop()
                assert opened == chain
                yield sentence, start, index + 1, chain
    assert not stack


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return generate_corpus(WORDS, 1)


@pytest.fixture(scope="module")
def parts(files: dict[str, str]) -> list[Part]:
    return list(read_parts(files))


@pytest.fixture(scope="module")
def passages() -> list[str]:
    return generate_passages(400, 1)


def test_same_arguments_give_the_same_bytes_whatever_the_global_generator_does() -> None:
    random.seed(1)
    first = generate_corpus(5_000, 3), generate_passages(20, 3)
    random.seed(2)
    assert (generate_corpus(5_000, 3), generate_passages(20, 3)) == first
    assert list(generate_corpus(5_000, 3)) == list(first[0])


def test_another_seed_gives_other_text() -> None:
    assert set(generate_corpus(5_000, 3).values()).isdisjoint(generate_corpus(5_000, 4).values())
    assert set(generate_passages(20, 3)).isdisjoint(generate_passages(20, 4))


def test_importing_and_generating_leaves_the_global_generator_alone() -> None:
    state = random.getstate()
    generate_corpus(2_000, 1)
    assert random.getstate() == state


@pytest.mark.parametrize(("words", "seed"), [(20_000, 1), (20_000, 2), (60_000, 1), (60_000, 5)])
def test_size_is_within_three_percent_and_split_80_10_10(words: int, seed: int) -> None:
    counts: Counter[str] = Counter()
    for part in read_parts(generate_corpus(words, seed)):
        counts[part.file.split("/")[1]] += len(part.words)
    assert abs(counts.total() - words) <= 0.03 * words
    assert set(counts) == {"train", "development", "test"}
    assert all(
        abs(counts[split] / counts.total() - share) < 0.02
        for split, share in (("train", 0.8), ("development", 0.1), ("test", 0.1))
    )


def test_too_few_words_are_refused() -> None:
    with pytest.raises(ValueError, match="1999 words is too small"):
        generate_corpus(1_999, 1)


def test_layout_is_the_official_one_and_documents_are_in_one_split_only(
    files: dict[str, str], parts: list[Part]
) -> None:
    for file in files:
        assert re.fullmatch(
            r"data/(train|development|test)/data/english/annotations/(\w\w)/sample/\d\d"
            r"/sample_\d{4}\.v4_gold_conll",
            file,
        )
    places: dict[str, set[str]] = {}
    for part in parts:
        assert part.file.endswith(f"annotations/{part.name}.v4_gold_conll")
        places.setdefault(part.name, set()).add(part.file)
    assert all(len(found) == 1 for found in places.values())
    texts = [" ".join(part.words) for part in parts]
    assert len(set(texts)) == len(texts)


def test_parts_are_numbered_and_of_varied_length(parts: list[Part]) -> None:
    numbers: dict[str, list[int]] = {}
    for part in parts:
        numbers.setdefault(part.name, []).append(part.number)
    assert all(found == list(range(len(found))) for found in numbers.values())
    assert {len(found) for found in numbers.values()} == {1, 2, 3, 4}
    lengths = [len(part.words) for part in parts]
    assert min(lengths) >= 100
    assert max(lengths) <= 950
    assert max(lengths) > 3 * min(lengths)


def test_rows_are_well_formed(parts: list[Part]) -> None:
    widths = set()
    for part in parts:
        for rows in part.sentences:
            assert len({len(row) for row in rows}) == 1
            assert [row[2] for row in rows] == [str(index) for index in range(len(rows))]
            assert all(row[:2] == [part.name, str(part.number)] for row in rows)
            assert len(rows[0]) == 12 + sum(row[4].startswith("VB") for row in rows)
            assert len({row[9] for row in rows}) == 1
            assert {row[4] for row in rows} <= PENN_TAGS
            widths.add(len(rows[0]))
    assert len(widths) > 3


def test_parse_brackets_are_balanced_and_closed_by_the_last_word_only(parts: list[Part]) -> None:
    for part in parts:
        for rows in part.sentences:
            depth = 0
            for index, row in enumerate(rows):
                assert re.fullmatch(r"(\([A-Z]+)*\*\)*", row[5])
                depth += row[5].count("(") - row[5].count(")")
                assert (depth == 0) == (index == len(rows) - 1)
            assert rows[0][5].startswith("(TOP(S")


def test_named_entities_are_flat_and_balanced(parts: list[Part]) -> None:
    for part in parts:
        for rows in part.sentences:
            opened = False
            for row in rows:
                match = re.fullmatch(r"(?:\((\w+))?(\*)?(\))?", row[10])
                assert match
                assert match[1] is None or (match[1] in NAMED_ENTITY_TYPES and not opened)
                opened = (opened or match[1] is not None) and match[3] is None
                assert opened or match[1] or match[3] or row[10] == "*"
            assert not opened


def test_train_has_all_18_types_and_genre_pt_has_none(parts: list[Part]) -> None:
    column: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for part in parts:
        labels = (re.match(r"\((\w+)", row[10]) for rows in part.sentences for row in rows)
        if "/train/" in part.file:
            column[part.name.startswith("pt/")].update(
                match[1] if match else "*" for match in labels
            )
    assert set(column[False]) == NAMED_ENTITY_TYPES | {"*"}
    assert min(column[False].values()) >= 10
    assert set(column[True]) == {"*"}


def test_chains_are_no_singletons_and_cross_sentences(parts: list[Part]) -> None:
    chains = [found for part in parts for found in group_chains(part).values()]
    assert all(len(found) >= 2 for found in chains)
    assert sum(len({sentence for sentence, _, _ in found}) > 1 for found in chains) > 0.8 * len(
        chains
    )
    assert all(min(group_chains(part)) == 0 for part in parts)


def group_chains(part: Part) -> dict[int, list[tuple[int, int, int]]]:
    chains: dict[int, list[tuple[int, int, int]]] = {}
    for sentence, start, end, chain in part.mentions:
        chains.setdefault(chain, []).append((sentence, start, end))
    return chains


def test_there_are_nested_mentions_pronouns_and_possessives(parts: list[Part]) -> None:
    nested, pronouns, possessives = 0, Counter[str](), 0
    for part in parts:
        for sentence, start, end, _ in part.mentions:
            rows = part.sentences[sentence][start:end]
            nested += any(
                s == sentence and (start, end) != (a, b) and start <= a and b <= end
                for s, a, b, _ in part.mentions
            )
            pronouns.update(row[4] for row in rows if end - start == 1 and row[4].startswith("PRP"))
            possessives += rows[-1][3:5] == ["'s", "POS"]
    assert nested > 200
    assert min(pronouns["PRP"], pronouns["PRP$"]) > 300
    assert possessives > 50


def test_pronouns_agree_with_the_names_of_their_chain(parts: list[Part]) -> None:
    groups = [{"he", "him", "his"}, {"she", "her"}, {"it", "its"}, {"they", "them", "their"}]
    for part in parts:
        for found in group_chains(part).values():
            words = {
                part.sentences[s][a][3].lower()
                for s, a, b in found
                if b - a == 1 and part.sentences[s][a][4] in ("PRP", "PRP$")
            }
            assert sum(bool(words & group) for group in groups) <= 1


def test_speakers_are_in_conversations_and_letters_only(parts: list[Part]) -> None:
    speakers: dict[str, set[str]] = {}
    for part in parts:
        speakers.setdefault(part.name[:2], set()).update(rows[0][9] for rows in part.sentences)
    assert set(speakers) == {"nw", "mz", "wb", "bn", "bc", "tc", "pt"}
    assert all(speakers[genre] == {"-"} for genre in ("nw", "mz", "bn", "pt"))
    assert all("-" not in speakers[genre] for genre in ("bc", "tc"))
    assert len(speakers["wb"]) > 1


def test_escapes_of_the_treebank_are_used(parts: list[Part]) -> None:
    tags = {(row[3], row[4]) for part in parts for rows in part.sentences for row in rows}
    assert {
        ("-LRB-", "-LRB-"),
        ("-RRB-", "-RRB-"),
        ("``", "``"),
        ("''", "''"),
        ("'s", "POS"),
        ("$", "$"),
    } <= tags
    assert not any(word in ("(", ")", '"') for word, _ in tags)


def test_vocabulary_is_of_the_intended_size(parts: list[Part]) -> None:
    assert 1_500 <= len({word.lower() for part in parts for word in part.words}) <= 2_500


VOWEL_NUMBER = r"8\d*|11|18"


def test_articles_fit_the_next_word(parts: list[Part], passages: list[str]) -> None:
    texts = [" ".join(part.words) for part in parts] + passages
    articles = [match for text in texts for match in re.findall(r"\b([Aa]n?) (\S+)", text)]
    vowels = re.compile(rf"(?!one\b|uni|use)[aeiou]|hon|hour|(?:{VOWEL_NUMBER})$", re.IGNORECASE)
    wrong = [pair for pair in articles if (pair[0].lower() == "an") != bool(vowels.match(pair[1]))]
    assert len(articles) > 1_500
    assert not wrong
    assert {article for article, _ in articles} == {"a", "A", "an", "An"}


def test_sentences_begin_with_a_capital_and_end_with_a_mark(parts: list[Part]) -> None:
    for part in parts:
        for rows in part.sentences:
            first = next(row[3] for row in rows if row[4] != "``")
            assert first[0].isupper() or first[0].isdigit() or first == "$", first
            last = rows[-1][3]
            assert last in (".", "?", "!", "''") or rows[0][3] == "Yours"


def test_no_form_of_words_that_shows_a_broken_template(parts: list[Part]) -> None:
    text = "\n".join(" ".join(row[3] for row in rows) for part in parts for rows in part.sentences)
    assert not re.search(r"[@%{}<\[\]|]|\$ (?!\d)", text.replace(" % ", " ").replace(" %\n", "\n"))
    assert not re.search(r"\b(\w+) \1\b", text)
    objects = "to|with|for|of|from|called|told|gave|thanked|joined|helped|offered|invited|showed"
    assert not re.search(rf"\b({objects}) (he|she|they|I)\b", text)
    assert not re.search(
        r"\b(you|they|we) was\b|\b(I|you|they|we) (is|has|loves)\b|\b(he|she|it)"
        r" (were|are|have|love)\b|, ,|, \.",
        text,
    )


def test_sentences_come_from_many_templates(parts: list[Part]) -> None:
    """A sentence's shape is what is left without names, numbers and nouns; few templates would give
    few shapes.
    """
    shapes = Counter(
        " ".join(
            row[3].lower()
            for row in rows
            if row[4] in ("VBD", "VBZ", "IN", "CC", "WRB", "TO", "MD", "VB")
        )
        for part in parts
        for rows in part.sentences
    )
    assert sum(count >= 3 for count in shapes.values()) >= 150


def test_rare_words_come_back_within_their_part(parts: list[Part]) -> None:
    """What belongs to one story (names, goods, tools) is told more than once: a memory of entities
    has something to remember.
    """
    counts = [Counter(word.lower() for word in part.words) for part in parts]
    spread = Counter(word for count in counts for word in count)
    rare = [
        count
        for part in counts
        for word, count in part.items()
        if spread[word] <= 0.05 * len(parts)
    ]
    assert (sum(rare) - len(rare)) / sum(rare) > 0.4


def test_passages_need_their_context(passages: list[str]) -> None:
    tokens = [passage.split() for passage in passages]
    assert all(
        passage == passage.lower() and passage == " ".join(passage.split()) for passage in passages
    )
    assert all(found[-1].isalpha() for found in tokens)
    assert sum(found[-1] in found[:-1] for found in tokens) >= 0.7 * len(tokens)
    last_sentences = [re.split(r" [.?!] ", passage)[-1].split() for passage in passages]
    assert sum(found[-1] in found[:-1] for found in last_sentences) <= 0.05 * len(tokens)
    assert all(50 <= len(found) <= 150 for found in tokens)
    assert len(set(passages)) == len(passages)
    assert len({found[-1] for found in tokens}) > 100


def test_the_projects_reader_agrees(files: dict[str, str], parts: list[Part]) -> None:
    documents = [
        document
        for file, text in files.items()
        for document in read_rows(text.splitlines(keepends=True), file)
    ]
    assert [(document.name, document.part) for document in documents] == [
        (part.name, part.number) for part in parts
    ]
    for document, part in zip(documents, parts, strict=True):
        starts = document.sentence_starts
        assert len(document.words) == len(part.words)
        assert len(starts) == len(part.sentences)
        expected = sorted(
            (starts[sentence] + start, starts[sentence] + end, chain)
            for sentence, start, end, chain in part.mentions
        )
        assert (
            sorted((mention.start, mention.end, mention.chain) for mention in document.mentions)
            == expected
        )
        labels = [row[10] for rows in part.sentences for row in rows if row[10].startswith("(")]
        assert len(document.named_entities or ()) == len(labels)
        assert (document.named_entities is None) == (document.genre == "pt")
