"""A language model with new embeddings and a linear head, and its training: GPT-1's
L3 = L2 + λ L1, and the parts of ULMFiT (Howard and Ruder, 2018, sections 3.2 and 3.3).

Dimensions: E examples, S their sequences (one, two, or one for each answer), T tokens, W width.
"""

import logging
import math
import re
from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from entity_transformers.corpus.tasks import Task
from entity_transformers.models.base import IGNORED, Batch, LanguageModel
from entity_transformers.steps.transfer import Recipe
from entity_transformers.tasks.transfer.inputs import NEW, Inputs
from entity_transformers.train.checkpoint import TrainingError

SORTED = 8
"""Number of batches whose examples are sorted by length together, to keep padding small."""
STANDARD_DEVIATION = 0.02
RATIO = 32
"""The ratio of the highest to the lowest rate in ULMFiT's schedule."""
_LAYER = re.compile(r"(?:^|\.)(?:h|layer|layers|lstm)\.(\d+)\.")
_EMBEDDING = re.compile(
    r"(^|\.)"
    r"(wte|wpe|tokens_embed|positions_embed|word_embedding|embeddings|embed_tokens)\."
)

log = logging.getLogger(__name__)


class Finetuned(nn.Module):
    """A model whose vocabulary ends with start, delimiter and extract, and a head: dropout, and a
    linear layer from what `pool` returns for a sequence to one number per label, or to one for a
    candidate. New weights are drawn from torch's current state.
    """

    def __init__(
        self, model: LanguageModel, task: Task, dropout: float, pooling: str = "last"
    ) -> None:
        super().__init__()
        self.pooling = pooling
        self.first = len(find_embeddings(model))
        extend_vocabulary(model)
        self.model, self.task = model, task
        self.module = model.module
        linear = nn.Linear(model.width * (3 if pooling == "concat" else 1), len(task.labels) or 1)
        nn.init.normal_(linear.weight, std=STANDARD_DEVIATION)
        nn.init.zeros_(linear.bias)
        self.head = nn.Sequential(nn.Dropout(dropout), linear).to(model.device)

    def read(self, examples: Sequence[Inputs], words: bool = True) -> tuple[Tensor, Tensor]:
        """Return the head's scores, [E, labels] or, for choices, [E, answers], padded with -inf;
        and the nats per token of each sequence [S], after [start], zeros without ``words`` and for
        a model that sees later tokens.
        """
        rows = [torch.tensor(row) for example in examples for row in example.sequences]
        lengths = torch.tensor([len(row) for row in rows], device=self.model.device)
        tokens = nn.utils.rnn.pad_sequence(rows, batch_first=True).to(self.model.device)
        nats = torch.zeros(len(rows), device=tokens.device)
        hidden = self._encode(tokens, lengths, examples)
        if words and self.model.can("causal"):
            there = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
            targets = torch.where(there[:, 1:], tokens[:, 1:], IGNORED)
            nats = self.model.nats(hidden[:, :-1], targets).sum(1) / (lengths - 1)
        states = pool(hidden.float(), lengths, self.pooling)
        parts = states.split([len(example.sequences) for example in examples])
        if self.task.shape == "pronoun":
            scores = [self.head(part)[:, 0] for part in parts]
            said = nn.utils.rnn.pad_sequence(scores, batch_first=True, padding_value=-torch.inf)
        else:
            said = self.head(torch.stack([part.sum(0) for part in parts]))
        return said, nats

    def _encode(self, tokens: Tensor, lengths: Tensor, examples: Sequence[Inputs]) -> Tensor:
        """Return the final hidden states [S, T, W] of padded sequences of ``lengths`` [S] tokens.
        With entities, the first of two texts is read first; the whole is then read with its memory,
        without a gradient through it, as in pretraining.
        """
        rows = [torch.tensor(row) for example in examples for row in example.entities]
        both_sides = not self.model.can("causal")  # such a model must be told what is padding
        padded = lengths if both_sides else None
        if not rows:
            whole = Batch(tokens, lengths=padded)
            return self.model.encode(whole, self.model.start(len(tokens)))[0]
        labels = nn.utils.rnn.pad_sequence(rows, batch_first=True).to(tokens.device)
        read = torch.tensor([count for one in examples for count in one.read], device=tokens.device)
        before = torch.arange(tokens.shape[1], device=tokens.device) < read[:, None]
        shown = torch.where(read > 0, read, lengths) if both_sides else None
        empty = self.model.start(len(tokens), int(labels.max()))
        first, memory = self.model.encode(Batch(tokens, labels * before, lengths=shown), empty)
        second, _ = self.model.encode(Batch(tokens, labels, lengths=padded), memory.detach())
        return torch.where(before[..., None], first, second)

    def losses(self, examples: Sequence[Inputs], words: bool = True) -> tuple[Tensor, Tensor]:
        """Return L2, the mean cross-entropy of the labels, and L1, the mean nats per token."""
        said, nats = self.read(examples, words)
        labels = torch.tensor([example.label for example in examples], device=said.device)
        return functional.cross_entropy(said, labels), nats.mean()


def pool(hidden: Tensor, lengths: Tensor, pooling: str) -> Tensor:
    """Return, from the states [S, T, W] of sequences of ``lengths`` [S] tokens, the last one, [S,
    W], or the last, the maximum and the mean of all, concatenated to [S, 3 W] (section 3.3).
    """
    places = torch.arange(hidden.shape[1], device=hidden.device)
    last = hidden[torch.arange(len(hidden), device=hidden.device), lengths - 1]
    if pooling == "last":
        return last
    padding = (places >= lengths[:, None])[..., None]
    largest = hidden.masked_fill(padding, -torch.inf).amax(1)
    mean = hidden.masked_fill(padding, 0.0).sum(1) / lengths[:, None]
    return torch.cat([last, largest, mean], -1)


def find_embeddings(model: LanguageModel) -> Tensor:
    """Return the model's embedding matrix [tokens, W]; a BERT's includes its mask."""
    if model.can("causal"):
        return model.output_weight
    module: Any = model.module
    return cast(Tensor, module.get_input_embeddings().weight)


def extend_vocabulary(model: LanguageModel, more: int = NEW) -> None:
    """Add ``more`` embeddings from N(0, 0.02) to the model's, wherever it holds that matrix, and,
    in a model of transformers whose input and output differ, to both.
    """
    tables = [find_embeddings(model)]
    if model.can("pretrained"):
        module: Any = model.module
        given = module.get_input_embeddings().weight
        tables += [given] if given is not tables[0] else []
    for old in tables:
        drawn = STANDARD_DEVIATION * torch.randn(more, old.shape[1])
        new = nn.Parameter(torch.cat([old.detach(), drawn.to(old)]))
        for module in model.module.modules():
            for name, parameter in list(module.named_parameters(recurse=False)):
                if parameter is old:
                    setattr(module, name, new)
                    if isinstance(module, nn.Embedding):
                        module.num_embeddings = len(new)


def keep_layers(model: LanguageModel, fresh: LanguageModel, layers: int) -> None:
    """Replace all weights but the model's embeddings and its first ``layers`` layers by those of
    ``fresh``. More layers than it has, or names that reveal no layers, raise ValueError.
    """
    own = dict(model.module.named_parameters())
    depths = {name: find_depth(name) for name in own}
    known = len({depth for depth in depths.values() if 0 < depth < math.inf})
    if layers > known or not known:
        raise ValueError(
            f"transfer.layers {layers}, expected at most {known}, the layers of {model.kind.label}"
        )
    kept = math.inf if layers == known else layers
    with torch.no_grad():
        for name, parameter in fresh.module.named_parameters():
            if depths[name] > kept:
                own[name].copy_(parameter)


def find_depth(name: str) -> float:
    """Return a parameter's depth by its name: 0 embeddings, 1 first layer; infinity: above them."""
    if match := _LAYER.search(name):
        return int(match[1]) + 1
    return 0 if _EMBEDDING.search(name) else math.inf


def list_groups(model: nn.Module) -> list[list[nn.Parameter]]:
    """Return the parameters from the bottom up: embeddings, each layer, the head and all else."""
    named = [(find_depth(name), parameter) for name, parameter in model.named_parameters()]
    return [[one for at, one in named if at == depth] for depth in sorted({at for at, _ in named})]


class Stage(NamedTuple):
    """A stage with a schedule of its own: the top groups learn, with ``text`` from words alone."""

    epochs: int
    learning: int
    text: bool = False


def plan_stages(recipe: Recipe, groups: int) -> list[Stage]:
    """Return the stages of a training. While layers are being unfrozen, each epoch is a stage; in
    the last stage all groups learn.
    """
    gradual = min(groups, recipe.epochs) - 1 if recipe.unfreezing else 0
    text = [Stage(recipe.text_epochs, groups, text=True)] if recipe.text_epochs else []
    return [
        *text,
        *(Stage(1, above + 1) for above in range(gradual)),
        Stage(recipe.epochs - gradual, groups),
    ]


def learning_rate(step: int, steps: int, recipe: Recipe) -> float:
    """Return the head's rate in step ``step`` (from 0) of ``steps``: the peak times a factor.

    linear   x / ``warmup`` up to ``warmup``, then 1 − x, with x the share of steps done, as in
             GPT-1's program
    slanted  (1 + 31 p) / 32, where p rises to 1 at step ⌊steps · warmup⌋, which is at least 1, and
             falls to 0 at ``steps``: ULMFiT's equation 3, with ``warmup`` as cut_frac
    """
    if recipe.schedule == "linear":
        done = (step + 1) / steps
        share = done / recipe.warmup if done <= recipe.warmup else 1 - done
        return recipe.learning_rate * share
    cut = max(1, math.floor(steps * recipe.warmup))
    p = step / cut if step < cut else 1 - (step - cut) / max(1, steps - cut)
    return recipe.learning_rate * (1 + p * (RATIO - 1)) / RATIO


def order_examples(lengths: np.ndarray, batch: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Return an epoch's batches: in random order, sorted by length within `SORTED` batches."""
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(lengths))
    groups = [order[at : at + batch * SORTED] for at in range(0, len(order), batch * SORTED)]
    ranked = np.concatenate([group[np.argsort(lengths[group], kind="stable")] for group in groups])
    batches = [ranked[at : at + batch] for at in range(0, len(ranked), batch)]
    return [batches[i] for i in generator.permutation(len(batches))]


def train(model: Finetuned, examples: Sequence[Inputs], recipe: Recipe, seed: int) -> None:
    """Fine-tune the model by the recipe. A loss that is not finite raises TrainingError."""
    lengths = np.array([max(map(len, one.sequences)) for one in examples])
    groups, epochs = list_groups(model), count()
    model.train()
    for stage in plan_stages(recipe, len(groups)):
        optimizer = make_optimizer(groups, stage.learning, recipe)
        batches = [
            order_examples(lengths, recipe.batch, seed, next(epochs)) for _ in range(stage.epochs)
        ]
        step, steps = 0, sum(map(len, batches))
        for epoch, epoch_batches in enumerate(batches, start=1):
            values = []
            for numbers in epoch_batches:
                weight = 1.0 if stage.text else recipe.auxiliary_weight
                own = [examples[number] for number in numbers]
                task_loss, word_loss = model.losses(own, words=weight > 0)
                loss = word_loss if stage.text else task_loss + weight * word_loss
                values.append(float(loss.detach()))
                if not math.isfinite(values[-1]):
                    raise TrainingError(
                        f"the loss is {values[-1]} at step {step + 1}: lower transfer.learning_rate"
                    )
                loss.backward()
                for group in optimizer.param_groups:
                    group["lr"] = group["share"] * learning_rate(step, steps, recipe)
                norm = nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_norm or math.inf)
                if torch.isfinite(norm):
                    optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                step += 1
            which, of = "text, " if stage.text else "", stage.epochs
            log.info("%sepoch %d/%d: loss %.4f", which, epoch, of, np.mean(values))


def make_optimizer(
    groups: Sequence[Sequence[nn.Parameter]], learning: int, recipe: Recipe
) -> torch.optim.AdamW:
    """Return AdamW for the top ``learning`` groups, each with its ``share`` of the head's rate."""
    settings = []
    for below, group in enumerate(reversed(groups)):  # from the head down
        for parameter in group:
            parameter.requires_grad_(below < learning)
        if below < learning:
            share = recipe.rate_divisor**-below
            matrices = [p for p in group if p.dim() >= 2]
            others = [p for p in group if p.dim() < 2]
            decayed = {"params": matrices, "weight_decay": recipe.weight_decay, "share": share}
            settings += [decayed, {"params": others, "weight_decay": 0.0, "share": share}]
    return torch.optim.AdamW(settings)


@torch.inference_mode()
def predict(model: Finetuned, examples: Sequence[Inputs], *, batch: int) -> np.ndarray:
    """Return the likeliest label of each example, int64 [E]."""
    model.eval()
    order = np.argsort([max(map(len, one.sequences)) for one in examples], kind="stable")
    found = np.zeros(len(examples), np.int64)
    for at in range(0, len(order), batch):
        numbers = order[at : at + batch]
        said, _ = model.read([examples[number] for number in numbers], words=False)
        found[numbers] = said.argmax(1).cpu().numpy()
    return found


@torch.inference_mode()
def measure_loss(model: Finetuned, examples: Sequence[Inputs], *, batch: int) -> float:
    """Return the mean L2 of examples that all have a label."""
    model.eval()
    total = 0.0
    for at in range(0, len(examples), batch):
        part = examples[at : at + batch]
        total += float(model.losses(part, words=False)[0]) * len(part)
    return total / len(examples)
