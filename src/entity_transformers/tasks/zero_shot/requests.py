"""What a language model is asked about an example: texts whose ends it scores, by rule.

partial     a pronoun is replaced by each candidate; the rest of the sentence is scored (Trinh and
            Le, 2018; GPT-1 for its DPRD)
full        the same, the whole sentence is scored, after <|endoftext|>
harness     partial as lm-evaluation-harness 0.4 has it: a space before the rest in any case, so
            that there are two in WSC273, and one before the commas of Winogrande
refers      the sentence stays as it is, ``"she" refers to`` follows; each candidate is scored, the
            mean over its tokens (after Brown et al., 2020): here the pronoun's gender counts
sentiment   ``very`` is appended; the words positive and negative are scored
choice      each answer is scored, the mean over its tokens
acceptable  the whole text is scored after <|endoftext|>, the mean over its tokens; a threshold, the
            best for Matthews' correlation on dev, tells acceptable from unacceptable
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from entity_transformers.corpus.tasks import Example, Task

VERY = " very"
SENTIMENTS = ("negative", "positive")
MEANS = frozenset({"refers", "choice", "acceptable"})
"""Rules that compare means over tokens; the others compare sums."""


@dataclass(frozen=True, slots=True)
class Request:
    """A text whose characters from ``scored`` on are scored, given those before; where there are
    none before, given <|endoftext|>. ``read``: what a memory of entities knows from the start is
    what was named in the first so many characters; 0: nothing.
    """

    text: str
    scored: int
    read: int = 0


def _substitute(example: Example, given: bool, rest: Callable[[str], str] = str) -> list[Request]:
    """A request for each candidate; ``given``: is all up to the candidate's end given?"""
    assert example.blank is not None
    start = len(example.texts[0][: example.blank[0]].rstrip())
    found = []
    for option in range(len(example.options)):
        before, after = example.fill(option)
        found.append(Request(before + rest(after), len(before) if given else 0, start))
    return found


def _partial(example: Example) -> list[Request]:
    return _substitute(example, True)


def _full(example: Example) -> list[Request]:
    return _substitute(example, False)


def _stripped(example: Example) -> list[Request]:
    return _substitute(example, True, lambda rest: f" {rest.strip()}")


def _spaced(example: Example) -> list[Request]:
    return _substitute(example, True, lambda rest: f" {rest}")


def _refers(example: Example) -> list[Request]:
    assert example.blank is not None
    text = example.texts[0]
    asked = f'{text} "{text[slice(*example.blank)].lower()}" refers to'
    candidates = (option.removesuffix("'s") for option in example.options)
    return [Request(f"{asked} {name}", len(asked), len(text)) for name in candidates]


def _sentiment(example: Example) -> list[Request]:
    text = example.texts[0] + VERY
    return [Request(f"{text} {word}", len(text)) for word in SENTIMENTS]


def _choice(example: Example) -> list[Request]:
    text = example.texts[0]
    return [Request(f"{text} {option}", len(text)) for option in example.options]


def _acceptable(example: Example) -> list[Request]:
    return [Request(example.texts[0], 0)]


Rule = Callable[[Example], list[Request]]
_OWN: Mapping[str, Mapping[str, Rule]] = {
    "winogrande": {"harness": _stripped},
    "wsc273": {"harness": _spaced},
    "winobias": {"refers": _refers},  # the files of the other two do not say which pronoun it is
    "gap": {"refers": _refers},
}


def list_rules(task: Task) -> Mapping[str, Rule]:
    """The rules that the task can be tried by; none for most of those that need training."""
    if task.shape == "pronoun":
        return {"partial": _partial, "full": _full, **_OWN.get(task.name, {})}
    if task.shape == "choice":
        return {"choice": _choice}
    if task.shape == "classification" and task.labels == SENTIMENTS:
        return {"sentiment": _sentiment}
    return {"acceptable": _acceptable} if task.metric == "matthews" else {}
