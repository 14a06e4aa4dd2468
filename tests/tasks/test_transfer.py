"""Fine-tuning against transformers' models with two heads; inputs; layers; scores."""

from dataclasses import replace
from functools import partial
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import task_files
import torch
import transformers
from sklearn.metrics import precision_recall_fscore_support
from tiny import ROOT, SMALL, lively_model, tiny_llama, tiny_model
from tiny_study import lay_inputs
from tokenizers import Tokenizer
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from written import teach

from entity_transformers.artifacts import RECORD, read_json, write_record
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.tasks import Example, find_task
from entity_transformers.kinds import KINDS
from entity_transformers.models import pretrained
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.resolve.registry import make_resolver
from entity_transformers.step import Run, execute
from entity_transformers.steps.transfer import Recipe
from entity_transformers.study.params import STEPS, parse
from entity_transformers.study.values import read_values
from entity_transformers.tasks.transfer import finetuned
from entity_transformers.tasks.transfer.finetuned import Finetuned, make_optimizer
from entity_transformers.tasks.transfer.inputs import Inputs, find_entities, make_inputs, shorten
from entity_transformers.tasks.transfer.runs import (
    Trainings,
    finetune,
    judge_groups,
    pair_versions,
    score_gap,
)

WINDOW, PAPER = 24, ROOT / "params.yaml"
KIND_NAMES = [name for name, kind in KINDS.items() if kind.can >= {"encode", "windows"}]
RECIPE = Recipe(
    examples=None, pretrained=True, layers=None, entities="off", auxiliary_weight=0.5,
    learning_rate=1e-2, warmup=0.1, batch=4, epochs=2, dropout=0.1, weight_decay=0.01,
    clip_norm=1.0, text_epochs=0, rate_divisor=1.0, schedule="linear", unfreezing=False,
    pooling="last",
)  # fmt: skip
ULMFIT = RECIPE.model_copy(update={
    "text_epochs": 1, "rate_divisor": 2.6, "schedule": "slanted", "unfreezing": True,
    "pooling": "concat", "epochs": 6, "auxiliary_weight": 0.0,
})  # fmt: skip
POLARITY, SNLI, WINOGRANDE = map(find_task, ("polarity", "snli", "winogrande"))
SISTERS = [
    Example("a", "train", ("The man saw Sarah and Maria because _ ran.",), 0, ("Sarah", "Maria"),
            (36, 37)),
    Example("b", "train", ("Maria met the dog, so _ ran home.",), 1, ("the dog", "Maria"),
            (22, 23)),
]  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return teach("a good bad film met Ann Bo because ran the dog number 1 2 3", 300)


def make_model(kind: str, tokenizer: Tokenizer, **changes: Any) -> LanguageModel:
    """Without dropout of its own, so that its losses can be compared."""
    return lively_model(kind, tokenizer.get_vocab_size(), window=WINDOW, **changes)


def polar(count: int) -> list[Example]:
    texts = ("a good film", "a bad film number")
    return [Example(str(i), "train", (f"{texts[i % 2]} {i % 3}",), 1 - i % 2) for i in range(count)]


def choices() -> list[Example]:
    sentence = "Ann met Bo because _ ran."
    return [
        Example("a", "train", (sentence,), 0, ("Ann", "Bo"), (19, 20)),
        Example("b", "train", (f"{sentence} the dog",), 1, ("Ann the dog", "Bo"), (19, 20)),
    ]


def test_inputs_are_those_of_figure_1(tokenizer: Tokenizer) -> None:
    size = tokenizer.get_vocab_size()
    start, delimiter, extract = size, size + 1, size + 2

    def ids(text: str) -> tuple[int, ...]:
        return tuple(tokenizer.encode(text).ids)

    one, other = ids("a dog"), ids(" the film ran")
    pair = Example("a", "train", ("a dog", "the film ran"), 2)
    [found] = make_inputs([Example("a", "train", ("a dog",), 1)], "classification", tokenizer, None)
    assert found == Inputs(((start, *one, extract),), 1, False)
    [found] = make_inputs([pair], "entailment", tokenizer, None)
    assert found.sequences == ((start, *one, delimiter, *other, extract),)
    found, _ = make_inputs(choices(), "pronoun", tokenizer, None)
    assert found.sequences[1] == (
        start, *ids("Ann met Bo because"), delimiter, *ids(" Bo ran."), extract
    )  # fmt: skip
    first = Example("a", "train", ("_ ran.",), 0, ("Ann", "Bo"), (0, 1))
    [found] = make_inputs([first], "pronoun", tokenizer, None)
    assert found.sequences[0] == (start, *ids("Ann ran."), extract)


@pytest.mark.parametrize(("pieces", "room", "context", "expected"), [
    ([[1, 2, 3]], 3, False, [[1, 2, 3]]),
    ([[1, 2, 3]], 2, False, [[1, 2]]),
    ([[1, 2, 3, 4], [5]], 3, False, [[1, 2], [5]]),
    ([[1], [5, 6, 7, 8]], 3, False, [[1], [5, 6]]),
    ([[1, 2, 3], [5, 6, 7]], 4, False, [[1, 2], [5, 6]]),
    ([[1, 2, 3], [5, 6]], 3, True, [[3], [5, 6]]),
    ([[1, 2], [5, 6, 7]], 2, True, [[], [5, 6]]),
])  # fmt: skip
def test_what_is_cut(pieces, room, context, expected):
    assert shorten(pieces, room, context) == expected


def test_a_long_example_is_cut_to_the_window_and_says_so(tokenizer: Tokenizer) -> None:
    long = Example("a", "train", ("good film " * 20, "bad dog " * 20), 0)
    [found] = make_inputs([long], "entailment", tokenizer, WINDOW)
    assert found.cut
    assert {len(row) for row in found.sequences} == {WINDOW}
    assert {row[-1] for row in found.sequences} == {tokenizer.get_vocab_size() + 2}
    [unlabelled] = make_inputs([replace(long, label=None)], "entailment", tokenizer, None)
    assert unlabelled.label == -1


@pytest.mark.parametrize(("kind", "name"), [("gpt1", "OpenAIGPT"), ("gpt2", "GPT2")])
@pytest.mark.parametrize("labels", [1, 3])
def test_losses_and_gradients_are_those_of_transformers_two_heads(kind, name, labels, tokenizer):
    """With the same weights: what both heads say, L2 + λ L1, and the gradient of every weight."""
    config, of = (getattr(transformers, name + of) for of in ("Config", "DoubleHeadsModel"))
    torch.manual_seed(1)
    task = WINOGRANDE if labels == 1 else SNLI
    ours = Finetuned(make_model(kind, tokenizer), task, 0.0).eval()
    with torch.no_grad():
        ours.head[1].weight.mul_(20)
    module = ours.model.module
    values = module.config.to_dict() | {"vocab_size": tokenizer.get_vocab_size() + 3}
    values |= {"summary_first_dropout": 0.0, "summary_type": "cls_index"}
    theirs: Any = of(config(**{k: v for k, v in values.items() if k != "dtype"})).eval()
    theirs.transformer.load_state_dict(module.transformer.state_dict())
    theirs.tie_weights()
    theirs.multiple_choice_head.summary = torch.nn.Linear(ours.model.width, labels)
    theirs.multiple_choice_head.summary.load_state_dict(ours.head[1].state_dict())
    pair = Example("p", "train", ("a good dog", "Ann ran because"), 2)
    for example in choices() if labels == 1 else [pair]:
        inputs = make_inputs([example], task.shape, tokenizer, None)
        said, nats = ours.read(inputs)
        rows = [torch.tensor(row) for row in inputs[0].sequences]
        tokens, wanted = (pad_sequence(rows, True, fill)[None] for fill in (0, -100))
        last = torch.tensor([[len(row) - 1 for row in rows]])
        chosen = theirs(tokens, mc_token_ids=last).mc_logits.reshape(1, -1)
        assert torch.allclose(said.flatten(), chosen.flatten(), atol=1e-5)
        # transformers' loss of words is the mean over all tokens: sequence by sequence it is ours
        words = [
            theirs(tokens[:, [i]], mc_token_ids=last[:, [i]], labels=wanted[:, [i]]).loss
            for i in range(len(rows))
        ]
        assert torch.allclose(nats, torch.stack(words), atol=1e-5)
        task_loss, word_loss = ours.losses(inputs)
        labelled = torch.tensor([int(inputs[0].label)])
        whole = functional.cross_entropy(chosen, labelled) + 0.5 * torch.stack(words).mean()
        total = task_loss + 0.5 * word_loss
        assert total.item() == pytest.approx(whole.item(), abs=1e-5)
        for model in (ours, theirs):
            model.zero_grad()
        total.backward()
        whole.backward()
        pairs = dict(theirs.transformer.named_parameters())
        pairs |= {"head": theirs.multiple_choice_head.summary.weight}
        own = dict(module.transformer.named_parameters()) | {"head": ours.head[1].weight}
        for key, parameter in own.items():
            assert torch.allclose(parameter.grad, pairs[key].grad, atol=1e-5), key


@pytest.mark.parametrize("pooling", ["last", "concat"])
@pytest.mark.parametrize("kind", KIND_NAMES)
def test_examples_side_by_side_are_read_as_each_alone(kind, pooling, tokenizer):
    """Also with their entities, by the models that read any."""
    torch.manual_seed(1)
    lm = lively_model(kind, tokenizer.get_vocab_size(), window=64)
    model = Finetuned(lm, WINOGRANDE, 0.1, pooling).eval()
    assert_read_alone(model, make_inputs(choices(), "pronoun", tokenizer, lm.context))
    if kind in ("gpt2e", "berte"):
        inputs = with_chains(tokenizer)
        assert len({len(row) for one in inputs for row in one.sequences}) > 1  # some are padded
        said = assert_read_alone(model, inputs)
        off, _ = model.read([replace(one, entities=(), read=()) for one in inputs])
        assert (off - said).abs().max() > 1e-4


def assert_read_alone(model: Finetuned, inputs: list[Inputs]) -> torch.Tensor:
    said, nats = model.read(inputs)
    alone = [model.read([one]) for one in inputs]
    assert torch.allclose(said, torch.cat([one for one, _ in alone]), atol=1e-5)
    assert torch.allclose(nats, torch.cat([one for _, one in alone]), atol=1e-5)
    return said


def test_a_model_that_sees_both_sides_has_no_loss_of_words(tokenizer: Tokenizer) -> None:
    """Its head is fed as by transformers' BERT; no variant differs in the auxiliary loss."""
    torch.manual_seed(1)
    model = Finetuned(make_model("bert", tokenizer), SNLI, 0.1).eval()
    size = tokenizer.get_vocab_size()
    texts = [("a good dog", "Ann ran because the film met Bo"), ("a dog", "ran")]
    pairs = [Example(str(i), "train", one, i) for i, one in enumerate(texts)]
    inputs = make_inputs(pairs, "entailment", tokenizer, None, first=model.first)
    assert {row[0] for one in inputs for row in one.sequences} == {size + 1}  # after the mask
    said, nats = model.read(inputs)
    module: Any = model.model.module
    for one, numbers in zip(inputs, said, strict=True):
        states = module.bert(torch.tensor(one.sequences)).last_hidden_state
        assert torch.allclose(model.head(states[0, -1]), numbers, atol=1e-5)
    assert not nats.any()
    assert not model.losses(inputs)[1]

    params = parse(read_values(PAPER) | {"models": {k: {"kind": k} for k in ("gpt2", "bert")}}, "x")
    gpt2, bert = (params.transfer.list_variants(one, "polarity") for one in params.entries())
    assert gpt2.keys() - bert.keys() == {"no-auxiliary"}
    assert gpt2["full"].auxiliary_weight == 0.5
    assert {recipe.auxiliary_weight for recipe in bert.values()} == {0}
    assert ULMFIT.fit(params.model("bert"), "polarity").text_epochs == 0


def test_examples_may_be_given_by_task() -> None:
    values = read_values(PAPER) | {"models": {"gpt2": {"kind": "gpt2"}}}
    variants = {"full": {}, "few": {"examples": 20}}
    values["transfer"] |= {"examples": {"snli": 500}, "variants": variants}
    params = parse(values, "params.yaml")
    for task, expected in (("polarity", [None, 20]), ("snli", [500, 20])):
        found = params.transfer.list_variants(params.model("gpt2"), task)
        assert [found[name].examples for name in variants] == expected
    values["transfer"]["examples"] = {"gap": 500}
    with pytest.raises(ValueError, match=r"examples: 'gap', expected one of polarity, snli"):
        parse(values, "params.yaml")


def test_entities_are_given_to_models_whose_states_they_change() -> None:
    values = read_values(PAPER)
    kinds = ("gpt2", "gpt2e", "gpt2-pointer")
    values["models"] = {kind: {"kind": kind, "labels": "gold"} for kind in kinds[1:]}
    values["models"]["gpt2"] = {"kind": "gpt2"}
    values["transfer"]["variants"] = {"full": {}, "chains": {"entities": "on"}}
    params = parse(values, "params.yaml")
    for kind, expected in zip(kinds, (["full"], ["full", "chains"], ["full"]), strict=True):
        assert list(params.transfer.list_variants(params.model(kind), "winogrande")) == expected


def test_a_model_without_word_losses_has_no_variant_of_them() -> None:
    values = read_values(PAPER)
    values["models"] = {kind: {"kind": kind} for kind in ("gpt2", "bert")}
    words = {"no-words": {"auxiliary_weight": 0.0}, "texts-first": {"text_epochs": 2}}
    values["transfer"]["variants"] = {"full": {}, **words}
    params = parse(values, "params.yaml")
    for kind, expected in (("gpt2", ["full", *words]), ("bert", ["full"])):
        assert list(params.transfer.list_variants(params.model(kind), "polarity")) == expected


def with_chains(tokenizer: Tokenizer, longest: int | None = None):
    chains = partial(find_entities, make_resolver("names-causal"), False, 5)
    return make_inputs(SISTERS, "pronoun", tokenizer, longest, chains)


def test_a_name_has_its_entity_on_both_sides_of_the_delimiter(tokenizer: Tokenizer) -> None:
    """Every token of a name has it, nothing else any; what is cut loses tokens and entities."""
    size = tokenizer.get_vocab_size()
    plain = make_inputs(SISTERS, "pronoun", tokenizer, None)
    for without, found in zip(plain, with_chains(tokenizer), strict=True):
        assert found.sequences == without.sequences
        assert without.entities == without.read == ()
        for row, entities, read in zip(found.sequences, found.entities, found.read, strict=True):
            assert len(row) == len(entities)
            assert row[read] == size + 1  # the delimiter
            named: dict[int, set[str]] = {}
            for entity, run in groupby(zip(row, entities, strict=True), itemgetter(1)):
                tokens = [token for token, _ in run if token < size]
                named.setdefault(entity, set()).add(tokenizer.decode(tokens).strip())
            assert {frozenset(names) for entity, names in named.items() if entity} <= {
                frozenset({"Sarah"}), frozenset({"Maria"})
            }  # fmt: skip
            assert not {"Sarah", "Maria"} & named[0]
    first, _ = with_chains(tokenizer)
    for entities, read in zip(first.entities, first.read, strict=True):
        again = set(entities[read:]) - {0}
        assert len(again) == 1
        assert again < set(entities[:read])
    assert first.entities[0][-9:] != first.entities[1][-9:]  # Sarah or Maria
    short, _ = with_chains(tokenizer, longest=20)
    assert short.cut
    for cut, whole in ((short.sequences, first.sequences), (short.entities, first.entities)):
        for row, all_of_it in zip(cut, whole, strict=True):
            assert len(row) == 20
            assert row[1:] == all_of_it[-19:]


@pytest.mark.parametrize(("kind", "pooling"), [("gpt2e", "last"), ("berte", "concat")])
def test_with_entities_the_context_is_read_before_the_whole(kind, pooling, tokenizer):
    """Without what follows, even by a model that sees both sides: against two passes for each
    sequence. Without entities or a context it is what it was.
    """
    torch.manual_seed(1)
    model = Finetuned(make_model(kind, tokenizer), WINOGRANDE, 0.1, pooling).eval()
    inputs = with_chains(tokenizer, longest=WINDOW)
    said, nats = model.read(inputs)
    for number, one in enumerate(inputs):
        for answer, (row, entities, read) in enumerate(
            zip(one.sequences, one.entities, one.read, strict=True)
        ):
            tokens, labels = torch.tensor([row]), torch.tensor([entities])
            lm, context = model.model, Batch(tokens[:, :read], labels[:, :read])
            first, memory = lm.encode(context, lm.start(1, int(labels.max())))
            rest, _ = lm.encode(Batch(tokens, labels), memory)
            states = torch.cat([first, rest[:, read:]], dim=1)
            pooled = finetuned.pool(states, torch.tensor([len(row)]), pooling)
            assert torch.allclose(model.head(pooled)[0], said[number, answer], atol=1e-5)
            if kind == "gpt2e":  # the other has no loss of words
                expected = lm.nats(states[:, :-1], tokens[:, 1:]).mean()
                assert torch.allclose(expected, nats.view_as(said)[number, answer], atol=1e-5)
    off, _ = model.read([replace(one, entities=(), read=()) for one in inputs])
    assert (off - said).abs().max() > 1e-4
    alone = [replace(one, read=(0,) * len(one.read)) for one in inputs]
    assert torch.allclose(model.read(alone)[0], off, atol=1e-5)


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_new_embeddings_come_after_the_old_ones(kind: str, tokenizer: Tokenizer) -> None:
    model = make_model(kind, tokenizer)
    before = finetuned.find_embeddings(model).detach().clone()
    numbers = model.count_parameters()
    torch.manual_seed(1)
    finetuned.extend_vocabulary(model, 1000)
    after = finetuned.find_embeddings(model)
    assert torch.equal(after[: len(before)], before)
    assert after[len(before) :].detach().std() == pytest.approx(0.02, rel=0.05)
    assert model.count_parameters() - numbers == 1000 * before.shape[1]
    tables = [one for one in model.module.modules() if isinstance(one, torch.nn.Embedding)]
    assert sum(one.weight is after for one in tables) == 1


def layer_of(name: str) -> int | None:
    return next((i for i in range(2) if f".{i}." in name), None)


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_the_first_layers_are_transferred(kind: str, tokenizer: Tokenizer) -> None:
    for layers in (0, 1, 2):
        model, fresh = (tiny_model(kind, tokenizer.get_vocab_size(), seed) for seed in (1, 2))
        before = {name: p.clone() for name, p in model.module.named_parameters()}
        finetuned.keep_layers(model, fresh, layers)
        other = dict(fresh.module.named_parameters())
        equal = {n for n, p in model.module.named_parameters() if torch.equal(p, before[n])}
        taken = {n for n, p in model.module.named_parameters() if torch.equal(p, other[n])}
        assert equal | taken == set(before)
        drawn = {name for name in before if before[name].std() > 0 and before[name].dim() > 1}
        blocks = {n for n in drawn if layer_of(n) is not None}
        assert equal & blocks == {n for n in blocks if layer_of(n) in range(layers)}
        assert any(n in equal for n in drawn - blocks)  # embeddings
    with pytest.raises(ValueError, match=r"transfer.layers 3, expected at most 2, the layers"):
        finetuned.keep_layers(model, fresh, 3)


def test_the_learning_rate_is_that_of_gpt_1_s_program() -> None:
    recipe = RECIPE.model_copy(update={"learning_rate": 2.0, "warmup": 0.2})
    rates = [finetuned.learning_rate(step, 10, recipe) for step in range(10)]
    assert rates == pytest.approx([1.0, 2.0, 1.4, 1.2, 1.0, 0.8, 0.6, 0.4, 0.2, 0.0])
    none = recipe.model_copy(update={"warmup": 0.0})
    assert finetuned.learning_rate(0, 10, none) == pytest.approx(1.8)


def test_the_slanted_schedule_is_fastai_s() -> None:
    """Numbers of fastai 2.8.12: combine_scheds([0.1, 0.9], [SchedLin(1e-2 / 32, 1e-2),
    SchedLin(1e-2, 1e-2 / 32)]) at step / 40.
    """
    recipe = ULMFIT.model_copy(update={"learning_rate": 1e-2, "warmup": 0.1})
    fastai = {0: 0.0003125, 1: 0.002734375, 3: 0.007578125, 4: 0.01, 5: 0.0097309028,
              22: 0.0051562494, 39: 0.0005815968}  # fmt: skip
    rates = {step: finetuned.learning_rate(step, 40, recipe) for step in fastai}
    assert rates == pytest.approx(fastai, rel=1e-6)
    assert finetuned.learning_rate(0, 1, recipe) == pytest.approx(1e-2 / 32)


def test_groups_and_their_rates_are_fastai_s(tokenizer: Tokenizer) -> None:
    """fastai 2.8.12 on an AWD-LSTM of three layers: awd_lstm_clas_split's five groups, the rates of
    slice(1e-2 / 2.6**4, 1e-2), and what Optimizer.freeze_to(-3) leaves open. The projection, which
    fastai's has not, is of the head's group.
    """
    model = Finetuned(make_model("awd-lstm", tokenizer, layers=3), POLARITY, 0.1)
    names = {parameter: name for name, parameter in model.named_parameters()}
    groups = finetuned.list_groups(model)
    kinds = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    assert [{names[one].removeprefix("module.") for one in group} for group in groups] == [
        {"embeddings.weight"},
        *({f"lstm.layers.{layer}.{kind}" for kind in kinds} for layer in range(3)),
        {"projection.weight", "projection.bias", "head.1.weight", "head.1.bias"},
    ]
    rates = {
        names[one]: 1e-2 * group["share"]
        for group in make_optimizer(groups, 5, ULMFIT).param_groups
        for one in group["params"]
    }
    fastai = [0.0002188298729, 0.0005689576695, 0.00147928994, 0.003846153846, 0.01]
    assert rates == pytest.approx({
        names[one]: rate for group, rate in zip(groups, fastai, strict=True) for one in group
    })  # fmt: skip
    make_optimizer(groups, 3, ULMFIT)
    opened = [{one.requires_grad for one in group} for group in groups]
    assert opened == [{False}, {False}, {True}, {True}, {True}]


def test_what_learns_while_layers_are_unfrozen(tokenizer: Tokenizer, monkeypatch) -> None:
    """First the words alone, without the head; then a group more in each epoch, from above."""
    torch.manual_seed(1)
    model = Finetuned(make_model("lstm", tokenizer), POLARITY, 0.1, "concat")
    groups, seen = finetuned.list_groups(model), []

    def copy() -> list[list[torch.Tensor]]:
        return [[one.detach().clone() for one in group] for group in groups]

    def note(*given: Any) -> Any:
        seen.append(copy())
        return make_optimizer(*given)

    monkeypatch.setattr(finetuned, "make_optimizer", note)
    finetuned.train(model, make_inputs(polar(8), "classification", tokenizer, WINDOW), ULMFIT, 1)
    seen.append(copy())

    def differ(one: list[torch.Tensor], other: list[torch.Tensor]) -> set[bool]:
        return {not torch.equal(*pair) for pair in zip(one, other, strict=True)}

    moved = [list(map(differ, *two)) for two in pairwise(seen)]
    no, yes = {False}, {True}
    # the head's group has the projection, which words need, and the linear layer, which they don't
    assert moved == [
        [yes, yes, yes, {True, False}], [no, no, no, yes], [no, no, yes, yes], [no, yes, yes, yes],
        [yes, yes, yes, yes],
    ]  # fmt: skip


def test_pooled_states_are_those_of_a_loop() -> None:
    hidden = torch.randn(3, 5, 2, generator=torch.Generator().manual_seed(1))
    lengths = [5, 1, 3]
    found = finetuned.pool(hidden, torch.tensor(lengths), "concat")
    for row, length in enumerate(lengths):
        for unit in range(2):
            numbers = hidden[row, :length, unit].tolist()
            wanted = [numbers[-1], max(numbers), sum(numbers) / length]
            assert found[row, unit::2].tolist() == pytest.approx(wanted)
    assert torch.equal(finetuned.pool(hidden, torch.tensor(lengths), "last"), found[:, :2])


def test_every_example_is_read_once_an_epoch() -> None:
    lengths = np.arange(50)
    first, again, other = (finetuned.order_examples(lengths, 4, 1, epoch) for epoch in (0, 0, 1))
    assert sorted(np.concatenate(first)) == list(range(50))
    assert all(map(np.array_equal, first, again))
    assert not np.array_equal(np.concatenate(first), np.concatenate(other))


@pytest.mark.parametrize("recipe", [RECIPE, ULMFIT], ids=["gpt1", "ulmfit"])
def test_a_model_learns_what_a_word_tells(recipe: Recipe, tokenizer: Tokenizer) -> None:
    torch.manual_seed(1)
    kind, rate = ("gpt2", 1e-2) if recipe is RECIPE else ("lstm", 5e-2)
    lm = tiny_model(kind, tokenizer.get_vocab_size(), window=WINDOW)
    model = Finetuned(lm, POLARITY, 0.1, recipe.pooling)
    inputs = make_inputs(polar(20), "classification", tokenizer, WINDOW)
    changes = {"epochs": 30, "auxiliary_weight": 0.0, "learning_rate": rate}
    finetuned.train(model, inputs, recipe.model_copy(update=changes), 1)
    inputs = make_inputs(polar(12), "classification", tokenizer, WINDOW)
    assert finetuned.predict(model, inputs, batch=5).tolist() == [one.label for one in inputs]


def make_study(folder: Path) -> dict[str, Any]:
    """The study of the paper with the steps on tasks, on a few examples of each."""
    values = read_values(PAPER)
    values["study"]["steps"] = ["corpus", "lm", "examples", "transfer"]
    values["lm"] |= SMALL | {"window": WINDOW}
    proposed = {"kind": "gpt2e", "role": "proposed", "labels": "gold"}
    values["models"] = {"gpt2": {"kind": "gpt2"}, "gpt2e": proposed}
    data = task_files.write_tasks(folder / "data", 6)
    values["examples"] = values["examples"] | {"path": str(data)}
    values["transfer"] |= {
        "epochs": 1, "tasks": ["polarity", "winogrande", "gap"], "seeds": [1, 2],
        "rate_factors": [0.5, 2.0],
        "variants": {
            "full": {},
            "embeddings": {"layers": 0, "models": ["gpt2e"]},
            "entities": {"entities": "on"},
            "entities-shuffled": {"entities": "shuffled", "tasks": ["gap"]},
            "of-another": {"epochs": 2, "models": ["gpt2"]},
            "few": {"examples": 1, "learning_rate": 1e-3, "tasks": ["polarity"]},
        },
    }  # fmt: skip
    return values


def test_the_steps_run_on_a_study_s_models_and_go_on(tokenizer, tmp_path, caplog, monkeypatch):
    values = make_study(tmp_path)
    params = parse(values, "tiny")
    monkeypatch.chdir(tmp_path)
    run = Run(params, STEPS["transfer"], "gpt2e", 1)
    lm = tiny_model("gpt2e", tokenizer.get_vocab_size(), seed=2, window=WINDOW)
    lay_inputs(run, tokenizer, lm)
    execute(Run(params, STEPS["examples"]))
    with caplog.at_level("INFO"):
        rows = list(finetune(run))
        assert "epoch 1/1" in caplog.text
        caplog.clear()
        assert list(finetune(run)) == rows
        assert "epoch" not in caplog.text
    paper = params.transfer.learning_rate
    tried = [row for row in rows if row["measure"] == "rate_loss"]  # all begin with trained weights
    places = {(row["task"], row["seed"], row["pretrained"]) for row in tried}
    assert places == {("polarity", 1, True)}
    assert [row["rate"] for row in tried] == [f"{factor * paper:g}" for factor in (0.5, 2)]
    trained = [row for row in rows if row["measure"] == "train_examples"]
    more = {"polarity": ["few"], "gap": ["entities-shuffled"]}
    assert [(row["task"], row["variant"], row["seed"]) for row in trained] == [
        (task, variant, seed)
        for task in ("polarity", "winogrande", "gap")
        for variant in ("full", "embeddings", "entities", *more.get(task, []))
        for seed in (1, 2)
    ]
    assert all((row["value"] == 1) == (row["variant"] == "few") for row in trained)
    assert {row["variant"] for row in rows if row["measure"] == "layers"} == {"embeddings"}
    entities = {"entities", "entities-shuffled"}
    assert {row["variant"] for row in rows if row["measure"] == "recalls"} == entities
    assert {row["variant"] for row in rows if row["measure"] == "moved"} == {"entities-shuffled"}
    pronouns = {"wsc273", "winobias", "gap"}
    assert {row["task"] for row in rows if row["measure"] == "accuracy"} == {
        "polarity", "winogrande", *(f"{one} after winogrande" for one in pronouns),
        "gap", *(f"{one} after gap" for one in pronouns - {"gap"}),
    }  # fmt: skip
    own = ("task", "split", "variant", "seed")
    for row in rows:
        if row["measure"] == "majority":  # of all examples, not of a group
            same = [one for one in rows if all(one.get(key) == row[key] for key in own)]
            right = [one["value"] for one in same if one["measure"] == "right"]
            accuracy = next(one["value"] for one in same if one["measure"] == "accuracy")
            assert len(right) == row["count"] > 0
            assert np.mean(right) == pytest.approx(accuracy)
    values["transfer"]["rate_factors"] = [0.5]  # the only one is not tried
    once = lambda self, make, name, recipe, seed: [{"rate": recipe.learning_rate}]  # noqa: E731
    monkeypatch.setattr(f"{finetune.__module__}.Trainings.once", once)
    rows = list(finetune(Run(parse(values, "tiny"), STEPS["transfer"], "gpt2e", 1)))
    assert {row["rate"] for row in rows} == {0.5 * paper, 1e-3}


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_of_others_is_fine_tuned_in_its_own_tokens(tied, tokenizer, tmp_path, monkeypatch):
    """In float32, and only if no other step reads the corpus, which is in the study's tokens."""
    own = teach("the film is as good as a dog number 7", 290)
    shape = {"vocab_size": own.get_vocab_size(), "tie_word_embeddings": tied}
    tiny_llama(**shape).save_pretrained(tmp_path / "llama")
    own.save(str(tmp_path / "llama/tokenizer.json"))
    values = make_study(tmp_path)
    values["study"]["steps"].append("perplexity")
    values["perplexity"] = values["perplexity"] | {"stride": WINDOW}
    entry = {"kind": "pretrained", "initial_weights": str(tmp_path / "llama")}
    values["models"]["llama"] = entry | {"only": ["lm", "transfer"], "precision": "bfloat16"}
    monkeypatch.chdir(tmp_path)
    run = Run(parse(values, "tiny"), STEPS["lm"], "llama", 1)
    run.home("corpus").mkdir(parents=True)
    tokenizer.save(str(run.home("corpus") / "tokenizer.json"))
    write_record(run.home("corpus"), [])
    for _ in range(2):  # a record of files that another one has written before is no part of them
        execute(run)
    assert RECORD not in read_json(run.folder / RECORD)["files"]
    execute(Run(run.params, STEPS["examples"]))
    trainings = Trainings(Run(run.params, STEPS["transfer"], "llama", 1))
    found = run.params.transfer.list_variants(run.entry, "polarity")
    assert list(found) == ["full", "few"]  # neither random weights nor entities
    model, inputs = trainings.train("polarity", found["full"], 1)
    examples = [one for one in trainings.examples["polarity"] if one.split == "train"]
    expected = make_inputs(examples, "classification", own, 64)
    assert [one.sequences for one in inputs] == [one.sequences for one in expected]
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    groups = finetuned.list_groups(model)
    sizes = [len(group) for group in groups]  # the norm above and the head; an output of its own
    assert sizes == [1, 9, 9, 3 if tied else 4]
    values["models"]["llama"]["only"].append("perplexity")
    with pytest.raises(ValueError, match=r"models\.llama: the study's tokens are not those of"):
        pretrained.train(Run(parse(values, "tiny"), STEPS["lm"], "llama", 1))


def find(tokenizer: Tokenizer, *texts: str, shuffled: bool = False) -> list[list[tuple[int, int]]]:
    """The character after each token of each text, and its entity."""
    ends = [[end for _, end in tokenizer.encode(text).offsets] for text in texts]
    labels = find_entities(make_resolver("names-causal"), shuffled, 1, texts, ends)
    return [list(zip(*pair, strict=True)) for pair in zip(ends, labels, strict=True)]


def test_a_name_has_its_label_and_shuffling_moves_labels_between_mentions(tokenizer):
    texts = [f"Sarah met Maria so {name} got the cases.\n" for name in ("Sarah", "Maria")]
    for entity, found in enumerate(find(tokenizer, *texts), start=1):
        assert {label for end, label in found if 18 < end <= 24} == {entity}
        assert max(label for end, label in found if end > 24) == 0
    long = " ".join(["Sarah met Maria and Bob . Sarah saw Ann ."] * 5)
    [plain], [moved] = (find(tokenizer, long, shuffled=shuffled) for shuffled in (False, True))
    assert plain != moved
    assert [label > 0 for _, label in plain] == [label > 0 for _, label in moved]
    assert find_entities(make_resolver("names-causal"), True, 1, [], []) == []


@pytest.mark.parametrize("seed", range(3))
def test_gap_s_scores_are_scikit_learn_s(seed: int) -> None:
    """Over all and of each gender, whose accuracies are shares."""
    generator = np.random.default_rng(seed)
    labels, chosen = generator.integers(-1, 2, 50), generator.integers(0, 2, 50)
    gender = np.array(["feminine", "masculine"])[generator.integers(0, 2, 50)]
    examples = [
        Example(
            "a", "test", ("a",), {-1: None}.get(label, label), ("A", "B"), (0, 1), {"gender": of}
        )
        for label, of in zip(labels.tolist(), gender.tolist(), strict=True)
    ]
    expected = {}
    for of, here in ((None, gender > ""), *((of, gender == of) for of in np.unique(gender))):
        truth = np.eye(3, dtype=bool)[labels[here]][:, :2]  # -1: neither name
        called = np.eye(2, dtype=bool)[chosen[here]]
        scores = precision_recall_fscore_support(truth.ravel(), called.ravel(), average="binary")
        expected["gap_f1", of] = scores[2]
        if of:
            expected["accuracy", of] = np.mean(labels[here] == chosen[here])
    rows = judge_groups("gap", examples, chosen)
    found = {(row["measure"], row.get("gender")): row["value"] for row in rows}
    assert found == pytest.approx(expected)
    assert score_gap(np.array([-1, -1]), chosen[:2]) == 0


def test_sentences_of_winobias_are_paired_with_their_other_version(shared_data: Path) -> None:
    """On its test split, decided by a coin: counts by the sentences' numbers."""
    examples = list(find_task("winobias").read(shared_data / "winobias", Ledger()))
    examples = [example for example in examples if example.split == "test"]
    chosen = np.random.default_rng(0).integers(0, 2, len(examples))
    right = {e.name: e.label == c for e, c in zip(examples, chosen.tolist(), strict=True)}
    rows = list(pair_versions(examples, chosen))
    assert len(rows) == 4
    for row in rows:
        both = [
            (right[name], right[other])
            for name in right
            if name.startswith(f"test-{row['type']}-") and name.endswith("-pro")
            if (other := name.removesuffix("pro") + "anti") in right
        ]
        assert len(both) == row["count"]
        assert len(both) > 0.95 * sum(e.groups["type"] == row["type"] for e in examples) / 2
        wanted = (True, False) if row["measure"] == "only_first" else (False, True)
        assert both.count(wanted) == row["value"] > 0
