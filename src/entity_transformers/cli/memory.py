"""Opens the files of score-memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from entity_transformers.artifacts import read_tokenizer, write_arrays, write_json
from entity_transformers.cli.trained import open_model, open_split
from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.rare import RARE, mark_rare
from entity_transformers.kinds import ModelEntry
from entity_transformers.models.base import LanguageModel
from entity_transformers.study.params import Params
from entity_transformers.study.steps.memory import MemoryParams
from entity_transformers.tasks.memory.comparison import (
    CONTEXT,
    Outcome,
    Setting,
    Texts,
    compare_memories,
    measure_ceilings,
    summarise,
)
from entity_transformers.tasks.memory.context import score_contexts
from entity_transformers.tasks.memory.entries import TOLD
from entity_transformers.tasks.memory.groups import group_tokens
from entity_transformers.tasks.memory.joint import Joint, compare_jointly
from entity_transformers.tasks.memory.leak import measure_leak
from entity_transformers.tasks.memory.training import (
    PARTS,
    ROWS,
    ReadText,
    count_tokens,
    cut_documents,
    read_texts,
)

MOST = 2**22
"""Predicted tokens of train that are read, or as many as a pointer's training draws, if that is
more: a larger train is thinned out, since reading it whole would take longer than all else.
"""


def score_memory(
    params: Params, corpus: Path, lm: Path, model: str, seed: int, output: Path
) -> None:
    """The loss of the split memory.report with a memory of each policy and size, whose pointer is
    trained on train and chosen on memory.choose; the best of the longest window is kept.
    """
    section = params.memory
    entry, trained = open_model(params, lm, model, seed)
    named = (*section.policies, *section.joint_policies)
    splits = [
        open_split(corpus, split, "section memory")
        for split in ("train", section.choose, section.report)
    ]
    if any(policy.removeprefix("half-") == RARE for policy in named):
        splits = mark_rare(splits, section.labels)
    most = max(MOST, section.steps * PARTS * ROWS)
    splits[0] = cut_documents(splits[0], section.tokens, most)
    setting = Setting(section.width, section.forms, section.steps, section.learning_rates, seed)
    tokenizer = read_tokenizer(corpus / "tokenizer.json")
    read: list[dict[str, Any]] = []
    for window in section.windows or (entry.lm.window,):
        texts = _read(trained, splits, section.labels, window)
        policies = [policy for policy in section.policies if policy != CONTEXT]
        outcomes = list(compare_memories(texts, policies, section.sizes, setting))
        if CONTEXT in section.policies:
            reads = {"window": window, "width": section.width}
            outcomes += score_contexts(trained, splits[2], entry.lm, section.sizes, **reads)
        groups = [group_tokens(text, window, tokenizer.decode) for text in texts.report]
        found = summarise(outcomes, texts.report, groups, setting)
        read.append({"window": window, "memories": found})
    # of the longest window, the last
    read[-1]["ceilings"] = measure_ceilings(texts, max(section.sizes), setting)
    read[-1]["leak"] = measure_leak(texts.train, texts.report)
    if section.joint_steps and trained.context is not None:
        alone, learnt = _learn_jointly(params, entry, trained, texts, splits[2], setting)
        read[-1]["joint"] = summarise(learnt, alone, groups, setting)
    facts = {
        "model": model,
        "seed": seed,
        "labels": section.labels,
        "split": section.report,
        "documents": [
            {"document": name, "tokens": tokens}
            for name, tokens in zip(splits[2].names, count_tokens(texts.report), strict=True)
        ],
    }
    write_json(output / "memory.json", facts | {"windows": read})
    pointers = [one for one in outcomes if one.pointer is not None]
    # a new text has mentions, but nobody tells its nouns or rare words
    usable = [one for one in pointers if one.policy.removeprefix("half-") not in TOLD]
    best = min(usable or pointers, key=lambda one: one.chosen)
    _keep_pointer(best, section, entry, window, output)


def _learn_jointly(
    params: Params,
    entry: ModelEntry,
    trained: LanguageModel,
    texts: Texts,
    gold: AlignedCorpus,
    setting: Setting,
) -> tuple[Sequence[ReadText], list[Outcome]]:
    """`compare_jointly` as section memory says, in the longest window."""
    section = params.memory
    joint = Joint(
        (section.windows or (entry.lm.window,))[-1],
        section.joint_windows,
        section.joint_steps,
        (section.joint_learning_rate, section.learning_rates[0]),
        int(gold.tokens[0]),
        entry.lm.precision == "bfloat16",
    )
    memories = [(policy, section.joint_size) for policy in section.joint_policies]
    report = (gold, section.labels)
    return compare_jointly(trained, texts.train, report, memories, setting, joint)


def _keep_pointer(
    best: Outcome, section: MemoryParams, entry: ModelEntry, window: int, output: Path
) -> None:
    """pointer.safetensors: its weights, and what it was trained with."""
    assert best.pointer is not None
    arrays = {name: tensor.numpy() for name, tensor in best.pointer.state_dict().items()}
    facts = {
        "kind": entry.kind.name,
        "policy": best.policy,
        "size": best.size,
        "forms": section.forms,
        "window": window,
        "labels": section.labels,
    }
    write_arrays(output / "pointer.safetensors", arrays, facts)


def _read(model: LanguageModel, splits: Sequence[AlignedCorpus], labels: str, window: int) -> Texts:
    return Texts(*(read_texts(model, gold, labels, window=window) for gold in splits))
