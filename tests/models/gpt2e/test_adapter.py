"""Entity attention behind the blocks of other architectures, from tiny random checkpoints."""

import copy
import pickle
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file
from tiny import GPT2_SHAPE as GPT2
from tiny import random_memory, stir, tiny_gpt2, tiny_llama
from torch import Tensor
from transformers import PreTrainedModel

import entity_transformers
from entity_transformers import GPT2EConfig, GPT2EForCausalLM, add_entity_attention
from entity_transformers.models.base import find_blocks

SMALL: dict[str, Any] = {
    "vocab_size": 31, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 32,
}  # fmt: skip
LLAMA = SMALL | {"num_key_value_heads": 1, "bos_token_id": 1, "eos_token_id": None}
GREEDY: dict[str, Any] = {"do_sample": False, "eos_token_id": None, "pad_token_id": 0}


def make_base(name: str, folder: Path) -> PreTrainedModel:
    """A tiny random checkpoint, saved and loaded again as a user's would be."""
    torch.manual_seed(0)
    model = {
        "gpt2": tiny_gpt2,
        "llama": lambda: tiny_llama(**LLAMA),
        "bert": lambda: transformers.BertForMaskedLM(transformers.BertConfig(**SMALL)),
    }[name]()
    stir(model, 0.1)
    model.save_pretrained(folder)
    return type(model).from_pretrained(folder).eval()


def open_gates(model: PreTrainedModel) -> None:
    torch.manual_seed(5)
    stir(model, 0.3, part="entity_attn")


def make_input(length: int = 11) -> tuple[Tensor, dict[str, Any]]:
    """Tokens, and the entities that a model is given with them."""
    torch.manual_seed(3)
    ids = torch.randint(1, 4, (2, length)) * (torch.rand(2, length) < 0.5)
    given = {"entity_ids": ids, "memory": random_memory(2, 3, 16)}
    return torch.randint(1, 31, (2, length)), given


NAMES = ["gpt2", "llama", "bert"]
STATIC = {"cache_implementation": "static", "disable_compile": True}
CACHES = [{"use_cache": True}, {"use_cache": False}, STATIC]


@pytest.mark.parametrize("name", NAMES)
def test_closed_gate_changes_no_bit_and_an_open_one_does(name: str, tmp_path: Path) -> None:
    base = make_base(name, tmp_path)
    tokens, entities = make_input()
    expected = base(tokens).logits
    model = add_entity_attention(copy.deepcopy(base), layer_norm=True)
    states = entities["memory"].read(entities["entity_ids"])
    for given in ({}, entities, {"entity_states": states}):
        assert torch.equal(model(tokens, **given).logits, expected)
    model(tokens, **entities, labels=tokens).loss.backward()
    gates = [parameter for key, parameter in model.named_parameters() if key.endswith("gate")]
    assert [gate.grad.abs().item() > 0 for gate in gates] == [True, True]
    open_gates(model)
    one, other = (model(tokens, **given).logits for given in (entities, {}))
    assert not torch.allclose(one, other, atol=1e-3)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("name", NAMES)
def test_padding_and_no_entities_as_vectors_of_ones(name, implementation, tmp_path):
    model = add_entity_attention(make_base(name, tmp_path), values="both", gate="none")
    model.set_attn_implementation(implementation)
    open_gates(model)
    tokens, given = make_input()
    ones = model(tokens, entity_states=torch.ones(2, 11, 16)).logits
    torch.testing.assert_close(model(tokens).logits, ones, rtol=0, atol=5e-6)
    mask = torch.ones_like(tokens)
    mask[1, 6:] = 0
    alone = {"entity_ids": given["entity_ids"][1:, :6], "memory": given["memory"].select([1])}
    for both, one in (({}, {}), (given, alone)):
        padded = model(tokens, attention_mask=mask, **both).logits[1, :6]
        expected = model(tokens[1:, :6], **one).logits[0]
        torch.testing.assert_close(padded, expected, rtol=0, atol=5e-6)


@pytest.mark.parametrize("name", NAMES)
def test_decoders_hide_later_tokens_and_bert_does_not(name: str, tmp_path: Path) -> None:
    model = add_entity_attention(make_base(name, tmp_path), gate="none")
    open_gates(model)
    tokens, given = make_input()
    before = model(tokens, **given).logits
    given["entity_ids"][:, 7:] = (given["entity_ids"][:, 7:] + 1) % 4
    after = model(tokens, **given).logits
    assert torch.equal(before[:, :7], after[:, :7]) == (name != "bert")
    assert not torch.allclose(before[:, 7:], after[:, 7:])
    # No entities: a decoder averages over earlier values only, BERT over all.
    other = torch.cat([tokens[:, :7], tokens[:, 7:].flip(1)], dim=1)
    before, after = (model(one, use_cache=False).logits[:, :7] for one in (tokens, other))
    assert torch.equal(before, after) == (name != "bert")


def test_equals_gpt2e_with_the_same_weights(tmp_path: Path) -> None:
    base = make_base("gpt2", tmp_path)
    model = add_entity_attention(base, gate="none", layer_norm=True, values="both")
    open_gates(model)
    config = GPT2EConfig(**GPT2, entity_layer_norm=True, entity_values="both")
    gpt2e = GPT2EForCausalLM(config).eval()
    assert not any(gpt2e.load_state_dict(model.state_dict()))
    tokens, entities = make_input()
    for given in (entities, {}, {"use_cache": False}):
        one, other = (m(tokens, output_hidden_states=True, **given) for m in (model, gpt2e))
        torch.testing.assert_close(one.hidden_states, other.hidden_states, rtol=0, atol=1e-6)
        torch.testing.assert_close(one.logits, other.logits, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_entity_attention_saved_alone_fits_its_model_and_no_other(name, tmp_path):
    base = make_base(name, tmp_path / "base")
    blocks = list(find_blocks(base, 2))
    model = add_entity_attention(base, values="both", blocks=blocks[1:])
    open_gates(model)
    entity_transformers.save_entity_attention(model, tmp_path / "alone")
    saved = load_file(tmp_path / "alone" / "entity_attention.safetensors")
    assert {key.split(".entity_attn.")[0][-1] for key in saved} == {"1"}
    tokens, given = make_input()
    expected = model(tokens, **given).logits
    fresh = make_base(name, tmp_path / "base")
    again = entity_transformers.load_entity_attention(tmp_path / "alone", fresh)
    assert again is fresh
    assert torch.equal(again(tokens, **given).logits, expected)
    other = add_entity_attention(make_base(name, tmp_path / "base"), values="both")
    with pytest.raises(ValueError, match=r"does not fit this model \(.*entity_attn"):
        entity_transformers.load_entity_attention(tmp_path / "alone", other)
    if name != "bert":  # which is no causal model: its name alone does not say how to load it
        named = entity_transformers.load_entity_attention(tmp_path / "alone")
        assert torch.equal(named.eval()(tokens, **given).logits, expected)


@pytest.mark.parametrize("name", NAMES[:2])
@pytest.mark.parametrize("alibi", [False, True])
@pytest.mark.parametrize("cached", CACHES, ids=str)
def test_generate_takes_entities_and_equals_full_passes(name, cached, alibi, tmp_path):
    base = make_base(name, tmp_path)
    model = add_entity_attention(base, gate="none", values="both", alibi=alibi)
    open_gates(model)
    torch.manual_seed(1)
    stir(model, 0.5, 0.05)  # else it repeats one token, whatever it reads
    tokens, given = make_input()

    def rule(sofar: Tensor, known: Tensor) -> Tensor:
        return torch.where(sofar[:, -1] % 3 == 0, known[:, -1], sofar[:, -1] % 4)

    how = {"max_new_tokens": 6, **GREEDY}
    found, slow = model.generate(tokens, **given, new_entities=rule, **cached, **how), tokens
    for _ in range(6):
        logits = model(slow, **given, use_cache=False).logits
        slow = torch.cat([slow, logits[:, -1:].argmax(-1)], 1)
        ids = given["entity_ids"]
        given["entity_ids"] = torch.cat([ids, rule(slow, ids)[:, None]], 1)
    assert torch.equal(found, slow)
    assert not torch.equal(model.generate(tokens, **how), slow)


def make_gpt2e(base: PreTrainedModel, folder: Path) -> GPT2EForCausalLM:
    return GPT2EForCausalLM.from_pretrained(folder, entity_gate="zero").eval()


def adapt(base: PreTrainedModel, folder: Path) -> PreTrainedModel:
    return add_entity_attention(copy.deepcopy(base)).eval()


WAYS = [("gpt2", adapt), ("llama", adapt), ("gpt2", make_gpt2e)]


@pytest.mark.parametrize(("name", "make"), WAYS)
def test_generate_from_embeddings_as_the_model_did(name: str, make: Any, tmp_path: Path) -> None:
    base = make_base(name, tmp_path)
    tokens, entities = make_input()
    given = {"inputs_embeds": base.get_input_embeddings()(tokens), "max_new_tokens": 4}
    given |= GREEDY | {"attention_mask": torch.ones_like(tokens)}
    model, expected = make(base, tmp_path), base.generate(**given)
    assert torch.equal(model.generate(**given), expected)
    found = model.generate(**given, **entities, input_ids=tokens)
    assert torch.equal(found[:, tokens.shape[1] :], expected)
    with pytest.raises(ValueError, match="entity_ids were given with an assistant_model, whose"):
        model.generate(tokens, **entities, assistant_model=base)


@pytest.mark.parametrize("make", [adapt, make_gpt2e])
@pytest.mark.parametrize("how", ["PromptTuningConfig", "PrefixTuningConfig", "PromptEncoderConfig"])
def test_prompts_of_peft_generate_as_with_the_model(how: str, make: Any, tmp_path: Path) -> None:
    """With entities, which their virtual tokens have none of, they are refused in words."""
    config = getattr(peft, how)(task_type="CAUSAL_LM", num_virtual_tokens=4)
    base = make_base("gpt2", tmp_path)
    models = [peft.get_peft_model(one, config).eval() for one in (base, make(base, tmp_path))]
    models[1].prompt_encoder.load_state_dict(models[0].prompt_encoder.state_dict())
    tokens, entities = make_input()
    given = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "max_new_tokens": 4}
    assert torch.equal(*(model.generate(**given, **GREEDY) for model in models))
    with pytest.raises(ValueError, match="prompt learning"):
        models[1].generate(**given, **GREEDY, **entities)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("protocol", [1, pickle.HIGHEST_PROTOCOL])
def test_a_pickle_gives_the_same_model(name: str, protocol: int, tmp_path: Path) -> None:
    """As torch.save and workers that are spawned make one."""
    model = add_entity_attention(make_base(name, tmp_path))
    open_gates(model)
    back = pickle.loads(pickle.dumps(model, protocol))
    assert type(back) is type(model)
    tokens, entities = make_input()
    for given in ({}, entities):
        assert torch.equal(back(tokens, **given).logits, model(tokens, **given).logits)


def test_trainer_does_not_train_without_the_entities_that_it_is_given(tmp_path: Path) -> None:
    model = add_entity_attention(make_base("llama", tmp_path))
    tokens, given = make_input()
    pairs = zip(tokens, given["entity_ids"], strict=True)
    rows = [{"input_ids": row, "entity_ids": ids, "labels": row} for row, ids in pairs]
    how = {"max_steps": 1, "report_to": [], "use_cpu": True}
    arguments = transformers.TrainingArguments(str(tmp_path), **how)
    with pytest.raises(ValueError, match="entity_ids were given without memory"):
        transformers.Trainer(model, arguments, train_dataset=rows).train()  # type: ignore[arg-type]


def test_a_model_that_keeps_its_arguments_to_itself_is_found_out(tmp_path: Path) -> None:
    model = add_entity_attention(make_base("gpt2", tmp_path))
    tokens, given = make_input()
    forward = model.transformer.forward
    model.transformer.forward = lambda *args, entities=None, **kwargs: forward(*args, **kwargs)
    model(tokens)
    with pytest.raises(ValueError, match="does not hand keyword arguments to its blocks"):
        model(tokens, **given)


def test_more_tokens_than_positions_are_refused_in_words(tmp_path: Path) -> None:
    model = add_entity_attention(make_base("gpt2", tmp_path))
    tokens, entities = make_input(length=65)
    for given in (entities, {}):
        with pytest.raises(ValueError, match=r"text has position 64, .*n_positions 64.*in windows"):
            model(tokens, **given)
    cache = model(tokens[:, :60], use_cache=True).past_key_values
    with pytest.raises(ValueError, match="text has position 64"):
        model(tokens[:, 60:], past_key_values=cache)


SLIDING = transformers.MistralConfig(**LLAMA, sliding_window=4)
IDS = make_input()[1]["entity_ids"]
CANNOT: list[tuple[Any, str]] = [
    (lambda model, base: add_entity_attention(model), "already"),
    (lambda model, base: run(model, entity_ids=IDS[:, 1:]), r"\[2, 10\], expected \[2, 11\]"),
    (lambda model, base: run(model, memory=None), "without memory"),
    (lambda model, base: add_entity_attention(base, residual=False), "gate"),
    (lambda model, base: add_entity_attention(transformers.MistralForCausalLM(SLIDING)),
     "layers of sliding or"),
    (lambda model, base: find_blocks(model, 3), "has 0 lists of 3 modules, expected 1: name its"),
    (lambda model, base: entity_transformers.save_entity_attention(base, Path("alone")),
     "has no entity attention"),
]  # fmt: skip


def run(model: PreTrainedModel, **more: Any) -> None:
    tokens, given = make_input()
    model(tokens, **given | more)


@pytest.mark.parametrize(("ask", "message"), CANNOT, ids=[message for _, message in CANNOT])
def test_what_cannot_be_adapted_is_refused(ask: Any, message: str, tmp_path: Path) -> None:
    model = add_entity_attention(make_base("gpt2", tmp_path))
    with pytest.raises(ValueError, match=message):
        ask(model, make_base("gpt2", tmp_path))


def test_folders_without_entity_attention_are_refused(tmp_path: Path) -> None:
    base = make_base("gpt2", tmp_path / "base")
    with pytest.raises(ValueError, match="a model without entity attention"):
        entity_transformers.load_entity_attention(tmp_path / "base")
    with pytest.raises(ValueError, match=r"no entity_attention\.json in it"):
        entity_transformers.load_entity_attention(tmp_path / "base", base)
    model = add_entity_attention(base)
    plain = {key: value for key, value in model.state_dict().items() if "entity_attn" not in key}
    model.save_pretrained(tmp_path / "cut", state_dict=plain)
    with pytest.raises(ValueError, match=r"entity_attn\.\S+ is missing"):
        entity_transformers.load_entity_attention(tmp_path / "cut")
