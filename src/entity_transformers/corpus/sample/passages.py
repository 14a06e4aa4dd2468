"""Passages in the manner of LAMBADA: the last word follows from the whole passage, not from the
last sentence.
"""

# each line of a template is a sentence, however long

from __future__ import annotations

import random

from entity_transformers.corpus.sample.grammar import Writer
from entity_transformers.corpus.sample.rules import RULES
from entity_transformers.corpus.sample.stories import assign_roles
from entity_transformers.corpus.sample.world import draw_cast

FILLERS = (
    "the sky was $sky , and the $folk hurried home through the $weather .",
    "it was getting/VBG dark , and the lamps of @TOWN were already lit .",
    "nobody spoke for $minutes , and the wind shook/VBD the windows .",
    "a $vehicle passed , and somewhere a door was closed .",
    "the $folk at the next table talked about @EVENT and @LAW .",
    "there/EX was a smell of $snack and wet $wet in the $room .",
    "outside , the $bird were sitting on the branches of a $tree .",
)
PASSAGES = (
    """
@X:full had @X.pet:a , and @Y:full had @Y.pet:a .
#
#
when @X came home from the %X.work , the garden was empty and the gate was open .
@Y had heard nothing .
@X $went through the streets until $clock and called again and again , `` come home , %X.petname
""",
    """
the %X.trade was called @X:first , and the %Y.trade was called @Y:first .
they shared a $small house near @FAC .
#
#
on $weekday a stranger came to buy a %X.good .
`` nobody here sells/VBZ %X.goods except one , '' the %Y.trade $said , `` for that/DT you/PRP must/MD talk/VB to @X:first
""",
    """
@X:full was born in @X.town:name , and @Y:full was born in @Y.town:name .
now both of them lived in @TOWN .
#
@X had saved $money for a journey and told @Y:o about it all evening .
#
``X>Y first of all , '' @X $said , `` @X:S want/VBP to see/VB the house where @X:S was born , in @X.town:name
""",
    """
``X>Y @X:S have/VBP hidden the %X.thing , '' @X $said , `` and the %Y.thing is/VBZ hidden too , so nobody will/MD steal/VB them/PRP . ''
@Y laughed , because the %Y.thing was %Y.color and could be seen from the street .
#
#
$span later , @X had forgotten the place and opened every drawer .
``Y>X what are/VBP @X:S looking for ? '' @Y asked , `` the %X.color one ? '' ``X>Y yes/UH , '' @X $said , `` @X:P dear/JJ old/JJ %X.thing
""",
    """
@X played the %X.instrument , @Y played the %Y.instrument and @Z listened .
#
the concert beside @FAC began at $clock , and $crowd people came .
#
in the middle of the first song , @Y stopped , because something was broken .
only @X went on/RP , and for $wait the hall heard nothing but the %X.instrument
""",
    """
$when @X cooked %X.food and @Y cooked %Y.food .
@Z was the judge .
#
#
@Z tasted both dishes , closed @Z:P eyes and thought for $minutes .
at last @Z pointed to the pot of %X.food , and the $folk cheered for @X:first
""",
    """
@X:full came from @X.country:name , and @Y:full came from @Y.country:name .
at home , @X spoke %X.language , and @Y spoke %Y.language .
#
a letter from @X.kin lay/VBD on the table , and @Y opened it by mistake .
#
`` there/EX is/VBZ not one word here that/WDT makes/VBZ sense , '' @Y $said , `` it must/MD be written in %X.language
""",
    """
@X was afraid of %X.fear , and @Y was afraid of %Y.fear .
#
$when @PAIR:S sat in the $room , and @Z told them stories .
#
suddenly @X screamed and ran into the street , while @Y only smiled .
``Z>Y what happened ? '' @Z $asked , `` @Z:P story was only about %X.fear
""",
    """
@Z wanted to give @X:o a %X.flower and @Y:first a %Y.flower .
#

at the market , there/EX were flowers of every kind , and @Z bought two of them .
@Y was the first to come , and @Z gave @Y:o the right one .
#
then the bell rang again , and @X stood at the door with open arms .
smiling , @Z took the other flower from the table , and it was a %X.flower
""",
    """
for $years , @X had worked as a %X.trade in @TOWN , and @Y had worked there as a %Y.trade .
#
$when @X was sick and asked @Y for help .
#
@Y left the %Y.tool , took the keys from the table and $went across/IN the street .
there , in the empty %X.work , lay/VBD what @X used every day , the $old %X.tool
""",
    """
@X:full was a %X.trade and had never worn a tie .
#
@Y came at $clock and wanted to buy something for @Y.kin:o .
@X showed @Y:o every shelf , but everything was sold .
#
``X>Y come back on $weekday , '' @X $said , `` and @X:S will/MD have/VB $num new %X.goods
""",
    """
@X:full and @Y:full went %X.hobby together , but @Y liked %Y.hobby much more .
#
@X had paid $money for new boots .
$when @Y was on the other side of @LOC , and @X was alone with @X.pet .
#
there/EX was nobody to talk to , so @X:S packed @X:P bag and did what @X:S loved most/RBS , and that/DT was %X.hobby
""",
    """
@X painted the door %X.color , and @Y painted the window %Y.color .
#
#
@X.kin came by at $clock and wanted to know who had done all this .
`` look/VB at their/PRP$ hands , '' @Z $said , `` there/EX is/VBZ paint on both , but the hands of @X:first are/VBP %X.color
""",
    """
@X.kin lived in @X.town , and @Y.kin lived in @Y.town .

both of them wrote a letter home every week .
#
on $weekday the postman came through the $weather with only one letter .
#
@X looked at the stamp and saw at once that it came from @X.town .
``X>Y there/EX is/VBZ nothing for @Y:o today/NN , '' @X $said , `` it is/VBZ a letter from @X.kin:first
""",
)


def generate_passages(count: int, seed: int) -> list[str]:
    """``count`` lower-cased tokenised lines; the last token of each is the target, and no full stop
    follows it.
    """
    return [
        _write_passage(random.Random(f"{seed}/passage/{index}"), index) for index in range(count)
    ]


def _write_passage(rng: random.Random, index: int) -> str:
    cast = draw_cast(rng, 3)
    writer = Writer(rng, RULES, cast)
    for person in ("P0", "P1", "P2"):
        cast[person].again = (cast[person].forms["first"],)
    assign_roles(writer, rng.sample(["P0", "P1", "P2"], 3))
    fillers = iter(rng.sample(FILLERS, 2))
    lines = [
        next(fillers) if line == "#" else line
        for line in PASSAGES[index % len(PASSAGES)].strip().splitlines()
    ]
    return " ".join(word for line in lines for word in writer.write(line).words).lower()
