"""Kind ``pretrained-entities``: a pretrained language model whose top blocks learn to attend over a
memory of entities (section 3, "can be adopted"), or, as the control, learn LoRA with as many
parameters and no memory. All other weights stay as they were. With LoRA, labels may guide a head in
training, as in kind ``gpt2-antecedent``.

The blocks are trained on cached states of the blocks below (`encode.states`), document by document
in consecutive windows; a step reads one window of a few documents. Of several learning rates, the
one with the lowest dev loss is kept.
"""

import logging
import math
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import get_cosine_schedule_with_warmup

from entity_transformers.artifacts import (
    check,
    copy_file,
    read_json,
    write_csv,
    write_json,
    write_with,
)
from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give
from entity_transformers.encode.reader import Reading, batch_by_length, read_windows
from entity_transformers.encode.states import STATES, index_states, keep_states, split_blocks
from entity_transformers.kinds import KINDS
from entity_transformers.kinds.params import count_entity_attention
from entity_transformers.models.base import Batch, State, find_blocks
from entity_transformers.models.folders import ADAPTER, FACTS
from entity_transformers.models.gpt2 import Remembering
from entity_transformers.models.gpt2_antecedent import antecedent_losses
from entity_transformers.models.gpt2e.adapter import add_entity_attention
from entity_transformers.models.loss import compute_loss
from entity_transformers.models.pretrained import PretrainedLM
from entity_transformers.models.weights import find_weights
from entity_transformers.step import Row, Run
from entity_transformers.train.checkpoint import CURVE_COLUMNS
from entity_transformers.train.entry import list_rows, name_state

EVERY = 20
"""The number of steps between two rows of the curve."""
log = logging.getLogger(__name__)


class PretrainedE(Remembering, PretrainedLM):
    """A pretrained base model with what its top blocks have learnt; ``cut`` blocks lie below."""

    kind = KINDS["pretrained-entities"]
    states: np.ndarray | None = None

    def __init__(self, module: Any, facts: dict[str, Any]) -> None:
        super().__init__(module)
        self.facts = facts
        self.memory_write = facts["memory_write"]
        self.cut = module.config.num_hidden_layers - facts["blocks"]
        adapt(module, facts)

    def above(self, states: np.ndarray) -> Self:
        """Return only the blocks that learn; their input tokens are indices of ``states``."""
        made: Self = split_blocks(self, self.cut, None, normed=True)
        made.states = states
        return made

    def read_above(
        self, text: AlignedCorpus, window: int, weights: Path, folder: Path = STATES
    ) -> tuple[Self, AlignedCorpus]:
        """Return the blocks that learn alone, and the text as indices of the states that they read
        in windows; ``folder`` keeps these for every model with this base (its ``weights``).
        """
        plain = give(text, "none")  # the lower blocks read no labels
        states = keep_states(self, weights, plain, self.cut, window, folder)
        return self.above(states), index_states(text)

    def read(self, batch: Batch, **more: Any) -> Any:
        if self.states is not None:
            stored = torch.from_numpy(np.asarray(self.states[batch.tokens.cpu().numpy()]))
            below = stored.to(self.device, self.output_weight.dtype)
            more |= {"input_ids": None, "inputs_embeds": below}
        # with a bfloat16 base model products are bfloat16, while what learns is float32
        low = self.output_weight.dtype is torch.bfloat16
        with torch.autocast(self.device.type, torch.bfloat16, enabled=low):
            return super().read(batch, **more)

    def encode(self, batch: Batch, state: Any) -> tuple[Tensor, Any]:
        """Read a window from the memory that the one before left, without gradient into it."""
        if batch.entity_ids is not None and self.facts["adapter"] == "entities":
            hidden, state = super().encode(batch, state)
            return hidden.float(), state.detach()
        if self.facts.get("antecedent_weight") and torch.is_grad_enabled():
            return self.guide(batch)
        return self.read(batch).last_hidden_state.float(), state

    def guide(self, batch: Batch) -> tuple[Tensor, State]:
        """Return the hidden states, and a state with the antecedent loss of the first head of the
        lowest block that learns, by the batch's labels.
        """
        guided = self.attention_modules()["self"][-self.facts["blocks"]]
        seen = list[Tensor]()
        handle = guided.register_forward_hook(lambda *call: seen.append(call[-1][1]))
        try:
            hidden = self.read(batch).last_hidden_state.float()
        finally:
            handle.remove()
        weights = seen[0][:, 0].float()
        scores = weights.clamp_min(torch.finfo(weights.dtype).tiny).log()
        loss = antecedent_losses(scores, cast(Tensor, batch.entity_ids)).sum()
        return hidden, State(penalty=self.facts["antecedent_weight"] * loss)

    @classmethod
    def load(cls, folder: Path, dtype: Any = "auto") -> Self:
        """Load the base model and the learnt weights; those of another model raise ValueError."""
        base = PretrainedLM.load(folder, dtype)
        found = cls(base.module, read_json(folder / FACTS))
        learnt = load_file(check(folder / ADAPTER))
        own, saved = ({n: w.shape for n, w in one.items()} for one in (found.learnt(), learnt))
        if own != saved:
            raise ValueError(f"{ADAPTER}: does not fit this model: train it again")
        found.module.load_state_dict(learnt, strict=False)
        return found

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / FACTS, self.facts)
        write_with(folder / ADAPTER, lambda path: save_file(self.learnt(), path))

    def learnt(self) -> dict[str, Tensor]:
        """Return the learnt weights by name, for a file."""
        learnt = find_learnt(self.module)
        return {name: one.detach().contiguous() for name, one in learnt.items()}


def adapt(module: Any, facts: dict[str, Any]) -> None:
    """Freeze the model and add the weights that learn to its top blocks, in float32: entity
    attention whose gate or, without one, whose output projection is 0, or LoRA whose product is 0,
    so that the model's outputs do not change yet.
    """
    module.requires_grad_(False)
    top = find_blocks(module, module.config.num_hidden_layers)[-facts["blocks"] :]
    if facts["adapter"] == "entities":
        switches = {name: facts[name] for name in ("gate", "values", "layer_norm", "alibi")}
        add_entity_attention(module, blocks=top, **switches)
        for block in top if facts["gate"] == "none" else ():
            for one in cast(Any, block).entity_attn.c_proj.parameters():
                nn.init.zeros_(one)
    else:
        add_lora(module, top, facts["numbers"])
    for one in find_learnt(module).values():
        one.data = one.data.float()


def find_learnt(module: nn.Module) -> dict[str, nn.Parameter]:
    """Return the weights that learn, by name."""
    return {name: one for name, one in module.named_parameters() if one.requires_grad}


def add_lora(module: Any, blocks: Sequence[nn.Module], numbers: int) -> None:
    """Add LoRA to all matrices of the blocks, of a rank that gives about ``numbers`` weights."""
    from peft import LoraConfig, inject_adapter_in_model

    names = {one: name for name, one in module.named_modules()}
    inner: list[Any] = [one for block in blocks for one in block.modules()]
    linear = [one for one in inner if type(one).__name__ in ("Linear", "Conv1D")]
    rank = max(1, round(numbers / sum(sum(one.weight.shape) for one in linear)))
    targets = [names[one] for one in linear]
    how: Any = {"r": rank, "lora_alpha": rank, "lora_dropout": 0.0, "target_modules": targets}
    inject_adapter_in_model(LoraConfig(**how), module)


def train(run: Run) -> list[Row]:
    """Train the entry at each of its rates and keep the best on dev: step lm for this kind."""
    started, params, seed = time.time(), run.entry.lm, cast(int, run.seed)
    base = PretrainedLM.take_over(run)
    [weights], device = run.folder.glob("model*.safetensors"), base.device
    cut = base.module.config.num_hidden_layers - params.blocks
    if cut < 0:
        most = params.blocks + cut
        raise ValueError(f"models.{run.model}.blocks: {params.blocks}, expected at most {most}")
    texts = {split: give(run.tokens(split), run.entry.labels, seed) for split in ("train", "dev")}
    states = {
        split: keep_states(base, weights, text, cut, params.window) for split, text in texts.items()
    }
    facts = {
        "adapter": params.adapter,
        "blocks": params.blocks,
        "gate": params.entity_gate,
        "values": params.entity_values,
        "layer_norm": params.entity_layer_norm,
        "alibi": params.entity_alibi,
        "memory_write": params.memory_write,
        "antecedent_weight": params.antecedent_weight,
        "numbers": params.blocks * count_entity_attention(params, base.width),
    }
    work = run.work / name_state(run, find_weights(params.initial_weights))
    trials = []
    for rate in params.learning_rates:
        if not (work / f"{rate:g}.json").is_file():
            torch.manual_seed(seed)
            model = PretrainedE(PretrainedLM.load(run.folder).module.to(device), facts)
            model.eval()
            found = try_rate(model, texts, states, params, rate, seed)
            work.mkdir(parents=True, exist_ok=True)
            write_with(work / f"{rate:g}.safetensors", partial(save_file, model.learnt()))
            write_json(work / f"{rate:g}.json", found)
        trials.append(read_json(work / f"{rate:g}.json"))
        log.info("learning rate %g: %s nats on dev", rate, trials[-1]["dev_loss_on"])
    best = choose_trial(trials, run.model)
    copy_file(work / f"{best['learning_rate']:g}.safetensors", run.folder / ADAPTER)
    write_json(run.folder / FACTS, facts)
    write_csv(run.folder / "curve.csv", best.pop("curve"), CURVE_COLUMNS)
    numbers = {
        **{name: value for name, value in best.items() if name != "learning_rate"},
        "best_dev_loss": best["dev_loss_on"],
        "seconds_total": time.time() - started,
        "device": str(device),
        "threads": run.params.run.threads,
    }
    rows = list_rows(numbers, run.entry)
    for trial in trials:
        about = {"split": "dev", "learning_rate": trial["learning_rate"]}
        rows.append({"measure": "trial_loss", "value": trial["dev_loss_on"], **about})
    return rows


def choose_trial(trials: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return the trial with the lowest dev loss; ValueError if none of the entry's has one."""
    kept = [trial for trial in trials if trial["dev_loss_on"] is not None]
    if not kept:
        raise ValueError(f"models.{name} diverges at every learning rate: lower learning_rates")
    return min(kept, key=lambda trial: trial["dev_loss_on"])


def try_rate(
    model: PretrainedE,
    texts: Mapping[str, AlignedCorpus],
    states: Mapping[str, np.ndarray],
    params: Any,
    rate: float,
    seed: int,
) -> dict[str, Any]:
    """Train the model at one learning rate and return losses, counts and the curve, with None for
    losses that are not finite. A step reads a window of ``documents_per_step`` documents of similar
    length side by side.
    """
    upper = {split: model.above(states[split]) for split in texts}
    if params.antecedent_weight:
        model.show_attention()
    text, window, side = texts["train"], params.window, params.documents_per_step
    everywhere = index_states(text)
    lengths = np.diff(text.offsets)
    groups = batch_by_length(lengths, side)
    steps = params.epochs * sum(math.ceil(lengths[group].max() / window) for group in groups)
    learnt = list(find_learnt(model.module).values())
    optimizer = torch.optim.AdamW(learnt, lr=rate, weight_decay=params.weight_decay)
    warm = max(1, round(params.warmup * steps))
    schedule = get_cosine_schedule_with_warmup(optimizer, warm, steps)
    step = tokens = 0
    recent, seconds, curve = list[float](), list[float](), list[dict[str, Any]]()
    for epoch in range(params.epochs):
        for number in np.random.default_rng([seed, epoch]).permutation(len(groups)):
            part = text.pick(groups[number])
            places = everywhere.pick(groups[number])
            begun = time.monotonic()
            for reading in read_windows(
                upper["train"], places, window=window, stride=window, batch=side
            ):
                loss, count = sum_window(upper["train"], reading, part)
                penalty = getattr(reading.state, "penalty", None)
                whole = loss if penalty is None else loss + penalty
                (whole / (side * window)).backward()
                torch.nn.utils.clip_grad_norm_(learnt, params.clip_norm or math.inf)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                used = schedule.get_last_lr()[0]
                schedule.step()
                step, tokens = step + 1, tokens + count
                recent.append(float(loss.detach()) / max(1, count))
                seconds.append(time.monotonic() - begun)
                begun = time.monotonic()
                if step % EVERY == 0 or step == steps:
                    row = {"step": step, "tokens": tokens, "learning_rate": used}
                    curve.append({**row, "train_loss": find_finite(np.mean(recent))})
                    recent = []
    on = find_finite(score_states(upper["dev"], texts["dev"], window))
    off = find_finite(score_states(upper["dev"], give(texts["dev"], "none"), window))
    curve[-1] |= {"dev_loss_on": on, "dev_loss_off": off}
    return {
        "learning_rate": rate,
        "parameters": sum(one.numel() for one in learnt),
        "steps": step,
        "tokens_seen": tokens,
        "train_loss": curve[-1]["train_loss"],
        "dev_loss_on": on,
        "dev_loss_off": off,
        "seconds_per_step": float(np.median(seconds)),
        "tokens_per_second": tokens / sum(seconds),
        "curve": curve,
    }


def find_finite(loss: Any) -> float | None:
    """Return the loss; None for NaN or infinity, which no file of a study may hold."""
    return float(loss) if math.isfinite(loss) else None


def sum_window(model: PretrainedE, reading: Reading, text: AlignedCorpus) -> tuple[Tensor, int]:
    """Return the summed nats of the tokens that a window predicts, and their number."""
    where, hidden = reading.predict()
    wanted = torch.from_numpy(text.tokens[where].astype(np.int64)).to(model.device)
    hidden = hidden.to(model.output_weight.dtype)
    return compute_loss(model, hidden[None], wanted[None]), len(where)


@torch.inference_mode()
def score_states(model: PretrainedE, text: AlignedCorpus, window: int) -> float:
    """Return the mean nats per token of a text with its labels, read by `PretrainedE.above`."""
    total = count = 0.0
    places = index_states(text)
    for reading in read_windows(model, places, window=window, stride=window, batch=8):
        nats, scored = sum_window(model, reading, text)
        total, count = total + nats.item(), count + scored
    return total / max(1, count)
