//! The words for people: what they were, what they did, how they died. Each word has the wording of
//! the articles and a veiled one for hard questions, which shares as few terms with it as English allows.
//! Nouns carry no article; what is said of somebody is a verb phrase that fits after `who` or `that`.

use crate::archive::facts::Word;

const fn w(plain: &'static str, veiled: &'static str) -> Word {
    Word { plain, veiled }
}

/// What a person was.
pub(in crate::archive) const OCCUPATIONS: &[Word] = &[
    w("cartographer", "maker of maps"),
    w("glassblower", "artisan who shaped molten sand"),
    w("botanist", "student of plants"),
    w("astronomer", "observer of the stars"),
    w("playwright", "author for the stage"),
    w("composer", "writer of music"),
    w("surgeon", "wielder of the scalpel"),
    w("bell-founder", "caster of bronze chimes"),
    w("sculptor", "carver of statues"),
    w("judge", "member of the bench"),
    w("navigator", "pilot of ships"),
    w("historian", "recorder of past ages"),
    w("poet", "maker of verses"),
    w("engineer", "builder of machines"),
    w("bookbinder", "craftsperson who stitched volumes"),
    w("philosopher", "thinker about first causes"),
    w("clockmaker", "assembler of timepieces"),
    w("painter", "artist of the brush"),
    w("abbot", "superior of a religious house"),
    w("weaver", "worker at the loom"),
    w("geometer", "scholar of lines and angles"),
    w("apothecary", "dispenser of remedies"),
    w("explorer", "traveller into unknown country"),
    w("lexicographer", "compiler of dictionaries"),
];

/// What a person was remembered for. Verb phrases in the past tense.
pub(in crate::archive) const HABITS: &[Word] = &[
    w("kept a tame heron", "shared a home with a domesticated wading bird"),
    w("wrote only with the left hand", "never held a pen in the usual fist"),
    w("never ate bread", "refused all loaves"),
    w("slept in a hammock", "spent every night in a hanging bed"),
    w("collected broken bells", "hoarded cracked chimes"),
    w("spoke eleven languages", "was fluent in nearly a dozen tongues"),
    w("lost an eye to a firework", "was half blinded by a pyrotechnic accident"),
    w("walked barefoot in winter", "wore no shoes even in snow"),
    w("refused three royal pensions", "turned down repeated offers of money from the crown"),
    w("carried a jar of bees", "went about with stinging insects in a vessel"),
    w("dictated letters while swimming", "composed correspondence in the water"),
    w("dyed every coat green", "wore garments of a single verdant colour"),
    w("owned a blind mule", "had a sightless beast of burden"),
    w("buried a diary under a hearth", "hid a private journal beneath a fireplace"),
    w("could whistle two notes at once", "produced double tones through pursed lips"),
    w("was born with six fingers", "came into the world with an extra digit"),
    w("learned to read at thirty", "stayed illiterate well into adulthood"),
    w("feared running water", "was terrified of brooks and streams"),
    w("gave away a fortune twice", "parted with great wealth on two occasions"),
    w("lived in a disused windmill", "dwelt in an abandoned grinding tower"),
    w("played chess against prisoners", "met convicts over the board of kings and pawns"),
    w("signed with a drawing of a snail", "used a little shelled creature as a signature"),
    w("was exiled for a joke", "suffered banishment over a jest"),
    w("wore a wooden crown on feast days", "put on a timber diadem at festivals"),
    w("survived two shipwrecks", "lived through a pair of disasters at sea"),
    w("bred white crows", "raised pale corvids"),
    w("planted a maze of yew", "laid out an evergreen labyrinth"),
    w("kept silence every tenth day", "said nothing on one day in ten"),
    w("worked by candlelight alone", "laboured with no lamp but wax"),
    w("sold a shadow at auction", "put a silhouette under the hammer"),
    w("forged a papal letter", "counterfeited a document of the pontiff"),
    w("was painted only from behind", "allowed no portrait of the face"),
    w("taught a parrot to pray", "instructed a talking bird in devotion"),
    w("measured every tree in a forest", "took the girth of a whole woodland"),
    w("drank seawater for health", "swallowed brine as a cure"),
    w("paid debts in honey", "settled what was owed with a sweet food"),
    w("numbered the stars in chalk", "tallied the heavens on slate"),
    w("rode a sledge drawn by goats", "travelled in a runner pulled by horned animals"),
];

/// How a person died. Verb phrases in the past tense.
pub(in crate::archive) const DEATHS: &[Word] = &[
    w("drowned in a flooded cellar", "perished in water below ground"),
    w("died of marsh fever", "succumbed to an illness of the fens"),
    w("fell from a scaffold", "came to grief from a builder's platform"),
    w("was struck by lightning", "was killed by a bolt from the sky"),
    w("died in a duel", "was slain in single combat"),
    w("was poisoned at a banquet", "was murdered by a dish at a feast"),
    w("froze on a mountain pass", "perished of cold in the heights"),
    w("was crushed by a falling bell", "was killed under a heavy bronze instrument"),
    w("choked on a plum stone", "was undone by the pit of a fruit"),
    w("died in prison", "ended life behind bars"),
    w("vanished at sea", "was never seen again after a voyage"),
    w("was trampled by oxen", "was killed under the hooves of cattle"),
];
