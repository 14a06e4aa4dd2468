"""What a validation measures: the objective of training on held-out text, whatever it is."""

from __future__ import annotations

import torch

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.windows import WindowPlan
from entity_transformers.kinds import LmParams
from entity_transformers.models.base import LanguageModel
from entity_transformers.tasks.perplexity import mean_loss
from entity_transformers.train.streams import count_targets, show_window, sum_own_losses

SEED = 0


def measure_held_out(model: LanguageModel, corpus: AlignedCorpus, params: LmParams) -> float:
    """The objective per target: of the next token's the nats of all tokens of the split, else
    `mean_objective`. Numbers of two objectives have nothing in common.
    """
    if model.objective == "causal":
        return mean_loss(model, corpus, window=params.window)
    return mean_objective(model, corpus, params)


@torch.inference_mode()
def mean_objective(model: LanguageModel, corpus: AlignedCorpus, params: LmParams) -> float:
    """The model's own objective per target, over windows of a split that are made as in training
    and hold about as many tokens as it has; 0 for a split without tokens.

    Windows and draws are the same at every call, whatever the seed of the run is.
    """
    tokens = len(corpus.tokens) - len(corpus)
    streams = params.documents_per_step
    if not tokens:
        return 0.0
    count = max(1, round(tokens / (streams * params.window)))
    plan = WindowPlan(corpus, streams=streams, window=params.window, windows=count, seed=SEED)
    windows = [show_window(model, plan, index, params, SEED) for index in range(count)]
    loss, _ = sum_own_losses(model, windows, model.start(streams, plan.rows), params)
    return loss.item() / max(1, sum(map(count_targets, windows)))
