"""transformers' Trainer, and PEFT in it, against this package's own loop on the same windows."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import VOCABULARY, lively_model, tiny_corpus, tiny_llama, tiny_params
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR
from transformers import Trainer, TrainingArguments

from entity_transformers import CarriedMemory, EntityStreams, add_entity_attention, collate_streams
from entity_transformers.corpus.labels import give
from entity_transformers.encode.document import wrap
from entity_transformers.train.loop import Streams

STREAMS, WINDOW, STEPS, RATE = 2, 8, 6, 0.05
CORPUS = give(tiny_corpus(documents=4), "gold")


def make_streams() -> EntityStreams:
    return EntityStreams(CORPUS, streams=STREAMS, window=WINDOW, windows=STEPS, seed=3)


def make_model(kind: str) -> Any:
    """A module of transformers, without dropout."""
    if kind == "llama":
        torch.manual_seed(0)
        llama = add_entity_attention(tiny_llama(), gate="none", values="both")
        with torch.no_grad():
            for name, parameter in llama.named_parameters():
                parameter.mul_(10 if "entity_attn" in name else 1)
        return llama
    model = lively_model("gpt2e", VOCABULARY, window=WINDOW, dropout=0.0, entity_values="both")
    if kind == "gpt2e":
        return model.module
    peft = pytest.importorskip("peft", reason="needs peft (pip install peft)")
    torch.manual_seed(1)
    lora = peft.LoraConfig(
        r=2, target_modules=["c_attn"], modules_to_save=["entity_attn"], fan_in_fan_out=True,
        init_lora_weights=False,
    )  # fmt: skip
    return peft.get_peft_model(model.module, lora)


def train_ourselves(module: Any) -> list[float]:
    params = tiny_params(window=WINDOW, documents_per_step=STREAMS, steps=STEPS, dropout=0.0).lm
    plan = make_streams().plan
    inner = module.get_base_model() if hasattr(module, "get_base_model") else module
    streams = Streams(wrap(inner).to("cpu"), plan, params)
    optimizer = SGD([p for p in module.parameters() if p.requires_grad], lr=RATE)
    module.train()
    losses = []
    for index in range(STEPS):
        losses.append(streams.accumulate_gradients([plan[index]]))
        optimizer.step()
        optimizer.zero_grad()
    return losses


def make_trainer(
    module: Any, folder: Path, size: int, carried: Any, arguments: dict[str, Any], **more: Any
) -> Trainer:
    how = {"report_to": [], "use_cpu": True, "disable_tqdm": True} | arguments
    args = TrainingArguments(str(folder), per_device_train_batch_size=size, **how)
    more |= {"train_dataset": make_streams(), "data_collator": collate_streams}
    return Trainer(module, args, callbacks=[carried or CarriedMemory(module)], **more)


def train_with_trainer(
    module: Any, folder: Path, steps: int = STEPS, save: bool = False, carried: Any = None,
    source: Path | None = None,
) -> list[float]:  # fmt: skip
    """The same by Trainer; ``save``: with checkpoints, going on from one that is there, or from
    ``source``.
    """
    optimizer = SGD([p for p in module.parameters() if p.requires_grad], lr=RATE)
    arguments = {
        "max_steps": steps, "logging_steps": 1, "max_grad_norm": 0.0, "save_steps": 2,
        "save_strategy": "steps" if save else "no",
    }  # fmt: skip
    optimizers = optimizer, LambdaLR(optimizer, lambda _: 1.0)
    trainer = make_trainer(module, folder, STREAMS, carried, arguments, optimizers=optimizers)
    there = save and any(folder.glob("checkpoint-*"))
    trainer.train(resume_from_checkpoint=there if source is None else str(source))
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]


@pytest.mark.parametrize("kind", ["gpt2e", "llama", "peft"])
def test_trainer_takes_the_steps_of_our_loop(kind: str, tmp_path: Path) -> None:
    ours = make_model(kind)
    theirs = copy.deepcopy(ours)
    start = {name: weight.clone() for name, weight in ours.named_parameters()}
    losses = train_ourselves(ours)
    found = train_with_trainer(theirs, tmp_path)
    assert found == pytest.approx(losses, abs=1e-4)
    assert len(found) == STEPS
    moved = 0
    for (name, weight), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(weight, other, rtol=0, atol=1e-5, msg=name)
        moved += bool((weight - start[name]).abs().max() > 1e-4)
        if "entity_attn" in name and "k_attn.weight" in name and weight.requires_grad:
            assert (weight - start[name]).abs().max() > 1e-5  # it read the memory
    assert moved > 5


def test_the_memory_decides_and_is_kept_in_checkpoints(tmp_path: Path) -> None:
    whole = make_model("gpt2e")
    stopped, forgetful = copy.deepcopy(whole), copy.deepcopy(whole)
    losses = train_with_trainer(whole, tmp_path / "whole")
    train_with_trainer(stopped, tmp_path / "stopped", steps=4, save=True)
    again = make_model("gpt2e")
    found = train_with_trainer(again, tmp_path / "stopped", save=True)
    assert found == pytest.approx(losses, abs=1e-5)
    for weight, other in zip(whole.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(weight, other, rtol=0, atol=1e-6)

    saved, other = tmp_path / "stopped/checkpoint-4", tmp_path / "elsewhere"
    with pytest.raises(FileNotFoundError, match=r"elsewhere/checkpoint-4: no such checkpoint: the"):
        train_with_trainer(make_model("gpt2e"), other, source=saved)

    class Forgetful(CarriedMemory):
        def _take(self, *args: Any) -> None:
            self.memories.clear()

    lost = train_with_trainer(forgetful, tmp_path / "lost", carried=Forgetful(forgetful))
    assert lost[0] == pytest.approx(losses[0], abs=1e-5)
    assert max(abs(a - b) for a, b in zip(lost, losses, strict=True)) > 1e-3


@pytest.mark.parametrize("size", [1, 3])
def test_a_batch_that_is_not_a_window_of_each_stream_is_refused(size: int, tmp_path: Path) -> None:
    """Memories would go to other streams."""
    trainer = make_trainer(make_model("gpt2e"), tmp_path, size, None, {"max_steps": 2})
    with pytest.raises(ValueError, match=f"a batch of {size} windows of 2 streams: expected one"):
        trainer.train()


def test_documents_as_tokens_are_the_windows_of_the_split() -> None:
    parts = [CORPUS.document(index) for index in range(len(CORPUS))]
    documents = [(CORPUS.tokens[part], CORPUS.gold[part]) for part in parts]
    made = EntityStreams(documents, streams=STREAMS, window=WINDOW, windows=STEPS, seed=3)
    assert len(made) == STREAMS * STEPS
    for ours, theirs in zip(make_streams(), made, strict=True):
        assert ours.stream == theirs.stream
        for name in ("tokens", "targets", "entity_ids", "positions", "new_rows"):
            assert (getattr(ours.window, name) == getattr(theirs.window, name)).all()
    with pytest.raises(ValueError, match="document 1: 2 tokens and 1 entity ids"):
        EntityStreams([([0, 1], [0, 0]), ([0, 1], [0])], streams=1, window=4, windows=1)


def test_a_pointer_is_refused_before_anything_runs() -> None:
    model = lively_model("gpt2-pointer", VOCABULARY, window=WINDOW).module
    with pytest.raises(ValueError, match="GPT2PointerForCausalLM has an entity pointer"):
        CarriedMemory(model)
