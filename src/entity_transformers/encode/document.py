"""Reads one long document window by window, with a memory of its entities, and yields its losses,
hidden states and entity vectors; also continues a text. The windows are those of
`reader.read_windows`.

Dimensions: N tokens of the document, its first one ``<|endoftext|>``; W width; E entities.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional as F
from transformers import (
    EosTokenCriteria,
    PreTrainedModel,
    StoppingCriteriaList,
    StopStringCriteria,
)

from entity_transformers.artifacts import RECORD, encode_all, read_json, read_tokenizer
from entity_transformers.corpus.alignment import align_split
from entity_transformers.corpus.document import Document, check_words
from entity_transformers.corpus.files import HALVES, check_text
from entity_transformers.corpus.marked import has_marks, read_marked
from entity_transformers.corpus.mentions import Nesting, flatten
from entity_transformers.corpus.splitting import split_text
from entity_transformers.corpus.tokens import Source, join_sources
from entity_transformers.encode.reader import read_document
from entity_transformers.kinds import KINDS
from entity_transformers.models.base import Batch, LanguageModel, load_model
from entity_transformers.models.folders import FACTS, faults_named, load_whole, opened
from entity_transformers.models.gpt2 import GPT2E, Remembering, Wrapped
from entity_transformers.models.gpt2e.adapter import KEY, Adapted, load_entity_attention
from entity_transformers.models.gpt2e.generation import (
    EntityContinuation,
    EntityGeneration,
    NewEntities,
)
from entity_transformers.models.gpt2e.model import GPT2EForCausalLM
from entity_transformers.models.pointer.model import GPT2Pointer, GPT2PointerForCausalLM
from entity_transformers.models.weights import find_weights
from entity_transformers.resolve.registry import Resolver, make_resolver, resolve

POLICY: Nesting = "outermost"
"""Which of several nested mentions is kept."""
ENCODES = "encodes"
"""Key of tokenizer_config.json; ``words`` means that the model's text was encoded word by word."""


@dataclass(frozen=True, repr=False)
class ReadDocument:
    """The result of reading a document.

    source   the document's tokens and entities
    losses   float32 [N]: nats of each token, given those before it; 0 for the first token
    hidden   [N, W]: final hidden states
    memory   the model's memory after the last token: for GPT2E the `EntityMemory` of one document
    """

    source: Source
    losses: np.ndarray
    hidden: Tensor
    memory: Any

    def __repr__(self) -> str:
        return f"ReadDocument({self.source!r}, {self.loss:.4f} nats per token)"

    @property
    def loss(self) -> float:
        """Mean loss in nats per token."""
        return float(self.losses.sum(dtype=np.float64) / max(1, len(self.losses) - 1))

    @property
    def perplexity(self) -> float:
        """Perplexity per token."""
        return math.exp(self.loss)

    @property
    def entity_states(self) -> Tensor:
        """The vectors [E, W] of entities 1 to E; a row of ones: nothing was written for it."""
        return self.memory.states[0, 1:]


class DocumentReader:
    """A model and its tokenizer, for reading documents of any length.

    The model reads ``window`` tokens at a time (by default as many as it can), and its memory is
    updated every ``stride`` tokens (by default ``window``, as in training). In a text shorter than
    the window the memory is never used, so choose a smaller window for short texts. With
    ``running_text`` a text is encoded as a whole, as pretrained models expect; otherwise it is
    encoded word by word, as in the training of the studies' own models.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        window: int | None = None,
        stride: int | None = None,
        running_text: bool = False,
    ) -> None:
        self.running_text = running_text
        self.model: LanguageModel = wrap(model).eval()
        tokenizer = getattr(tokenizer, "backend_tokenizer", tokenizer)
        self.tokenizer: Tokenizer | None = None if tokenizer is None else encode_all(tokenizer)
        longest = self.model.context
        self.window = (longest or 1024) if window is None else window
        self.stride = self.window if stride is None else stride
        if not 1 <= self.stride <= self.window <= (longest or self.window):
            most = "" if longest is None else f" <= {longest} tokens, as many as the model reads"
            raise ValueError(
                f"window {self.window}, stride {self.stride}: expected 1 <= stride <= window{most}"
            )

    def __repr__(self) -> str:
        kind = self.model.kind.label
        return f"DocumentReader({kind}, window={self.window}, stride={self.stride})"

    @classmethod
    def from_pretrained(
        cls,
        name: Path | str,
        tokenizer: Path | str | None = None,
        *,
        precision: str = "float32",
        running_text: bool | None = None,
        **how: Any,
    ) -> DocumentReader:
        """Return a reader for a causal model, which is given as ``pip:PACKAGE==VERSION``,
        ``hub:NAME@COMMIT``, a GGUF file, or a folder that holds a model of transformers or of this
        package, including those that a study has trained.

        ``tokenizer`` is the path of a tokenizer.json; by default it is taken from the model's
        folder, or from the corpus of the study that trained the model. ``running_text`` is inferred
        from the tokenizer unless it is given. The remaining keywords are those of the class. Raises
        FileNotFoundError if the model or tokenizer does not exist, and DownloadError if it cannot
        be downloaded.
        """
        folder = find_weights(str(name))
        assert folder is not None
        if not (folder / "config.json").is_file():
            raise FileNotFoundError(
                f"{folder}: no model there (config.json is missing): train or"
                " export one, or correct the path; a model of the hub is hub:NAME"
            )
        own, above = folder / "tokenizer.json", folder.resolve().parents
        path = own if tokenizer is None else Path(tokenizer)
        if tokenizer is None and not own.is_file() and len(above) > 2:
            path = above[2] / "text/corpus/tokenizer.json"
        if not path.is_file():
            raise FileNotFoundError(f"{own}: no such file: give the path of a tokenizer.json")
        whole = _reads_running_text(path) if running_text is None else running_text
        model = _load_model(folder, precision)
        return cls(model, read_tokenizer(path), running_text=whole, **how)

    def encode(self, text: str | Document, resolver: str | Resolver | None = None) -> Source:
        """Encode a text as tokens, each with the entity that it refers to. Entities come from marks
        in the text (``[1 Anna] met [2 Bob].``), whose numbers are kept, from a document's mentions,
        or from a ``resolver`` (an object or its name); the last two are numbered in order of
        first appearance. Raises ValueError if the text cannot be read.
        """
        if isinstance(text, str):
            check_readable(text)
            document = _read_text(text, resolver)
        elif isinstance(text, Document):
            document = text
            for number, word in enumerate(document.words, 1):
                check_text(word, f"{document.id}, word {number}", math.inf, HALVES)
        else:
            raise ValueError(f"{type(text).__name__}: expected a text, or a Document")
        if not document.words:
            raise ValueError(f"{document.id}: it has no words")
        if resolver is not None and not document.mentions:
            found = make_resolver(resolver) if isinstance(resolver, str) else resolver
            document = resolve(found, document)
        if self.tokenizer is None:
            raise ValueError(
                "no tokenizer: give one, or give tokens and their entities with encode_tokens"
            )
        how: Any = {"policy": POLICY, "spacing": "natural", "running_text": self.running_text}
        corpus = align_split([document], self.tokenizer, split="text", **how)
        entities = corpus.gold.astype(np.int64)
        if isinstance(text, str) and has_marks(text):
            entities = _number_as_marked(document)[entities]
        tokens, words = corpus.tokens.astype(np.int64), corpus.words.astype(np.int64)
        return Source(tokens, entities, words, document)

    def encode_tokens(self, tokens: Sequence[int], entity_ids: Sequence[int] = ()) -> Source:
        """Like `encode`, for a text that is given as token ids and the entity of each token (0: no
        entity). The first token is not predicted.
        """
        ids = np.array(list(entity_ids) or [0] * len(tokens), np.int64)
        self.check_tokens(tokens)
        join_sources([(tokens, ids)])  # which checks them
        return Source(np.array(tokens, np.int64), ids, np.arange(-1, len(tokens) - 1))

    def check_tokens(self, tokens: Sequence[int] | np.ndarray) -> None:
        """Raise ValueError for a token that the model has no embedding for."""
        if outside := {*tokens}.difference(range(known := self.model.vocabulary)):
            raise ValueError(f"token {min(outside)}, expected ids from 0 to {known - 1}")

    @torch.no_grad()
    def read(
        self,
        text: str | Document | Source,
        resolver: str | Resolver | None = None,
        *,
        entities: bool = True,
        memory: Any = None,
    ) -> ReadDocument:
        """Read a document to its end. With ``entities=False`` it is read as by any language model.

        To continue from an earlier reading, pass its ``memory``; equal numbers then have to mean
        the same entities in both texts. This holds only for marks and for a `Source`: the numbers
        of a resolver or of a document's mentions start anew with each text, and raise ValueError.
        """
        if memory is not None:
            _check_numbers(text, resolver)
        source = text if isinstance(text, Source) else self.encode(text, resolver)
        self.check_tokens(np.unique(source.tokens))
        corpus, how = source.corpus(entities), {"window": self.window, "stride": self.stride}
        hidden, losses, memory = read_document(self.model, corpus, **how, memory=memory)
        return ReadDocument(source, losses, hidden, memory)

    @torch.no_grad()
    def generate(
        self,
        text: str | Document | Source,
        resolver: str | Resolver | None = None,
        *,
        max_new_tokens: int = 40,
        new_entities: NewEntities = 0,
        entities: bool = True,
        **how: Any,
    ) -> Source:
        """Return the document with up to ``max_new_tokens`` tokens added by transformers'
        ``generate``, which takes the remaining keywords, in the windows of `read`. ``new_entities``
        says which entity each new token refers to, as in `GPT2EForCausalLM.generate`.
        """
        if not hasattr(self.model.module, "generate"):
            raise ValueError(f"{self.model.kind.label} cannot generate text")
        if how.get("num_return_sequences", 1) != 1 or how.get("return_dict_in_generate"):
            raise ValueError("one document is generated: leave out the options for several outputs")
        reads = entities and self.model.can("entities")
        if reads and not isinstance(self.model.module, EntityGeneration):
            raise ValueError(
                f"{self.model.kind.label} can generate only without entities: give entities=False"
                " (the command remember generates with a pointer)"
            )
        source = text if isinstance(text, Source) else self.encode(text, resolver)
        self.check_tokens(np.unique(source.tokens))
        rule = EntityContinuation(new_entities)
        tokens = torch.from_numpy(source.tokens)[None].to(self.model.device)
        ids = torch.from_numpy(source.entity_ids)[None].to(self.model.device)
        end = tokens.shape[1] + max_new_tokens
        most = int(ids.max()) + max_new_tokens  # each new token may be of an entity of its own
        most = max(most, 0 if callable(new_entities) else new_entities)
        state, start, new = self.model.start(1, most if reads else 0), 0, 0
        model: Any = self.model.module
        stops, pad = _list_stops(model, how), next(iter(list_ends(model)), None)
        while tokens.shape[1] < end:
            if (full := start + self.window) < tokens.shape[1]:
                labels = ids[:, start:full] if reads else None
                batch = Batch(tokens[:, start:full], labels, new=new - start)
                _, state = self.model.encode(batch, state)
                start, new = start + self.stride, full
                continue
            goal = min(end, full + 1)
            inputs: dict[str, Any] = {}
            if reads:
                whole = _see_all(new_entities, tokens[:, :start], ids[:, :start])
                inputs = {"entity_ids": ids[:, start:], "memory": state, "new_entities": whole}
            written = model.generate(
                tokens[:, start:],
                attention_mask=torch.ones_like(tokens[:, start:]),
                max_new_tokens=goal - tokens.shape[1],
                **inputs,
                **{"pad_token_id": pad, **how, "stopping_criteria": [stops]},
            )
            tokens = torch.cat([tokens[:, :start], written], 1)
            if reads:
                ids = rule.extend(ids, tokens)
            if stops.ended or tokens.shape[1] < goal:
                break
        found = tokens[0].cpu().numpy()
        known = F.pad(ids, (0, len(found) - ids.shape[1]))[0].cpu().numpy()
        return Source(found, known, np.arange(-1, len(found) - 1))

    def decode(self, tokens: Sequence[int] | np.ndarray) -> str:
        """Return the text of these tokens, without special tokens."""
        if self.tokenizer is None:
            raise ValueError("no tokenizer to decode tokens with")
        return self.tokenizer.decode([int(token) for token in tokens], skip_special_tokens=True)


class WrappedWithEntities(Remembering, Wrapped):
    """A model of transformers to which entity attention was added."""

    kind = KINDS["gpt2e"]


def wrap(model: Any) -> LanguageModel:
    """Return a model of transformers as a `LanguageModel`, and a `LanguageModel` unchanged."""
    if isinstance(model, LanguageModel):
        return model
    if isinstance(model, GPT2PointerForCausalLM):
        return GPT2Pointer(model)
    if isinstance(model, GPT2EForCausalLM):
        return GPT2E(model)
    if isinstance(model, Adapted) and getattr(getattr(model, "config", None), KEY, None):
        return WrappedWithEntities(model)
    if isinstance(model, PreTrainedModel):
        return Wrapped(model)
    raise ValueError(
        f"{type(model).__name__}: expected a causal model of transformers, or one of this package"
    )


def _reads_running_text(path: Path) -> bool:
    """Tell whether this tokenizer's model read running text, not a study's words one by one."""
    if path.parent.name == "corpus" and (path.parent / RECORD).is_file():
        return False
    config = path.with_name("tokenizer_config.json")
    return not (config.is_file() and read_json(config).get(ENCODES) == "words")


def _load_model(folder: Path, precision: str) -> Any:
    from transformers import AutoModelForCausalLM
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = read_json(folder / "config.json")
    if config.get(KEY):
        return load_entity_attention(folder)
    if (folder / FACTS).is_file():  # the other files are those of its base
        with faults_named(folder):
            learnt = KINDS["pretrained-entities"].module().PretrainedE
            return learnt.load(folder, getattr(torch, precision))
    kind = KINDS.get(str(config.get("model_type")))
    if kind is not None and kind.name not in CONFIG_MAPPING:  # a kind unknown to transformers
        if "causal" not in kind.can:
            raise ValueError(f"{folder}: {kind.label}, expected a causal language model")
        return load_model(folder, kind)
    with opened(folder):
        dtype = getattr(torch, precision)
        return load_whole(AutoModelForCausalLM, folder, strict=False, dtype=dtype)


def check_readable(text: str) -> None:
    """Raise CorpusError for half a character or a word too long for tokenizers, with its place."""
    check_text(text, "text", math.inf, HALVES)
    check_words(text.split(), "text")


def _read_text(text: str, resolver: str | Resolver | None) -> Document:
    if has_marks(text) or resolver is None or not text.strip():
        return read_marked(text)  # it raises the error for a text without words
    # resolvers were made for words as spaCy splits them
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text)]
    words, spaces, starts = split_text(filter(None, paragraphs))
    return Document("text", 0, "text", "", tuple(words), tuple(starts), space_after=tuple(spaces))


def _number_as_marked(document: Document) -> np.ndarray:
    """Return each entity's number in its mark, by first appearance; index 0, no entity, stays 0."""
    kept, _ = flatten(document.mentions, len(document.words), POLICY)
    return np.array([0, *dict.fromkeys(mention.chain for mention in kept)], np.int64)


def _check_numbers(text: str | Document | Source, resolver: str | Resolver | None) -> None:
    """Raise ValueError for mentions whose entity numbers have a meaning in this text alone."""
    marked = isinstance(text, str) and has_marks(text)
    named = isinstance(text, Document) and bool(text.mentions)
    if named or (resolver is not None and not marked and not isinstance(text, Source)):
        raise ValueError(
            "with the memory of an earlier text, entities must have the numbers that they have in"
            " it, but those of a document or resolver begin at 1: mark them as in [1 Anna], give"
            " tokens with encode_tokens, or read both texts as one"
        )


def list_ends(model: Any) -> list[int]:
    """Return the tokens that end a text by a model's config: none, one or several."""
    ends = model.config.eos_token_id
    return [] if ends is None else np.ravel(ends).tolist()


class _Stops(StoppingCriteriaList):
    """Rules that end generation, and whether they have, which transformers does not tell."""

    ended = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = super().__call__(*args, **kwargs)
        self.ended = bool(found.all())
        return found


def _list_stops(model: Any, how: Mapping[str, Any]) -> _Stops:
    """Return the rules that the keywords of ``generate`` or the model's own settings ask for."""

    def find(name: str) -> Any:
        given = getattr(how.get("generation_config"), name, None)
        return how.get(name, getattr(model.generation_config, name) if given is None else given)

    stops, ends = _Stops(how.get("stopping_criteria") or []), find("eos_token_id")
    if ends is not None:
        stops.append(EosTokenCriteria(ends))
    if (strings := find("stop_strings")) and "tokenizer" in how:
        stops.append(StopStringCriteria(how["tokenizer"], strings))
    return stops


def _see_all(rule: NewEntities, tokens: Tensor, ids: Tensor) -> NewEntities:
    """Return the rule so that it is also given the tokens and entity ids before a window."""
    if not callable(rule):
        return rule
    return lambda new, known: rule(torch.cat([tokens, new], 1), torch.cat([ids, known], 1))
