"""Names of the layers of entity labels that `corpus.labels` makes."""

LABELS = ("gold", "none", "shuffled", "first-only", "lagged", "surface", "random", "next", "nouns")
"""The layers that need no resolver; the changed ones are of the gold chains."""
RESOLVER = "resolver:"
CHANGES = ("shuffled", "lagged", "surface", "random", "next")
"""What can be done to gold chains, by its bare name, and to a resolver's: CHANGE-resolver:NAME."""
EXPECTED = (*LABELS, f"{RESOLVER}NAME", *(f"{change}-{RESOLVER}NAME" for change in CHANGES))


def split_layer(layer: str) -> tuple[str | None, str]:
    """What is done to which layer: ("lagged", "resolver:names") of lagged-resolver:names,
    ("shuffled", "gold") of shuffled, (None, layer) of one that is not changed.
    """
    if layer in CHANGES:
        return layer, "gold"
    change, _, base = layer.partition("-")
    return (change, base) if change in CHANGES and is_resolver(base) else (None, layer)


def is_resolver(layer: str) -> bool:
    """Is it the layer of a resolver, unchanged?"""
    return layer.startswith(RESOLVER) and layer != RESOLVER


def is_layer(layer: object) -> bool:
    """Can a model be given it?"""
    return layer in LABELS or (isinstance(layer, str) and is_resolver(split_layer(layer)[1]))
