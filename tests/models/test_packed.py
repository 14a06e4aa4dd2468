"""FlexAttention in place of a mask: the same numbers, in windows in which documents begin.

Here without the compiled kernel, which torch 2.13 makes wrong for processors without AVX-512: among
40 keys the second query reads another number or NaN, with plain `flex_attention` also. Nothing
trains with it on a CPU (`train.loop`); `tests/cuda` has the kernel that is used.
"""

from pathlib import Path

import pytest
import torch
from tiny import lively_model, random_memory, tiny_corpus
from torch import Tensor
from trainings import train_each, weights

from entity_transformers.models.base import Batch, LanguageModel

LENGTHS = ((20, 1, 19), (13, 27), (40,))


def packed_batch(entities: bool) -> Batch:
    """Three rows of 40 tokens, of three, two and one documents."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(1, 40, (3, 40), generator=generator)
    labels = torch.randint(0, 5, (3, 40), generator=generator)
    rows = [[place for length in lengths for place in range(length)] for lengths in LENGTHS]
    return Batch(tokens, labels if entities else None, positions=torch.tensor(rows))


def encode(model: LanguageModel, batch: Batch) -> Tensor:
    torch.manual_seed(3)
    state = random_memory(3, 4, model.width) if model.can("entities") else model.start(3)
    with torch.no_grad():
        return model.encode(batch, state)[0]


@pytest.mark.parametrize(("kind", "entities"), [("gpt2", False), ("gpt2e", False), ("gpt2e", True)])
def test_flex_reads_what_the_mask_lets_it_read(kind: str, entities: bool) -> None:
    """Also a plain window after a packed one, which goes to SDPA's causal kernel."""
    model = lively_model(kind, window=64, dropout=0.0)
    batch = packed_batch(entities)
    plain = Batch(batch.tokens, batch.entity_ids)
    expected = encode(model, batch), encode(model, plain)
    assert not torch.allclose(*expected, atol=1e-2)
    model.attend_packed()
    with torch.compiler.set_stance("force_eager"):
        torch.testing.assert_close(encode(model, batch), expected[0], rtol=1e-5, atol=1e-5)
        assert torch.equal(encode(model, plain), expected[1])


def test_training_on_a_cpu_takes_the_mask(tmp_path: Path) -> None:
    """torch has no gradient of FlexAttention there; the study need not be changed for it."""
    how = {"kind": "gpt2", "dropout": 0.0, "corpus": tiny_corpus(20)}
    both = train_each(tmp_path, 8, {}, {"attention": "flex"}, **how)
    assert all(any(training.plan[step].packed for step in range(8)) for training in both)
    assert torch.equal(*map(weights, both))
