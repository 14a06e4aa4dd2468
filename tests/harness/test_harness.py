"""lm-evaluation-harness, where it is installed: its tasks from local files, both models of ours."""

import json
import math
import re
import sys
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml
from plainly import score_continuation
from tiny import lively_model
from tokenizers import Tokenizer
from written import teach

from entity_transformers import harness
from entity_transformers.corpus.alignment import END
from entity_transformers.corpus.readers.sample import read_passages
from entity_transformers.corpus.tasks import Example
from entity_transformers.harness.scoring import Pair, score_pairs
from entity_transformers.models.base import LanguageModel
from entity_transformers.models.folders import save_tokenizer
from entity_transformers.tasks import choices
from entity_transformers.tasks.lambada import encode_passages, passage_rows, score_passages

pytest.importorskip("lm_eval", reason="lm-evaluation-harness is not installed: extra lm-eval")
pytest.importorskip("accelerate")

WINDOW = 64
PASSAGES = read_passages()[:30]
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    found = teach(" ".join(read_passages()[200:]), 700)
    assert found.token_to_id(END) == 0  # the tiny models' own
    return found


@pytest.fixture(scope="module")
def trained(tokenizer: Tokenizer) -> LanguageModel:
    return lively_model("gpt2e", tokenizer.get_vocab_size(), window=WINDOW)


@pytest.fixture(scope="module")
def exported(trained: LanguageModel, tokenizer: Tokenizer, tmp_path_factory: Any) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    trained.save(folder)
    save_tokenizer(tokenizer, folder, trained.context)
    return folder


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its data sets are read from files, and kept where the test ends."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


def make(name: str, folder: Path, **how: Any) -> Any:
    import lm_eval.models  # noqa: F401 - registers its own
    from lm_eval.api.registry import get_model

    import entity_transformers.harness.model  # noqa: F401 - registers ours

    return get_model(name)(pretrained=str(folder), batch_size=4, device="cpu", **how)


def ask(*texts: Any) -> Any:
    """A request of the harness, as far as a model sees it."""
    return SimpleNamespace(args=texts, task_name="test")


def localise(name: str, folder: Path, split: str, rows: list[dict[str, Any]], yaml_of: str) -> str:
    """The harness' own task with a file for its data."""
    import lm_eval.tasks

    data = folder / f"{name}.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {
        "include": str(Path(lm_eval.tasks.__file__).parent / yaml_of), "task": name, "tag": [],
        "dataset_path": "json", "dataset_name": None, "training_split": None,
        "dataset_kwargs": {"data_files": {split: str(data)}},
    }  # fmt: skip
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(task))
    return name


def evaluate(model: Any, folder: Path, task: str) -> tuple[dict[str, Any], list[Any]]:
    """The harness' scores of a task, and what the model answered to each request, in order."""
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(folder), include_defaults=False)
    how = {"task_manager": manager, "bootstrap_iters": 0, "log_samples": True}
    found = simple_evaluate(model=model, tasks=[task], **how)
    samples = sorted(found["samples"][task], key=lambda sample: sample["doc_id"])
    return found["results"][task], [answer for one in samples for [answer] in one["resps"]]


def lambada(folder: Path) -> str:
    rows = [{"text": text} for text in PASSAGES]
    return localise("lambada_here", folder, "test", rows, "lambada/lambada_openai.yaml")


def test_lambada_is_the_project_s_by_both_models(exported, trained, tokenizer, tmp_path):
    rows = [{"text": text, "target_start": text.rfind(" ") + 1} for text in PASSAGES]
    scores = score_passages(trained, encode_passages(rows, tokenizer), window=WINDOW, batch=8)
    own = {row["measure"]: row["value"] for row in passage_rows(scores)}
    theirs = make("hf", exported, trust_remote_code=True, dtype="float32")
    for model in (theirs, make("entity-transformers", exported, entities="off")):
        found, answers = evaluate(model, tmp_path, lambada(tmp_path))
        nats = [-float(answer[0]) for answer in answers]
        assert nats == pytest.approx(scores.target_nll.tolist(), rel=1e-5)
        expected = pytest.approx(math.log(own["last_word_perplexity"]), rel=1e-5)
        assert math.log(found["perplexity,none"]) == expected
        assert found["acc,none"] == own["last_word_accuracy"]


def test_without_entities_its_hf_and_ours_answer_alike(exported: Path) -> None:
    theirs = make("hf", exported, dtype="float32")  # the package is imported: no remote code
    ours = make("entity-transformers", exported, entities="off")
    long = " ".join(PASSAGES[:3])
    pairs = [
        ("Anna met Bob.", " She left"), ("Anna met  ", "Bob."), ("", "Anna met Bob."),
        (long, " and then Bob left."), ("Bob", " " + long[:120]),
    ]  # fmt: skip
    requests = [ask(*pair) for pair in pairs]
    expected, found = (model.loglikelihood(requests) for model in (theirs, ours))
    assert [a[0] for a in found] == pytest.approx([a[0] for a in expected], rel=1e-5)
    assert [a[1] for a in found] == [a[1] for a in expected]
    blank, none = (ours.loglikelihood([ask(*pair)]) for pair in ((" ", "Anna."), ("", " Anna.")))
    assert blank == none  # of which theirs makes an AssertionError
    texts = [ask("Anna."), ask(long), ask(PASSAGES[3])]
    expected = pytest.approx(theirs.loglikelihood_rolling(texts), rel=1e-5)
    assert ours.loglikelihood_rolling(texts) == expected
    # each token of the next text is most likely a stop somewhere
    free = {"until": [], "max_gen_toks": 20}
    asked = [("Anna met Bob.", free), (long, free)]
    expected, found = (
        model.generate_until([ask(c, dict(o)) for c, o in asked]) for model in (theirs, ours)
    )
    assert found == expected
    assert all(len(text) > 8 for text in found)
    stop = {"until": [found[0][6:9]], "max_gen_toks": 20}
    [cut], [also] = (m.generate_until([ask("Anna met Bob.", dict(stop))]) for m in (theirs, ours))
    assert cut == also == found[0][: found[0].index(stop["until"][0])]
    ours._config.eos_token_id = [ours.eot_token_id, second := ours.tok_encode(found[0][6:])[0]]
    [cut] = ours.generate_until([ask("Anna met Bob.", dict(free))])
    assert cut == found[0].split(ours._decode([second]))[0]


def test_pronouns_are_decided_in_both_tasks(exported, trained, tokenizer, tmp_path, monkeypatch):
    """By what follows and by what she refers to: the package's own, on lines of examples.jsonl."""
    sentence = "Anna asked the farmer because {} knew the way home."
    rows = [
        Example(f"{name}-{her}", "test", (sentence.format(her),), label, ("Anna", name), (26, end))
        for name, label in (("the farmer", 1), ("Bob", 0), ("the old clerk", 1))
        for her, end in (("She", 29), ("he", 28))
    ]
    lines = "".join(json.dumps({"task": "winobias"} | asdict(row)) + "\n" for row in rows)
    (tmp_path / "pronouns.jsonl").write_text(lines)
    monkeypatch.chdir(tmp_path)
    folder = Path(harness.__file__).parent / "tasks"
    ours = make("entity-transformers", exported, entities="off")
    for task in ("pronoun_partial", "pronoun_refers"):
        found, answers = evaluate(ours, folder, task)
        expected = []
        for row in rows:
            text, (start, end) = row.texts[0], row.blank or (0, 0)
            for option in row.options:
                texts = f'{text} "{text[start:end].lower()}" refers to', f" {option}"
                if task == "pronoun_partial":
                    texts = text[:start] + option, text[end:]
                expected.append(score_continuation(trained, tokenizer, *texts, WINDOW)[0])
        assert [float(answer[0]) for answer in answers] == pytest.approx(expected, rel=1e-5)
        scoring = task.removeprefix("pronoun_")  # that of step choices
        every = [texts for row in rows for texts in choices.ask(row, scoring)]
        asked = choices.encode(every, tokenizer)
        scores = [score for score, _ in score_pairs(trained, asked, window=WINDOW, batch=4)]
        assert scores == pytest.approx(expected, rel=1e-5)
        first, *_ = choices.judge("wsc273", rows, np.array(scores).reshape(-1, 2), scoring=scoring)
        assert found["acc,none"] == pytest.approx(first["value"])
        pairs = zip(expected[::2], expected[1::2], rows, strict=True)
        right = [(one >= other) == (row.label == 0) for one, other, row in pairs]
        assert found["acc,none"] == pytest.approx(sum(right) / len(right))


CONTEXT = "Mr. Darcy met Anna Smith in London. Bob saw Anna Smith there. Then Mr."


def test_entities_are_read_from_the_context_alone(exported, monkeypatch):
    on = make("entity-transformers", exported, entities="on")
    off = make("entity-transformers", exported, entities="off")
    shuffled = make("entity-transformers", exported, entities="shuffled")
    ends = (" Darcy left.", " Darcy", " went on.")
    seen: list[Pair] = []

    def watch(_: Any, pairs: list[Pair], **how: Any) -> list[tuple[float, bool]]:
        seen.extend(pairs)
        return score_pairs(_, pairs, **how)

    monkeypatch.setattr("entity_transformers.harness.model.score_pairs", watch)
    answers = [
        [answer[0] for answer in model.loglikelihood([ask(CONTEXT, end) for end in ends])]
        for model in (on, off, shuffled)
    ]
    alone = [on.loglikelihood([ask(CONTEXT, end)])[0][0] for end in ends]
    assert alone == pytest.approx(answers[0], rel=1e-5)
    labels = [set(pair.entities) for pair in seen[:3]]
    assert labels[0] == {0, 1, 2, 3, 4}
    for pair in (*seen[:3], *seen[9:]):  # whatever follows, Darcy after Mr. among it
        assert pair.entities == seen[0].entities
    assert not any(any(pair.entities) for pair in seen[3:6])
    assert seen[6].entities != seen[0].entities  # the same mentions, other entities
    assert [one > 0 for one in seen[6].entities] == [one > 0 for one in seen[0].entities]
    for other in answers[1:]:
        assert min(abs(a - b) for a, b in zip(answers[0], other, strict=True)) > 1e-3


def test_entities_of_a_model_without_are_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    plain = lively_model("gpt2", tokenizer.get_vocab_size(), window=WINDOW)
    plain.save(tmp_path)
    save_tokenizer(tokenizer, tmp_path, plain.context)
    with pytest.raises(ValueError, match="GPT2LMHeadModel reads no entities: give entities=off"):
        make("entity-transformers", tmp_path)
    assert make("entity-transformers", tmp_path, entities="off").loglikelihood([ask("a", " b")])


def test_a_text_is_read_and_written_with_its_entities(exported: Path) -> None:
    on = make("entity-transformers", exported, entities="on")
    off = make("entity-transformers", exported, entities="off")
    text = " ".join(["Anna Smith met Bob Jones in London."] * 12)
    assert len(on.tok_encode(text)) > 2 * WINDOW
    a, b = (model.loglikelihood_rolling([ask(text)])[0] for model in (on, off))
    assert abs(a - b) > 1e-2
    options = {"until": ["\n\n"], "max_gen_toks": 12}
    [written] = on.generate_until([ask(text, options)])
    source = on.reader.encode_tokens(on.tok_encode(text), on._find_entities([text])[text])
    how = {"max_new_tokens": 12, "new_entities": on._label_last, "do_sample": False}
    again = on.reader.generate(source, **how)
    assert written == on.reader.decode(again.tokens[len(source.tokens) :])
    assert len(written) > 6


@pytest.mark.parametrize(("how", "message"), [
    ({"entities": "gold"}, "entities is 'gold', expected one of on, off, shuffled"),
    ({"resolver": "names"}, "names reads ahead"),
    ({"batch_size": "auto"}, "batch_size is 'auto', expected a number"),
])  # fmt: skip
def test_what_can_t_be_asked_is_told(exported: Path, how: dict[str, str], message: str) -> None:
    from entity_transformers.harness.model import EntityTransformer

    with pytest.raises(ValueError, match=message):
        EntityTransformer(exported, **how)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="text, word 2: 10,000,000 characters without a space"):
        EntityTransformer(exported).tok_encode("a " + "x" * 10_000_000)


@pytest.mark.slow
def test_its_command_line_knows_both_models(exported, tmp_path, monkeypatch, capsys):
    from entity_transformers.harness.__main__ import main

    task, shown = lambada(tmp_path), {}
    for name, more in (("hf", ",dtype=float32"), ("entity-transformers", ",entities=off")):
        line = (
            f"lm-eval --model {name} --model_args pretrained={exported}{more} --tasks {task}"
            f" --include_path {tmp_path} --device cpu --batch_size 4 --limit 5"
        )
        monkeypatch.setattr(sys, "argv", line.split())
        main()
        found = re.findall(r"\|perplexity *\|[^|]*\| *([\d.]+)", capsys.readouterr().out)
        [shown[name]] = map(float, found)
    assert shown["hf"] == pytest.approx(shown["entity-transformers"], rel=1e-3)
