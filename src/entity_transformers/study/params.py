"""A study's params.yaml as one typed structure, and its only loader; the sections and their keys
are in sections.py.

Every value comes from params.yaml: no field has a default. YAML 1.1 (Snakemake) and 1.2 (DVC) read
numbers differently (``2e-5`` is text to one and a number to the other), so these models own every
type.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, ValidationError, model_validator

from entity_transformers.kinds import KINDS, KindError, LmParams, ModelEntry, resolve
from entity_transformers.study.sections import (
    AnomaliesParams,
    CorpusParams,
    EmbeddingsParams,
    LambadaParams,
    NerParams,
    PerplexityParams,
    ProbeParams,
    RecallParams,
    ReportParams,
    RunParams,
    Section,
    SimilarityParams,
    StudyParams,
    TokenizerParams,
)


class ParamsError(ValueError):
    """A params.yaml that can't be used: the message names file, key and value."""


class Params(Section):
    """A whole params.yaml."""

    root: Annotated[
        str,
        Field(description="the checkout, relative to the study (DVC finds the code through it)"),
    ]
    study: StudyParams
    run: RunParams
    corpus: CorpusParams
    tokenizer: TokenizerParams
    lambada: LambadaParams
    lm: LmParams
    kinds: Annotated[
        dict[str, dict[str, Any]],
        Field(description="values that only one kind of model has, or that differ for it"),
    ]
    models: Annotated[
        dict[str, dict[str, Any]],
        Field(min_length=1, description="the models by name: kind, role, labels, what differs"),
    ]
    perplexity: PerplexityParams
    embeddings: EmbeddingsParams
    similarity: SimilarityParams
    probe: ProbeParams
    ner: NerParams
    anomalies: AnomaliesParams
    recall: RecallParams
    report: ReportParams

    @model_validator(mode="after")
    def _known_models(self) -> Params:
        if unknown := self.kinds.keys() - KINDS.keys():
            raise ValueError(
                f"kinds.{sorted(unknown)[0]}: no such kind, expected one of {', '.join(KINDS)}"
            )
        for name in self.models:
            self.model(name)
        for name in self.anomalies.models:
            self.resolve(name, self.anomalies.models, section="anomalies.models")
        return self

    def model(self, name: str) -> ModelEntry:
        """Entry ``name`` of section ``models``, complete; KindError if there is none."""
        if name not in self.models:
            raise KindError(f"model {name!r}, expected one of {', '.join(self.models)}")
        return self.resolve(name, self.models)

    def resolve(
        self, name: str, models: Mapping[str, Mapping[str, Any]], section: str = "models"
    ) -> ModelEntry:
        """An entry of ``models``, over the values of ``lm`` and of its kind; KindError if wrong."""
        try:
            return resolve(name, models, self.lm.model_dump(), self.kinds, KINDS)
        except KindError as error:
            raise KindError(str(error).replace("models.", f"{section}.")) from None

    def entries(self, *needs: str) -> tuple[ModelEntry, ...]:
        """The entries whose kind has all these capabilities, in the study's order."""
        found = (self.model(name) for name in self.models)
        return tuple(entry for entry in found if entry.can(set(needs)))

    @model_validator(mode="after")
    def _fit_together(self) -> Params:
        splits = {
            *self.perplexity.splits,
            *self.embeddings.splits,
            self.probe.choose,
            self.probe.report,
        }
        if "test2" in splits and self.corpus.format not in ("ontogum", "jsonl"):
            raise ValueError(
                "perplexity.splits, embeddings.splits or probe names test2, which format"
                f" {self.corpus.format} does not have"
            )
        if self.corpus.format == "jsonl" and self.corpus.path is None:
            raise ValueError(
                "corpus.path is null, but format jsonl is your own corpus: name its file or folder"
            )
        if self.perplexity.stride > self.lm.window:
            raise ValueError(
                f"perplexity.stride {self.perplexity.stride} is more than lm.window"
                f" {self.lm.window}"
            )
        return self


def parse(values: Any, source: str) -> Params:
    """Check the values of a params.yaml named ``source``; ParamsError lists every key that is
    wrong, with its value.
    """
    try:
        return Params.model_validate(values)
    except ValidationError as error:
        lines = [
            f"  {'.'.join(map(str, e['loc'])) or '(file)'}: {e['msg']}{_shown(e)}"
            for e in error.errors()
        ]
        raise ParamsError("\n".join([f"{source}: {len(lines)} bad parameter(s)", *lines])) from None


def _shown(error: Any) -> str:
    # a rule between several keys, whose message has their values
    if error["type"] == "value_error":
        return ""
    return " (value: none given)" if error["type"] == "missing" else f" (value: {error['input']!r})"


def load(path: Path) -> Params:
    """Read a params.yaml; anything wrong with it raises ParamsError."""
    return parse(read_values(path), str(path))


def read_values(path: Path) -> dict[str, Any]:
    """The sections of a params.yaml, not checked yet; ParamsError if it is no YAML mapping."""
    try:
        values = read_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ParamsError(f"{path}: {error.strerror}: name a study's params.yaml") from None
    except UnicodeDecodeError as error:
        raise ParamsError(f"{path}: not UTF-8 at byte {error.start}: save it as UTF-8") from None
    except yaml.YAMLError as error:
        raise ParamsError(f"{path}: not YAML: {error}") from None
    if not isinstance(values, dict):
        raise ParamsError(f"{path}: holds no sections: copy one of the studies' params.yaml")
    return values


class _Loader(yaml.SafeLoader):
    """SafeLoader would take the last of several equal keys, where YAML allows one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for i, key in enumerate(keys):
            if key.value in {earlier.value for earlier in keys[:i]}:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value} is given twice", key.start_mark
                )
        return super().construct_mapping(node, deep)


def read_yaml(text: str) -> Any:
    """The value of a text in YAML 1.1; anything wrong with it, a key given twice included, raises
    yaml.YAMLError.
    """
    return yaml.load(text, _Loader)
