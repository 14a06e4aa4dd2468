"""The proper names of the sample corpus and what goes with them: long lists, of which each story
draws a few.
"""

from __future__ import annotations

WOMEN = """
Ada Agnes Alice Alma Amelia Amina Anita Anna Asta Beatrice Bella Berta Bianca Bridget Camilla Carla
Carmen Cecilia Chiara Clara Clea Cora Dagmar Daphne Delia Dora Edith Elena Elif Elin Elsa Emilia
Esther Eva Fatima Fiona Flora Freya Gerda Gina Greta Hanna Heidi Helga Hilda Ida Ilse Ines Ingrid
Irene Iris Isabel Jana Jenny Johanna Judith Julia Karin Kira Klara Laila Lea Leonora Lidia Lily
Linda Lotte Lucia Luna Magda Maja Mara Margot Maria Marta Matilda Mila Mina Miriam Nadia Naomi Nina
Nora Olga Olivia Paula Petra Pia Rahel Rita Rosa Ruth Sabine Sara Selma Signe Silvia Sofia Stella
Tamara Tessa Thea Ulla Vera Viola Wanda Xenia Yara Zora Zoë
""".split()

MEN = """
Aaron Abel Adam Adrian Alan Albert Alex Amir Anders André Anton Arne Arthur Axel Basil Ben Bernard
Boris Bruno Carl Caspar Cedric Conrad Cyril Dan David Dennis Dmitri Edgar Edwin Elias Emil Erik
Ernst Ethan Felix Finn Frank Fred George Gilbert Gregor Gustav Hamid Harald Harry Hector Henry Hugo
Igor Isaac Ivan Jacob Jan Jasper Jens Joel Jonas José Julian Karl Kasper Kurt Lars Leo Leon Linus
Louis Lucas Luis Marco Martin Mateo Max Miguel Milan Nathan Nico Noah Oleg Oscar Otto Owen Pablo
Patrick Paul Pavel Pedro Peter Philip Ralf Ramon Robin Roger Rolf Samir Samuel Simon Stefan Sven
Theo Thomas Tim Tobias Tom Uwe Victor Vincent Walter William Yusuf Zeno
""".split()

SURNAMES = """
Abbott Ahlberg Almeida Andersen Archer Atwood Bailey Barlow Becker Bell Bennett Berg Bishop Bjork
Blake Bloom Bolton Bradley Brandt Brennan Brook Burton Campbell Carver Castillo Chandler Clarke Cole
Conti Cooper Costa Crane Cruz Dahl Dalton Davies Dawson Dietrich Doyle Draper Duarte Dunn Eklund
Ellis Emerson Engel Falk Farmer Ferrari Fischer Fletcher Flynn Foster Fraser Frost Garcia Gardner
Gibson Gordon Graham Grant Haas Hale Hansen Harper Hart Hayes Hoffman Holm Hunter Ibsen Iversen
Jansen Jensen Keller Kemp Klein Kowalski Kruger Lambert Lang Larsen Lehmann Lindgren Lopez Lund
Madsen Marino Marsh Meyer Miller Moretti Morgan Moser Murphy Nash Nielsen Norris Novak Nyberg Olsen
Ortega Palmer Parker Pearce Petrov Piper Porter Quinn Ramirez Reed Reyes Richter Rivera Romano Rossi
Rowe Ryan Saller Santos Schmidt Sharp Shaw Silva Sorensen Stone Strand Tanner Taylor Thorne Torres
Turner Vance Vargas Vogel Wagner Walsh Ward Weaver Weber West Winter Wolf Wood Yates Young Zeller
Ziegler
""".split()

TOWNS = """
Aldbury Amberley Ashford Avonlea Barton Bellhaven Birchwood Blackwater Borden Brackley Bramford
Briarton Bristow Brunswick Calder Cardale Carrow Castleton Clayton Cliffside Colby Crawford
Cresswell Crosby Dalby Danford Darrow Deepdale Denholm Dunmore Eastbrook Eastham Eddington Elmsworth
Fairhaven Farley Fenwick Ferndale Foxley Glenmore Grafton Granby Greenfield Halden Halston Hampden
Harlow Hartwell Haverton Hayfield Heathcote Holbrook Holton Ivydale Kelby Kendal Kingsport Kirkby
Lakeview Langford Larkhill Leyton Linden Longdale Lowell Malden Marbury Marlow Maybrook Melford
Merton Milton Montrose Morley Netherby Newbridge Northam Norwood Oakham Oldcastle Orford Overton
Pembury Pinewood Portland Radley Ravenna Redcliff Ridgeway Rosedale Rothbury Saltmarsh Sandhurst
Seaford Selby Shelford Skelton Southwick Stanton Stonebury Sunderby Sutton Thornbury Tilbury Upton
Wakefield Waldron Walford Warwick Welby Westbrook Whitby Wilton Winslow Woodbridge Wyndham Yarrow
""".split()

PET_NAMES = """
Bandit Barley Biscuit Bobo Bramble Button Caramel Chester Cinder Clover Coco Comet Dusty Echo Fidget
Fig Fudge Ginger Hazel Jingle Juno Kiko Lulu Mango Maple Marble Mimi Mischief Mocha Momo Moxie
Nutmeg Olive Pebble Pepper Pickle Pippin Pixie Pogo Poppy Pumpkin Rascal Rocket Rufus Rusty Sable
Scout Shadow Smoky Snowball Socks Sparky Sprout Tango Tiger Toffee Tuppy Waffle Whisper Ziggy
""".split()

NATIONS = [tuple(line.split()) for line in """
Denmark Danish Danish
Sweden Swedish Swedish
Norway Norwegian Norwegian
Finland Finnish Finnish
Poland Polish Polish
Hungary Hungarian Hungarian
Greece Greek Greek
Italy Italian Italian
Spain Spanish Spanish
Portugal Portuguese Portuguese
Turkey Turkish Turkish
Egypt Egyptian Arabic
Japan Japanese Japanese
Vietnam Vietnamese Vietnamese
Russia Russian Russian
Ireland Irish Irish
Iceland Icelandic Icelandic
Brazil Brazilian Portuguese
Mexico Mexican Spanish
Austria Austrian German
""".strip().splitlines()]  # fmt: skip

# trade, place of work, its goods (singular, plural), tool, how the goods come about
TRADES = [tuple(line.split()) for line in """
baker bakery loaf loaves sieve baked
potter pottery bowl bowls sponge shaped
saddler stable saddle saddles awl stitched
clockmaker attic clock clocks magnifier repaired
carpenter workshop chair chairs saw built
hatter boutique hat hats ribbon sewed
chandler cellar candle candles mold poured
weaver barn basket baskets shuttle wove
cobbler basement shoe shoes hammer mended
cutler forge knife knives whetstone sharpened
painter studio portrait portraits brush painted
cartographer archive map maps compass drew
tailor parlor coat coats needle cut
tinsmith shed lantern lanterns rasp soldered
sculptor courtyard statue statues chisel carved
jeweler gallery ring rings loupe polished
quilter cottage quilt quilts thimble patched
cheesemaker dairy cheese cheeses strainer aged
boatbuilder shipyard canoe canoes mallet planed
optician clinic lens lenses microscope ground
printer printshop poster posters roller printed
florist greenhouse bouquet bouquets trowel tied
confectioner kitchen cake cakes whisk decorated
beekeeper orchard jar jars smoker filled
glazier warehouse window windows cutter glazed
bookbinder library notebook notebooks glue bound
luthier loft violin violins clamp varnished
butcher shop sausage sausages cleaver smoked
brewer brewery barrel barrels ladle sealed
toymaker garage puppet puppets paintbrush assembled
""".strip().splitlines()]  # fmt: skip

PETS = "cat dog parrot rabbit donkey goat pony goose hamster turtle canary hen lamb ferret".split()
ITEMS = """
bracelet scarf umbrella suitcase telescope camera diary teapot blanket mirror watch kite wallet
locket typewriter radio brooch raincoat backpack lamp necklace pipe vase drum sled purse shawl pen
cap
""".split()
COLORS = (
    "red blue green yellow white black brown purple orange silver golden gray pink crimson".split()
)
FOODS = (
    """
onion/NN soup, plum/NN cake, lentil/NN stew, pear/NN pie, fish/NN soup, potato/NN salad,
pumpkin/NN bread, cherry/NN jam, goat/NN cheese, apple/NN pie, mushroom/NN rice, honey/NN cake,
carrot/NN soup, bean/NN stew, walnut/NN bread, lemon/NN pie, fried/VBN eel, roast/JJ duck,
smoked/VBN trout, pickled/VBN herring
""".strip()
    .replace("\n", " ")
    .split(", ")
)
INSTRUMENTS = (
    "flute cello harp trumpet accordion piano guitar clarinet banjo fiddle oboe mandolin".split()
)
FLOWERS = "rose tulip lily daisy orchid iris peony dahlia violet sunflower lavender jasmine".split()
FEARS = (
    "thunder spiders heights ghosts snakes ladders bats wolves mice wasps darkness crowds tunnels"
).split()
HOBBIES = (
    "fishing hiking swimming sailing dancing skating gardening sketching bowling singing climbing"
    " rowing".split()
)

PLACE_NAMES = """
Alder Amber Anchor Beacon Cedar Chapel Copper Crescent Eagle Falcon Granite Harbor Heron Juniper
Lantern Linden Maple Mill Raven Willow
""".split()
FACILITIES = "Bridge Station Theater Airport Lighthouse Stadium Tower Museum".split()
REGIONS = "River Valley Lake Mountains Forest Bay Island Desert".split()
FIRMS = (
    "Bank|Railway Company|Shipping Company|Insurance Group|University|Hospital|Herald|Trading"
    " House|Council|Foundation".split("|")
)
EVENTS = (
    "Harvest Fair|Spring Festival|Winter Games|Lantern Parade|Summer Regatta|Book Week|Jazz"
    " Night|Kite Derby".split("|")
)
LAWS = (
    "Clean Water Act|Fair Rent Act|Night Work Act|Market Stalls Act|Forest Protection Act|Public"
    " Parks Act|School Meals Act".split("|")
)
PRODUCT_MAKES = "Comet Falcon Meteor Pioneer Ranger Rover Swift Vega Zephyr Orion".split()
TITLE_ADJECTIVES = (
    "Silent Broken Golden Hidden Lonely Last Distant Frozen Paper Hollow Crimson Restless".split()
)
TITLE_NOUNS = (
    "Harbor Garden Winter Mirror Voyage Orchard River Letter Lighthouse Bridge Summer Clock".split()
)
