"""Step lm (sections 3 and 4.1, figures 2 and 3): the language models of section models."""

from __future__ import annotations

from entity_transformers.step import MODEL, Rows, Run, step


@step(
    "lm",
    "[3, 4.1, figures 2 and 3] train a model; called again it goes on where it stopped",
    phase="train",
    reads={"corpus": ("train.safetensors", "dev.safetensors", "tokenizer.json")},
    writes=(*MODEL, "curve.csv"),
    needs=(),
    title="The models",
    units={
        "loss": "nats per token",
        "best_loss": "nats per token",
        "trial_loss": "nats per token",
        "objective_loss": "of the objective",
        "objective_best_loss": "of the objective",
        "parameters": "parameters",
        "steps": "steps",
        "best_step": "steps",
        "skipped_steps": "steps",
        "epochs": "epochs",
        "word_vectors": "words",
        "tokens_seen": "tokens",
        "tokens_before": "tokens",
        "seconds_per_step": "seconds",
        "seconds_validation_step": "seconds",
        "seconds_total": "seconds",
        "seconds_before": "seconds",
        "tokens_per_second": "tokens per second",
    },
)
def lm(run: Run) -> Rows:
    """Losses, sizes and seconds of the training; its curve stands in curve.csv."""
    if run.entry.can({"static"}):
        from entity_transformers.models.static.entry import train_vectors

        yield from train_vectors(run)
    elif run.entry.can({"counts"}) or run.entry.can({"pretrained"}):
        yield from run.entry.kind.module().train(run)
    else:
        from entity_transformers.train.entry import train_model

        yield from train_model(run)
