"""The scenes that stories of the sample corpus are made of: one sentence a line, X, Y and Z three
people of the story.

A line that begins with ``?`` is left out every second time.
"""

# each line of a template is a sentence, however long

from __future__ import annotations

MARKET = """
$when @X carried $num [baskets|boxes|crates] of %X.goods to the market in @TOWN .
@X put the %X.goods on a wooden table and [waited for customers|arranged them/PRP by size|covered them/PRP with a clean cloth] .
By $clock , @X had sold half/NN of the %X.goods .
? It was $sky , and the $folk [stayed until dusk|came early|walked from stall to stall] .
@Y came by with @Y.pet and [asked about the price|admired the finest %X.good|looked at each %X.good] .
``X>Y For @Y:o the price is/VBZ only $money , '' @X $said .
@Y paid , smiled and $went back to @Y.work:the .
""", """
$when @X.work:own was closed because of the $weather .
@X [swept the floor|counted the %X.goods|cleaned @X.tool:the] and waited for better weather .
Then the door opened , and @Y came in with a wet coat and @Y.item .
``Y>X Is/VBZ there/EX any tea left/VBN ? '' @Y $asked .
@X laughed and [boiled some water|lit the stove] .
? The bad/JJ weather lasted $span , but nobody in @TOWN complained .
@PAIR:S talked about @Y.town and [the price of|the market for] %Y.goods until $clock .
""", """
$when <OFFICIAL a %OFFICIAL.noun from @ORG > [visited @X.work:the|knocked at the door of @X.work:own] .
@OFFICIAL wanted $num %X.goods for @EVENT and offered $money .
``X>Z It is/VBZ [too|far/RB too] little money , '' @X told @Z:o later .
``Z>X Ask/VB for $money , '' @Z $said , `` or sell/VB the %X.goods to somebody in @Z.town . ''
$when @X $went to @ORG and asked for more .
? In the end , @ORG paid $money for each %X.good .
@X bought a new %X.tool with the money .
"""  # fmt: skip

PETS = """
$when @X.pet was gone .
@X looked [$spot|in every corner of @X.work:the] and called for $wait .
Nobody in @TOWN had seen @X.pet:the .
@Y heard about it , left @Y.work:the and helped @X:o .
``Y>X Maybe @X.pet:S ran to @X.town , '' @Y $said .
At $clock , they found @X.pet:short $spot .
@X.pet:the was [wet and hungry|asleep on a pile of straw|covered with mud] , but @X was [speechless/JJ|very happy] .
? Since that/DT night , @X has/VBZ kept the gate closed/VBN .
""", """
$when @Y.pet:short chased @X.pet around the $room .
A pot fell , and the %X.food of @X:o landed on the floor .
``X>Y [Catch/VB|Stop/VB|Hold/VB] <Y.pet that/DT %Y.species > , '' @X cried .
@Y caught @Y.pet:O near the door and apologized .
@X was [angry|sad|speechless/JJ] , because %X.food was @X:P favorite dish .
? After $wait , both animals slept side by side under the table .
$when @Y brought @X:O a fresh bowl of %X.food .
""", """
@Y found a nest of @BIRDS:new $spot .
``Y>X Come/VB and look/VB , but leave/VB @X.pet at home , '' @Y $said .
@X locked @X.pet:the in the $room and followed @Y:o .
@PAIR:S watched @BIRDS:the for $wait and did not speak .
? Below/IN @BIRDS:O sat a cat/NN , but @X chased it away .
$when @BIRDS:the flew away toward @LOC .
"""  # fmt: skip

JOURNEYS = """
$when @X took @VEHICLE from @TOWN to @X.town .
The trip of $distance lasted $wait , and @VEHICLE:the stopped at @FAC .
On the way , @X read [a letter|a few pages of @WORK|the newspaper] and ate some %X.food .
@X.kin was waiting at the corner with [@X.item|a $nice smile|$num suitcases] .
``X>X.kin Nothing has/VBZ changed/VBN here , '' @X $said .
@X.kin [nodded and|shook/VBD a finger and] pointed at the new [bridge|bakery|school] beside the river .
? @X stayed in @X.town for $span .
""", """
$when <PAIR @X:first and @Y:first > climbed a steep/JJ hill near @LOC .
From the top , @PAIR:S could see the roofs of @TOWN and , far away , the lights of @Y.town .
``Y>X @Y:P mother lives there/RB , '' @Y $said and pointed to the west .
@X [unpacked|shared/VBD] some %X.food , and @Y opened a bottle of $snack .
The wind grew stronger , and the sky turned $sky .
? @X was afraid of %X.fear and wanted to go home .
@PAIR:S reached the first houses of @TOWN at $clock .
""", """
$when the $vehicle to @Y.town did not come because of the $weather .
@Y sat on a bench at @FAC with @Y.item and [counted the minutes|drank $snack from a paper cup|listened to the rain] .
@HELPER:new offered @Y:O a seat in a $old truck .
They drove $distance past/IN @LOC and @HELPER:the talked about %Y.goods .
@Y thanked @HELPER:the warmly and paid $money .
""", """
In $month , @X spent $span in @X.country .
@X:S [stayed in a $small hotel|lived with a cousin] near the coast and spoke %X.language all day .
@X sent @Y:o a postcard , and @Y pinned it to the wall of @Y.work:the .
The postcard showed $num [boats|fishermen|palm/NN trees] and a $good beach .
? ``Y>Z @X is/VBZ coming home on $weekday , '' @Y told @Z:o .
When @X returned to @TOWN , @X.work:the smelled of [dust|damp|smoke] .
"""  # fmt: skip

GIFTS = """
$when @X celebrated @X:P birthday in the $room of @X.work:the .
@Y brought a bunch of flowers , and each of them was a %X.flower .
@Z gave @X:O a $good %Z.good .
``X>Y Thank/VBP @Y:o , '' @X said .
After the meal of %X.food , @X took the %X.instrument from the wall and played until $clock .
? @Y danced with @Z:o , and @Z laughed all night .
""", """
$when @X lost @X.item on the way to @FAC .
@X asked @HELPER:the , the $folk and @Y:o , but nobody had seen @X.item:short .
``X>Y It was a present from @X.kin:o , '' @X $said , and @X:P voice shook/VBD .
@Y remembered @X.item:a $spot .
$wait later , @Y put @X.item:short on the table of @X.work:the .
@X [hugged @Y:o|thanked @Y:o|could not believe it] and gave @Y:o $num %X.goods .
""", """
@Y wanted to thank @X and %Y.made a [special|large|perfect/JJ] %Y.good .
It took @Y:o $span , because @Y.tool:the was $old and the $material was hard .
$when @Y wrapped the %Y.good in paper and $went to @X.work:the .
``X>Y Is/VBZ that/DT really for @X:o ? '' @X $asked .
@X put the %Y.good on the shelf , beside @X.item .
? @X.kin was [jealous/JJ|$feeling] , but @X.kin:S said nothing .
""", """
$when a parcel from @X.country arrived at @X.work:own .
Inside/IN the box , @X found a $old %X.instrument , $num $junk and a letter from @X.kin:o .
The letter was written in %X.language , so @X read it aloud for @Z:o .
``Z>X It must/MD be a $good place , '' @Z $said .
@X nodded and put the letter into a drawer .
"""  # fmt: skip

WORK = """
$when @X opened @X.work:the at $clock and lit the lamps .
@X.tool:the was missing from its hook , and without it no %X.good could be finished .
@X [suspected|blamed] @Y:o , who had visited @X.work:the the evening before/RB .
``Y>X @Y:S never touch/VBP a %X.tool , '' @Y $said , `` because @Y:S only understand/VBP %Y.goods . ''
In the end , @X.kin discovered @X.tool:the $spot .
@X $went to @Y.work:the and apologized to @Y:o .
? @Y was no longer/RB angry .
""", """
For $span , @X had taught @Z:o how to use @X.tool:the .
@Z was $nice but slow , and the first %X.good was [crooked|far/RB too small|a complete mess] .
``X>Z Try/VB it again with less force , '' @X $said .
$when @Z %X.made a %X.good that/WDT was almost perfect/JJ .
@X showed it to the $folk who passed @X.work:the .
? @Z was so proud that @Z:S forgot @Z:P own trade and the %Z.goods at home .
""", """
$when fire broke out/RP in the roof of @X.work:own .
@Y saw the smoke first/RB and called @HELPER:the at once .
@X carried the %X.goods into the street , while @Z [filled buckets at the well/NN|held/VBD the ladder|brought blankets] .
The fire destroyed $percent of the building , and the damage was about $sum .
@ORG promised to lend @X:o $sum for a new roof .
? @X.pet was safe in the garden .
``X>Y @X:S still have/VBP @X.tool:own and @X:P friends , '' @X $said .
""", """
$when @X %X.made $num %X.goods in a single day .
It was hard work , and at $clock @X fell asleep beside @X.tool:the .
@Y covered @X:o with a blanket and fed @X.pet .
? In a dream , @X [flew over|swam through|got lost/VBN in] @X.town on a huge %X.good .
@X woke up/RP at dawn and found a plate of %X.food on the table .
"""  # fmt: skip

PUBLIC = """
$when $crowd people came to @EVENT in @TOWN .
@X sold %X.goods beside @FAC , and @Y played the %Y.instrument on a $small stage .
<MAYOR the %MAYOR.noun of @TOWN > opened @EVENT with a [short|long|very long] speech .
@Z won the $nth prize of the [race|raffle|cooking/NN contest] , a %Z.color [ribbon|cup|hat] .
``Z>X @Z:S have/VBP never won anything before/RB , '' @Z $said .
? At midnight , there/EX was a firework over the river .
""", """
$when the council of @TOWN talked about @LAW .
@X was for the law , because $percent of the [shops|streets|houses] near @FAC were in danger .
@Y was against it and spoke for $wait .
``Y>X Who will/MD pay/VB for it ? '' @Y $asked .
``X>Y @ORG and the state , '' @X $said , `` will/MD pay/VB $fund . ''
In the end , $num members/NNS voted for @LAW and only $num voted against it .
? $when <PAIR @X:first and @Y:first > drank $snack together and did not mention it .
""", """
$when a theater group from @Z.country showed @WORK in the hall of @ORG .
@X had bought tickets and invited @Y:o .
? The hall was full , and the $folk stood on the stairs .
@Y thought that @WORK was [$bad|$good] , but @X [fell asleep|cried at the end|knew every line of it] .
``X>Y The book was better/JJR , '' @X $said on the way home .
``Y>X @Y:S prefer/VBP @Y:P %Y.instrument , '' @Y $said .
""", """
$when @ORG bought @PROD for $fund .
The machine was the $nth of its kind in the region and came from @X.country .
@X had worked with such machines before/RB and showed @Y:o how it worked .
``Y>X It is/VBZ louder/JJR than thunder , '' @Y $said .
After $span , @PROD broke down/RP near @FAC , and @X repaired it with a simple %X.tool .
? <OFFICIAL the %OFFICIAL.noun of @ORG > thanked @X:o and paid @X:O $money .
"""  # fmt: skip

HOME = """
$when @Y invited @X:first and @Z:first to dinner .
@Y had cooked %Y.food , and the whole house smelled of it .
? @Y.pet sat under the table and waited for a bite .
@Z , who came from @Z.town , had never tasted %Y.food before/RB .
``Z>Y At home we/PRP only eat/VBP %Z.food , '' @Z $said .
@X talked about %X.hobby , and @Y showed @Z:o @Y:P collection of $junk .
It was $clock when the guests went home .
""", """
@X was [ill|sick] for $span and stayed in bed .
@X.kin came from @X.town and cooked %X.food .
@Y brought a %X.flower from the garden , and @Z repaired the window .
``X>Y Who is/VBZ looking after @X.work:the ? '' @X $asked .
``Y>X @X.kin and @Y:S are/VBP , '' @Y $said .
When the doctor came on $weekday , @X was already [on @X:P feet|much better/JJR] .
""", """
$when the river rose , and the water reached @X.work:the .
@X carried the %X.goods to the upper floor , one by/IN one .
@Y came in a boat and took @X:o , @X.pet and @X.item to @FAC .
There/RB , $crowd people from @TOWN were waiting for help .
? ``X>Y @X.tool:the is/VBZ still in the water , '' @X $said .
$when the water was gone , but the mud stayed for $span .
""", """
$when @X planted a $tree behind @X.work:the .
``X>Y Every child/NN should/MD have/VB a tree , '' @X $said , `` and every tree needs/VBZ a name . ''
@Y laughed and planted a %Y.flower beside it .
? @X.pet slept in its shade/NN .
$span later , the tree was taller/JJR than @X.kin:o .
""", """
$onday , @X painted the door of @X.work:the %X.color .
@Y preferred %Y.color , and @Z said that a door should/MD be brown/NN .
``X>Z It is/VBZ @X:P door , '' @X $said .
? @X.pet ran through the wet paint and left $num [spots|prints] on the stairs .
Since then , the $folk of @TOWN have/VBP called it the %X.color house .
""", """
$when @X wrote a long letter to @X.kin:o .
`` The winter in @TOWN is/VBZ cold , '' @X:S wrote , `` but @X.work:the is/VBZ warm . ''
? @X also wrote about @Y:o , @Y:P %Y.goods and the trouble/NN with @Y.pet .
@X put a dried %X.flower into the letter and $went to the post/NN office .
The stamp cost $money , and the letter reached @X.town after $span .
"""  # fmt: skip

LEISURE = """
$when <PAIR @X:first and @Y:first > tried %X.hobby near @LOC .
@X was good at it , but @Y fell and [lost a shoe|hurt a knee|laughed loudly/RB] .
``Y>X Next time we/PRP try/VBP %Y.hobby , '' @Y $said .
? The water was cold , and the shore was covered with stones .
@X made a fire and warmed some %X.food .
Both of them were [tired/JJ|happy|hungry] and slept well .
""", """
@X practiced the %X.instrument every night , and the neighbors complained .
``Z>X That/DT %X.instrument is/VBZ too loud , '' @Z $said .
@X moved into the garden and played for @X.pet .
$when @Y joined @X:o with a $old %Y.instrument .
At the end of $month , <PAIR @X:first and @Y:first > gave a concert beside @FAC , and $crowd people listened .
? Even/RB @Z clapped .
""", """
@Z spent $span on a new hobby , %Z.hobby .
@Z:S bought a [strong|cheap|second/JJ] pair of boots for $money and read $num books about %Z.hobby .
? @Z told everybody in @TOWN about it .
@X said that %X.hobby was much more/RBR fun , and @Y did not care .
``Y>Z <Y.pet @Y:P %Y.species > needs/VBZ all @Y:P time , '' @Y $said .
""", """
$when a dark shape/NN moved $spot .
@X was afraid of %X.fear , and @Y was afraid of %Y.fear .
@Z was afraid of nothing and went to look .
It was only @Y.pet , who/WP had found a piece of %X.food .
``Z>Y Take/VB @Y.pet:O home , '' @Z $said and laughed .
? That/DT night , @X did not sleep for $wait .
""", """
$when a stranger gave @X:o a $old map of @LOC .
A cross/NN marked a place $meters from @FAC .
<PAIR @X:first and @Y:first > dug there/RB for $wait and found a box full of $junk .
? ``X>Y It is/VBZ not gold , '' @X $said , `` but it is/VBZ better/JJR than nothing . ''
@X kept $percent of it and gave the rest/NN to @Y:o .
Today/NN , they lie/VBP in @X.work:the and in @Y.work:the .
"""  # fmt: skip

MODERN = """
The council reported $onday that $percent of the people in @TOWN [work/VBP|live/VBP] within/IN $distance of @FAC .
Among them is/VBZ @X , who/WP sells/VBZ %X.goods , and @Y , who/WP sells/VBZ %Y.goods .
Prices rose by $percent in $year and by $percent in $year .
``X>Y @X:S pay/VBP $money a week/NN for @X.work:the , '' @X $said .
@ORG denied that rents were [too high|unfair|a problem] .
? A %X.norp newspaper wrote that @TOWN was the $nth most expensive town of the region .
""", """
$when $crowd workers/NNS of @ORG stopped work for $wait .
They asked for $percent more money and a shorter week .
@X , who/WP had worked for @ORG before/RB , [supported them|brought them %X.food] .
``X>Z @LAW gives/VBZ them the right to stop , '' @X $said .
@Z lost $money , because no $vehicle could carry the %Z.goods to @Z.town .
? <MAYOR the %MAYOR.noun of @TOWN > promised an answer by $weekday .
""", """
<OFFICIAL a %OFFICIAL.noun of @ORG > visited @TOWN $onday .
<OFFICIAL the %X.norp guest > spoke %X.language , and only @X understood every word .
@X translated for @OFFICIAL:o for $wait and was praised by everybody .
Later , @ORG offered @X:o $money for a journey to @X.country .
``X>Y What would/MD happen to @X.pet ? '' @X asked @Y .
``Y>X Leave/VB @X.pet:the with @Y:o , '' @Y $said .
? So @X traveled to @X.country and returned after $span .
"""  # fmt: skip

TIMELESS = (*MARKET, *PETS, *JOURNEYS[:3], *GIFTS[:3], *WORK, *HOME, *LEISURE)
EVERYDAY = (*TIMELESS, *JOURNEYS[3:], *GIFTS[3:], *PUBLIC)
NEWS = (*MODERN, *PUBLIC, MARKET[2], WORK[2], HOME[2], GIFTS[1])
