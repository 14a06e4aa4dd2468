"""Step recall (beyond the paper): what a memory carries past the window, on synthetic text."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from entity_transformers.step import Rows, Run, step
from entity_transformers.study.sections import (
    Different,
    Fraction,
    Integer,
    Positive,
    Section,
    Seed,
    Size,
    Width,
)


class RecallParams(Section):
    """Synthetic recall: what a memory carries beyond the window (not in the paper)."""

    models: dict[str, dict[str, Any]]
    """rows of the table, entries as of section models; reads: document gives one a window as long
    as the document; none: nothing is trained"""
    seeds: Annotated[tuple[Seed, ...], Different, Field(min_length=1)]
    """one training run per model and seed; a run takes a minute, so more than one"""
    entities: Size
    """entities of a document"""
    windows: Annotated[Integer, Field(ge=2, le=10**6)]
    """windows of a document: the fact in the first, questions in all"""
    values: Annotated[Integer, Field(ge=2, le=10**6)]
    """different facts; chance is one in so many"""
    names: Size
    """names that a document's entities draw from"""
    documents: Size
    """documents read in training, the same for every row"""
    distinct_documents: Size
    """different ones among them"""
    test_documents: Size
    """documents with the questions that are scored"""
    layers: Width
    """transformer blocks"""
    heads: Width
    """attention heads of a block"""
    width: Width
    """hidden units"""
    documents_per_step: Size
    """documents side by side"""
    learning_rate: Positive
    """peak learning rate of AdamW, then a cosine to 0"""
    warmup: Fraction
    """share of the steps that is linear warm-up"""

    @property
    def window(self) -> int:
        """Number of tokens in a window: "the", VALUE, NAME, "has", VALUE and "." per entity."""
        return self.entities * 6

    @property
    def length(self) -> int:
        """Number of predicted tokens in a document."""
        return self.window * self.windows

    def problems(self) -> Iterator[str]:
        if self.entities > self.names:
            yield (
                f"entities {self.entities} is more than names {self.names}, but a document's names"
                " differ"
            )
        if self.width % self.heads:
            yield f"width {self.width} is not divisible by heads {self.heads}"


@step(
    "recall",
    "[beyond the paper] synthetic recall: what a memory can carry beyond the window",
    params=RecallParams,
    own={"causal"},
    title="What the memory can carry",
)
def recall(run: Run) -> Rows:
    """Train one row of the table, and the share of right answers by the distance of the fact, in
    windows (``later``: all after its own). A stopped run leaves nothing and starts anew.
    """
    import tempfile
    import time
    from pathlib import Path

    from entity_transformers import runtime
    from entity_transformers.tasks import recall as tasks
    from entity_transformers.train.checkpoint import CheckpointStore
    from entity_transformers.train.loop import TrainingError, TrainingStopped, caught_signals

    section, started = run.section, time.time()
    device = runtime.start(run.params.run.device, run.params.run.threads, run.seed)
    with tempfile.TemporaryDirectory() as folder:
        entry = tasks.resolve_entry(section, run.model, run.params.kinds)
        store = CheckpointStore(Path(folder), 1)
        training = tasks.start_training(section, entry, run.seed, store, device)
        try:
            with caught_signals() as caught:
                training.run(caught)
        except TrainingStopped:
            raise SystemExit(runtime.STOPPED) from None
        except TrainingError as error:
            raise ValueError(f"{run.model}, seed {run.seed}: {error}") from None
    yield {"measure": "chance", "value": 1 / section.values}
    yield {"measure": "documents", "value": section.documents}
    yield {"measure": "steps", "value": training.params.steps}
    yield {"measure": "loss", "value": training.progress.train_loss, "split": "train"}
    for name in ("entities", "windows", "values", "names", "window"):
        yield {"measure": name, "value": getattr(section, name)}
    yield {"measure": "vocabulary", "value": tasks.count_tokens(section)}
    yield from tasks.score_training(training, section)
    on = {"device": str(device), "threads": run.params.run.threads}
    pace = training.progress.median_step_seconds
    yield {"measure": "seconds_per_step", "value": pace, **on}
    yield {"measure": "windows_per_step", "value": training.windows_per_step, **on}
    yield {"measure": "seconds_total", "value": time.time() - started, **on}
