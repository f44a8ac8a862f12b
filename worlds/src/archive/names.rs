//! An invented phonology in four tongues, so that no name can be known from anywhere else. It knows sounds and
//! keeps stems apart; it does not know what it names.

use super::draw::Draw;
use std::collections::BTreeSet;

/// How many tongues there are; a province speaks one.
pub(super) const TONGUES: usize = 4;

/// Draws of one stem before the namer falls back to numbering syllables further.
const STEM_TRIES_MAX: usize = 200;

struct Tongue {
    onsets: &'static [&'static str],
    vowels: &'static [&'static str],
    codas: &'static [&'static str],
    given_her: &'static [&'static str],
    given_him: &'static [&'static str],
    family: &'static [&'static str],
    place: &'static [&'static str],
}

const SPOKEN: [Tongue; TONGUES] = [
    Tongue {
        onsets: &["v", "k", "dr", "t", "sk", "h", "br", "m", "l", "gr", "th", "f", "st", "n"],
        vowels: &["a", "e", "o", "u", "ei", "au"],
        codas: &["l", "rn", "st", "k", "ld", "m", "rv", "nd"],
        given_her: &["ild", "runa", "eth", "vika"],
        given_him: &["or", "brek", "ulf", "grim"],
        family: &["sk", "dahm", "gard", "vaar", "lund"],
        place: &["heim", "voor", "kest", "drom", "mark"],
    },
    Tongue {
        onsets: &["s", "l", "m", "r", "v", "c", "f", "ll", "n", "p", "t", "z", "g", "j"],
        vowels: &["a", "e", "i", "o", "ia", "eo"],
        codas: &["", "n", "r", "l", "s", ""],
        given_her: &["inda", "elle", "ora", "iza"],
        given_him: &["ano", "ero", "ilio", "undo"],
        family: &["etti", "azzo", "ovesi", "undi", "arco"],
        place: &["orra", "ezza", "ilmo", "anta", "uvio"],
    },
    Tongue {
        onsets: &["qu", "ts", "x", "ch", "y", "t", "k", "w", "h", "p", "n", "tl", "m", "z"],
        vowels: &["a", "i", "u", "o", "aa", "oi"],
        codas: &["", "q", "n", "k", "x", "m", "tl"],
        given_her: &["imi", "axa", "uya", "ilqa"],
        given_him: &["aku", "otl", "upec", "irax"],
        family: &["itzu", "anque", "ochal", "umay", "exin"],
        place: &["apan", "uchil", "oxtan", "iqui", "ayam"],
    },
    Tongue {
        onsets: &["w", "b", "ll", "gw", "c", "rh", "m", "d", "f", "tr", "n", "pr", "g", "s"],
        vowels: &["e", "y", "a", "wy", "ae", "i"],
        codas: &["n", "th", "dd", "l", "r", "s", "nt"],
        given_her: &["wen", "eira", "lys", "anedd"],
        given_him: &["ydd", "aran", "och", "ellin"],
        family: &["raith", "wyddan", "orreg", "ennant", "asgel"],
        place: &["mor", "gwern", "lanedd", "fyrth", "cantre"],
    },
];

/// Hands out names, no stem twice.
pub(super) struct Namer {
    draw: Draw,
    taken: BTreeSet<String>,
    her: Vec<Vec<String>>,
    him: Vec<Vec<String>>,
    family: Vec<Vec<String>>,
}

/// How many given names (of either gender) and family names each tongue has.
const GIVEN_NAMES: usize = 34;
const FAMILY_NAMES: usize = 74;

impl Namer {
    pub(super) fn new(seed: u64) -> Self {
        let mut namer = Namer {
            draw: Draw::stream(seed, "names"),
            taken: BTreeSet::new(),
            her: Vec::new(),
            him: Vec::new(),
            family: Vec::new(),
        };
        for (tongue, of) in SPOKEN.iter().enumerate() {
            let her = namer.pool(tongue, of.given_her, GIVEN_NAMES);
            let him = namer.pool(tongue, of.given_him, GIVEN_NAMES);
            let family = namer.pool(tongue, of.family, FAMILY_NAMES);
            namer.her.push(her);
            namer.him.push(him);
            namer.family.push(family);
        }
        namer
    }

    /// A given name and a family name; the pair may repeat, and the caller decides whether it may.
    pub(super) fn person(&mut self, tongue: usize, feminine: bool) -> (String, String) {
        let given = if feminine { &self.her } else { &self.him };
        let given = self.draw.pick(&given[tongue % TONGUES]).clone();
        let family = self.draw.pick(&self.family[tongue % TONGUES]).clone();
        (given, family)
    }

    /// The name of a place, never given before.
    pub(super) fn place(&mut self, tongue: usize) -> String {
        let endings = SPOKEN[tongue % TONGUES].place;
        self.fresh(tongue, endings)
    }

    /// A word of the tongue, never given before, for rivers, works and things.
    pub(super) fn word(&mut self, tongue: usize) -> String {
        self.fresh(tongue, &[""])
    }

    fn pool(&mut self, tongue: usize, endings: &[&str], count: usize) -> Vec<String> {
        (0..count).map(|_| self.fresh(tongue, endings)).collect()
    }

    fn fresh(&mut self, tongue: usize, endings: &[&str]) -> String {
        for _ in 0..STEM_TRIES_MAX {
            let name = self.syllables(tongue, endings, 1);
            if name.chars().count() >= 5 && self.taken.insert(name.clone()) {
                return name;
            }
        }
        // Longer stems are practically endless, so this ends; it is reached only by worlds far larger than this one.
        loop {
            let name = self.syllables(tongue, endings, 3);
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }

    fn syllables(&mut self, tongue: usize, endings: &[&str], more: usize) -> String {
        let of = &SPOKEN[tongue % TONGUES];
        let ending = *self.draw.pick(endings);
        let count = more + usize::from(ending.is_empty()) + usize::from(self.draw.chance(35));
        let mut name = String::new();
        for _ in 0..count {
            name.push_str(self.draw.pick::<&str>(of.onsets));
            name.push_str(self.draw.pick::<&str>(of.vowels));
            // A coda before a vowel-initial ending reads on; before a consonant it would pile up.
            if self.draw.chance(45) {
                name.push_str(self.draw.pick::<&str>(of.codas));
            }
        }
        if name.ends_with(['a', 'e', 'i', 'o', 'u', 'y']) && ending.starts_with(['a', 'e', 'i', 'o', 'u', 'y']) {
            name.push_str(self.draw.pick::<&str>(&["r", "l", "v", "n"]));
        }
        name.push_str(ending);
        capitalised(&smoothed(&name))
    }
}

/// The name without letters three in a row, and without a doubled `w` or `y`, which no tongue here has.
fn smoothed(name: &str) -> String {
    let mut smooth: Vec<char> = Vec::new();
    for letter in name.chars() {
        let run = smooth.iter().rev().take_while(|before| **before == letter).count();
        if run < 2 && !(run == 1 && matches!(letter, 'w' | 'y' | 'h' | 'q' | 'x')) {
            smooth.push(letter);
        }
    }
    smooth.into_iter().collect()
}

/// The text with its first letter in upper case.
pub(super) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_stem_is_given_twice_and_the_same_seed_gives_the_same_names() {
        let many = |seed| {
            let mut namer = Namer::new(seed);
            (0..1200).map(|at| if at % 2 == 0 { namer.place(at) } else { namer.word(at) }).collect::<Vec<_>>()
        };
        let names = many(3);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        assert_eq!(names, many(3));
        assert_ne!(names, many(4));
        assert!(names.iter().all(|name| name.chars().next().unwrap().is_uppercase() && name.len() >= 5));
    }
}
