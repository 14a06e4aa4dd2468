"""Opens the files of try-riddle and gather-riddles (which needs no torch, so what trains is imported where it is used)."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, cast

from .. import runtime
from ..artifacts import read_json, read_tokenizer, write_json
from ..params import Params

if TYPE_CHECKING:
    from ..riddles.trials import Material

log = logging.getLogger(__name__)


def try_riddle(params: Params, corpus: Path, riddle: str, output: Path) -> None:
    """Train and score one candidate; of a training that is stopped nothing is kept."""
    from ..lm.training import TrainingError, TrainingStopped
    from ..riddles.trials import TRIALS

    with tempfile.TemporaryDirectory(prefix="riddle-") as folder:
        try:
            numbers = TRIALS[riddle](_gather(params, corpus, Path(folder)))
        except TrainingStopped:
            log.info("stopped, and nothing is kept of it: run it again")
            raise SystemExit(runtime.STOPPED) from None
        except TrainingError as error:
            raise SystemExit(f"entity-transformers try-riddle: {error}") from None
    settings = params.riddles.model_dump(mode="json", exclude={"candidates"})
    write_json(output, {"riddle": riddle, "settings": settings | {"window": params.lm.window}, **numbers})


def _gather(params: Params, corpus: Path, folder: Path) -> Material:
    from ..corpus.alignment import END, AlignedCorpus
    from ..lm.checkpoint import CheckpointStore
    from ..riddles.trials import Material
    from .documents import read_documents

    device = runtime.start(params.run.device, params.run.threads, params.riddles.seed)
    tokenizer = read_tokenizer(corpus / "tokenizer.json")
    train, dev = (AlignedCorpus.load(corpus / f"{split}.safetensors") for split in ("train", "dev"))
    starts = {split: [d.sentence_starts for d in read_documents(corpus / f"{split}.jsonl")] for split in ("train", "dev")}
    return Material(
        train=train,
        dev=dev,
        sentence_starts=starts,
        vocabulary=tokenizer.get_vocab_size(),
        end=cast(int, tokenizer.token_to_id(END)),
        lm=params.lm,
        riddles=params.riddles,
        device=device,
        store=lambda: CheckpointStore(Path(tempfile.mkdtemp(dir=folder)), 1),
        log=log.info,
    )


def gather_riddles(params: Params, riddles: Path, output: Path) -> None:
    """The candidates that were tried, by name, in one file; none where riddles.candidates is empty."""
    write_json(output, {"candidates": {name: read_json(riddles / f"{name}.json") for name in params.riddles.candidates}})
