"""Kind pretrained-entities: entity attention, or LoRA, on the top blocks of a pretrained model."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import stir, tiny_corpus, tiny_entry, tiny_gpt2, tiny_llama
from transformers import AutoModelForCausalLM, BloomConfig, BloomForCausalLM
from written import teach

from entity_transformers.artifacts import write_json
from entity_transformers.corpus.labels import give
from entity_transformers.encode.document import DocumentReader
from entity_transformers.encode.states import index_states, keep_states, split_blocks
from entity_transformers.models import pretrained_entities
from entity_transformers.models.base import Batch
from entity_transformers.models.pretrained import PretrainedLM, store
from entity_transformers.models.pretrained_entities import PretrainedE, score_states
from entity_transformers.tasks.lambada import Passage, score_passages
from entity_transformers.tasks.perplexity import score_corpus

WINDOW, BLOCKS = 8, 2
HOW = {"window": WINDOW, "stride": WINDOW, "batch": 4}
TEXT = give(tiny_corpus(12, seed=3), "gold")
FACTS: dict[str, Any] = {
    "blocks": BLOCKS, "gate": "zero", "values": "both", "layer_norm": False, "alibi": True,
    "memory_write": "last", "numbers": BLOCKS * (5 * 16 * 17 + 1),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of 5 blocks with random weights."""
    torch.manual_seed(5)
    path = tmp_path_factory.mktemp("llama")
    model = tiny_llama(num_hidden_layers=5, initializer_range=0.2, tie_word_embeddings=True)
    model.save_pretrained(path)
    return path


def make(folder: Path, adapter: str, **changes: Any) -> PretrainedE:
    torch.manual_seed(1)
    facts = FACTS | {"adapter": adapter} | changes
    return PretrainedE(PretrainedLM.load(folder).module, facts).eval()


def make_upper(model: PretrainedE, folder: Path, tmp_path: Path) -> PretrainedE:
    """The blocks that learn above the cached states of those that do not."""
    base = PretrainedLM.load(folder).eval()
    weights = folder / "model.safetensors"
    return model.above(keep_states(base, weights, TEXT, model.cut, WINDOW, tmp_path))


def first_rows() -> tuple[torch.Tensor, torch.Tensor]:
    """The text's first tokens and their labels in rows of a window."""
    tokens, labels = (torch.from_numpy(x[:40].astype(np.int64)) for x in (TEXT.tokens, TEXT.gold))
    return tokens.view(5, WINDOW), labels.view(5, WINDOW)


def learn(
    model: PretrainedE, states: np.ndarray, epochs: int = 2, rate: float = 0.03, **changes: Any
) -> dict[str, Any]:
    """What a few epochs leave, on the cached states that `make_upper` reads."""
    how = {"labels": "gold", "epochs": epochs, "documents_per_step": 3}
    entry = tiny_entry("pretrained-entities", **how, **changes)
    texts, both = {"train": TEXT, "dev": TEXT}, {"train": states, "dev": states}
    return pretrained_entities.try_rate(model, texts, both, entry.lm, rate, 1)


@pytest.mark.parametrize(
    ("adapter", "gate"), [("entities", "zero"), ("entities", "none"), ("lora", "zero")]
)
def test_it_begins_as_the_base_to_the_bit(folder: Path, adapter: str, gate: str) -> None:
    model, (tokens, labels) = make(folder, adapter, gate=gate), first_rows()
    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        found, _ = model.encode(Batch(tokens, labels), model.start(5, 9))
        assert torch.equal(found @ model.output_weight.T, plain(tokens).logits)
    learnt = sum(one.numel() for one in model.learnt().values())
    base = sum(one.numel() for one in plain.parameters())
    assert model.count_parameters() == base + learnt
    # a LoRA's rank is whole: off by half of what a rank has in two blocks
    expected = FACTS["numbers"] - (BLOCKS if gate == "none" else 0)
    assert abs(learnt - expected) <= (0 if adapter == "entities" else BLOCKS * 232 // 2)


@pytest.mark.parametrize("layer", ["gold", "none"])
def test_cached_states_give_what_the_whole_model_does(folder, tmp_path, layer):
    """To float16's precision, memory and all, with weights that have left their start."""
    model = make(folder, "entities")
    torch.manual_seed(7)
    stir(model.module, 0.1, 1.0, "entity_attn")
    text, upper = give(TEXT, layer), make_upper(model, folder, tmp_path)
    whole = score_corpus(model, text, **HOW)
    mean = whole.sum(dtype=np.float64) / (len(whole) - len(text))
    assert score_states(upper, text, WINDOW) == pytest.approx(mean, abs=2e-3)
    below = {"weights": folder / "model.safetensors", "folder": tmp_path / "own"}
    how = HOW | {"above": partial(model.read_above, **below)}
    np.testing.assert_allclose(score_corpus(None, text, **how), whole, atol=2e-2)
    score_corpus(model, text, **HOW | {"stride": WINDOW - 1, "above": pytest.fail})
    if layer == "gold":
        assert np.abs(score_corpus(model, give(TEXT, "none"), **HOW) - whole).max() > 0.1


def test_passages_are_read_from_states_as_by_the_whole_model(folder: Path, tmp_path: Path) -> None:
    model = make(folder, "lora")
    stir(model.module, 0.2)
    texts = [np.arange(3, 3 + length, dtype=np.int32) for length in (5, 9, 7)]
    passages = [Passage(text, np.arange(len(text)), len(text) - 2) for text in texts]
    below = {"weights": folder / "model.safetensors", "folder": tmp_path}
    how: dict[str, Any] = {"window": 16, "batch": 2}
    whole = score_passages(model, passages, **how)
    found = score_passages(model, passages, above=partial(model.read_above, **below), **how)
    np.testing.assert_allclose(found.to_numpy(float), whole.to_numpy(float), atol=2e-3)
    assert [path.suffix for path in sorted(tmp_path.iterdir())] == [".json", ".npy"]


def test_states_are_computed_once_and_anew_for_other_weights(folder: Path, tmp_path: Path) -> None:
    model = PretrainedLM.load(folder).eval()
    weights = folder / "model.safetensors"
    first = keep_states(model, weights, TEXT, 3, WINDOW, tmp_path)
    assert (first.dtype, first.shape) == (np.float16, (len(TEXT.tokens), 16))
    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    part = slice(int(TEXT.offsets[1]), int(TEXT.offsets[1]) + WINDOW)
    with torch.no_grad():
        tokens = torch.from_numpy(TEXT.tokens[part].astype(np.int64))[None]
        expected = plain(tokens, output_hidden_states=True).hidden_states[3][0]
    np.testing.assert_allclose(first[part], expected, rtol=1e-3, atol=1e-3)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.npy")}
    keep_states(model, weights, TEXT, 3, WINDOW, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.npy")} == before
    keep_states(model, weights, TEXT, 2, WINDOW, tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "model.safetensors").write_bytes(weights.read_bytes() + b" ")
    keep_states(model, other / "model.safetensors", TEXT, 3, WINDOW, tmp_path)
    assert len(list(tmp_path.glob("*.npy"))) == 3
    # final states are those of the base and of what it has learnt
    for adapter in (b"", b"one", b"other", b"one"):
        if adapter:
            (other / "adapter.safetensors").write_bytes(adapter)
        keep_states(model, other / "model.safetensors", TEXT, None, WINDOW, tmp_path)
    assert len(list(tmp_path.glob("*.npy"))) == 6
    torch.nn.init.constant_(model.module.model.norm.weight, torch.nan)
    with pytest.raises(ValueError, match="not all final states are numbers in float16"):
        keep_states(model, weights, TEXT, None, WINDOW, tmp_path)


@pytest.mark.parametrize("adapter", ["entities", "lora"])
def test_what_was_learnt_is_saved_and_the_base_stays(folder, tmp_path, adapter):
    """The loss falls, by what is learnt alone; the saved model is the trained one."""
    model = make(folder, adapter)
    upper = make_upper(model, folder, tmp_path)
    before = score_states(upper, TEXT, WINDOW)
    found = learn(model, upper.states)
    assert found["dev_loss_on"] < before - 0.05
    assert found["tokens_seen"] == 2 * (len(TEXT.tokens) - len(TEXT))
    assert [row["step"] for row in found["curve"]][-1] == found["steps"]
    plain = dict(PretrainedLM.load(folder).module.named_parameters())
    for name, one in model.module.named_parameters():
        if not one.requires_grad:
            assert torch.equal(one, plain[name.replace(".base_layer", "")]), name
    saved = tmp_path / "saved"
    store(PretrainedLM.load(folder), folder, saved, "float32")
    model.save(saved)
    again = PretrainedE.load(saved).eval()
    assert again.can("entities")
    assert model.can("entities")
    teach("Ann met Bob .").save(str(saved / "tokenizer.json"))
    read = DocumentReader.from_pretrained(saved).model
    scores = [score_corpus(one, TEXT, **HOW) for one in (model, again, read)]
    np.testing.assert_array_equal(scores, scores[:1] * 3)


@pytest.mark.parametrize("adapter", ["entities", "lora"])
def test_a_bfloat16_model_learns_in_float32(folder: Path, tmp_path: Path, adapter: str) -> None:
    """The base stays bfloat16, what learns is float32; scores are those of float32, nearly."""
    saved = tmp_path / "saved"
    store(PretrainedLM.load(folder, torch.bfloat16), folder, saved, "bfloat16")
    model = make(saved, adapter)
    assert {one.dtype for one in model.learnt().values()} == {torch.float32}
    kept = {one.dtype for one in model.module.parameters() if not one.requires_grad}
    assert kept == {torch.bfloat16}
    upper = make_upper(model, saved, tmp_path)
    before = score_states(upper, TEXT, WINDOW)
    plain = score_corpus(make(folder, adapter), TEXT, **HOW)
    assert before == pytest.approx(plain.sum() / (len(TEXT.tokens) - len(TEXT)), abs=0.02)
    assert learn(model, upper.states)["dev_loss_on"] < before - 0.05


def guided(folder: Path, weight: float) -> PretrainedE:
    model = make(folder, "lora", antecedent_weight=weight)
    stir(model.module, 0.1, part="lora")
    return model


def test_a_guided_head_is_that_of_the_attention_weights_summed_by_hand(folder: Path) -> None:
    """The first head of the lowest block that learns, in training alone; hidden states stay."""
    model = guided(folder, 0.5)
    model.show_attention()
    tokens = first_rows()[0][:2]
    labels = torch.tensor([[1, 1, 0, 1, 2, 2, 1, 2], [0, 3, 0, 3, 0, 3, 3, 0]])
    hidden, state = model.encode(Batch(tokens, labels), model.start(2))
    with torch.no_grad():
        again, same = model.encode(Batch(tokens, labels), before := model.start(2))
        shown = model.module.base_model(tokens, output_attentions=True)
    assert same is before
    assert torch.equal(hidden, again)
    weights = shown.attentions[5 - BLOCKS][:, 0].double()
    found = [(0, 3, (0, 1)), (0, 6, (0, 1, 3)), (0, 7, (4, 5))]
    found += [(1, 3, (1,)), (1, 5, (1, 3)), (1, 6, (1, 3))]
    total = -sum(weights[row, t, list(before)].sum().log().item() for row, t, before in found)
    assert state.penalty.item() == pytest.approx(0.5 * total, rel=1e-5)


def test_a_head_learns_to_look_at_antecedents(folder: Path, tmp_path: Path) -> None:
    """Its attention to them grows with the weight of its loss; without one it is LoRA."""
    lacking, learnt = [], []
    for weight in (0.0, 3.0):
        model = guided(folder, weight)
        upper = make_upper(model, folder, tmp_path)
        learn(model, upper.states, 4, adapter="lora", antecedent_weight=weight)
        model.facts["antecedent_weight"] = 1.0
        model.show_attention()
        _, state = model.encode(Batch(*first_rows()), model.start(5))
        lacking.append(state.penalty.item())
        learnt.append(model.learnt())
    assert lacking[1] < lacking[0] - 1
    plain = make(folder, "lora")
    assert learnt[0].keys() == plain.learnt().keys()
    with pytest.raises(ValueError, match=r"antecedent_weight 1\.0 needs adapter lora"):
        tiny_entry("pretrained-entities", antecedent_weight=1.0)


def test_a_rate_at_which_the_model_diverges_has_no_loss(folder: Path, tmp_path: Path) -> None:
    model = make(folder, "lora")
    found = learn(model, make_upper(model, folder, tmp_path).states, rate=1e30)
    write_json(tmp_path / "trial.json", found)  # it refuses NaN
    good = {"dev_loss_on": 3.5}
    assert pretrained_entities.choose_trial([found, {"dev_loss_on": 4.0}, good], "a") is good
    with pytest.raises(ValueError, match="a diverges at every learning rate: lower learning_rates"):
        pretrained_entities.choose_trial([found], "a")


@pytest.mark.parametrize("made", ["gpt2", "bloom"])
def test_a_model_whose_blocks_do_not_follow_its_embeddings_is_not_split(made: str) -> None:
    """Upper blocks would add positions, or norm the states, a second time."""
    shape = {"vocab_size": 40, "hidden_size": 16, "n_layer": 2, "n_head": 2}
    module = tiny_gpt2() if made == "gpt2" else BloomForCausalLM(BloomConfig(**shape)).eval()
    with pytest.raises(ValueError, match="changes embeddings before its first block"):
        split_blocks(PretrainedLM(module), 1, None, normed=True)


def test_states_of_another_corpus_are_places_in_it() -> None:
    part = index_states(TEXT).pick([2, 0])
    documents = [np.r_[TEXT.document(number)] for number in (2, 0)]
    np.testing.assert_array_equal(part.tokens, np.concatenate(documents))
