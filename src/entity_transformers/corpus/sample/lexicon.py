"""Penn Treebank tags of the words in the templates; a word with two readings names the rarer one in
the template itself.
"""

from __future__ import annotations

PENN_TAGS = frozenset(
    """
    CC CD DT EX FW IN JJ JJR JJS LS MD NN NNS NNP NNPS PDT POS PRP PRP$ RB RBR RBS RP SYM TO UH VB
    VBD VBG VBN VBP VBZ WDT WP WP$ WRB $ # `` '' -LRB- -RRB- , . :
    """.split()
)

WORDS = {
    "DT": "a all an another any both each every half no some the these this",
    "CC": "and but nor or",
    "CD": (
        "eight eleven fifteen fifty five forty four nine ninety one seven six sixty ten thirty"
        " three twelve twenty two"
    ),
    "IN": (
        """
        about across after against among around as at because before behind below beside by except
        for from if in into like near of on outside over since than that through toward under until
        up while with within without
    """
    ),
    "TO": "to",
    "MD": "can could must should will would",
    "WRB": "how when where",
    "WP": "what who",
    "PRP": "it them they",
    "PRP$": "its",
    "RB": (
        """
        again ago almost alone aloud already also always away back calmly down early even ever far
        hardly here home inside just later loudly maybe much never not now nowadays often once only
        out really so sometimes somewhere soon still suddenly then there together too usually very
        warmly well
    """
    ),
    "RBR": "longer",
    "RBS": "most",
    "UH": "please yes",
    "JJ": (
        """
        afraid alive angry ashamed asleep best big cheap clean cold complete crooked dark dead dear
        empty expensive fair famous fast favorite few fine first following fresh full good happy
        hard high huge hungry ill large last little long loud many missing new next old other own
        perfect precious proud ready sad safe same short sick silent simple single slow small
        special strong such true unfair upper warm wet whole wooden young
    """
    ),
    "JJR": "better less more shorter stronger",
    "JJS": "finest oldest",
    "NN": (
        """
        afternoon ale animal answer anybody anything attic autumn bag bakery bank basement beach bed
        bedroom bell bench birch birthday bite blanket boat book bottle bowl box bread bridge bronze
        broth building bunch bus card care carriage cellar cemetery chairman chestnut chicken church
        cider clay cloth coast coat cocoa coffee collection company concert contest copper corner
        corridor cotton council country cousin cup curtain damage damp danger dawn day desk dinner
        director dish ditch doctor door drawer dream dusk dust edge elm end evening everybody
        everything family farmer ferry finger fire firework floor flower fog force fountain friend
        frost fun furniture garden gardener gate glass gold group guest hail hall harbor hat hayloft
        heat hedge help hill hobby hook hotel house income ink inspector journey judge kind kitchen
        knee ladder law lawyer leather lemonade letter librarian line loaf lobby look machine mail
        man manager map maple market material mayor meadow meal mess middle midnight milk minister
        mistake money month morning mother mud museum music name neighbor nest news newspaper night
        nobody noon nothing nurse oak office owner page paint paintbrush pair pantry paper parcel
        pencil person picture piece pile pine place plate pocket policeman porch postcard postman
        pot present price prize problem race raffle rain region ribbon right river roof room sailor
        school sea seat secretary sense shelf shirt shoe shore side silk size sky sleet smell smile
        smoke snow somebody something song speech spring square stage stall stamp state stone storm
        story stove stranger straw street summer table taxi tea teacher theater thing thunder tie
        time tool top tourist town trade train tram treasurer tree trip truck truth village visit
        voice waiter wall water way weather week west willow wind windmill window winter wood wool
        word work world year
    """
    ),
    "NNS": (
        """
        animals arms baskets blankets boats books boots bottles boxes branches buckets buttons
        children coins crates crows customers days dishes dollars euros eyes farmers feathers feet
        fishermen flowers friends guests gulls hands herons hours houses keys kilometers kilos lamps
        lights machines marbles merchants meters miles minutes months musicians needles neighbors
        owls pages parents pebbles people pigeons postcards pounds prices prints rents reporters
        ribbons robins roofs shells shops sparrows spoons spots stairs stamps stones stories streets
        students suitcases swallows tickets tourists travelers trees visitors weeks windows workers
        years
    """
    ),
    "VB": (
        """
        ask be believe buy carry come cook give go happen know lend live mention mind open play see
        sell sleep speak stay steal stop talk thank touch understand use wait walk
    """
    ),
    "VBD": (
        """
        admired announced answered apologized arranged arrived asked ate began belonged blamed
        boiled bought broke brought called came carried caught celebrated chased cheered clapped
        cleaned climbed closed complained cooked cost counted covered cried cut danced declared
        denied destroyed did discovered drank drove dug explained fed fell filled finished flew
        followed forgot found gave got grew had happened heard helped hugged hung hurried hurt
        inquired insisted invited joined jumped kept knew knocked landed lasted laughed learned left
        liked listened lit lived locked looked lost loved made marched marked met moved mumbled
        muttered needed nodded noticed offered opened owned packed paid painted passed pinned placed
        planted played pointed practiced praised preferred promised put ran rang reached read
        recognized remarked remembered repaired replied reported returned rode rose said sat saved
        saw screamed sent shared shouted showed slept smelled smiled sold spent spoke spotted stayed
        stood stopped supported suspected swam swept talked tasted taught thanked thought told took
        translated traveled tried turned understood unpacked used visited voted waited walked
        wandered wanted warmed was watched went were whispered woke won wondered worked wrapped
        wrote
    """
    ),
    "VBZ": "lives",
    "VBG": "coming leaving looking passing selling sitting smiling talking waiting wondering",
    "VBN": "been born broken done dried forgotten given gone hidden known named seen worn written",
    ",": ",",
    ".": ". ? !",
    ":": "-- ; :",
    "-LRB-": "-LRB-",
    "-RRB-": "-RRB-",
}
TAGS: dict[str, str] = {word: tag for tag, words in WORDS.items() for word in words.split()}


def find_tag(token: str) -> tuple[str, str]:
    """Word and tag of a template's token ``word`` or ``word/TAG``; a capitalised word unknown to
    the lexicon is a proper noun.
    """
    word, slash, tag = token.rpartition("/")
    if slash and word and tag in PENN_TAGS:
        return word, tag
    found = TAGS.get(token) or TAGS.get(token.lower()) or ("NNP" if token[0].isupper() else "")
    if not found:
        raise KeyError(
            f"template word {token!r} is not in the lexicon: add it there or write {token}/TAG"
        )
    return token, found
