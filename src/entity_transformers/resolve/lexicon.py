"""Word lists for `names`: titles, parts of names, and capitalised words that are no names."""

_MASTER = """mr mister sir lord master monsieur m herr don señor senor signor king prince duke count
baron earl marquis viscount emperor uncle father brother squire pope abbé friar grandpa"""
_MISTRESS = """mrs madam madame mme lady queen duchess countess baroness marchioness viscountess
empress aunt mother grandma granny dame doña frau signora señora senora"""
_MISS = """miss mlle mademoiselle fräulein fraulein signorina señorita"""
_SISTER = """ms princess sister nurse"""
_OFFICE = """dr doctor prof professor capt captain col colonel maj major gen general lt lieut
lieutenant sgt sergeant corporal private admiral commodore commander rev reverend judge justice
president senator governor mayor minister secretary inspector detective constable hon bishop
archbishop cardinal dean chancellor councillor chief"""

TITLES: dict[str, tuple[str, str]] = (
    dict.fromkeys(_MASTER.split(), ("m", ""))
    | dict.fromkeys(_MISTRESS.split(), ("f", "wife"))
    | dict.fromkeys(_MISS.split(), ("f", "maid"))
    | dict.fromkeys(_SISTER.split(), ("f", ""))
    | dict.fromkeys(_OFFICE.split(), ("", "office"))
    | dict.fromkeys(("cousin", "comrade"), ("", ""))
)
"""Titles in lower case without a full stop: gender (m, f or "" for either) and what else tells
apart two people of one last name, wife, maid or office: Mrs. Bennet is not Miss Bennet, nor is
Colonel Forster's wife the colonel.
"""

LAST_ONLY = frozenset(f"mr mister mrs monsieur madame mme herr frau {_OFFICE}".split())
"""Titles before a last name; after any other, a single name may be a given name (Sir William)."""

CIVIL = frozenset("mr mister mrs miss ms dr".split())
"""Titles after which any capitalised word is a name: Mr. Young."""

ABBREVIATED = CIVIL | frozenset("prof capt col maj gen lt lieut sgt rev hon mme mlle m".split())
"""Titles whose full stop may be a separate word."""

PARTICLES = frozenset("de du van von der di da la le del della dos des".split())
"""Lower-case words that continue a name, to which the words after them belong too."""

OF_HEADS = frozenset(
    """archbishop bank battle bay bishop cape castle church city college council count countess
county court department duchess duke earl emperor empress gulf house isle king kingdom
knight lord marquis ministry mount museum order palace prince princess province queen
republic sea state straits tower university valley""".split()
)
"""Words that form a name only with ``of`` and another name: Duke of Wellington."""

THINGS = frozenset(
    """abbey academy agency alley army association avenue bank bay beach board bridge building
castle cathedral chapel church city club college committee company corp corporation
council county court department desert empire forest garden gardens gate grange group hall
harbour heath hill hills hospital hotel house inc inn institute island islands lake lane
library lodge ltd manor market mountain mountains museum ocean office palace park party
place prison province railway range republic river road school sea society square station
states street tavern temple terrace theatre theater tower university valley village villa
war ward wood woods""".split()
)
"""Last words of names that are no person's; such a name has neither a given nor a last name."""

FIRST_OF_THINGS = frozenset(
    "new north south east west old upper lower great little san santa los las fort lake mount"
    " cape port".split()
)
"""First words of place names: York is not New York."""

SUFFIXES = frozenset("jr sr jun sen esq junior senior ii iii iv v vi vii viii ix x xi xii".split())
"""Words that may follow a name; all but Esq. tell apart two people of the same name."""

_TIME = """monday tuesday wednesday thursday friday saturday sunday january february march april may
june july august september october november december christmas easter christmastide whitsuntide
michaelmas lent sabbath mondays tuesdays wednesdays thursdays fridays saturdays sundays"""
_PEOPLES = """african american arab arabian asian australian austrian belgian bohemian brazilian
british canadian celtic chinese christian corsican cuban danish dutch egyptian english european
flemish french gallic german gothic greek hebrew hindu hungarian indian irish islamic israeli
italian japanese jewish korean latin mexican mohammedan moorish muslim norman norwegian
persian polish portuguese protestant prussian puritan roman russian saxon scotch scottish serbian
spanish swedish swiss syrian turkish ukrainian victorian welsh catholic buddhist democratic
republican elizabethan eastern western northern southern"""
_PARTS = """chapter volume vol book part section preface contents illustration appendix figure table
fig scene act canto letter page footnote note notes introduction prologue epilogue finis"""
_ADDRESS = """heaven heavens providence nature god's lordship ladyship majesty highness excellency
honour honor new great o.k ok tv am pm bc ad ce bce etc amen bible scripture"""
WEAK = frozenset(f"{_TIME} {_PEOPLES} {_PARTS} {_ADDRESS}".split()) | SUFFIXES | OF_HEADS
"""Capitalised words that are no name by themselves, but may be part of one: British Museum."""

NEVER = frozenset(
    """a an the this that these those my your his her its our their whose which what some any no
every each either neither all both half many much more most several few little less least
own such another other others one two three four five six seven eight nine ten eleven twelve
twenty thirty forty fifty hundred thousand million first second third last next same i me
mine myself you yours yourself he him himself she hers herself it itself we us ours
ourselves they them theirs themselves who whom whoever whatever whichever someone somebody
something anyone anybody anything everyone everybody everything none nobody nothing thou
thee thy thine ye and or but nor so yet for if unless until till though although because
since while whilst whereas whether as than lest once when whenever where wherever how why
before after about above across against along among amid around at below beneath beside
besides between beyond by despite down during except from in inside into like near of off on
onto out outside over past round through throughout to toward towards under underneath up
upon via with within without be am is are was were been being have has had having do does
did doing done will would shall should can could may might must ought let n't not 's 're 've
'll 'd 'm cannot don't won't can't isn't wasn't didn't couldn't wouldn't shouldn't i'm
i'll i've i'd here there now then again also always ever never often sometimes seldom soon
still already just only even quite rather very too almost perhaps maybe indeed certainly
surely really merely simply however therefore thus hence moreover furthermore nevertheless
meanwhile otherwise instead afterwards thereupon suddenly presently finally lately probably
evidently apparently happily oh o ah aha alas ay aye bah bravo eh ha hallo halloa hello hem
hey hi hist ho hullo hum humph hurrah hush lo marry nay pah pooh pray pshaw psst tut ugh
well whew yea yes yeah okay please thanks thank goodbye good-bye farewell welcome sorry dear
poor good bad old young dearest beloved come go look see say said says tell told ask asked
think thought know knew suppose believe wait stop listen mind give get take make made put
set try keep hold leave stay sit stand stood run came went seeing looking saying hearing
finding sincerely truly respectfully sir ma'am madam papa mamma mama ago away back else
enough far forth forward further hardly home likewise long nowhere somewhere everywhere
anywhere today to-day tomorrow to-morrow yesterday tonight to-night twice thrice together
yonder whence whither thither hither wherefore whereupon o'clock 'tis 'twas 'em tis twas il
est et le les un une el que""".split()
)
"""Words, in lower case, that are never part of a name, except after a title of `CIVIL`."""

_HIS = """adam albert alexander alfred allan allen ambrose andrew anthony archibald arthur augustus
basil ben benjamin bernard bertie bob caleb charles charley charlie christopher daniel david dick
ebenezer edgar edmund edward edwin ernest eugene ferdinand francis frank fred frederick geoffrey
george gerald gilbert godfrey gregory harold harry henry herbert horace hubert hugh humphrey isaac
jack jacob jake james jasper jean jerry jim jimmy joe john johnny jonathan joseph joshua karl keith
kenneth lawrence leonard lewis louis luke mark martin matthew maurice max michael nathaniel nicholas
oliver oscar owen patrick paul percy peter philip pierre ralph raymond richard robert roger roland
rudolf rufus rupert sam samuel simon stephen steven sydney theodore thomas tim tobias tom tommy
victor vincent walter wilfred will william"""
_HER = """abigail ada adelaide adele agatha agnes alice amelia amy ann anna anne annie arabella
barbara beatrice becky bella bertha bessie betsy betty blanche bridget caroline carrie catherine
cecilia celia charlotte christina clara clarissa cora cordelia daisy diana dinah dolly dora dorothea
dorothy edith eleanor eliza elizabeth ella ellen elsie emily emma esther ethel eva eveline fanny
flora florence frances georgiana gertrude grace gwendolen hannah harriet helen henrietta hester
hilda ida irene isabel isabella jane janet jean jenny jessie jo josephine judith julia juliet kate
katherine kathleen katy kitty laura lavinia letitia lilian lily lizzie louisa louise lucilla lucy
lydia mabel madeline maggie marcella margaret maria marian marianne marilla marion martha mary
matilda maud may mildred millicent minnie miranda molly nancy nell nellie nelly nora olivia ophelia
pauline penelope phoebe polly priscilla rachel rebecca rhoda rosa rosalind rose rosie ruth sally
sarah selina sophia sophie stella susan susanna sybil teresa theresa ursula victoria viola virginia
winifred"""
GIVEN: dict[str, str] = dict.fromkeys(_HIS.split(), "m") | dict.fromkeys(_HER.split(), "f")
GIVEN["jean"] = ""
"""Frequent English given names with their gender: m, f, or "" for either."""
