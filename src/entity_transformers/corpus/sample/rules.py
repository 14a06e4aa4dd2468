"""Small change of the sample corpus: dates, sums, numbers, adjectives and adverbs, each a list of
templates.
"""

from __future__ import annotations

MONTHS = (
    "January February March April May June July August September October November December".split()
)
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
NUMBERS = (
    "two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty"
    " sixty ninety".split()
)
ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth".split()
MANY = [str(number) for number in range(13, 100)]

RULES: dict[str, list[str]] = {
    "number": [f"{word}/CD" for word in NUMBERS],
    "many": [f"{number}/CD" for number in MANY],
    "num": [f"{{CARDINAL {word}/CD }}" for word in NUMBERS],
    "crowd": [f"{{CARDINAL {n}/CD }}" for n in (*range(110, 1000, 30), "1,200", "2,500", "4,000")]
    + ["{CARDINAL about/IN $many }"],
    "nth": [f"{{ORDINAL {word}/JJ }}" for word in ORDINALS[1:]],
    "weekday": [f"{day}/NNP" for day in WEEKDAYS],
    "month": [f"{month}/NNP" for month in MONTHS],
    "year": [f"{{DATE {year}/CD }}" for year in range(1950, 2020)],
    "onday": ["on {DATE $weekday }", "on {DATE $month $dom }", "{DATE last/JJ $weekday }"],
    "dom": [f"{day}/CD" for day in range(1, 29)],
    "clock": [f"{{TIME {word}/CD o'clock/RB }}" for word in NUMBERS[:10]]
    + ["{TIME noon/NN }", "{TIME midnight/NN }"],
    "daytime": [f"{{TIME the {time} }}" for time in ["morning", "afternoon", "evening"]],
    "few": [f"{word}/CD" for word in NUMBERS[:6]],
    "tens": [f"{word}/CD" for word in NUMBERS[8:]],
    "span": ["{DATE $few weeks }", "{DATE $few days }", "{DATE ten/CD days }"],
    "years": ["{DATE $number years }"],
    "minutes": ["{TIME $few minutes }", "{TIME ten minutes }"],
    "wait": ["{TIME $tens minutes }", "{TIME $few hours }"],
    "money": [
        "{MONEY $/$ $many }",
        "{MONEY $many dollars }",
        "{MONEY $number euros }",
        "{MONEY $/$ $many }",
    ],
    "sum": [f"{{MONEY $/$ {n},000/CD }}" for n in range(2, 60, 3)]
    + [f"{{MONEY {n},000/CD euros }}" for n in range(5, 90, 5)],
    "fund": [
        f"{{MONEY $/$ {n}/CD {unit}/CD }}"
        for n in (2, 3, 5, "1.5", "4.2", 7, 12)
        for unit in ("million", "billion")
    ],
    "percent": [
        "{PERCENT $many %/NN }",
        "{PERCENT $many percent/NN }",
        "{PERCENT $number percent/NN }",
    ],
    "distance": ["{QUANTITY $number kilometers }", "{QUANTITY $many miles }"],
    "meters": ["{QUANTITY $number meters }", "{QUANTITY $many meters }"],
    "weight": ["{QUANTITY $number kilos }", "{QUANTITY $many pounds }"],
    "when": [
        "{DATE the next day } ,",
        "{TIME that/DT evening } ,",
        "{TIME one morning } ,",
        "on {DATE $weekday } ,",
        "{TIME that/DT night } ,",
        "in {DATE $month } ,",
        "{DATE the following week } ,",
        "{DATE one day } ,",
        "on {DATE $month $dom } ,",
        "{DATE a week later } ,",
        "$span later ,",
        "at $clock ,",
        "{DATE that/DT spring/NN } ,",
        "{DATE the next summer } ,",
        "{DATE that/DT autumn } ,",
        "{DATE two days later } ,",
    ],
    "good": [
        f"{w}/JJ"
        for w in """
wonderful lovely beautiful splendid charming excellent delightful elegant impressive magnificent
""".split()
    ],
    "nice": [
        f"{w}/JJ"
        for w in (
            "gentle patient cheerful clever generous stubborn"
            " quiet curious friendly polite honest proud"
        ).split()
    ],
    "bad": [
        f"{w}/JJ"
        for w in "terrible awful dreadful dull ugly useless clumsy expensive strange noisy".split()
    ],
    "small": [
        f"{w}/JJ" for w in "small tiny narrow modest little cozy cramped plain humble".split()
    ],
    "old": [
        f"{w}/JJ"
        for w in "old ancient dusty faded crooked shabby worn wooden broken forgotten".split()
    ],
    "mood": [
        f"{w}/JJ"
        for w in """
happy tired angry sad nervous pleased hungry worried jealous calm excited lonely grateful ashamed
""".split()
    ],
    "feeling": [
        f"{w}/JJ"
        for w in """
happy angry sad nervous pleased worried excited ashamed calm optimistic gloomy enthusiastic
""".split()
    ],
    "how": [
        f"{w}/RB"
        for w in """
slowly quietly quickly carefully proudly gently eagerly calmly bravely gladly politely softly
""".split()
    ],
    "said": [
        f"{w}/VBD"
        for w in """
said said whispered explained cried shouted muttered declared mumbled remarked insisted announced
""".split()
    ],
    "asked": [f"{w}/VBD" for w in ["asked", "wondered", "inquired"]],
    "went": "went walked hurried ran drove rode marched".split(),
    "saw": [f"{w}/VBD" for w in "saw noticed spotted discovered recognized admired".split()],
    "weather": "rain snow fog storm hail sleet".split(),
    "sky": (
        "cloudy/JJ clear/JJ gray/JJ dark/JJ stormy/JJ bright/JJ windy/JJ misty/JJ sunny/JJ"
    ).split(),
    "spot": [
        "under the bridge",
        "behind the church",
        "near the well/NN",
        "beside the fountain",
        "in the garden",
        "on the roof",
        "near the harbor",
        "below/IN the stairs",
        "behind the curtain",
        "in the hayloft",
        "by the gate",
        "near the windmill",
        "in the meadow",
        "under a hedge",
        "beside the old cemetery",
        "behind the post/NN office",
        "in the town square",
        "near the bus/NN stop/NN",
        "in a ditch",
    ],
    "vehicle": "train bus ferry tram boat taxi truck carriage".split(),
    "room": ["hall", "bedroom", "corridor", "pantry", "lobby", "dining/NN room"],
    "folk": (
        "neighbors children farmers tourists students"
        " workers fishermen visitors musicians travelers merchants"
    ).split(),
    "snack": ["tea", "coffee", "lemonade", "cider", "cocoa", "milk", "broth", "ginger/NN ale"],
    "material": "wood leather glass copper clay silver/NN stone bronze".split(),
    "wet": "wool paper wood leather clay straw silk cotton".split(),
    "bird": "swallows gulls crows sparrows owls pigeons herons robins".split(),
    "tree": [
        "oak",
        "willow",
        "pine",
        "chestnut",
        "apple/NN tree",
        "birch",
        "elm",
        "cherry/NN tree",
        "maple",
    ],
    "junk": (
        "buttons coins stamps shells marbles feathers"
        " pebbles keys ribbons postcards bottles needles spoons"
    ).split(),
}
