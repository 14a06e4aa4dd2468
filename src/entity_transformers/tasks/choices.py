"""Which of two candidates a pronoun stands for, decided by a language model that was not trained to
decide: the candidate that makes the text likelier, as lm-evaluation-harness scores choices.

partial  each candidate takes the pronoun's place, and what follows it is scored (Trinh and Le,
         2018)
refers   the text stays as it is, and each candidate is scored after ``"she" refers to`` (after
         Brown et al., 2020); only where the text has a pronoun, and not a blank

The text may tell its chains (`tasks.telling`) before the pronoun in question; nothing is told about
the pronoun itself or in the text after it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from tokenizers import Tokenizer

from entity_transformers.corpus.alignment import spelled_out
from entity_transformers.corpus.tasks import Example, group_examples, load_examples, thin_out
from entity_transformers.harness.scoring import Pair, score_pairs
from entity_transformers.step import Rows, Run
from entity_transformers.tasks.telling import tell_each

PARTIAL, REFERS = "partial", "refers"
GROUPS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "gap": (("gender",),),
    "winobias": (("version",), ("type", "version")),
}
"""For each task, the keys of the groups of examples in which it is also scored."""


def decide(run: Run) -> Rows:
    """Yield the rows of step choices."""
    section = run.section
    loaded = load_examples(run.home("examples") / "examples.jsonl", section.tasks)
    for task, every in loaded.items():
        known = [one for one in every if one.split == "test" and one.label is not None]
        own = thin_out(known, (section.examples or {}).get(task))
        partial = _score(run, own, PARTIAL)
        yield from judge(task, own, partial, scoring=PARTIAL)
        if task in section.told:
            numbers, texts = tell_examples(own, run.seed or 0)
            scores = {told: _score(run, texts[told], PARTIAL) for told in ("chains", "others")}
            scores = {"nothing": partial[numbers], **scores}
            for told, nats in scores.items():
                yield from judge(task, [own[i] for i in numbers], nats, scoring=PARTIAL, told=told)
        if task in section.refers:
            yield from judge(task, own, _score(run, own, REFERS), scoring=REFERS)


def _score(run: Run, examples: Sequence[Example], scoring: str) -> np.ndarray:
    """Return the log-probabilities of the two options of each example, [N, 2]."""
    texts = [text for example in examples for text in ask(example, scoring)]
    unique = list(dict.fromkeys(texts))  # filled in, WinoBias's versions of a sentence are equal

    def score() -> list[float]:
        how = {"window": run.entry.lm.window, "batch": run.section.batch}
        return [nats for nats, _ in score_pairs(run.trained, encode(unique, run.tokenizer), **how)]

    found = dict(zip(unique, run.once(score, unique), strict=True))
    return np.array([found[text] for text in texts]).reshape(-1, 2)


def ask(example: Example, scoring: str) -> list[tuple[str, str]]:
    """Return, for each option, the text that is given and the text that is scored after it."""
    if scoring == PARTIAL:
        return [example.fill(option) for option in range(len(example.options))]
    assert example.blank is not None
    text, pronoun = example.texts[0], example.texts[0][slice(*example.blank)].lower()
    return [(f'{text} "{pronoun}" refers to', f" {option}") for option in example.options]


def encode(texts: Sequence[tuple[str, str]], tokenizer: Tokenizer) -> list[Pair]:
    """Return the given and the scored tokens, both cut from one encoding, as in the harness."""
    before = [given.rstrip() for given, _ in texts]
    whole = ["".join(text) for text in texts]
    with spelled_out(tokenizer):
        given = [one.ids for one in tokenizer.encode_batch(before, add_special_tokens=False)]
        every = [one.ids for one in tokenizer.encode_batch(whole, add_special_tokens=False)]
    return [Pair(some, ids[len(some) :]) for some, ids in zip(given, every, strict=True)]


def tell_examples(
    examples: Sequence[Example], seed: int
) -> tuple[list[int], dict[str, list[Example]]]:
    """Apply `tell_each` to the texts of examples, up to the pronoun in question."""
    blanks = [cast(tuple[int, int], example.blank) for example in examples]
    given = [(one.texts[0], start) for one, (start, _) in zip(examples, blanks, strict=True)]
    numbers, texts = tell_each(given, seed)
    found: dict[str, list[Example]] = {told: [] for told in texts}
    for told, own in texts.items():
        for number, (text, start) in zip(numbers, own, strict=True):
            before, after = blanks[number]
            blank = start, start + after - before
            found[told].append(replace(examples[number], texts=(text,), blank=blank))
    return numbers, found


def judge(task: str, examples: Sequence[Example], nats: np.ndarray, **about: str) -> Rows:
    """Yield, for all examples and in the task's groups, the share whose right option is the
    likelier one by the log-probabilities ``nats`` [N, 2] (``accuracy``) and that of the most common
    label (``majority``); for each example ``correct`` and, outside groups, the ``margin`` in nats.
    In a group, the two versions of a WinoBias sentence are one unit.
    """
    labels = np.array([example.label for example in examples], dtype=np.int64)
    rows = np.arange(len(examples))
    margin = nats[rows, labels] - nats[rows, 1 - labels]
    right = nats.argmax(1) == labels
    for keys in ((), *GROUPS.get(task, ())):
        for group, own in group_examples(examples, keys):
            where = {"split": "test", "task": task, **about, **group}
            majority = np.bincount(labels[own]).max() / len(own)
            for measure, value in (("accuracy", right[own].mean()), ("majority", majority)):
                yield {"measure": measure, "value": float(value), "count": len(own), **where}
            for number in own:
                unit = examples[number].name.removesuffix(f"-{group.get('version')}")
                one = {"count": 1, "unit": unit, **where}
                yield {"measure": "correct", "value": int(right[number]), **one}
                if not group:
                    yield {"measure": "margin", "value": float(margin[number]), **one}
