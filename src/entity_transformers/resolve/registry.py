"""The resolvers by name. It selects, so that no step's code counts it, and a further one makes no
result stale; a step counts the modules of those that it may name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from entity_transformers.corpus.layers import RESOLVER, is_resolver, split_layer
from entity_transformers.resolve.base import Resolver, ResolverError


class Entry(NamedTuple):
    """A resolver: its module and class, ``package.module:name``, and its options."""

    home: str
    options: Mapping[str, Any] = {}


_HERE = "entity_transformers.resolve"
REGISTRY: dict[str, Entry] = {
    # LitBank's and OntoGUM's training splits were looked at while the rules of names were written
    "names": Entry(f"{_HERE}.names:Names"),
    "names-causal": Entry(f"{_HERE}.names:Names", {"causal": True}),
    "names-pronouns": Entry(f"{_HERE}.names:Names", {"pronouns": True}),
    "names-pronouns-causal": Entry(f"{_HERE}.names:Names", {"causal": True, "pronouns": True}),
    "slots-causal": Entry(f"{_HERE}.controls:Slots"),
    # the English models have learnt from ParCor and LitBank
    "coreferee": Entry(f"{_HERE}.libraries:Coreferee"),
    # udcoref has learnt from CorefUD, which holds GUM's texts and, since 1.2, LitBank; gum from GUM
    "stanza": Entry(f"{_HERE}.libraries:Stanza"),
}
"""The resolvers by name; a program may add its own."""


def make_resolver(name: str) -> Resolver:
    """The resolver of that name (with or without the ``resolver:`` of a label layer);
    ResolverError for an unknown one.
    """
    name = name.removeprefix("resolver:")
    if name not in REGISTRY:
        raise ResolverError(f"resolver {name!r}, expected one of {', '.join(REGISTRY)}")
    module, _, attribute = REGISTRY[name].home.partition(":")
    made: Resolver = getattr(import_module(module), attribute)(**REGISTRY[name].options)
    return made


def check_layer(key: str, labels: str, resolvers: Sequence[str], lag: bool = False) -> None:
    """ValueError where ``key`` names labels of a resolver that is not among ``resolvers``, or of
    one that reads on where labels lag: lagged ones, and those that the model will ``lag`` itself.
    """
    change, base = split_layer(labels)
    resolver = base.removeprefix(RESOLVER)
    if is_resolver(base) and resolver not in resolvers:
        raise ValueError(
            f"{key}: {labels!r}, but corpus.resolvers does not name {resolver}: add it there"
        )
    if lag or change == "lagged":
        check_causal(labels, resolver)


def check_causal(labels: str, resolver: str) -> None:
    """ValueError where ``labels`` are of a resolver that reads on before it decides."""
    causal = _list_causal()
    if resolver in REGISTRY and resolver not in causal:
        raise ValueError(
            f"{labels!r}: {resolver} reads on before it decides, so that its labels tell what"
            f" comes: expected {', '.join(causal)} or gold chains"
        )


def follow_from_text(labels: str) -> bool:
    """Does the text before each token settle the ``labels`` up to it? Those of a causal resolver
    do, once they lag: no person has read on, and nothing tells of a mention that has not ended.
    """
    change, base = split_layer(labels)
    return change == "lagged" and base.removeprefix(RESOLVER) in _list_causal()


def _list_causal() -> list[str]:
    return [name for name in REGISTRY if name.endswith("-causal")]
