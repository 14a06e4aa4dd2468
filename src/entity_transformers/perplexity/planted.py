"""Accuracy on planted facts: does a model answer from its memory what lies beyond its window?"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..corpus.alignment import AlignedCorpus
from ..corpus.planted import answers
from .reading import read_documents


@torch.inference_mode()
def score_facts(model: Any, corpus: AlignedCorpus, *, window: int, batch: int, entities: bool) -> dict[str, float]:
    """Share of answers that are the model's likeliest piece, in the facts' own window (``same``) and beyond it (``later``)."""
    guesses = np.full(len(corpus.pieces), -1, np.int64)
    for reading in read_documents(model, corpus, window=window, stride=window, batch=batch, entities=entities):
        following = np.minimum(reading.where[reading.valid] + 1, len(guesses) - 1)
        hidden = reading.hidden[torch.from_numpy(reading.valid).to(model.device)]
        guesses[following] = model.get_output_embeddings()(hidden).argmax(-1).cpu().numpy()
    return {name: float((guesses[places] == corpus.pieces[places]).mean()) for name, places in answers(corpus).items()}
