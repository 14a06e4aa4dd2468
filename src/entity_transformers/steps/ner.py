"""Step ner (sections 4.1 and 5, table 5): a tagger on frozen word vectors."""

import logging
from typing import Annotated

from pydantic import Field, StrictBool

from entity_transformers.step import Rows, Run, step
from entity_transformers.study.sections import (
    Number,
    Positive,
    PositiveInt,
    Rate,
    Section,
    Size,
    Width,
)

SCORED = ("dev", "test")
HISTORY = ("epoch", "train_loss", "dev_f1", "learning_rate")
log = logging.getLogger(__name__)


class NerParams(Section):
    """The BiLSTM-CRF tagger (section 4.1, Lample et al. 2016)."""

    hidden: Width
    """LSTM units of each direction"""
    dropout: Rate
    """dropout before and after the LSTM"""
    tanh_layer: StrictBool
    """a layer of ``hidden`` tanh units between LSTM and CRF (Lample et al. 2016, section 2.4)"""
    learning_rate: Positive
    """of Adam"""
    decay: Annotated[Number, Field(gt=0, le=1)]
    """factor on the learning rate after each epoch"""
    epochs: PositiveInt
    """most epochs"""
    patience: PositiveInt
    """epochs without a better dev F1 before stopping"""
    batch: Size
    """sentences of one step"""


@step(
    "ner",
    "[4.1, 5, table 5] train the BiLSTM-CRF tagger on the frozen vectors, and score it",
    params=NerParams,
    also=("embeddings",),
    reads={
        "corpus": ("train.jsonl", "dev.jsonl", "test.jsonl"),
        "embeddings": ("words.safetensors",),
    },
    writes=("curve.csv",),
    needs={"encode"},
    libraries=("seqeval", "pandas"),
    title="Named entities",
)
def ner(run: Run) -> Rows:
    """Scores on dev and test, by span and by tag, over all types (``average``), by type (``label``)
    and by B- and I- row; and the spans of each document.
    """
    import numpy as np

    from entity_transformers import runtime
    from entity_transformers.artifacts import read_arrays, write_csv
    from entity_transformers.tasks.ner.dataset import build_sentences, list_labels
    from entity_transformers.tasks.ner.scoring import count_spans, score_spans, score_tags
    from entity_transformers.tasks.ner.training import predict, train_tagger

    assert run.seed is not None
    device = runtime.start(run.params.run.device, run.params.run.threads, run.seed)
    arrays, _ = read_arrays(run.home("embeddings") / "words.safetensors")
    labels = list_labels(run.documents("train"))
    train, dev, test = (
        build_sentences(run.documents(split), arrays[split], labels) for split in ("train", *SCORED)
    )
    trained = None
    if len(train):
        how = {"seed": run.seed, "later": arrays.get("later"), "device": device}
        trained = train_tagger(train, dev, arrays["vectors"], run.section, **how)
    else:
        log.warning("no sentence of train has named entities: every score will be of 0 spans")
    history = [] if trained is None else trained.history
    write_csv(run.folder / "curve.csv", history, HISTORY)
    yield {"measure": "epochs", "value": len(history)}
    yield {"measure": "best_epoch", "value": trained.best_epoch if trained else 0}
    yield {"measure": "sentences", "value": len(train), "split": "train"}
    yield {"measure": "sentences_left_out", "value": train.left_out, "split": "train"}
    mix = trained.tagger.mix if trained else None
    if mix is not None:
        yield {"measure": "layers_gamma", "value": mix.gamma.item()}
        for layer, weight in enumerate(mix.weights.detach().tolist()):
            yield {"measure": "layer_weight", "value": weight, "layer": layer}
    runtime.start("cpu", run.params.run.threads, run.seed)
    for split, gold in zip(SCORED, (dev, test), strict=True):
        guess = (
            predict(trained.tagger, gold, batch=run.section.batch)
            if trained
            else np.zeros_like(gold.tags)
        )
        yield {"measure": "sentences_left_out", "value": gold.left_out, "split": split}
        for level, scores in (("span", score_spans(gold, guess)), ("tag", score_tags(gold, guess))):
            for part, found in scores.items():
                for name, one in found.items():
                    about = {"split": split, part: name, "count": one.support}
                    for measure in ("precision", "recall", "f1", "predicted"):
                        value = getattr(one, measure)
                        yield {"measure": f"{level}_{measure}", "value": value, **about}
        yield {"measure": "words", "value": len(gold.tags), "split": split}
        yield {"measure": "sentences", "value": len(gold), "split": split}
        counts = zip(gold.documents, count_spans(gold, guess).tolist(), strict=True)
        for document, numbers in counts:
            for measure, value in zip(("correct", "predicted", "gold"), numbers, strict=True):
                yield {"measure": measure, "value": value, "split": split, "unit": document}
