"""GPT2E against a slow form of section 3, against GPT2 and in other arrangements."""

import copy
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tiny import GPT2_SHAPE as SHAPE
from tiny import random_memory, stir, tiny_gpt2
from torch import Tensor
from transformers.models.gpt2.modeling_gpt2 import GPT2Block

from entity_transformers.models.gpt2e.attention import EntityAttention
from entity_transformers.models.gpt2e.memory import Entities, EntityMemory
from entity_transformers.models.gpt2e.model import GPT2EConfig, GPT2EForCausalLM

VOCABULARY, ENTITIES = 31, 4


def make_model(seed: int = 0, **changes: Any) -> GPT2EForCausalLM:
    """A small model whose every weight is far from 0, so that no part can be wrong unseen."""
    torch.manual_seed(seed)
    model = GPT2EForCausalLM(GPT2EConfig(**{**SHAPE, **changes}))
    stir(model, 0.15)
    return model.eval()


def make_input(seed: int, batch: int = 3, length: int = 13, width: int = 16) -> tuple[Any, ...]:
    torch.manual_seed(seed)
    tokens = torch.randint(VOCABULARY, (batch, length))
    ids = torch.randint(1, ENTITIES + 1, (batch, length)) * (torch.rand(batch, length) < 0.4)
    return tokens, ids, random_memory(batch, ENTITIES, width)


class PlainGPT2E:
    """Section 3, a document at a time in float64: transformers' blocks and the plain form."""

    def __init__(self, model: GPT2EForCausalLM) -> None:
        self.transformer = copy.deepcopy(model.transformer).double().eval()
        self.transformer.set_attn_implementation("sdpa")  # which hides later tokens by itself
        self.weights = dict(self.transformer.named_parameters())
        for block in self.transformer.h:
            block.entity_attn.__class__ = EntityAttention

    def __call__(self, tokens: list[int], vectors: Tensor) -> Tensor:
        """Logits [T, vocabulary] of one document."""
        inner = self.transformer
        x = (inner.wte.weight[tokens] + inner.wpe.weight[: len(tokens)])[None]
        for block in inner.h:
            x = GPT2Block.forward(block, x)
            x, _ = block.entity_attn(x, Entities(vectors[None]))
        return inner.ln_f(x)[0] @ inner.wte.weight.T


def compare(model: GPT2EForCausalLM, plain: PlainGPT2E, fast: Tensor, slow: Tensor) -> None:
    """Logits and every gradient of a random weighting of them."""
    torch.testing.assert_close(fast.double(), slow, rtol=1e-5, atol=1e-5)
    weighting = torch.randn_like(slow) / slow.numel() ** 0.5
    model.zero_grad()
    (fast * weighting.float()).sum().backward()
    (slow * weighting).sum().backward()
    for name, parameter in model.transformer.named_parameters():
        expected = plain.weights[name].grad
        expected = torch.zeros_like(parameter).double() if expected is None else expected
        assert parameter.grad is not None, name
        torch.testing.assert_close(parameter.grad.double(), expected, rtol=1e-5, atol=1e-5)


SWITCHES: list[dict[str, Any]] = [
    {}, {"entity_residual": False}, {"entity_layer_norm": True, "entity_gate": "zero"},
    {"entity_values": "entity", "entity_layer_norm": True}, {"entity_values": "both", "n_head": 4},
    {"n_layer": 1, "n_embd": 24, "n_head": 3},
]  # fmt: skip


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("entities", [True, False])
@pytest.mark.parametrize("seed", range(len(SWITCHES)))
def test_equals_the_plain_form_forward_and_backward(seed, entities, training):
    """Where there are no entities, however that is said, the vectors are ones."""
    model = make_model(seed, **SWITCHES[seed]).train(training)
    plain, width = PlainGPT2E(model), model.config.n_embd
    tokens, ids, memory = make_input(seed, batch=1 + seed % 3, length=5 + 3 * seed, width=width)
    slow_states = memory.states.double().requires_grad_()
    memory.states.requires_grad_()
    given = {"entity_ids": ids, "memory": memory} if entities else {}
    fast = model(tokens, use_cache=False, **given).logits
    vectors = slow_states[torch.arange(len(ids))[:, None], ids]
    vectors = vectors if entities else torch.ones_like(vectors)
    slow = torch.stack([plain(*row) for row in zip(tokens.tolist(), vectors, strict=True)])
    compare(model, plain, fast, slow)
    if entities:
        found = memory.states.grad.double()
        torch.testing.assert_close(found, slow_states.grad, rtol=1e-5, atol=1e-5)
        return
    none, whole = {"entity_ids": ids * 0, "memory": memory}, {"attention_mask": ids * 0 + 1}
    for other in ({"entity_states": vectors.float()}, {}, {"memory": memory}, none, whole):
        torch.testing.assert_close(model(tokens, **other).logits, fast, rtol=0, atol=5e-6)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("entities", [True, False])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_equals_the_plain_form(side: str, entities: bool, implementation: str) -> None:
    model = make_model(7, entity_values="both")
    model.set_attn_implementation(implementation)
    plain = PlainGPT2E(model)
    tokens, ids, memory = make_input(7, batch=3, length=11)
    lengths = [11, 6, 1]
    real = [list(range(11 - n, 11)) if side == "left" else list(range(n)) for n in lengths]
    mask = torch.tensor([[int(t in row) for t in range(11)] for row in real])
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    given = {"entity_ids": ids, "memory": memory} if entities else {}
    given |= {"attention_mask": mask, "position_ids": positions}
    fast = model(tokens, use_cache=False, **given).logits
    for b, row in enumerate(real):
        vectors = memory.states[b, ids[b, row]].double()
        slow = plain(tokens[b, row].tolist(), vectors if entities else torch.ones_like(vectors))
        torch.testing.assert_close(fast[b, row].double(), slow, rtol=1e-5, atol=1e-5)


def test_loads_gpt2_weights_and_equals_it_to_the_bit_behind_a_closed_gate(tmp_path):
    torch.manual_seed(0)
    gpt2 = tiny_gpt2()
    gpt2.save_pretrained(tmp_path)
    config = GPT2EConfig.from_pretrained(tmp_path, entity_gate="zero", entity_layer_norm=True)
    how = {"config": config, "output_loading_info": True}
    model, info = GPT2EForCausalLM.from_pretrained(tmp_path, **how)
    parts = ("q_attn", "k_attn", "v_attn", "c_proj", "ln")
    names = ["gate", *(f"{part}.{kind}" for part in parts for kind in ("weight", "bias"))]
    missing = {f"transformer.h.{i}.entity_attn.{name}" for i in range(2) for name in names}
    assert set(info["missing_keys"]) == missing
    assert not info["unexpected_keys"]
    assert not info["mismatched_keys"]
    tokens, ids, memory = make_input(0)
    expected, read = gpt2(tokens).logits, {"entity_states": memory.read(ids)}
    for given in ({}, {"entity_ids": ids, "memory": memory}, read, {"use_cache": False}):
        assert torch.equal(model.eval()(tokens, **given).logits, expected)
    shared = model.state_dict()
    assert all(torch.equal(shared[name], value) for name, value in gpt2.state_dict().items())


def test_initial_weights_follow_the_scaled_rule() -> None:
    torch.manual_seed(0)
    shape = SHAPE | {"n_embd": 128, "n_layer": 3}
    block, literal = (
        GPT2EForCausalLM(GPT2EConfig(**shape, entity_residual=residual)).transformer.h[1]
        for residual in (True, False)
    )
    own = block.entity_attn
    for part, std in (
        (own.c_proj, 0.02 / math.sqrt(9)), (block.attn.c_proj, 0.02 / math.sqrt(6)),
        (block.mlp.c_proj, 0.02 / math.sqrt(6)), (own.q_attn, 0.02), (own.k_attn, 0.02),
        (own.v_attn, 0.02), (literal.entity_attn.c_proj, 0.02),
    ):  # fmt: skip
        assert part.weight.std().item() == pytest.approx(std, rel=0.03)


@pytest.mark.slow
def test_compiles_into_one_graph_and_keeps_ids_out_of_range_in_their_document() -> None:
    """It can't look at the ids, so these count as 0."""
    model = make_model(17, n_layer=1)
    tokens, ids, memory = make_input(17)
    places = torch.tensor([0, 1, 2]), torch.tensor([2, 4, 6])
    wrong = ids.index_put(places, torch.tensor([ENTITIES + 1, -1, 99]))
    none = ids.index_put(places, torch.tensor(0))
    compiled = torch.compile(model.transformer, fullgraph=True, backend="aot_eager")
    for given, plain in ((wrong, none), (ids, ids), (None, None)):
        own = {"use_cache": False, "memory": None if given is None else memory}
        found = compiled(tokens, entity_ids=given, **own).last_hidden_state
        expected = model.transformer(tokens, entity_ids=plain, **own).last_hidden_state
        torch.testing.assert_close(found, expected, rtol=0, atol=2e-6)


NO_IDS: dict[str, Any] = {"entity_ids": None, "memory": None}
IDS = torch.zeros(3, 13, dtype=torch.int64)
BAD_INPUTS: list[tuple[dict[str, Any], str]] = [
    ({"entity_ids": IDS + 5}, r"entity_ids of shape \[3, 13\] holds ids 5 to 5, expected 0 to 4"),
    ({"entity_ids": IDS.to("meta")}, r"entity_ids of shape \[3, 13\] is on meta, expected cpu"),
    ({"memory": EntityMemory(3, ENTITIES, 16, device="meta")}, "memory .* is on meta, expected"),
    ({"entity_ids": IDS[:, 1:]}, r"entity_ids has shape \[3, 12\], expected \[3, 13\]"),
    ({"memory": EntityMemory(3, ENTITIES, 17)}, r"\[3, 5, 17\], expected an EntityMemory \[3, ent"),
    ({"memory": None}, "entity_ids were given without memory"),
    ({"entity_states": torch.ones(3, 13, 16)}, "with entity_ids or memory"),
    ({**NO_IDS, "entity_states": torch.ones(3, 13, 15)}, r"\[3, 13, 15\], expected floating point"),
    ({"memory": torch.ones(3, 5, 16)}, "memory is a Tensor of shape .* expected an EntityMemory"),
]


@pytest.mark.parametrize(("changes", "message"), BAD_INPUTS)
def test_bad_input_names_tensor_shape_and_expectation(changes, message):
    tokens, ids, memory = make_input(0)
    with pytest.raises(ValueError, match=message):
        make_model()(tokens, **{"entity_ids": ids, "memory": memory, **changes})


def test_a_text_with_more_tokens_than_positions_is_refused() -> None:
    model = make_model(0)
    limit = model.config.n_positions
    message = f"the text has position {limit}, but the model only has positions 0 to {limit - 1}"
    tokens = torch.ones(1, limit + 1, dtype=torch.int64)
    with pytest.raises(ValueError, match=message):
        model(tokens)
    with pytest.raises(ValueError, match=message):
        model(tokens[:, :1], position_ids=torch.tensor([[limit]]))
    first = model(tokens[:, :-1], use_cache=True)
    with pytest.raises(ValueError, match=message):
        model(tokens[:, :1], past_key_values=first.past_key_values)
    # packed documents may be longer together than the positions that each has
    positions = torch.arange(limit + 1)[None] % limit
    assert model(tokens, position_ids=positions, use_cache=False).logits.shape[1] == limit + 1


@pytest.mark.parametrize(("switches", "message"), [
    ({"entity_values": "keys"}, "entity_values"), ({"add_cross_attention": True}, "add_cross_att"),
    ({"memory_gradient_windows": -1}, "memory_gradient_windows"),
    ({"entity_gate": "zero", "entity_residual": False}, "constant output"),
])  # fmt: skip
def test_bad_switches_are_refused(switches: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        make_model(**switches)


OTHER_PROCESS = """
import sys, torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "entity_transformers":
            raise ModuleNotFoundError(name)

def load(trusted):
    inputs = load_file("{folder}/inputs.safetensors")
    model = AutoModelForCausalLM.from_pretrained("{folder}", trust_remote_code=trusted)
    logits = model(inputs["tokens"], entity_states=inputs["vectors"]).logits
    home = type(model).__module__.split(".")[0]
    print(type(model).__name__, home, torch.equal(logits, inputs["logits"]))

sys.meta_path.insert(0, Hidden())
load(True)
del sys.meta_path[0]
from entity_transformers import GPT2EConfig
load(False)
assert type(AutoConfig.for_model("gpt2e", n_layer=1)) is GPT2EConfig
"""


@pytest.mark.slow
def test_loads_in_another_process_where_the_package_is_absent_and_where_it_is_not(tmp_path):
    model = make_model(10)
    model.save_pretrained(tmp_path)
    tokens, ids, memory = make_input(10)
    logits = model(tokens, entity_ids=ids, memory=memory).logits.detach()
    inputs = {"tokens": tokens, "vectors": memory.read(ids), "logits": logits}
    save_file(inputs, tmp_path / "inputs.safetensors")
    source = str(Path(__file__).resolve().parents[3] / "src")
    home = {"HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    python = [sys.executable, "-c", OTHER_PROCESS.format(folder=tmp_path)]
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": source, **home}
    done = subprocess.run(python, capture_output=True, text=True, env=env, check=False)
    homes = ("transformers_modules", "entity_transformers")
    expected = [f"GPT2EForCausalLM {home} True" for home in homes]
    assert (done.stdout.splitlines(), done.returncode) == (expected, 0), done.stderr
