"""Opens the files of score-setlm."""

from __future__ import annotations

from pathlib import Path

from entity_transformers.artifacts import write_json
from entity_transformers.cli.decisions import read_splits
from entity_transformers.logs import log_progress
from entity_transformers.study.params import Params
from entity_transformers.tasks.decisions.set_lm import SetLM, score_alone, score_told, tell_sets


def score_setlm(
    params: Params, corpus: Path, lm: Path, model: str, seed: int, output: Path
) -> None:
    """SetLM beside a trained model, learnt on train and chosen on setlm.choose: nats of each
    document of setlm.report by the model alone, with a learnt vector, told the decisions (words and
    decisions), and when nobody tells them (alone); and how many tokens were decided how.
    """
    trained, (_, texts), learn, found = read_splits(
        "setlm", params, corpus, lm, model, seed, tell_sets
    )
    decider, found["learning_rates"]["setlm"] = learn(
        lambda: SetLM(trained.width), SetLM.nats, "SetLM"
    )
    told = [score_told(trained, decider, text) for text in texts]
    alone = [score_alone(trained, decider, text) for text in log_progress(texts, "documents")]
    nats = {name: [one[name] for one in told] for name in ("words", "decisions")}
    found["nats"] |= {"alone": [float(one.sum()) for one in alone], **nats}
    names = ("named", "found", "right", "chosen")
    found["decided"] = {name: sum(one[name] for one in told) for name in names}
    write_json(output / "setlm.json", found)
