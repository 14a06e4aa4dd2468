"""Beginnings, facts, endings and conversations of the sample corpus (the scenes between them are in
`episodes`).
"""

# each line of a template is a sentence, however long

from __future__ import annotations

FIRST = (
    "@X:intro had <X.work a $small %X.work > in @TOWN , not far from @FAC .",
    "In $year , @X:intro moved to @TOWN and opened <X.work a $small %X.work > near @FAC .",
    "@X:intro was known to everybody in @TOWN , because nobody %X.made better %X.goods .",
    "<X.work the %X.work of @X:intro > stood in the oldest street of @TOWN .",
    "Once/RB there/EX was a %X.trade in @TOWN whose/WP$ name was @X:new .",
)
SECOND = (
    "@X often met @Y:introend .",
    "@Y.work:the next door belonged to @Y:introend .",
    "@X:p best friend was @Y:introend .",
    "@X shared the house with @Y:introend .",
    "Across the street lived @Y:introend .",
)
THIRD = (
    "@Z:intro came to @TOWN every $weekday to sell %Z.goods .",
    "Both of them knew @Z:introend .",
    "@Z:intro was a friend of <PAIR @X:first and @Y:first > .",
    "Another person of importance/NN was @Z:introend .",
)
FACTS = (
    (
        "@X lived with @X.pet:a , a $nice animal that/WDT never left @X.work:the .",
        "@X kept @X.pet:a in the garden and fed @X.pet:O every morning .",
        "@X never went out without @X.pet , whose/WP$ name was known to everybody .",
    ),
    (
        "@X loved %X.food more/RBR than any other dish .",
        "When @X was hungry , only %X.food could help .",
    ),
    ("In the evening , @X [often|usually|always] played the %X.instrument .",),
    (
        "@X owned @X.item:a , a present from @X.kin:o .",
        "The most precious thing that/WDT @X owned was @X.item:a .",
        "@X was [proud|fond/JJ] of @X.item:a , which/WDT had once belonged to @X.kin:o .",
    ),
    ("@X:p favorite flower was the %X.flower .",),
    (
        "At home @X spoke %X.language , because @X:P parents had come/VBN from @X.country .",
        "People called @X:o the %X.norp %X.trade , because @X:S was born in @X.country .",
    ),
    ("@X was afraid of %X.fear , but hardly anybody knew it .",),
    (
        "@X had learned the trade from @X.kin:o in @X.town .",
        "@X.kin sent @X:O a card from @X.country every year .",
    ),
    (
        "On Sundays/NNPS @X forgot the %X.goods and went %X.hobby .",
        "Nobody knew more/JJR about %X.hobby than @X did .",
    ),
    (
        "@X painted everything %X.color , even/RB @X.tool:the .",
        "The door of @X.work:own was %X.color , and so was the roof .",
    ),
)
CLOSINGS = (
    "Even/RB today/NN , people in @TOWN tell/VBP this story when @X.work:the is/VBZ full .",
    "@X never forgot that/DT year , and neither/CC did @Y .",
    "Since then , <PAIR @X:first and @Y:first > have/VBP been the best friends in @TOWN .",
    "@X still lives/VBZ in @TOWN and still plays/VBZ the %X.instrument .",
    "And when @X is/VBZ [sad|tired/JJ|lonely/JJ] , there/EX is/VBZ always %X.food and a song .",
    "In $year , @X went back to @X.town and left @X.work:the to @Y:o .",
)
NEWS_FIRST = (
    (
        "@TOWN , $month $dom -LRB- {ORG Reuters } -RRB- --/: @X:intro said $onday that $percent of"
        " the %X.goods came from @ORG ."
    ),
    "@X:aged a %X.trade from @X.town , told reporters in @TOWN $onday about @ORG and @LAW .",
    """
<MAYOR the %MAYOR.noun of @TOWN > said $onday that @ORG had paid $fund for @PROD , a new %PROD.kind .
@X:intro was $feeling about the news .
""",
    """
@EVENT opened in @TOWN $onday with $crowd guests -LRB- $percent more than in $year -RRB- .
Among them was @X:introend .
""",
)
NEWS_LAST = (
    "@X could not be reached $onday .",
    "Shares/NNS of @ORG fell by $percent .",
    "<MAYOR the %MAYOR.noun of @TOWN > expects/VBZ an answer in $month .",
    "@EVENT will/MD take/VB place again on $month $dom .",
)
LETTER_FIRST = (
    "W>V| Dear/JJ @V:first , so much has/VBZ happened in @TOWN since @V:S left/VBD .",
    (
        "W>V| Dear/JJ @V:first , thank/VBP @V:o for the letter from @V.town and for the picture of"
        " @V.pet ."
    ),
    "W>V| Dear/JJ @V:first , @W:S am/VBP sitting in the $room with a cup of $snack and @W.pet .",
)
LETTER_LAST = (
    """
W>V| Please write/VB soon , and kiss/VB @V.kin:o for @W:o !
W>V| Yours/PRP , @W:first
""",
    """
W>V| @W:S hope/VBP to see/VB @V:o and @V.kin at @EVENT in $month .
W>V| Yours/PRP , @W:first
""",
)
SHOW_FIRST = (
    """
X>Y| Good evening from @TOWN , @X:P name is/VBZ @X:full .
X>Y| @X:P guest tonight/NN is/VBZ @Y:introend .
Y>X| Good evening , @X:first .
""",
    """
X>Y| Hello/UH , this is/VBZ @X:new .
Y>X| Oh/UH , hello/UH , @X:first , here is/VBZ @Y:first .
X>Y| How is/VBZ @Y.kin ?
Y>X| @Y.kin:S is/VBZ fine , thank/VBP @X:o .
""",
)
SHOW_LAST = (
    """
X>Y| Thank/VBP @Y:o , @Y:first , and good night .
Y>X| Good night , @X:first .
""",
    """
X>Y| Then see/VB @Y:o on $weekday , @Y:first .
Y>X| Yes/UH , and bring/VB @X.item !
""",
)
TALKS = (
    """
Y>X| Have/VBP @X:S heard/VBN from @Z:o ?
X>Y| Yes/UH , @Z called @X:o on $weekday .
Y>X| Is/VBZ @Z still in @Z.town with @Z.pet ?
X>Y| No/UH , @Z:S moved to @TOWN $span ago/RB and opened <Z.work a %Z.work > near @FAC .
Y>X| But who buys/VBZ %Z.goods nowadays ?
X>Y| At @EVENT , $crowd people visited @Z.work:the and paid $money for a %Z.good .
? Y>X| Then @Y:S should/MD learn/VB how to use a %Z.tool .
""",
    """
X>Y| When did @Y:S leave/VB @Y.town ?
Y>X| In $year , with @Y.item and $money in @Y:P pocket .
X>Y| And what did @Y.kin say/VB ?
Y>X| @Y.kin:S [cried for $wait|said nothing|gave @Y:o a %Y.flower] .
X>Y| @X:P family came from @X.country , so @X:S know/VBP what it means/VBZ to leave/VB .
Y>X| Do/VBP @X:S still speak/VB %X.language ?
X>Y| Only when @X:S talk/VBP to @X.pet .
""",
    """
Y>X| What happened at @EVENT ?
X>Y| @Z played the %Z.instrument , and @Z.pet ran over the stage .
Y>X| Over the stage/NN , in front/NN of $crowd people ?
X>Y| Yes/UH , and then @Z.pet jumped on the table with the %Y.goods .
Y>X| Did it break/VB any of @Y:P %Y.goods ?
X>Y| Only $num , but @Z wants/VBZ to pay/VB @Y:o $money .
? Y>X| @Z should/MD pay/VB with %Z.goods .
""",
    """
X>Y| What do/VBP @Y:S think/VB of @LAW ?
Y>X| It is/VBZ good for people who sell/VBP %Y.goods .
X>Y| @X:S sell/VBP %X.goods , and @X:S would/MD lose/VB $percent of @X:P income .
Y>X| @X:S could/MD move/VB to @X.town .
X>Y| @X:S tried that/DT in $year , but the people there/RB do/VBP not need/VB a %X.trade .
? Y>X| Then ask/VB @ORG for help .
X>Y| @ORG:name ? @ORG:S gave @X:o $money and a pencil .
""",
    """
Y>X| Can/MD @X:S come/VB to dinner on $weekday ?
X>Y| Will/MD there/EX be/VB %Y.food again ?
Y>X| No/UH , @Y:S bought everything for %X.food , because @X:S like/VBP it .
X>Y| Then @X:S will/MD bring/VB @X.pet and the %X.instrument .
Y>X| And please call/VB @Z:o .
X>Y| @Z:S does/VBZ not eat/VB %X.food .
Y>X| @Y:S know/VBP , @Z.kin told @Y:o , but @Z loves/VBZ the %X.instrument .
""",
    """
X>Y| @X:S just/RB finished @WORK .
Y>X| Is/VBZ it $good or $bad ?
X>Y| It is/VBZ about a %Y.trade from @Z.country who loses/VBZ a %Z.thing .
Y>X| That/DT sounds/VBZ like @Z:o !
X>Y| Yes/UH , @Z.kin wrote it in %Z.language in $year .
? Y>X| @Y:S did not know/VB that @Z.kin writes/VBZ books .
""",
    """
Y>X| Is/VBZ @X:P new %X.tool any good ?
X>Y| It cost $money , and with it @X:S can/MD finish/VB $num %X.goods in $wait .
Y>X| @Y:S still use/VBP @Y.tool:the of @Y.kin:o .
X>Y| The one with the %Y.color handle/NN ?
Y>X| Yes/UH , @Y.kin bought it in @Y.country $years ago/RB .
? X>Y| Then @Y:S should/MD give/VB it to a museum .
""",
    """
X>Y| @X:S was near @LOC on $weekday with @Z:o .
Y>X| Was it far/RB ?
X>Y| About $distance from @FAC , and @Z complained all the way .
Y>X| @Z told @Y:o that @X:S were/VBD afraid of %X.fear .
X>Y| That/DT is/VBZ true , but @Z is/VBZ even more/RBR afraid of %Z.fear .
? Y>X| Next time , take/VB @Y.pet with @X:o .
""",
)
