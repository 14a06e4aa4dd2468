"""The kinds of models, one entry of `KINDS` each, and the entries of section ``models``.

This package is imported wherever a params.yaml is read, so nothing here imports torch: a kind only
names the module that builds and loads its models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pydantic import ValidationError

from entity_transformers.corpus.layers import EXPECTED, is_layer, split_layer
from entity_transformers.kinds import params as p
from entity_transformers.kinds.params import LmParams as LmParams
from entity_transformers.study.libraries import find_missing
from entity_transformers.study.sections import Section

ROLES = ("baseline", "proposed", "control", "other")
ERAS = ("counts", "static vectors", "recurrent", "transformer", "memory")
CAPABILITIES = {
    "encode": "gives vectors of words and mentions (tables 4 and 5)",
    "causal": "predicts each token from the text before it alone (tables 2 and 3)",
    "attend": "gives attention weights by head (probe)",
    "entities": "reads and writes a memory of entities, so that entities can be on or off",
    "guided": "uses entity labels in training only",
    "state": "carries a state from one window of a document to the next",
    "masked": "predicts masked tokens from the context on both sides",
    "replaced": "detects tokens replaced by a generator, from the context on both sides",
    "layers": "gives vectors of several layers, which a tagger mixes or reads at different depths",
    "windows": "is trained by gradient descent on windows of running text, set in section lm",
    "finetunes": "can be fine-tuned on a labelled task",
    "counts": "is estimated from counts of its training text, not by gradient descent",
    "pretrained": "was trained by others and is used as it is",
    "own-tokens": "has its own tokenizer instead of the study's",
    "static": "has one vector per word in any context, learnt by its own trainer",
}


@dataclass(frozen=True)
class Kind:
    """One kind of model: its name, its capabilities and the module that builds it."""

    name: str  # its key in params.yaml
    label: str  # its name in tables
    year: int  # of its paper; for pretrained models and encoders, of SmolLM2 and MiniLM
    era: str  # one of `ERAS`; a study's comparison of systems is sorted by era, then year
    params: type[Section]  # an `LmParams`, or a class with few or none of section lm's keys
    can: frozenset[str]  # keys of `CAPABILITIES`; a step runs only for kinds with all it needs
    home: str  # module with its `LanguageModel`; for a static kind, with train and load
    also: frozenset[str] = frozenset()  # other kinds whose weights it can start from
    cuts: bool = False  # can it start from weights with more positions, taking the first?
    reads: tuple[str, ...] = ()  # files of step corpus that its training reads besides step lm's
    library: str = ""  # package that its training imports beyond the requirements
    predicts: str = ""  # part of the model that its nats per token measure, for tables; "": all

    def module(self) -> Any:
        """Import and return the module `home`."""
        return import_module(self.home)

    @property
    def missing(self) -> str:
        """A line that says what to install before training; "" if nothing is missing."""
        return find_missing(f"kind {self.name}", *filter(None, [self.library]))


MODELS = "entity_transformers.models"
ENCODES = frozenset({"encode", "windows", "finetunes"})
CAUSAL = ENCODES | {"causal"}
CARRIES = CAUSAL | {"state"}
ATTENDS = CAUSAL | {"attend"}
REMEMBERS = ATTENDS | {"entities", "state"}
GPT2 = frozenset({"gpt2"})
STATIC: Any = {"can": frozenset({"encode", "static"}), "reads": ("train.jsonl",)}

# fmt: off
KINDS = {kind.name: kind for kind in (
    Kind("awd-lstm", "AWD-LSTM", 2018, "recurrent", p.LSTMParams, CARRIES, f"{MODELS}.lstm",
         also=frozenset({"lstm"})),
    Kind("bert", "BERT", 2019, "transformer", p.BertParams, ENCODES | {"masked"}, f"{MODELS}.bert"),
    Kind("berte", "BERTE", 2020, "memory", p.BertParams,
         ENCODES | {"masked", "entities", "state"}, f"{MODELS}.bert"),
    Kind("electra", "ELECTRA", 2020, "transformer", p.ElectraParams, ENCODES | {"replaced"},
         f"{MODELS}.electra"),
    Kind("elmo", "ELMo", 2018, "recurrent", p.ELMoParams, CARRIES | {"layers"}, f"{MODELS}.elmo",
         predicts="forward half"),
    Kind("fasttext", "fastText", 2017, "static vectors", p.FastTextParams,
         home=f"{MODELS}.static.skipgram", library="gensim", **STATIC),
    Kind("glove", "GloVe", 2014, "static vectors", p.GloVeParams, home=f"{MODELS}.static.glove",
         **STATIC),
    Kind("gpt1", "GPT1", 2018, "transformer", p.GPT1Params, CAUSAL, f"{MODELS}.gpt1", cuts=True),
    Kind("gpt2", "GPT2", 2019, "transformer", p.GPT2Params, ATTENDS, f"{MODELS}.gpt2", cuts=True),
    Kind("gpt2-antecedent", "GPT2 antecedent", 2020, "transformer", p.GPT2AntecedentParams,
         ATTENDS | {"guided"}, f"{MODELS}.gpt2_antecedent", also=GPT2, cuts=True),
    Kind("gpt2-pointer", "GPT2 pointer", 2026, "memory", p.PointerParams, REMEMBERS,
         f"{MODELS}.pointer.model", also=GPT2, cuts=True),
    Kind("gpt2e", "GPT2E", 2020, "memory", p.GPT2EParams, REMEMBERS, f"{MODELS}.gpt2",
         also=GPT2, cuts=True),
    Kind("lstm", "LSTM", 2014, "recurrent", p.LSTMParams, CARRIES, f"{MODELS}.lstm"),
    Kind("ngram", "n-gram", 1991, "counts", p.NGramParams, frozenset({"causal", "state", "counts"}),
         f"{MODELS}.ngram"),
    Kind("pretrained", "Pretrained", 2025, "transformer", p.PretrainedParams,
         frozenset({"encode", "causal", "attend", "layers", "finetunes", "pretrained"}),
         f"{MODELS}.pretrained"),
    Kind("pretrained-encoder", "Pretrained encoder", 2020, "transformer", p.PretrainedParams,
         frozenset({"encode", "finetunes", "layers", "pretrained", "own-tokens"}),
         f"{MODELS}.pretrained"),
    Kind("pretrained-entities", "Pretrained E.T.", 2020, "memory", p.PretrainedEParams,
         frozenset({"encode", "causal", "entities", "state", "pretrained"}),
         f"{MODELS}.pretrained_entities"),
    Kind("taglm", "TagLM", 2017, "recurrent", p.ELMoParams, CARRIES | {"layers"}, f"{MODELS}.elmo",
         also=frozenset({"elmo"}), predicts="forward half"),
    Kind("transformer-xl", "Transformer-XL", 2019, "memory", p.TransformerXLParams,
         CARRIES, f"{MODELS}.transformer_xl"),
    Kind("word2vec", "word2vec", 2013, "static vectors", p.Word2VecParams,
         home=f"{MODELS}.static.skipgram", library="gensim", **STATIC),
    Kind("xlnet", "XLNet", 2019, "transformer", p.XLNetParams, CARRIES, f"{MODELS}.transformer_xl",
         predicts="from left to right"),
)}
# fmt: on


@dataclass(frozen=True)
class ModelEntry:
    """One named entry of section ``models``, with all its values resolved."""

    name: str
    kind: Kind
    role: str  # one of `ROLES`
    labels: str  # the layer of entity labels that it is given in training and evaluation
    lm: Any  # typed parameters of its kind
    extra: int = 0  # parameters per layer beyond its kind's own, to match another entry

    @property
    def label(self) -> str:
        """Its name in tables and figures: the kind's label, then what the entry's name adds to it;
        "matched" becomes "parameter-matched" for an entry that is matched to another.
        """
        rest = self.name.removeprefix(self.kind.name).strip("-")
        if getattr(self.lm, "matched_to", None) is not None:
            rest = rest.replace("matched", "parameter-matched")
        return f"{self.kind.label} {rest}".strip()

    @property
    def has_entities(self) -> bool:
        """Does the model read entities, so that entities on and off can differ?"""
        return self.can({"entities"})

    @property
    def initial_weights(self) -> str | None:
        """The weights that training starts from; None: random ones."""
        return self.lm.initial_weights

    @property
    def drawn(self) -> bool:
        """Does the seed affect the model?"""
        return self.kind.params not in (p.PretrainedParams, p.NGramParams)

    @property
    def lags(self) -> bool:
        """Does the model itself hold labels back until their mentions have ended?"""
        return hasattr(self.lm, "entity_lag")

    def can(self, needs: Iterable[str]) -> bool:
        """Does its kind have all these capabilities?"""
        return self.kind.can.issuperset(needs)

    def require(self, needs: Iterable[str], step: str, key: str) -> ModelEntry:
        """Return the entry, at ``key``; raise KindError if it can't do what ``step`` needs."""
        if not self.can(needs):
            has = f"has the capabilities {', '.join(sorted(self.kind.can))}"
            needed = explain_needs({*needs} - self.kind.can)
            raise KindError(f"{key}: kind {self.kind.name} {has}, but step {step} needs {needed}")
        return self


class KindError(ValueError):
    """An invalid entry of ``models``; the message names the entry, the key and the value."""


def explain_needs(needs: Iterable[str]) -> str:
    """Describe the capabilities in words."""
    return " and ".join(f"{need} ({CAPABILITIES[need]})" for need in sorted(needs))


def list_abilities(entries: Iterable[ModelEntry]) -> str:
    """List the capabilities of each entry, in one line."""
    abilities = ((e.name, ", ".join(sorted(e.kind.can))) for e in entries)
    return "; ".join(f"{name} has the capabilities {can}" for name, can in abilities)


def resolve(
    name: str,
    models: Mapping[str, Mapping[str, Any]],
    lm: Mapping[str, Any],
    of_kind: Mapping[str, Mapping[str, Any]],
    kinds: Mapping[str, Kind],
) -> ModelEntry:
    """Resolve entry ``name``: its own values override its kind's, which override those of section
    ``lm`` that the kind has. An error is a KindError that begins with the keys in question.
    """
    entry, here = dict(models[name]), f"models.{name}"
    found, role = entry.pop("kind", None), entry.pop("role", "other")
    labels = entry.pop("labels", "none")
    if not isinstance(found, str) or found not in kinds:
        raise KindError(f"{here}.kind: {found!r}, expected one of {', '.join(kinds)}")
    if role not in ROLES:
        raise KindError(f"{here}.role: {role!r}, expected one of {', '.join(ROLES)}")
    if not is_layer(labels):
        raise KindError(f"{here}.labels: {labels!r}, expected one of {', '.join(EXPECTED)}")
    kind, own = kinds[found], of_kind.get(found, {})
    shared = {key: value for key, value in lm.items() if key in kind.params.model_fields}
    try:
        params = kind.params.model_validate({**shared, **own, **entry})
    except ValidationError as error:
        raise KindError(_explain(error, name, kind, entry, own)) from None
    if "matched_to" in own:
        raise KindError(
            f"kinds.{found}.matched_to: {own['matched_to']!r}, but only an entry of models can be"
            f" matched: give it in {here}"
        )
    (change, base), wrong = split_layer(labels), ""
    if labels != "none" and not kind.can & {"entities", "guided"}:
        wrong = f"{labels!r}, but kind {found} reads no entities: leave labels out"
    elif change == "lagged" and hasattr(params, "entity_lag"):
        wrong = f"{labels!r}, but kind {found} lags its labels itself: give {base}"
    elif labels == "none" and "guided" in kind.can:
        wrong = f"none, but kind {found} learns from labels: give some, or use another kind"
    if wrong:
        raise KindError(f"{here}.labels: {wrong}")
    if (matched := getattr(params, "matched_to", None)) is None:
        return ModelEntry(name, kind, role, labels, params)
    free = [other for other in models if models[other].get("matched_to") is None]
    if matched not in free:
        raise KindError(
            f"{here}.matched_to: {matched!r}, expected an entry without matched_to:"
            f" {', '.join(free) or 'none exists'}"
        )
    extra = resolve(matched, models, lm, of_kind, kinds).lm.count_extra()
    return ModelEntry(name, kind, role, labels, params, extra)


def _explain(
    error: ValidationError, name: str, kind: Kind, entry: Mapping[str, Any], own: Mapping[str, Any]
) -> str:
    """Return one line per invalid key, which is named by its place in params.yaml."""
    lines = []
    for problem in error.errors():
        key = str(problem["loc"][0]) if problem["loc"] else ""
        place = f"lm.{key} (for models.{name})"
        if key in entry or not key:
            place = f"models.{name}.{key}".rstrip(".")
        elif key in own:
            place = f"kinds.{kind.name}.{key}"
        shown = "" if problem["type"] == "value_error" else f" (value: {problem['input']!r})"
        why = f"{problem['msg']}{shown}"
        if problem["type"] == "extra_forbidden":
            known = ", ".join(kind.params.model_fields)
            why = f"kind {kind.name} has no such key; it has {known}"
        elif problem["type"] == "missing":
            place = f"models.{name}"
            why = f"{key} is missing: give it in lm, in kinds.{kind.name} or here"
        lines.append(f"{place}: {why}")
    return "\n  ".join(lines)
