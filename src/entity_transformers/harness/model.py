"""Model ``entity-transformers`` of lm-evaluation-harness: a folder that `DocumentReader` can read,
with the entities that a resolver finds in a task's texts, or without.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.models.utils import (
    handle_stop_sequences,
    normalize_gen_kwargs,
    postprocess_generated_text,
)
from torch import Tensor

from entity_transformers.corpus.alignment import spelled_out
from entity_transformers.encode.document import DocumentReader, check_readable, list_ends
from entity_transformers.harness.scoring import Pair, score_pairs, score_text
from entity_transformers.resolve.registry import check_causal, make_resolver
from entity_transformers.tasks.transfer.inputs import find_entities

NAME = "entity-transformers"
MODES = ("on", "off", "shuffled")
NEW_TOKENS = 256  # the harness' own default
SEED = 1


@register_model(NAME)
class EntityTransformer(TemplateLM):
    """A language model that may read entities. ``pretrained``: its folder; ``max_length``: tokens
    that are read at once, by default as many as the model can.

    ``entities``
        on        loglikelihood: those that ``resolver`` finds in the context, by the context alone.
                  The context is read window by window, its mentions are written to the memory, and
                  the continuation is scored with it, even if they lie further back than the model
                  can look. loglikelihood_rolling: those of the whole text, each window with the
                  memory of those before it, as in step perplexity. generate_until: also those of
                  what has been written so far
        off       none: the numbers of the harness' own model ``hf``
        shuffled  those of ``on``, permuted among the text's mentions: the control

    Another value, a model that reads no entities where they are asked for, or a resolver that reads
    ahead before it decides, raises ValueError.
    """

    def __init__(
        self,
        pretrained: str | Path,
        entities: str | bool = "on",
        resolver: str = "names-causal",
        max_length: int | None = None,
        batch_size: int | str | None = 1,
        max_batch_size: int | None = None,  # the command line gives it; for "auto" only
        device: str | None = None,
    ) -> None:
        super().__init__()
        # in a YAML file on and off are booleans
        mode = entities if isinstance(entities, str) else "on" if entities else "off"
        if mode not in MODES:
            raise ValueError(f"entities is {entities!r}, expected one of {', '.join(MODES)}")
        if not str(batch_size or 1).isdecimal() or int(batch_size or 1) < 1:
            raise ValueError(f"batch_size is {batch_size!r}, expected a number above 0")
        self.reader = DocumentReader.from_pretrained(pretrained, window=max_length)
        self._encoder: Any = self.reader.tokenizer
        model = self.reader.model
        self._config = model.module.config
        if mode != "off" and not model.can("entities"):
            raise ValueError(
                f"{pretrained}: a {type(model.module).__name__} reads no entities: give"
                " entities=off, or a folder with a GPT2E or a model with entity attention"
            )
        check_causal(resolver, resolver)
        self.resolver = make_resolver(resolver)
        self.entities, self.batch = mode, int(batch_size or 1)
        self._device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        model.to(self._device)

    @property
    def eot_token_id(self) -> int:
        """The model's ``<|endoftext|>``, or the first of several end tokens."""
        return list_ends(self.reader.model.module)[0]

    @property
    def prefix_token_id(self) -> int:
        """The token before a text that is scored from its first token on."""
        begin = self._config.bos_token_id
        return self.eot_token_id if begin is None else int(begin)

    @property
    def max_length(self) -> int:
        """The number of tokens that are read at once."""
        return self.reader.window

    @property
    def tokenizer_name(self) -> str:
        """Part of the names of the harness' caches of requests."""
        return NAME

    def tok_encode(
        self, string: str, add_special_tokens: bool | None = None, **kwargs: Any
    ) -> list[int]:
        """Return the tokens of a text; special tokens in it are read as plain text."""
        check_readable(string)
        with spelled_out(self._encoder):
            return list(self._encoder.encode(string, add_special_tokens=False).ids)

    def _loglikelihood_tokens(
        self, requests: Sequence[tuple[tuple[str, str], list[int], list[int]]], **kwargs: Any
    ) -> list[tuple[float, bool]]:
        contexts = [context.rstrip() for (context, _), _, _ in requests]
        known, bare = self._find_entities(contexts), [self.prefix_token_id]
        pairs = [
            Pair(given or bare, wanted, known.get(context) or [0] * len(given or bare))
            for context, (_, given, wanted) in zip(contexts, requests, strict=True)
        ]
        answers = score_pairs(self.reader.model, pairs, window=self.max_length, batch=self.batch)
        for (texts, _, _), answer in zip(requests, answers, strict=True):
            self.cache_hook.add_partial("loglikelihood", texts, answer)
        return answers

    def loglikelihood_rolling(
        self, requests: Sequence[Any], disable_tqdm: bool = False
    ) -> list[float]:
        """Return the log-probability of each whole text."""
        texts = [request.args[0] for request in requests]
        known = self._find_entities(texts)
        how = {"prefix": self.prefix_token_id, "window": self.max_length}
        answers = [
            score_text(self.reader.model, self.tok_encode(text), known.get(text, []), **how)
            for text in texts
        ]
        for text, answer in zip(texts, answers, strict=True):
            self.cache_hook.add_partial("loglikelihood_rolling", (text,), answer)
        return answers

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        """Return what the model writes after each context, up to the first requested stop."""
        if self.entities == "shuffled" and requests:
            raise ValueError("entities=shuffled: generated text has no mentions to permute")
        known = self._find_entities([request.args[0] for request in requests])
        answers = []
        for request in requests:
            context, options = request.args
            answers.append(self._write(context, dict(options), known.get(context, [])))
            self.cache_hook.add_partial("generate_until", (context, options), answers[-1])
        return answers

    def _write(self, context: str, options: dict[str, Any], entities: list[int]) -> str:
        how = normalize_gen_kwargs(options, NEW_TOKENS)
        ends = [self._decode([end]) for end in list_ends(self.reader.model.module)]
        stops = [*handle_stop_sequences(how.pop("until", None), eos=None), *ends]
        most, _ = how.pop("max_gen_toks"), how.pop("max_length", None)
        if not how.get("do_sample"):
            how.pop("temperature", None)  # it is 0, which transformers refuses
        tokens, reads = self.tok_encode(context) or [self.prefix_token_id], self.entities == "on"
        if not reads:
            room = self.max_length - most
            if room < 1:
                raise ValueError(
                    f"max_gen_toks is {most}, but the model reads at most {self.max_length} tokens"
                    " at once: ask for fewer, as in --gen_kwargs max_gen_toks=64"
                )
            tokens = tokens[-room:]
        written = self.reader.generate(
            self.reader.encode_tokens(tokens, entities),
            max_new_tokens=most,
            new_entities=self._label_last if reads else 0,
            entities=reads,
            stopping_criteria=[_stop_at(stops, self._decode)],
            **how,
        )
        text = self._decode(written.tokens[len(tokens) :].tolist())
        return postprocess_generated_text(generation=text, stop=stops, think_end_token=None)

    def _decode(self, tokens: Sequence[int]) -> str:
        return self._encoder.decode(list(tokens), skip_special_tokens=False)

    def _label_last(self, tokens: Tensor, entities: Tensor) -> Tensor:
        """Return the entity of the last of the tokens [1, T], resolved in the text up to it."""
        text = self.reader.decode(tokens[0].tolist()).rstrip()
        found = self._find_entities([text]).get(text) or [0]
        return torch.tensor(found[-1:], device=tokens.device)

    def _find_entities(self, texts: Sequence[str]) -> dict[str, list[int]]:
        """Return each token's entity for every text that is not blank; empty if none are read."""
        asked = [text for text in dict.fromkeys(texts) if text.strip()]
        if self.entities == "off" or not asked:
            return {}
        with spelled_out(self._encoder):
            encoded = self._encoder.encode_batch(asked, add_special_tokens=False)
        ends = [[end for _, end in one.offsets] for one in encoded]
        found = find_entities(self.resolver, self.entities == "shuffled", SEED, asked, ends)
        return dict(zip(asked, found, strict=True))


def _stop_at(stops: Sequence[str], decode: Callable[[Sequence[int]], str]) -> Callable[..., Tensor]:
    """Return a rule that ends transformers' ``generate`` at a stop; it is called per new token."""
    written = 0

    def ends(tokens: Tensor, scores: Any, **kwargs: Any) -> Tensor:
        nonlocal written
        written += 1
        texts = [decode(row[-written:].tolist()) for row in tokens]
        found = [any(stop in text for stop in stops) for text in texts]
        return torch.tensor(found, device=tokens.device)

    return ends
