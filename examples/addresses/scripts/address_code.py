"""Functions that the configs of this project use: features of words and of whole addresses, and lists of words.

`usaddress_features` computes the features that usaddress documents.  `word_function` and `Segments` are our own.  A
packaged pipeline contains this file.
"""
# ruff: noqa: SIM905

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from spacy.strings import hash_string

from spacy_crfseq import registry
from spacy_crfseq.features.index import Growable, HashIndex
from spacy_crfseq.features.token_sets import TokenSets

# Lists of words, in lower case and without full stops

DIRECTIONS = set("n s e w ne nw se sw north south east west northeast northwest southeast southwest".split())
# Abbreviations of streets that the postal service knows (Publication 28, appendix C1), as usaddress lists them.
STREET_TYPES = set(
    """
    allee alley ally aly anex annex annx anx arc arcade av ave aven avenu avenue avn avnue bayoo bayou bch beach
    bend bg bgs bl blf blfs bluf bluff bluffs blvd bnd bot bottm bottom boul boulevard boulv br branch brdge brg
    bridge brk brks brnch brook brooks btm burg burgs byp bypa bypas bypass byps byu camp canyn canyon cape causeway
    causwa causway cen cent center centers centr centre ci cir circ circl circle circles cirs ck clb clf clfs cliff
    cliffs club cmn cmns cmp cnter cntr cnyn common commons cor corner corners cors course court courts cove coves
    cp cpe cr crcl crcle crecent creek cres crescent cresent crest crk crossing crossroad crossroads crscnt crse
    crsent crsnt crssing crssng crst crt cswy ct ctr ctrs cts curv curve cv cvs cyn dale dam div divide dl dm dr
    driv drive drives drs drv dv dvd est estate estates ests ex exp expr express expressway expw expy ext extension
    extensions extn extnsn exts fall falls ferry field fields flat flats fld flds fls flt flts ford fords forest
    forests forg forge forges fork forks fort frd frds freeway freewy frg frgs frk frks frry frst frt frway frwy fry
    ft fwy garden gardens gardn gateway gatewy gatway gdn gdns glen glens gln glns grden grdn grdns green greens grn
    grns grov grove groves grv grvs gtway gtwy harb harbor harbors harbr haven havn hbr hbrs height heights hgts
    highway highwy hill hills hiway hiwy hl hllw hls hollow hollows holw holws hrbor ht hts hvn hway hwy inlet inlt
    is island islands isle isles islnd islnds iss jct jction jctn jctns jcts junction junctions junctn juncton key
    keys knl knls knol knoll knolls ky kys la lake lakes land landing lane lanes lck lcks ldg ldge lf lgt lgts light
    lights lk lks ln lndg lndng loaf lock locks lodg lodge loop loops lp mall manor manors mdw mdws meadow meadows
    medows mews mi mile mill mills mission missn ml mls mn mnr mnrs mnt mntain mntn mntns motorway mount mountain
    mountains mountin msn mssn mt mtin mtn mtns mtwy nck neck opas orch orchard orchrd oval overlook overpass ovl
    ovlk park parks parkway parkways parkwy pass passage path paths pike pikes pine pines pk pkway pkwy pkwys pky pl
    place plain plaines plains plaza pln plns plz plza pne pnes point points port ports pr prairie prarie prk prr
    prt prts psge pt pts pw pwy rad radial radiel radl ramp ranch ranches rapid rapids rd rdg rdge rdgs rds rest ri
    ridge ridges rise riv river rivr rn rnch rnchs road roads route row rpd rpds rst rte rue run rvr shl shls shoal
    shoals shoar shoars shore shores shr shrs skwy skyway smt spg spgs spng spngs spring springs sprng sprngs spur
    spurs sq sqr sqre sqrs sqs squ square squares st sta station statn stn str stra strav strave straven stravenue
    stravn stream street streets streme strm strt strvn strvnue sts sumit sumitt summit te ter terr terrace
    throughway tl tpk tpke tr trace traces track tracks trafficway trail trailer trails trak trce trfy trk trks trl
    trlr trlrs trls trnpk trpk trwy tunel tunl tunls tunnel tunnels tunnl turn turnpike turnpk un underpass union
    unions uns upas valley valleys vally vdct via viadct viaduct view views vill villag village villages ville villg
    villiage vis vist vista vl vlg vlgs vlly vly vlys vst vsta vw vws walk walks wall way ways well wells wl wls wy
    xc xg xing xrd xrds
    """.split()
)
COMMON_TYPES = set(
    """st street ave avenue av rd road dr drive blvd boulevard ln lane ct court pl place way pkwy parkway cir circle ter
    terrace trl trail sq square hwy highway plaza plz loop pike""".split()
)
STATE_CODES = set(
    """al ak az ar ca co ct de dc fl ga hi id il in ia ks ky la me md ma mi mn ms mo mt ne nv nh nj nm ny nc nd oh ok or
    pa pr ri sc sd tn tx ut vt va wa wv wi wy gu vi as mp""".split()
)
STATES = set(
    """alabama alaska arizona arkansas california colorado connecticut delaware florida georgia hawaii idaho illinois
    indiana iowa kansas kentucky louisiana maine maryland massachusetts michigan minnesota mississippi missouri montana
    nebraska nevada ohio oklahoma oregon pennsylvania tennessee texas utah vermont virginia washington wisconsin
    wyoming""".split()
)
LISTS: dict[str, set[str]] = {
    "direction": DIRECTIONS | {"no", "so"},
    "state": STATE_CODES,
    "state name": STATES,
    "state begin": set("new north south west rhode district puerto".split()),
    "state end": set("hampshire jersey mexico york carolina dakota virginia island columbia rico".split()),
    "old state": set(
        """ala ariz ark cal calif colo conn del fla ill ind kan kans kent mass mich minn miss mont neb nebr nev okla ore
        oreg penn penna tenn tex vir wash wis wisc wyo""".split()
    ),
    "unit": set(
        """apt apartment ste suite unit rm room fl flr floor floors flat lot spc space trlr trailer slip hngr pier front
        frnt rear lowr lower uppr upper ofc office ph penthouse bsmt basement lbby lobby no num number key side stop
        dept department level lvl studio stall desk cubicle mezzanine mezz""".split()
    ),
    "part": set(
        """bldg building bld tower twr wing hall block blk section sec phase hangar pavilion terminal gate concourse
        complex campus""".split()
    ),
    "box": set("po box pob pobox drawer drwr bin lockbox caller postal post office".split()),
    "box group": set("rr hc hcr rt rte route rural star rfd psc cmr unit".split()),
    "road": set(
        """us hwy highway hghwy hwys route rt rte sr state county co cr cty interstate i fm rm loop farm ranch market pr
        private township twp road rd old bypass""".split()
    ),
    "number word": set(
        """one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen twenty thirty forty
        fifty hundred""".split()
    ),
    "ordinal word": set(
        """first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth
        fifteenth sixteenth seventeenth eighteenth nineteenth twentieth""".split()
    ),
    "separator": set("and & at @ / corner of jct junction between".split()),
    "organisation": set(
        """inc llc ltd co corp corporation company group associates assoc llp pc attn attention c/o care of the dept
        department dba bank center university college school hospital church club hotel inn services service systems
        international trust foundation office medical clinic""".split()
    ),
    "country": set("usa us united states america canada mexico".split()),
    "title": set("mr mrs ms dr miss sir jr sr ii iii iv md phd esq".split()),
    "street begin": set(
        "avenue avenida calle camino via paseo rue la las los el de del st saint mt mount ft fort".split()
    ),
    "street type": STREET_TYPES,
    "common type": COMMON_TYPES,
}
CITIES = """
aberdeen abilene akron albany albuquerque alexandria allen allentown alpharetta altoona amarillo ames anaheim anchorage
anderson ann-arbor annapolis appleton arlington arvada asheville ashland athens atlanta auburn augusta aurora austin
avondale bakersfield baltimore bangor baton-rouge battle-creek bayonne baytown beaumont beaverton bellevue bellingham
beloit bend berwyn bethesda bethlehem billings biloxi birmingham bismarck bloomington boca-raton boise bolingbrook
boston boulder bowie bowling-green boynton-beach bozeman bradenton branson bridgeport brockton broken-arrow bronx
brooklyn brooklyn-park brownsville buffalo burlington butte cambridge camden canton cape-coral carbondale carmel
carrollton carson-city cary casper cedar-falls cedar-rapids centennial champaign chandler charleston charlotte
chattanooga chesapeake cheyenne chicago chula-vista cicero cincinnati clarksville clearwater cleveland clifton
coeur-d'alene colorado-springs columbia columbus concord coral-springs corona corpus-christi corvallis council-bluffs
covington cranston dallas danbury davenport dayton daytona-beach dearborn decatur delray-beach denton denver des-moines
des-plaines detroit dothan dover downers-grove dubuque duluth durham eagan east-brunswick east-chicago east-cleveland
east-hartford east-haven east-lansing east-los-angeles east-meadow east-moline east-orange east-palo-alto east-peoria
east-point east-providence east-saint-louis easton eastpointe eau-claire edina edinburg edmond el-cajon el-centro
el-monte el-paso el-segundo elgin elizabeth elk-grove elkhart elyria enid erie escondido eugene evanston evansville
everett fairbanks fall-river fargo fayetteville federal-way findlay fishers flagstaff flint flushing fontana
fort-collins fort-lauderdale fort-myers fort-pierce fort-smith fort-wayne fort-worth framingham franklin frederick
fremont fresno frisco fullerton gainesville gaithersburg galesburg galveston garden-grove garland gary gilbert glendale
goodyear grand-forks grand-prairie grand-rapids great-falls greeley green-bay greensboro greenville gresham gulfport
hackensack hagerstown hamilton hammond hampton harlingen harrisburg hartford hattiesburg hayward helena henderson
hendersonville hialeah hickory high-point hillsboro hilo hoboken holland hollywood honolulu hoover hot-springs houston
huntington huntington-beach huntsville hutchinson idaho-falls independence indianapolis iowa-city irvine irving ithaca
jackson jacksonville jamaica janesville jefferson-city jersey-city johnson-city joliet jonesboro joplin juneau kailua
kalamazoo kansas-city kenner kennewick kenosha kent kettering killeen kingsport kirkland kissimmee knoxville kokomo
la-crosse la-grange la-habra la-jolla la-mesa la-mirada la-quinta lafayette lake-charles lakeland lakewood lancaster
lansing laramie laredo largo las-cruces las-vegas lawrence lawton league-city lewiston lewisville lexington lima lincoln
little-rock livonia logan long-beach longmont longview lorain los-angeles louisville loveland lowell lubbock lynchburg
lynn macon madison malden manchester manhattan mankato mansfield marietta mcallen mckinney medford melbourne memphis
meridian mesa mesquite miami miami-beach miami-gardens midland milwaukee minneapolis minnetonka minot mishawaka mission
missoula mobile modesto moline monroe montgomery montpelier moore moorhead moreno-valley mount-pleasant mount-prospect
mount-vernon muncie murfreesboro muskegon myrtle-beach nampa naperville naples nashua nashville new-bedford new-britain
new-brunswick new-haven new-orleans new-rochelle new-york newark newport-news newton norfolk normal norman north-bergen
north-brunswick north-canton north-charleston north-chicago north-haven north-hollywood north-las-vegas north-lauderdale
north-little-rock north-miami north-miami-beach north-olmsted north-port north-providence north-richland-hills
north-royalton north-tonawanda northampton northbrook northglenn norwalk oak-lawn oak-park oakland ocala oceanside
odessa ogden oklahoma-city olathe olympia omaha ontario orange orem orland-park orlando oshkosh overland-park oxnard
paducah palatine palm-bay palm-beach palm-coast palm-desert palm-harbor palm-springs palmdale palo-alto panama-city
parma pasadena passaic paterson pawtucket pearland pembroke-pines pensacola peoria philadelphia phoenix pittsburgh plano
plymouth pocatello pomona pompano-beach pontiac port-saint-lucie portland portsmouth prescott providence provo pueblo
queens quincy racine raleigh rancho-cucamonga rapid-city reading redmond reno renton richardson richmond rio-rancho
riverside roanoke rochester rock-hill rock-island rockford rockville rocky-mount roswell round-rock rutland sacramento
saginaw saint-augustine saint-charles saint-clair-shores saint-cloud saint-george saint-joseph saint-louis saint-paul
saint-peters saint-petersburg salem salina salinas salt-lake-city san-angelo san-antonio san-bernardino san-clemente
san-diego san-francisco san-jose san-leandro san-luis-obispo san-marcos san-mateo san-rafael san-ramon sandy
sandy-springs santa-ana santa-barbara santa-clara santa-clarita santa-cruz santa-fe santa-maria santa-monica santa-rosa
sarasota savannah schaumburg schenectady scottsdale scranton seattle shawnee sheboygan shreveport silver-spring
simi-valley sioux-city sioux-falls skokie somerville south-bend south-el-monte south-euclid south-gate south-jordan
south-miami south-milwaukee south-orange south-pasadena south-plainfield south-portland south-salt-lake
south-san-francisco southaven southfield sparks spartanburg spokane springfield stamford staten-island sterling-heights
stillwater stockton suffolk sugar-land sunnyvale surprise syracuse tacoma tallahassee tampa tempe terre-haute thornton
thousand-oaks tinley-park toledo topeka torrance traverse-city trenton troy tucson tulsa tupelo tuscaloosa tyler
union-city urbana utica valdosta vancouver virginia-beach waco waipahu waltham warren warwick washington waterbury
waterloo waukegan waukesha wausau west-allis west-bend west-chester west-covina west-des-moines west-fargo west-hartford
west-haven west-hollywood west-jordan west-lafayette west-memphis west-orange west-palm-beach west-seneca
west-springfield west-valley-city westerville westland westminster weston wheaton wheeling white-plains wichita
wichita-falls wilmington winston-salem worcester yakima yonkers york youngstown yuma
"""
"""Large cities of the United States and towns around them; a name of several words has hyphens."""
_NAMES = [name.split("-") for name in CITIES.split()]
CITY_PARTS = {
    "begin": {name[0] for name in _NAMES if len(name) > 1} | {"st"},
    "rest": {word for name in _NAMES for word in name[1:]},
    "whole": {name[0] for name in _NAMES if len(name) == 1},
}

# Functions of a word

VOWELS = set("aeiou")
_EDGES = re.compile(r"^[^\w#&½@/]+|[^\w#&½@/]+$")
_TAIL = re.compile(r"[^\w.]+$")
_FORMS = (
    ("zip+4", re.compile(r"\d{5}-\d{4}")),
    ("ordinal", re.compile(r"\d+(st|nd|rd|th)")),
    ("range", re.compile(r"\d+-\d+")),
    ("fraction", re.compile(r"\d+/\d+")),
    ("direction", re.compile(r"\d+[nsew]")),
    ("letter", re.compile(r"\d+[a-z]")),
    ("letter first", re.compile(r"[a-z]\d+")),
    ("sign", re.compile(r"#\d+")),
)
"""Kinds of words with digits, the first that fits."""


@lru_cache(maxsize=1 << 15)
def clean(text: str) -> str:
    """Return a word in lower case, without full stops and without punctuation at its ends."""
    return _EDGES.sub("", text).replace(".", "").lower() or text


@lru_cache(maxsize=1 << 15)
def letters(text: str) -> str:
    """Return a word as `clean` does, without letters if it has a digit."""
    found = clean(text)
    return "" if any(map(str.isdigit, found)) else found


def word(text: str) -> str | None:
    """The word, unless it is a number."""
    found = clean(text)
    return None if found.isdigit() else found


@lru_cache(maxsize=1 << 15)
def number(text: str) -> str | None:
    """The kind of a word that has digits; of whole numbers, how many."""
    found = clean(text)
    if found.isdigit():
        return f"{min(len(found), 6)} digits"
    if found.isalpha() or not any(map(str.isdigit, found)):
        return None
    kind = next((name for name, form in _FORMS if form.fullmatch(found)), None)
    return kind or re.sub(r"\d+", "d", re.sub(r"[a-z]+", "a", found))[:6]


@lru_cache(maxsize=1 << 15)
def classes(text: str) -> str | None:
    """The lists that have the word."""
    found = clean(text)
    return "+".join(name for name, words in LISTS.items() if found in words) or None


def kind(text: str) -> str:
    """Kind of number, or lists, or whether the word has one, two or more letters."""
    return number(text) or classes(text) or f"{min(len(clean(text)), 3)} letters"


def punctuation(text: str) -> str | None:
    """The sign after the word."""
    found = _TAIL.search(text)
    return found[0][0] if found and len(text) > 1 else None


def kind_and_punctuation(text: str) -> str:
    """Both in one."""
    return kind(text) + (punctuation(text) or "")


def case(text: str) -> str | None:
    """Upper, lower, title or mixed case."""
    found = _EDGES.sub("", text)
    if found.isdigit() or not any(map(str.isalpha, found)):
        return None
    if found.isupper():
        return "upper"
    if found.islower():
        return "lower"
    return "title" if found[:1].isupper() and found[1:].islower() else "mixed"


def dot(text: str) -> str | None:
    """Whether the word ends with a full stop."""
    return "1" if text.rstrip(",;)").endswith(".") else None


def bracket(text: str) -> str | None:
    """Whether the word begins with a bracket."""
    return "1" if text.startswith("(") else None


def size(text: str) -> str:
    """Number of letters and digits, up to nine."""
    return str(min(len(clean(text)), 9))


def no_vowel(text: str) -> str | None:
    """Whether the word has letters and no vowel after the first."""
    found = letters(text)
    return "1" if found and VOWELS.isdisjoint(found[1:]) else None


def city(text: str) -> str | None:
    """Where the word occurs in names of cities: at the beginning of longer ones, in their rest, or alone."""
    found = clean(text)
    return "+".join(part for part, words in CITY_PARTS.items() if found in words) or None


def _affix(text: str, size: int) -> str | None:
    """The first or, if `size` is negative, last letters of a longer word without digits."""
    found = letters(text)
    if len(found) <= abs(size):
        return None
    return found[:size] if size > 0 else found[size:]


FUNCTIONS: dict[str, Callable[[str], str | None]] = {
    **{
        function.__name__: function
        for function in (word, number, classes, kind, punctuation, kind_and_punctuation, case, dot)
    },
    **{function.__name__: function for function in (bracket, size, no_vowel, city)},
    **{f"prefix{size}": partial(_affix, size=size) for size in (2, 3, 4)},
    **{f"suffix{size}": partial(_affix, size=-size) for size in (1, 2, 3, 4)},
}


@registry.features("addresses.Word.v1")
def word_function(name: str) -> Callable[[str], str | None]:
    """Return one of the functions of a word, by its name."""
    return FUNCTIONS[name]


# Features of the whole address

COARSE = (
    "end", "number", "zip", "ordinal", "street", "rare street", "direction", "state", "unit", "part", "box",
    "separator", "road", "other",
)  # fmt: skip
"""Coarse kinds of words; "end" is what follows the last one."""
_WORDS = (
    ("street", COMMON_TYPES), ("direction", LISTS["direction"]), ("state", STATE_CODES), ("unit", LISTS["unit"]),
    ("part", LISTS["part"]), ("box", LISTS["box"]), ("separator", LISTS["separator"]), ("road", LISTS["road"]),
    ("state", STATES), ("rare street", STREET_TYPES),
)  # fmt: skip
STREET = COARSE.index("street")
N = len(COARSE)
LARGEST = 1 << 18
"""Words whose kinds are cached."""
FAR = 4
"""Distances are counted up to here."""


def coarse(text: str) -> str:
    """Return the coarse kind of a word."""
    found = clean(text)
    if not letters(text):
        form = number(text)
        return "ordinal" if form == "ordinal" else "zip" if form in ("5 digits", "zip+4") else "number"
    return next((name for name, words in _WORDS if found in words), "other")


@registry.attributes("addresses.Segments.v1")
class Segments:
    """What the parts of an address between commas say about each word.

    The values of a token join its coarse kind with that of the first and the last word of its part and of the first
    one of the next, with the distances to both ends of the part, and with whether a type of a street precedes and
    follows it in the address.  An address is a sentence if sentence starts are set, else a whole Doc.
    """

    def __init__(self) -> None:
        self._forget()
        pairs = [(x, y) for x in COARSE for y in COARSE]
        counts = [(x, y) for x in range(N) for y in COARSE]
        names = [f"{what} {x} {y}" for what in ("first", "last", "next") for x, y in pairs]
        names += [f"{what} {x} {y}" for what in ("from", "to", "streets") for x, y in counts]
        names += [f"both {x} {y}" for x, y in pairs] + [f"streets {x}" for x in range(N)]
        self._names = names
        self._hashes = np.array([hash_string(name) for name in names], np.uint64)

    def names(self, block: str) -> Sequence[str]:
        """Return the name of the attribute."""
        return [block]

    def templates(self, block: str) -> Sequence[str]:
        """Return the template over it."""
        return [block]

    def read(self, block: str, docs: Sequence[Any], strings: dict[int, str] | None = None) -> Mapping[str, TokenSets]:
        """Return the values at all tokens of Docs."""
        arrays = [doc.to_array(["ORTH", "SENT_START"]) for doc in docs]
        table = np.concatenate([*arrays, np.zeros((0, 2), np.uint64)])
        orths, starts = np.ascontiguousarray(table[:, 0]), np.append(table[:, 1] == 1, True)
        starts[np.cumsum([0, *map(len, arrays)])] = True
        numbers = _values(self._codes_of(orths, docs), np.flatnonzero(starts))
        values = self._hashes[numbers]
        if strings is not None:
            strings.update((int(self._hashes[i]), self._names[i]) for i in np.unique(numbers))
        ptr = np.arange(len(orths) + 1) * values.shape[1]
        return {block: TokenSets(values.sum(axis=1, dtype=np.uint64), ptr, values.ravel())}

    def _codes_of(self, orths: np.ndarray[Any, Any], docs: Sequence[Any]) -> np.ndarray[Any, Any]:
        """Return for each word twice its coarse kind, plus one if a comma follows; words are looked up once."""
        found, unknown = self._words.find(orths)
        if unknown:
            if self._words.size > LARGEST:
                self._forget()
            found, new = self._words.add(orths)
            texts = [docs[0].vocab.strings[orth] for orth in orths[new].tolist()]
            more = [2 * COARSE.index(coarse(text)) + (punctuation(text) == ",") for text in texts]
            self._codes.append(np.array(more, np.int64))
        codes: np.ndarray[Any, Any] = self._codes.array[found]
        return codes

    def _forget(self) -> None:
        self._words, self._codes = HashIndex(), Growable(np.int64)


def _values(codes: np.ndarray[Any, Any], offsets: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the numbers [T, 8] of the values of all tokens from their codes [T]; `offsets` [addresses + 1]."""
    n = len(codes)
    kinds, commas = np.append(codes >> 1, 0), codes & 1
    address = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    begins = np.zeros(n + 1, np.bool_)
    begins[1:] = commas
    begins[offsets] = True
    edges = np.flatnonzero(begins)  # where parts begin, and the end
    part = np.cumsum(begins[:-1]) - 1
    first, end = edges[part], edges[part + 1]
    here, place = kinds[:-1], np.arange(n)
    following = np.where(end < offsets[address + 1], kinds[end], 0)
    streets = np.append(0, np.cumsum(here == STREET))
    before = streets[place] > streets[offsets[address]]
    after = streets[offsets[address + 1]] > streets[place + 1]
    around, square = before + 2 * after, N * N
    columns = (
        kinds[first] * N + here,
        square + kinds[end - 1] * N + here,
        2 * square + following * N + here,
        3 * square + np.minimum(place - first, FAR) * N + here,
        4 * square + np.minimum(end - 1 - place, FAR) * N + here,
        5 * square + around * N + here,
        6 * square + kinds[first] * N + kinds[end - 1],
        7 * square + around,
    )
    return np.stack(columns, axis=1)


# The features of usaddress


def token_features(token: str) -> dict[str, Any]:
    """Return the features of a token by itself."""
    bare = token if token in ("#", "&", "½") else re.sub(r"^\W+|[^.\w]+$", "", token)
    plain = bare.lower().replace(".", "")
    is_number = plain.isdigit()
    digits = "all_digits" if bare.isdigit() else "some_digits" if re.search("[0-9]", bare) else "no_digits"
    zeros = re.search("0+$", plain) if is_number else None
    return {
        "abbrev": bare.endswith("."),
        "digits": digits,
        "word": False if is_number else plain,
        "trailing.zeros": (zeros[0] if zeros else "") if is_number else False,
        "length": f"{'d' if is_number else 'w'}:{len(plain)}",
        "endsinpunc": token[-1] if re.match(r".+[^.\w]", token) else False,
        "directional": plain in DIRECTIONS,
        "street_name": plain in STREET_TYPES,
        "has.vowels": not set("aeiou").isdisjoint(plain[1:]),
    }


@lru_cache(maxsize=1 << 10)
def address_features(tokens: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the features of all tokens of an address: each with those of its neighbours, and marks of the ends."""
    single = [token_features(token) for token in tokens]
    single[0]["address.start"] = single[-1]["address.end"] = True
    found = [dict(record) for record in single]
    for i, features in enumerate(found):
        if i > 0:
            features["previous"] = single[i - 1]
        if i + 1 < len(found):
            features["next"] = single[i + 1]
    return found


@registry.features("addresses.usaddress.v1")
def usaddress_features() -> Callable[[Sequence[Any], int], dict[str, Any]]:
    """Return usaddress's features as a function of a token, in the form of python-crfsuite."""

    def features(tokens: Sequence[Any], i: int) -> dict[str, Any]:
        return address_features(tuple(token.text for token in tokens))[i]

    return features
