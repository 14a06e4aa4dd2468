"""The layers that a tagger mixes, against transformers' own hidden states, or a block's by hand."""

import numpy as np
import pytest
import torch
from tiny import lively_model, tiny_corpus, tiny_gpt2, tiny_llama

from entity_transformers.encode.words import LayerEncoder
from entity_transformers.models.base import Batch
from entity_transformers.models.pretrained import PretrainedLM

TOKENS = torch.from_numpy(tiny_corpus(2).tokens[:16].astype(np.int64)).view(2, 8)
PRETRAINED = {"llama": tiny_llama, "pretrained gpt2": lambda: tiny_gpt2(vocab_size=40)}
OF_TRANSFORMERS = ["bert", "electra", "gpt1", "gpt2", *PRETRAINED]
OURS = ["berte", "gpt2-pointer", "gpt2e", "transformer-xl", "xlnet"]


@pytest.mark.parametrize("kind", OF_TRANSFORMERS + OURS)
@torch.no_grad()
def test_layers_lie_side_by_side(kind: str) -> None:
    made = PRETRAINED.get(kind)
    model = (PretrainedLM(made()) if made else lively_model(kind)).encoder()
    encoder = LayerEncoder(model, len(model.blocks) + 1)
    found, _ = encoder.encode(Batch(TOKENS), encoder.start(2))
    plain, _ = model.encode(Batch(TOKENS), model.start(2))
    layers = found.view(2, 8, -1, model.width)
    split = encoder.split_layers(found.flatten(0, 1).numpy())["vectors"]
    np.testing.assert_array_equal(split, layers.flatten(0, 1).numpy())
    assert torch.equal(layers[:, :, -1], plain)
    few = LayerEncoder(model, 2)
    ends, _ = few.encode(Batch(TOKENS), few.start(2))
    assert torch.equal(ends.view(2, 8, 2, few.width // 2), layers[:, :, [0, -1]])
    if kind in OF_TRANSFORMERS:
        base = model.module.electra if kind == "electra" else model.module.base_model
        expected = base(TOKENS, output_hidden_states=True).hidden_states
        torch.testing.assert_close(layers.unbind(2), expected, rtol=1e-6, atol=1e-6)
    else:
        block = model.blocks[0]
        kept = []
        with block.register_forward_hook(lambda _block, _inputs, output: kept.append(output)):
            model.encode(Batch(TOKENS), model.start(2))
        first = model.block_states(kept[0])
        assert torch.equal(layers[:, :, 1], first)
        assert (layers[:, :, 0] - first).abs().max() > 1e-3


def test_fewer_layers_are_evenly_spaced() -> None:
    model = lively_model("gpt2").eval()
    assert LayerEncoder(model, 2).layers == (0, len(model.blocks))
    assert LayerEncoder(model, 99).layers == tuple(range(len(model.blocks) + 1))
    assert LayerEncoder(lively_model("gpt2", layers=8), 7).layers == (0, 1, 3, 4, 5, 7, 8)
