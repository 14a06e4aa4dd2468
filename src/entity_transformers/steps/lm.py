"""Step lm (sections 3 and 4.1, figures 2 and 3): the language models of section models."""

from entity_transformers.step import MODEL, Rows, Run, step


@step(
    "lm",
    "[3, 4.1, figures 2 and 3] train a model; it resumes if it was stopped",
    phase="train",
    reads={"corpus": ("train.safetensors", "dev.safetensors", "tokenizer.json")},
    writes=(*MODEL, "curve.csv"),
    needs=(),
    title="The models",
)
def lm(run: Run) -> Rows:
    """Losses (nats per token, or of an objective of its own), sizes and seconds of the training."""
    if run.entry.can({"counts"}) or run.entry.can({"pretrained"}):
        yield from run.entry.kind.module().train(run)
    else:
        from entity_transformers.train.entry import train_model, train_vectors

        yield from (train_vectors if run.entry.can({"static"}) else train_model)(run)
