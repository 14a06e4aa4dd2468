"""Names of the layers of entity labels that `corpus.labels` makes."""

LABELS = ("gold", "none", "shuffled", "first-only", "lagged", "surface", "random", "next", "nouns")
"""The layers that need no resolver; the changed ones start from the gold chains."""
RESOLVER = "resolver:"
CHANGES = ("shuffled", "lagged", "surface", "random", "next")
"""Changes to a layer: a bare name changes the gold chains, CHANGE-resolver:NAME a resolver's."""
EXPECTED = (*LABELS, f"{RESOLVER}NAME", *(f"{change}-{RESOLVER}NAME" for change in CHANGES))


def split_layer(layer: str) -> tuple[str | None, str]:
    """Split a layer's name into its change and its base: ("lagged", "resolver:names") for
    lagged-resolver:names, ("shuffled", "gold") for shuffled, (None, layer) for an unchanged layer.
    """
    if layer in CHANGES:
        return layer, "gold"
    change, _, base = layer.partition("-")
    return (change, base) if change in CHANGES and is_resolver(base) else (None, layer)


def is_resolver(layer: str) -> bool:
    """Whether a layer is that of a resolver, unchanged."""
    return layer.startswith(RESOLVER) and layer != RESOLVER


def is_layer(layer: object) -> bool:
    """Whether a value is the name of a layer that a model can be given."""
    return layer in LABELS or (isinstance(layer, str) and is_resolver(split_layer(layer)[1]))
