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
    and by B- and I- row; and the spans of each document. Where the vectors have layers, the tagger
    reads the last one, and a second one a learnt mix of all (``reading`` mixed).
    """
    from entity_transformers import runtime
    from entity_transformers.artifacts import read_arrays, write_csv
    from entity_transformers.tasks.ner.dataset import build_sentences, list_labels
    from entity_transformers.tasks.ner.training import list_scores, train_tagger

    arrays, _ = read_arrays(run.home("embeddings") / "words.safetensors")
    labels = list_labels(run.documents("train"))
    scored = {
        split: build_sentences(run.documents(split), arrays[split], labels)
        for split in ("train", "dev", "test")
    }
    train = scored.pop("train")
    if not len(train):
        log.warning("no sentence of train has named entities: every score will be of 0 spans")
    readings = {"": arrays["vectors"]}
    if readings[""].ndim == 3 and not run.entry.can({"layers"}):
        readings = {"": arrays["vectors"][:, -1].copy(), "mixed": arrays["vectors"]}
    for reading, vectors in readings.items():
        device = runtime.start(run.params.run.device, run.params.run.threads, run.seed)
        trained = None
        if len(train):
            how = {"seed": run.seed, "later": arrays.get("later"), "device": device}
            trained = train_tagger(train, scored["dev"], vectors, run.section, **how)
        if not reading:
            write_csv(run.folder / "curve.csv", trained.history if trained else [], HISTORY)
        runtime.start("cpu", run.params.run.threads, run.seed)
        for row in list_scores(trained, train, scored, run.section.batch):
            yield {**row, "reading": reading} if reading else row
