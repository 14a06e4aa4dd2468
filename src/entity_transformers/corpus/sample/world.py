"""The people, places and things of a story: drawn anew for each document, so that no name carries a
fact from one to the next.
"""

from __future__ import annotations

import random
from typing import Any

from entity_transformers.corpus.sample import names
from entity_transformers.corpus.sample.grammar import Entity

KIN = {
    "she": "sister mother aunt grandmother cousin".split(),
    "he": "brother father uncle grandfather cousin".split(),
}
VEHICLES = "train bus ferry tram boat taxi carriage ship".split()
BIRDS = "swallows gulls crows sparrows owls pigeons herons robins finches starlings".split()
HELPERS = (
    "doctor teacher farmer librarian sailor nurse lawyer waiter neighbor postman policeman gardener"
).split()
OFFICIALS = "director manager minister treasurer secretary chairman inspector".split()
TOWN_OFFICIALS = "mayor judge treasurer secretary".split()
PLURAL_NAMES = frozenset("Mountains Games Stalls Parks Meals".split())
PLAIN_NOUNS = {"House": "firm", "Herald": "newspaper", "Week": "event", "Night": "concert"}


def proper(text: str) -> str:
    """A proper name as a template: each word tagged NNP or NNPS."""
    return " ".join(f"{word}/{'NNPS' if word in PLURAL_NAMES else 'NNP'}" for word in text.split())


def name(label: str, text: str) -> str:
    """A proper name marked as a named entity."""
    return f"{{{label} {proper(text)} }}"


def draw_cast(rng: random.Random, people: int = 4) -> dict[str, Entity]:
    """Entities by role: people P0, P1, ... and the story's TOWN, FAC, LOC, ORG, EVENT, LAW, WORK
    and PROD.
    """
    towns = iter(rng.sample(names.TOWNS, people + 1))
    stock = _draw_stock(rng, people)
    cast = {
        f"P{index}": _draw_person(rng, next(towns), *facts) for index, facts in enumerate(stock)
    }
    return cast | _draw_setting(rng, next(towns))


def _draw_stock(rng: random.Random, people: int) -> list[tuple[Any, ...]]:
    """What must differ between the people of one story: first names of two, surname, trade, pet,
    thing, tastes.
    """
    women, men = (iter(rng.sample(pool, 2 * people)) for pool in (names.WOMEN, names.MEN))
    genders = [rng.choice(["she", "he"]) for _ in range(2 * people)]
    first = [(gender, next(women if gender == "she" else men)) for gender in genders]
    pools = (
        names.SURNAMES,
        names.TRADES,
        names.NATIONS,
        names.PETS,
        names.PET_NAMES,
        names.ITEMS,
        names.COLORS,
    )
    tastes = (names.FOODS, names.INSTRUMENTS, names.FLOWERS, names.FEARS, names.HOBBIES)
    drawn = [rng.sample(pool, people) for pool in (*pools, *tastes)]
    return list(zip(first[:people], first[people:], *drawn, strict=True))


def _draw_person(
    rng: random.Random, town: str, self_name: tuple[str, str], kin_name: tuple[str, str], *rest: Any
) -> Entity:
    (
        surname,
        (trade, work, good, goods, tool, made),
        (country, norp, language),
        pet,
        pet_name,
        item,
        color,
        *tastes,
    ) = rest
    pronoun, first = self_name
    title = "Ms./NNP" if pronoun == "she" else "Mr./NNP"
    person = name("PERSON", first)
    full = name("PERSON", f"{first} {surname}")
    forms = {
        "new": full,
        "first": person,
        "full": full,
        "intro": f"{full} , a {trade}/NN from @town ,",
        "introend": f"{full} , a {trade}/NN from @town",
        "aged": f"{full} , {{DATE {rng.randrange(21, 79)}/CD }} ,",
        "trade": f"the {trade}/NN",
    }
    entity = Entity(
        pronoun, forms, (person,) * 8 + (f"{title} {name('PERSON', surname)}", f"the {trade}/NN")
    )
    entity.facts = {
        "trade": f"{trade}/NN",
        "work": f"{work}/NN",
        "good": f"{good}/NN",
        "goods": f"{goods}/NNS",
        "tool": f"{tool}/NN",
        "made": f"{made}/VBD",
        "norp": f"{{NORP {norp}/JJ }}",
        "language": name("LANGUAGE", language),
        "species": f"{pet}/NN",
        "petname": f"{pet_name}/NNP",
        "thing": f"{item}/NN",
        "color": f"{color}/JJ",
        "speaker": f"{first}_{surname}",
        **{key: _tagged(text, tag) for (key, tag), text in zip(TASTES, tastes, strict=True)},
    }
    entity.links = {
        "town": place("GPE", town),
        "country": place("GPE", country),
        "kin": _draw_kin(rng, entity, kin_name),
        "work": _owned(
            entity, f"@owner:p {work}/NN", (f"the {work}/NN",), own=f"@owner:p {work}/NN"
        ),
        "tool": _owned(
            entity, f"@owner:p {tool}/NN", (f"the {tool}/NN",), own=f"@owner:p {tool}/NN"
        ),
        "pet": _owned(
            entity,
            f"@owner:p {pet}/NN {pet_name}/NNP",
            (f"{pet_name}/NNP", f"{pet_name}/NNP", f"the {pet}/NN"),
            a=f"a {pet}/NN named/VBN {pet_name}/NNP",
        ),
        "item": _owned(
            entity,
            f"@owner:p {color}/JJ {item}/NN",
            (f"the {item}/NN", f"the {color}/JJ {item}/NN"),
            a=f"a {color}/JJ {item}/NN",
        ),
    }
    return entity


TASTES = (("food", "NN"), ("instrument", "NN"), ("flower", "NN"), ("fear", "NNS"), ("hobby", "NN"))


def _tagged(text: str, tag: str) -> str:
    return " ".join(word if "/" in word else f"{word}/{_mass(word, tag)}" for word in text.split())


def _mass(word: str, tag: str) -> str:
    return "NN" if word in ("thunder", "darkness") else tag


def _draw_kin(rng: random.Random, owner: Entity, kin_name: tuple[str, str]) -> Entity:
    pronoun, first = kin_name
    relation = rng.choice(KIN[pronoun])
    person = name("PERSON", first)
    forms = {"new": f"@owner:p {relation}/NN {person}", "first": person}
    return Entity(
        pronoun,
        forms,
        (person, person, f"@owner:p {relation}/NN"),
        {"owner": owner},
        {"relation": f"{relation}/NN"},
    )


def _owned(owner: Entity, new: str, again: tuple[str, ...], **forms: str) -> Entity:
    return Entity(
        "it", {"new": new, "the": again[-1], "short": again[0], **forms}, again, {"owner": owner}
    )


def place(
    label: str, text: str, article: str = "", again: tuple[str, ...] = (), pronoun: str = "it"
) -> Entity:
    """A place, firm, event or work: its name, which later mentions repeat or cut to ``again``."""
    full = f"{{{label} {article + ' ' if article else ''}{proper(text)} }}"
    return Entity(pronoun, {"new": full, "name": full}, (full, *again, *again), reduced=False)


def _draw_setting(rng: random.Random, town: str) -> dict[str, Entity]:
    spots = iter(rng.sample(names.PLACE_NAMES, 3))
    return {
        "TOWN": place("GPE", town, again=("the town",)),
        "FAC": _named(f"{next(spots)} {rng.choice(names.FACILITIES)}", "FAC"),
        "LOC": _named(f"{next(spots)} {rng.choice(names.REGIONS)}", "LOC"),
        "ORG": _named(f"{next(spots)} {rng.choice(names.FIRMS)}", "ORG"),
        "EVENT": _named(rng.choice(names.EVENTS), "EVENT"),
        "LAW": place("LAW", rng.choice(names.LAWS), "the", ("the law",)),
        "WORK": _draw_work(rng),
        "PROD": _draw_product(rng),
    }


def _named(text: str, label: str) -> Entity:
    """A place, firm or event whose last word, or a plainer one, is repeated: the Raven Bridge, the
    bridge.
    """
    last = text.split()[-1]
    tag, pronoun = ("NNS", "they") if last in PLURAL_NAMES else ("NN", "it")
    return place(label, text, "the", (f"the {PLAIN_NOUNS.get(last, last.lower())}/{tag}",), pronoun)


def _draw_work(rng: random.Random) -> Entity:
    title = (
        f"The/DT {proper(f'{rng.choice(names.TITLE_ADJECTIVES)} {rng.choice(names.TITLE_NOUNS)}')}"
    )
    kind = rng.choice(["play", "comedy", "tragedy", "drama"])
    full = f"`` {{WORK_OF_ART {title} }} ''"
    return Entity(
        "it", {"new": full, "name": full}, (full, f"the {kind}/NN", f"the {kind}/NN"), reduced=False
    )


def _draw_product(rng: random.Random) -> Entity:
    kind = rng.choice(["tractor", "van", "phone", "engine"])
    full = f"the {{PRODUCT {rng.choice(names.PRODUCT_MAKES)}/NNP {rng.randrange(2, 10)}00/CD }}"
    return Entity(
        "it",
        {"new": full, "name": full},
        (full, f"the {kind}/NN"),
        facts={"kind": f"{kind}/NN"},
        reduced=False,
    )


def draw_extras(rng: random.Random) -> dict[str, Entity]:
    """People without a name and a vehicle, for one scene: an OFFICIAL of a firm, a MAYOR or the
    like, a HELPER, BIRDS and a VEHICLE.
    """
    birds = rng.choice(BIRDS)
    return {
        "OFFICIAL": _draw_stranger(rng, OFFICIALS),
        "MAYOR": _draw_stranger(rng, TOWN_OFFICIALS),
        "HELPER": _draw_stranger(rng, HELPERS),
        "BIRDS": Entity(
            "they", {"new": f"{birds}/NNS", "the": f"the {birds}/NNS"}, (f"the {birds}/NNS",)
        ),
        "VEHICLE": _unnamed("it", f"{rng.choice(VEHICLES)}/NN"),
    }


def _draw_stranger(rng: random.Random, nouns: list[str]) -> Entity:
    noun = rng.choice(nouns)
    pronoun = "he" if noun.endswith("man") else rng.choice(["she", "he"])
    return _unnamed(pronoun, f"{noun}/NN")


def _unnamed(pronoun: str, noun: str) -> Entity:
    return Entity(
        pronoun, {"new": f"a {noun}", "the": f"the {noun}"}, (f"the {noun}",), facts={"noun": noun}
    )
