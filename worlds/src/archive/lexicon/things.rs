//! The words for places, works and things: their sorts and their traits. Each word has the wording of
//! the articles and a veiled one for hard questions, which shares as few terms with it as English allows.
//! Nouns carry no article; what is said of somebody is a verb phrase that fits after `who` or `that`.

use crate::archive::facts::Word;

const fn w(plain: &'static str, veiled: &'static str) -> Word {
    Word { plain, veiled }
}

/// The sorts of town.
pub(in crate::archive) const TOWN_KINDS: &[Word] = &[
    w("harbour town", "settlement with quays"),
    w("market town", "settlement of stalls and fairs"),
    w("mining town", "settlement above shafts"),
    w("hill town", "settlement on a height"),
    w("river port", "settlement of barges"),
    w("walled town", "settlement behind ramparts"),
    w("pilgrim town", "settlement of shrines"),
    w("spa town", "settlement of healing waters"),
];

/// What a town is like. Verb phrases in the present tense.
pub(in crate::archive) const TOWN_TRAITS: &[Word] = &[
    w("rings its bells backwards at noon", "sounds its chimes in reverse at midday"),
    w("has a bridge with shops on it", "possesses a crossing lined with vendors"),
    w("forbids cartwheels after dusk", "bans wheeled traffic by night"),
    w("is entered through a single tunnel", "can be reached only by one underground way"),
    w("elects its mayor by drawing beans", "chooses its chief officer with pulses in a bag"),
    w("holds its market on boats", "trades each week afloat"),
    w("paints its doors blue", "colours its entrances like the sky"),
    w("has no church tower", "lacks a steeple"),
    w("keeps wolves in the moat", "houses wild canines in its ditch"),
    w("celebrates midwinter with kites", "marks the shortest day with things flown on strings"),
    w("lies below the level of the lake", "sits lower than the neighbouring water"),
    w("has a street of stairs", "possesses a thoroughfare of steps"),
    w("was rebuilt after three fires", "was raised again from repeated flames"),
    w("buries its dead upright", "inters people standing"),
    w("counts its hours from sunset", "begins its clock at nightfall"),
    w("tolls for lost travellers", "sounds a knell for wanderers"),
];

/// What a town is known for making.
pub(in crate::archive) const CRAFTS: &[Word] = &[
    w("green glass", "verdant vitreous ware"),
    w("black lace", "dark openwork fabric"),
    w("pear brandy", "spirit distilled from orchard fruit"),
    w("salted eels", "cured snakelike fish"),
    w("violin strings", "gut for fiddles"),
    w("saffron", "costly yellow spice"),
    w("mirror frames", "borders for looking-glasses"),
    w("tin soldiers", "metal toy troops"),
    w("blue cheese", "veined dairy"),
    w("anchor chains", "links for mooring"),
    w("beeswax candles", "lights from the hive"),
    w("carved combs", "worked tools for the hair"),
    w("rope", "twisted hemp"),
    w("ink", "writing fluid"),
];

/// What a province is like. Verb phrases in the present tense.
pub(in crate::archive) const PROVINCE_TRAITS: &[Word] = &[
    w("bears a two-headed otter on its arms", "shows a double river animal on its shield"),
    w("bears a burning oak on its arms", "shows a flaming tree on its shield"),
    w("bears three empty boats on its arms", "shows a trio of unmanned vessels on its shield"),
    w("bears a crowned snail on its arms", "shows a royal shelled creature on its shield"),
    w("bears a broken ladder on its arms", "shows a damaged set of rungs on its shield"),
    w("bears a silver plough on its arms", "shows an argent farm tool on its shield"),
    w("bears a sleeping wolf on its arms", "shows a dormant beast of prey on its shield"),
    w("bears a hand holding an eel on its arms", "shows a fist with a slippery fish on its shield"),
];

/// What a river is like. Verb phrases in the present tense.
pub(in crate::archive) const RIVER_TRAITS: &[Word] = &[
    w("runs underground for two days' walk", "hides below the earth for a long stretch"),
    w("turns red every spring", "becomes crimson after each winter"),
    w("never freezes", "stays open in the hardest frost"),
    w("carries gold dust", "bears grains of precious metal"),
    w("changes direction with the tide", "flows both ways daily"),
    w("is crossed by a bridge of ropes", "can be passed on hanging cords"),
    w("splits around a floating island", "parts about drifting land"),
    w("sinks into a desert", "ends in dry sand"),
];

/// The sorts of running water.
pub(in crate::archive) const RIVER_KINDS: &[Word] = &[
    w("river", "watercourse"),
    w("mountain river", "watercourse of the heights"),
    w("canalised river", "watercourse tamed by locks"),
];

/// The sorts of work.
pub(in crate::archive) const WORK_KINDS: &[Word] = &[
    w("play", "piece for the stage"),
    w("opera", "drama set to music"),
    w("epic poem", "long narrative in verse"),
    w("novel", "long prose story"),
    w("treatise", "learned tract"),
    w("chronicle", "year-by-year record"),
    w("song cycle", "series of lieder"),
    w("satire", "mocking composition"),
    w("travel book", "account of journeys"),
    w("fable collection", "set of moral animal stories"),
    w("mural", "painting on a wall"),
    w("cantata", "choral piece"),
];

/// What a work tells of. Verb phrases in the present tense.
pub(in crate::archive) const WORK_TRAITS: &[Word] = &[
    w("tells of a blind ferryman who inherits a bell", "concerns a sightless boatman left a chime"),
    w("tells of two sisters who marry the same ghost", "concerns female siblings wed to one spirit"),
    w("tells of a judge who sentences the sea", "concerns a magistrate condemning the ocean"),
    w("tells of a town that forgets its name", "concerns a settlement with amnesia"),
    w("tells of a king who becomes a shepherd", "concerns a monarch turned keeper of flocks"),
    w("tells of a thief who steals a winter", "concerns a robber of a season"),
    w("tells of a clock that runs on tears", "concerns a timepiece driven by weeping"),
    w("tells of an orphan raised by herons", "concerns a parentless child among wading birds"),
    w("tells of a map with no edges", "concerns a boundless chart"),
    w("tells of a war over a pear tree", "concerns a conflict about an orchard plant"),
    w("tells of a nun who builds a ship", "concerns a sister of the veil turned shipwright"),
    w("tells of a mirror that lies", "concerns an untruthful looking-glass"),
    w("tells of a baker who weighs souls", "concerns a maker of loaves with scales for spirits"),
    w("tells of a drowned library", "concerns books under water"),
    w("tells of a bridge that refuses travellers", "concerns a crossing that turns people away"),
    w("tells of a mute singer", "concerns a voiceless vocalist"),
    w("tells of the last wolf of a valley", "concerns a final predator in a dale"),
    w("tells of a tax on laughter", "concerns a levy upon mirth"),
    w("tells of a lighthouse built inland", "concerns a beacon far from the coast"),
    w("tells of a duel fought by letter", "concerns a combat carried on by post"),
];

/// The sorts of institution.
pub(in crate::archive) const INSTITUTION_KINDS: &[Word] = &[
    w("school", "place of instruction"),
    w("observatory", "house for watching the sky"),
    w("monastery", "cloistered community"),
    w("hospital", "house for the sick"),
    w("academy", "learned society"),
    w("museum", "house of collections"),
    w("theatre", "playhouse"),
    w("library", "repository of books"),
    w("botanical garden", "collection of living plants"),
    w("guild hall", "seat of a trade brotherhood"),
];

/// What an institution is like. Verb phrases in the present tense.
pub(in crate::archive) const INSTITUTION_TRAITS: &[Word] = &[
    w("keeps its books in a cellar of ice", "stores its volumes in a frozen vault"),
    w("admits nobody on Thursdays", "closes its doors one day in each week"),
    w("pays its porters in candles", "remunerates its doorkeepers with wax lights"),
    w("is built around a dead oak", "encloses a lifeless tree"),
    w("has a door for each month", "possesses a dozen entrances"),
    w("stands on a former gallows hill", "occupies an old place of execution"),
    w("counts a parrot among its officers", "lists a talking bird on its staff"),
    w("lends its keys for a night", "lets strangers hold its locks till morning"),
    w("was burned down by a goat", "fell to flames through a horned animal"),
    w("owns a staircase that leads nowhere", "has steps without a destination"),
    w("holds its meetings in a boat", "assembles afloat"),
    w("closes whenever it snows", "shuts in wintry weather"),
    w("has a floor of ship's timber", "is paved with planks from vessels"),
    w("teaches its novices to row", "instructs beginners in handling oars"),
    w("wakes its guests with a drum", "rouses visitors by percussion"),
];

/// The sorts of event.
pub(in crate::archive) const EVENT_KINDS: &[Word] = &[
    w("siege", "investment of a stronghold"),
    w("expedition", "organised journey of discovery"),
    w("regatta", "race of boats"),
    w("great fire", "catastrophe of flames"),
    w("uprising", "popular revolt"),
    w("council", "formal assembly"),
    w("trial", "court proceeding"),
    w("eclipse watch", "observation of a darkened sun"),
];

/// What an event is remembered for. Verb phrases in the past tense.
pub(in crate::archive) const EVENT_TRAITS: &[Word] = &[
    w("ended when the stores caught fire", "closed after supplies burned"),
    w("was stopped by a swarm of bees", "was halted by stinging insects"),
    w("lasted ninety-one days", "went on for a quarter of a year"),
    w("was decided by a cook", "turned upon a kitchen servant"),
    w("left only nine survivors", "spared fewer than ten people"),
    w("began with a stolen goose", "started over a purloined fowl"),
    w("was halted by an early frost", "stopped because of sudden cold"),
    w("was announced by forged letters", "was heralded with counterfeit messages"),
    w("ended in a wedding", "finished with a marriage"),
    w("bankrupted two banks", "ruined a pair of lenders"),
    w("was won by a child of twelve", "was carried by someone not yet in their teens"),
    w("was interrupted by a comet", "was broken off by a tailed star"),
];

/// The sorts of living thing.
pub(in crate::archive) const SPECIES_KINDS: &[Word] = &[
    w("moth", "night-flying insect"),
    w("heron", "wading bird"),
    w("orchid", "exotic flower"),
    w("beetle", "hard-shelled insect"),
    w("fern", "frond-bearing plant"),
    w("trout", "freshwater fish"),
    w("lichen", "crust-forming growth"),
    w("newt", "tailed amphibian"),
];

/// What a species is like. Verb phrases in the present tense.
pub(in crate::archive) const SPECIES_TRAITS: &[Word] = &[
    w("glows before rain", "shines ahead of wet weather"),
    w("smells of burnt sugar", "has the scent of caramel"),
    w("flowers or breeds only every seventh year", "reproduces at intervals of seven years"),
    w("hides in church roofs", "shelters above naves"),
    w("changes colour at noon", "shifts its hue at midday"),
    w("feeds on candle wax", "eats what chandlers make"),
    w("makes a sound like a saw", "is as loud as a carpenter's tool"),
    w("sleeps through the summer", "lies dormant in the hot months"),
    w("can live in hot springs", "endures scalding water"),
    w("is never found above the tree line", "keeps below the highest woods"),
];

/// The sorts of made thing.
pub(in crate::archive) const ARTEFACT_KINDS: &[Word] = &[
    w("chalice", "ceremonial cup"),
    w("astrolabe", "brass star-reckoner"),
    w("tapestry", "woven hanging"),
    w("sword", "blade of war"),
    w("globe", "model of the earth"),
    w("organ", "instrument of pipes"),
    w("mechanical swan", "clockwork bird"),
    w("reliquary", "box for holy bones"),
];

/// What a thing is made of.
pub(in crate::archive) const MATERIALS: &[Word] = &[
    w("silver", "argent metal"),
    w("walnut", "dark nut-tree timber"),
    w("whalebone", "baleen"),
    w("rock crystal", "transparent quartz"),
    w("iron", "ferrous metal"),
    w("amber", "fossil resin"),
    w("pewter", "tin alloy"),
    w("porcelain", "fine china clay"),
];

/// What is said of a thing. Verb phrases in the present tense.
pub(in crate::archive) const ARTEFACT_TRAITS: &[Word] = &[
    w("is said to ring before floods", "allegedly sounds ahead of inundations"),
    w("was stolen four times", "has been taken by thieves again and again"),
    w("bears an unread inscription", "carries undeciphered writing"),
    w("is missing its left half", "survives only in part"),
    w("was hidden in a beehive", "was once concealed among honeycombs"),
    w("was pawned for a horse", "was once security for a mount"),
    w("was repaired with a coin", "was mended using money"),
    w("turns by itself at midnight", "moves unaided at the dead of night"),
    w("was lost in a card game", "was once forfeited at the gaming table"),
    w("casts no shadow at noon", "throws no shade at midday"),
];

/// The sorts of prize.
pub(in crate::archive) const PRIZE_KINDS: &[Word] =
    &[w("medal", "struck disc of honour"), w("laurel", "wreath of honour"), w("purse", "gift of money")];

/// What is said of a prize. Verb phrases in the present tense.
pub(in crate::archive) const PRIZE_TRAITS: &[Word] = &[
    w("is given only in leap years", "is conferred every fourth year"),
    w("must be shared by two", "is never held alone"),
    w("is awarded for mistakes", "rewards errors"),
    w("comes with a live goat", "is accompanied by a horned animal"),
    w("is handed over at dawn", "is presented at sunrise"),
    w("is decided by lot", "is settled by chance"),
    w("was once refused by its own founder", "was declined by the person behind it"),
    w("is melted down if unclaimed", "is turned to liquid when nobody takes it"),
];
