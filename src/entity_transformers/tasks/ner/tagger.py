"""The BiLSTM-CRF tagger over frozen word vectors (section 4.1; Lample et al. 2016, without
character embeddings).
"""

import warnings
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from entity_transformers.steps.ner import NerParams
from entity_transformers.tasks.ner.crf import Crf
from entity_transformers.tasks.ner.dataset import list_tags


class ScalarMix(nn.Module):
    """gamma sum_j softmax(w)_j h_j over a word's layers (Peters et al. 2018, equation 1)."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.scores, self.gamma = nn.Parameter(torch.zeros(layers)), nn.Parameter(torch.ones(()))

    @property
    def weights(self) -> Tensor:
        """softmax(w), one number per layer."""
        return self.scores.softmax(0)

    def forward(self, layers: Tensor) -> Tensor:
        """Return the mix [..., W] of layers [..., L, W]."""
        return self.gamma * (self.weights[:, None] * layers).sum(-2)


class Tagger(nn.Module):
    """Frozen vectors -> dropout -> BiLSTM -> dropout -> tanh layer, if ``tanh_layer`` -> linear ->
    CRF over the IOB2 tags of ``labels``.

    Dimensions: B sentences, T words of the longest, K tags, W vector width, H hidden units per
    direction, L layers. ``vectors`` is [rows, W], or [rows, L, W] of layers that a `ScalarMix`
    mixes first. With ``later`` [rows, V], a second BiLSTM follows, which reads these beside the
    first one's outputs (Peters et al. 2017, section 2.4). Both arrays are float16 or float32 and
    used as they are (no scaling); they are not parameters and not part of the state. The weights
    are drawn from torch's global generator.
    """

    vectors: Tensor
    later: Tensor

    def __init__(
        self,
        vectors: np.ndarray,
        labels: Sequence[str],
        params: NerParams,
        later: np.ndarray | None = None,
    ) -> None:
        super().__init__()
        width, tags = vectors.shape[-1], len(list_tags(labels))
        self.labels = tuple(labels)
        self.register_buffer("vectors", _share(vectors), persistent=False)
        self.forward_lstm = nn.LSTM(width, params.hidden, batch_first=True)
        self.backward_lstm = nn.LSTM(width, params.hidden, batch_first=True)
        both = 2 * params.hidden
        self.between: nn.Module = nn.Identity()
        if params.tanh_layer:  # the size in the authors' program; their text gives none
            self.between = nn.Sequential(nn.Linear(both, params.hidden), nn.Tanh())
        self.emission = nn.Linear(params.hidden if params.tanh_layer else both, tags)
        self.dropout = nn.Dropout(params.dropout)
        self.crf = Crf(tags)
        self.mix = ScalarMix(vectors.shape[1]) if vectors.ndim == 3 else None
        self.second: nn.ModuleList | None = None
        if later is not None:
            self.register_buffer("later", _share(later), persistent=False)
            self.second = nn.ModuleList(
                nn.LSTM(both + later.shape[1], params.hidden, batch_first=True) for _ in range(2)
            )

    def forward(self, rows: Tensor, mask: Tensor) -> Tensor:
        """Return the emission scores [B, T, K] of the words with vector rows ``rows`` int64 [B, T];
        ``mask`` bool [B, T], words first.

        The backward LSTM reads each sentence reversed within its own length, so padding stays last
        for both directions and affects no word. This equals the BiLSTM of a packed sequence, but
        uses torch's faster kernels for padded ones.
        """
        words = self.vectors[rows].float()  # [B, T, W] or [B, T, L, W]
        mirror = _mirror(mask)[:, :, None]  # [B, T, 1]
        states = self.dropout(words if self.mix is None else self.mix(words))
        states = _read(states, mirror, self.forward_lstm, self.backward_lstm)  # [B, T, 2 H]
        if self.second is not None:
            states = torch.cat([states, self.later[rows].float()], 2)  # [B, T, 2 H + V]
            states = _read(self.dropout(states), mirror, *self.second)
        return self.emission(self.between(self.dropout(states)))

    def loss(self, rows: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """Return the mean nats per sentence of tags int64 [B, T]."""
        return -self.crf.log_likelihood(self(rows, mask), tags, mask).mean()

    def decode(self, rows: Tensor, mask: Tensor) -> Tensor:
        """Return the best tag ids [B, T], 0 on padding."""
        return self.crf.decode(self(rows, mask), mask)


def _read(words: Tensor, mirror: Tensor, ahead: nn.Module, back: nn.Module) -> Tensor:
    """Return the outputs [B, T, 2 H] of two LSTMs for words [B, T, W], the second in reverse."""
    forward, _ = ahead(words)  # [B, T, H]
    backward, _ = back(words.gather(1, mirror.expand_as(words)))
    return torch.cat([forward, backward.gather(1, mirror.expand_as(backward))], 2)


def _share(vectors: np.ndarray) -> Tensor:
    """Return a tensor on the array's own memory, which may be read-only; nothing writes to it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(vectors)


def _mirror(mask: Tensor) -> Tensor:
    """Return the positions [B, T] that reverse each sentence's words and leave padding in place."""
    positions = torch.arange(mask.shape[1], device=mask.device)  # [T]
    return torch.where(mask, mask.sum(1, keepdim=True) - 1 - positions, positions)
