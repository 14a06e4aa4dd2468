"""The language model goes on learning together with its pointer, through the memory.

A step reads a window and the ``back`` windows before it with gradient, so that an entry of one of
them passes it on to the model that wrote it; older entries are as the model read them before, whose
weights move little. The loss is that of the mixture (`pointer`). What every memory is compared with
learns for as many steps on the same windows, its own pointer or none.
Dimensions: T predicted tokens of a document, W the model's width.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch import Tensor, nn
from transformers import get_cosine_schedule_with_warmup

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.logs import log_progress
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.tasks.memory.comparison import (
    Outcome,
    Setting,
    keep_all,
    score_memories,
)
from entity_transformers.tasks.memory.entries import Entries
from entity_transformers.tasks.memory.pointer import Pointer, mix
from entity_transformers.tasks.memory.training import (
    PARTS,
    WARMUP,
    ReadText,
    cut_memories,
    draw_parts,
    find_facts,
    make_pointer,
    read_texts,
)


@dataclass(frozen=True)
class Joint:
    """How they learn together.

    window     of the model's reading
    back       windows before it that the gradient reaches
    steps      of `PARTS` windows
    rates      learning rates of the model and of the pointer
    end        the id of <|endoftext|>
    half       compute the model in bfloat16
    """

    window: int
    back: int
    steps: int
    rates: tuple[float, float]
    end: int
    half: bool = False


def compare_jointly(
    model: LanguageModel,
    train: Sequence[ReadText],
    report: tuple[AlignedCorpus, str],
    memories: Sequence[tuple[str, int]],
    setting: Setting,
    joint: Joint,
) -> tuple[Sequence[ReadText], list[Outcome]]:
    """The split to report as the model reads it that has learnt on without a memory, and an outcome
    for each policy and size; ``report`` is that split and the layer of its mentions.
    """

    def learn(memory: tuple[str, int] | None) -> tuple[Sequence[ReadText], Pointer | None]:
        kept = None if memory is None else keep_all(memory[0], train, memory[1], setting)
        tuned, pointer = train_jointly(
            model, train, kept, joint, width=setting.width, seed=setting.seed
        )
        return read_texts(tuned, *report, window=joint.window), pointer

    outcomes = []
    for policy, size in log_progress(memories, "memories that the model learns with"):
        texts, pointer = learn((policy, size))
        assert pointer is not None
        nll, held = score_memories(pointer, texts, policy, size, setting)
        outcomes.append(Outcome(policy, size, 0.0, 0.0, held, nll, pointer))
    return learn(None)[0], outcomes


def train_jointly(
    model: LanguageModel,
    texts: Sequence[ReadText],
    memories: Sequence[Entries] | None,
    setting: Joint,
    *,
    width: int,
    seed: int,
) -> tuple[LanguageModel, Pointer | None]:
    """A copy of the model and a pointer of ``width`` after AdamW with linear warm-up and cosine;
    ``memories`` None: the model alone, without one.
    """
    model = copy.deepcopy(model)
    pointer = None if memories is None else make_pointer(texts, width, seed)
    groups = [{"params": list(model.module.parameters()), "lr": setting.rates[0]}]
    if pointer is not None:
        groups.append({"params": list(pointer.parameters()), "lr": setting.rates[1]})
    optimiser = torch.optim.AdamW(groups, weight_decay=0.0)
    schedule = get_cosine_schedule_with_warmup(
        optimiser, round(WARMUP * setting.steps), setting.steps
    )
    drawn = list(islice(draw_parts(texts, seed, setting.window), setting.steps * PARTS))
    near = {} if memories is None else cut_memories(memories, drawn, setting.window)
    parts = iter(drawn)
    model.module.train()
    for _ in range(setting.steps):
        for d, start in islice(parts, PARTS):
            memory = near.get((d, start))
            nats = -predict_with_gradient(model, pointer, texts[d], memory, start, setting)
            (nats.mean() / PARTS).backward()
        nn.utils.clip_grad_norm_(model.module.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        schedule.step()
    return model.eval(), None if pointer is None else pointer.eval()


def predict_with_gradient(
    model: LanguageModel,
    pointer: Pointer | None,
    text: ReadText,
    memory: Entries | None,
    start: int,
    setting: Joint,
) -> Tensor:
    """log p of the window of tokens from ``start`` on, a multiple of the window."""
    end = min(start + setting.window, len(text.tokens))
    first = max(0, start - setting.back * setting.window)
    states = _read_windows(model, text, first, end, setting)
    targets = torch.from_numpy(text.tokens[start:end])
    plain = -model.nats(states[None, start - first :], targets[None].to(model.device))[0].cpu()
    states = states.cpu()
    if pointer is None or memory is None:
        return plain
    entries = memory.between(start, end)
    where, tokens = torch.from_numpy(entries.where), torch.from_numpy(text.tokens)
    live = where >= first
    kept = text.states[where].float()
    kept = torch.where(live[:, None], states[(where - first).clamp_min(0)], kept)
    facts = find_facts(tokens, entries, start, end)
    share, shares = pointer(states[start - first :], kept, facts)
    return mix(plain, share, shares, tokens[start:end, None] == tokens[where])


def _read_windows(
    model: LanguageModel, text: ReadText, first: int, end: int, setting: Joint
) -> Tensor:
    """The states before the tokens [first, end), float32 [T, W], window by window side by side."""
    before = np.append(setting.end, text.tokens)[first:end]
    rows = -(-len(before) // setting.window)
    inputs = np.full(rows * setting.window, setting.end, np.int64)
    inputs[: len(before)] = before  # what follows the last token changes nothing before it
    tokens = torch.from_numpy(inputs.reshape(rows, setting.window)).to(model.device)
    with torch.autocast(model.device.type, torch.bfloat16, enabled=setting.half):
        hidden, _ = model.encode(Batch(tokens), model.start(rows))
    return hidden.flatten(0, 1)[: end - first].float()
