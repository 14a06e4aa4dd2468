"""Text as memory against a loop over transformers' model, one window at a time."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest
import torch
from tiny import KEPT, ROOT, VOCABULARY, keep_odd, lively_model, tiny_corpus
from torch.nn import functional

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give
from entity_transformers.step import Run
from entity_transformers.steps.kept_keys import KeptKeysParams
from entity_transformers.steps.text_memory import PolicyName, TextMemoryParams
from entity_transformers.study.params import STEPS, ParamsError, load, parse, read_study
from entity_transformers.tasks import text_memory
from entity_transformers.tasks.perplexity import score_corpus
from entity_transformers.tasks.policies import POLICIES
from entity_transformers.tasks.text_memory import Reading, score_windows

TOKENS = np.random.default_rng(2).integers(1, VOCABULARY, 41).astype(np.int32)


@pytest.mark.parametrize("stride", [2, 3, 5])
@pytest.mark.parametrize("batch", [1, 4])
def test_scores_are_those_of_a_plain_loop(stride: int, batch: int) -> None:
    model = lively_model("gpt2", window=9).eval()
    how = {"window": 5, "stride": stride, "batch": batch}
    found = text_memory.score_text_memory(model, TOKENS, keep_odd, **how)
    expected = np.zeros(len(TOKENS))
    for new in [0, *range(5, len(TOKENS) - 1, stride)]:
        end = min(new + (stride if new else 5), len(TOKENS) - 1)
        start = max(0, new + (stride if new else 5) - 5)
        places = [*keep_odd(start).tolist(), *range(start, end)]
        with torch.no_grad():
            logits = model.module(torch.from_numpy(TOKENS[places].astype(np.int64))[None]).logits[0]
        for row, place in enumerate(places):
            if row >= len(places) - (end - new):
                target = torch.tensor(int(TOKENS[place + 1]))
                expected[place + 1] = functional.cross_entropy(logits[row], target).item()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_rows_are_sums_over_the_tokens_of_each_kind() -> None:
    model = lively_model("gpt2", window=24).eval()
    corpus = tiny_corpus(3, seed=5, split="test")
    kept = ({"policy": "recent"}, {"policy": "half entities", "labels": "gold"})
    section = TextMemoryParams(**KEPT, budgets=(6,), kept=kept, batch_tokens=56)
    rows = list(text_memory.score_texts(Reading(model, corpus, section, 8, 1)))
    parts = text_memory.name_parts(give(corpus, "gold"), 8)
    assert (parts["all"] == sum(parts[name] for name in list(parts)[1:])).all()
    by_part = {part: where.sum() for part, where in parts.items()}
    for policy in ("none", "recent", "half entities"):
        own = [row for row in rows if row["policy"] == policy and "part" in row]
        for part, count in by_part.items():
            [loss] = [r for r in own if r["part"] == part and r["measure"] == "loss"]
            units = [r for r in own if r["part"] == part and r["measure"] == "nll"]
            assert loss["count"] == sum(r["count"] for r in units) == count
            total = sum(r["value"] for r in units)
            assert loss["value"] == pytest.approx(total / count if count else None)
    place = ("none", "all", "loss")
    [plain] = [r for r in rows if (r["policy"], r.get("part"), r["measure"]) == place]
    nll = score_corpus(model, give(corpus, "none"), window=8, stride=4, batch=2)
    assert plain["value"] == pytest.approx(nll[parts["all"]].mean(), rel=1e-5)
    [bits] = [r for r in rows if (r["policy"], r["measure"]) == ("none", "bits_per_byte")]
    assert bits["count"] == corpus.bytes.sum() > 0
    assert bits["value"] * np.log(2) * bits["count"] == pytest.approx(nll.sum(), rel=1e-5)


def test_what_cannot_be_scored_is_refused() -> None:
    values = KEPT | {"budgets": (6,), "batch_tokens": 56}
    with pytest.raises(ValueError, match=r"context 8 leaves no new token in a window of 8: name"):
        TextMemoryParams(**values | {"context": 8, "kept": ({"policy": "recent"},)})
    with pytest.raises(ValueError, match="Input should be 'recent', 'mentions'"):
        TextMemoryParams(**values, kept=({"policy": "everything"},))
    values = read_study(ROOT / "studies/sample.yaml") | {"name": "x"}
    values["study"]["steps"] = [*values["study"]["steps"], "text_memory"]
    values["text_memory"]["kept"] = [{"policy": "entities", "labels": "resolver:names"}]
    values["corpus"]["resolvers"] = []
    with pytest.raises(ParamsError, match=r"text_memory\.labels: 'resolver:names', but"):
        parse(values, "x")
    assert set(POLICIES) == set(get_args(PolicyName))
    section = KeptKeysParams(**KEPT, budgets=(3,), sinks=0, kept=({"policy": "recent"},))
    corpus = tiny_corpus(1, split="test", shortest=40, longest=41)  # whose last token is not read
    own = {"section": section, "trained": SimpleNamespace(context=38), "split": lambda _: corpus}
    run: Any = SimpleNamespace(**own, step=STEPS["kept_keys"], model="gpt2")
    with pytest.raises(ValueError, match="reads 39 tokens at once, but gpt2 reads at most 38"):
        list(score_windows(run, list))


def test_a_stopped_run_goes_on_with_the_next_window(tmp_path, monkeypatch) -> None:
    """What is done is not done again, by the same values; windows and texts may be added."""
    monkeypatch.chdir(tmp_path)
    corpus = tiny_corpus(2, seed=5, split="test")
    asked: list[tuple[int, tuple[int, ...]]] = []
    (tmp_path / "run.json").write_text("{}")

    class Stopped(Run):
        trained: Any = SimpleNamespace(context=None)  # type: ignore[assignment]

        def home(self, name: str) -> Path:
            return tmp_path

        def split(self, name: str) -> AlignedCorpus:
            return corpus

    def score(reading: Reading) -> Any:
        window, read = reading.window, reading.corpus
        asked.append((window, reading.section.budgets))
        if window == 12 and asked.count((12, (6,))) == 1:
            raise KeyboardInterrupt
        yield {"measure": "loss", "value": np.float64(window / 7), "count": np.int64(len(read))}

    def rows(windows: tuple[int, ...], budget: int) -> list[dict[str, Any]]:
        values = KEPT | {"windows": windows, "budgets": (budget,), "batch_tokens": 56}
        section = TextMemoryParams(**values, kept=({"policy": "recent"},))
        params = load(ROOT / "params.yaml").model_copy(update={"text_memory": section})
        return list(score_windows(Stopped(params, STEPS["text_memory"], "gpt2", 1), score))

    with pytest.raises(KeyboardInterrupt):
        rows((8, 12), 6)
    found = [(row["value"], row["count"], row["text"]) for row in rows((8, 12, 16), 6)]
    assert found == [(window / 7, 2, "original") for window in (8, 12, 16)]
    rows((8,), 7)
    assert asked == [(8, (6,)), (12, (6,)), (12, (6,)), (16, (6,)), (8, (7,))]
