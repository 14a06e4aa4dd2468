"""Opens the files of try-anomaly and gather-anomalies (which needs no torch, so what trains is
imported where it is used).
"""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from entity_transformers import runtime
from entity_transformers.artifacts import read_json, read_tokenizer, write_json
from entity_transformers.cli.flags import Flag
from entity_transformers.study.params import Params
from entity_transformers.study.steps.anomalies import Anomaly

if TYPE_CHECKING:
    from entity_transformers.tasks.anomalies.trials import Material

log = logging.getLogger(__name__)


def try_anomaly(
    params: Params,
    corpus: Path,
    anomaly: Annotated[Anomaly, Flag("one of anomalies.candidates")],
    output: Annotated[Path, Flag("its numbers (JSON)", "FILE")],
) -> None:
    """Train and score one candidate; of a training that is stopped nothing is kept."""
    from entity_transformers.tasks.anomalies.trials import TRIALS
    from entity_transformers.train.loop import TrainingError, TrainingStopped

    with tempfile.TemporaryDirectory(prefix="anomaly-") as folder:
        try:
            numbers = TRIALS[anomaly](_gather(params, corpus, Path(folder)))
        except TrainingStopped:
            log.info("stopped, and nothing is kept of it: run it again")
            raise SystemExit(runtime.STOPPED) from None
        except TrainingError as error:
            raise SystemExit(f"entity-transformers try-anomaly: {error}") from None
    settings = params.anomalies.model_dump(mode="json", exclude={"candidates", "models"})
    write_json(
        output, {"anomaly": anomaly, "settings": settings | {"window": params.lm.window}, **numbers}
    )


def _gather(params: Params, corpus: Path, folder: Path) -> Material:
    from entity_transformers.corpus.stored import Documents
    from entity_transformers.corpus.alignment import AlignedCorpus
    from entity_transformers.corpus.encoding import END
    from entity_transformers.tasks.anomalies.trials import Material
    from entity_transformers.train.checkpoint import CheckpointStore

    device = runtime.start(params.run.device, params.run.threads, params.anomalies.seed)
    tokenizer = read_tokenizer(corpus / "tokenizer.json")
    train, dev = (AlignedCorpus.load(corpus / f"{split}.safetensors") for split in ("train", "dev"))
    starts = {
        split: [d.sentence_starts for d in Documents(corpus / f"{split}.jsonl")]
        for split in ("train", "dev")
    }
    return Material(
        train=train,
        dev=dev,
        sentence_starts=starts,
        vocabulary=tokenizer.get_vocab_size(),
        end=cast(int, tokenizer.token_to_id(END)),
        entries={
            name: params.resolve(name, params.anomalies.models, section="anomalies.models")
            for name in params.anomalies.models
        },
        anomalies=params.anomalies,
        device=device,
        store=lambda: CheckpointStore(Path(tempfile.mkdtemp(dir=folder)), 1),
        log=log.info,
    )


def gather_anomalies(
    params: Params,
    anomalies: Annotated[Path, Flag("results/anomalies", "FOLDER")],
    output: Annotated[Path, Flag("all numbers (JSON)", "FILE")],
) -> None:
    """The candidates that were tried, by name, in one file; none where anomalies.candidates is
    empty.
    """
    write_json(
        output,
        {
            "candidates": {
                name: read_json(anomalies / f"{name}.json") for name in params.anomalies.candidates
            }
        },
    )
