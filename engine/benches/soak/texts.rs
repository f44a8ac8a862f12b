//! What is written in prompts: shuffled sentences, openings that many share, and secret words that nothing but its own prompt
//! can bring a model to say. It refuses to know requests.

use crate::traffic::Dice;
use legwork_model::Tokenizer;

/// Openings that many prompts share, by tokens: some of no full page, one that ends with a page, some of several.
const OPENINGS: [usize; 6] = [20, 64, 90, 128, 150, 200];

const FIRST: [&str; 8] = ["brenn", "quov", "zarth", "mulk", "vosk", "tripl", "hewd", "jax"];
const SECOND: [&str; 8] = ["imble", "ordan", "ultry", "ebash", "agunt", "iffen", "opwick", "ysmere"];

const SENTENCES: [&str; 24] = [
    "The ferry left the harbour before the fog had lifted.",
    "A clockmaker in the old town repairs what nobody else will touch.",
    "Rain fell on the terraces for nine days, and the river rose by a hand each night.",
    "Most of the letters in the archive were never opened.",
    "She counted the steps of the tower twice and came to two different numbers.",
    "How many bridges cross the river between the mill and the sea?",
    "The orchard was planted in rows of seventeen trees.",
    "Salt was carried over the pass in summer, and wool came back in autumn.",
    "Write a short list of three things that a traveller should carry.",
    "The second edition of the map corrects the coast but not the mountains.",
    "Nobody knows who painted the ceiling of the reading room.",
    "A good stove needs a straight chimney and dry wood.",
    "The council met on the first Monday of every month except August.",
    "Copper turns green, iron turns brown, and gold stays as it is.",
    "Explain in simple words why the moon seems to change its shape.",
    "His grandfather had kept bees on the same slope.",
    "The train stops at every village when the schools are open.",
    "There are four seasons here, and one of them is mud.",
    "A library that lends tools opened beside the bakery.",
    "What is the capital of the country where the river begins?",
    "The lighthouse was automated long before its keeper retired.",
    "Two engineers disagreed about the weight of the snow.",
    "Fish is sold on Thursdays, bread on all days but one.",
    "The oldest house in the street has the newest roof.",
];

/// Texts as tokens.
pub(crate) struct Texts {
    sentences: Vec<Vec<u32>>,
    openings: Vec<Vec<u32>>,
    tokenizer: Tokenizer,
}

/// All secret words.
pub(crate) fn secrets() -> impl Iterator<Item = String> {
    FIRST.iter().flat_map(|first| SECOND.iter().map(move |second| format!("{first}{second}")))
}

impl Texts {
    pub(crate) fn new(tokenizer: &Tokenizer) -> Self {
        let sentences: Vec<Vec<u32>> =
            SENTENCES.iter().map(|text| tokenizer.encode(&format!(" {text}")).unwrap()).collect();
        let mut texts = Self { sentences, openings: Vec::new(), tokenizer: tokenizer.clone() };
        let mut dice = Dice::new(7);
        texts.openings = OPENINGS.iter().map(|length| texts.prose(&mut dice, *length)).collect();
        texts
    }

    /// Shuffled sentences, cut to this many tokens.
    pub(crate) fn prose(&self, dice: &mut Dice, tokens: usize) -> Vec<u32> {
        let mut prose = Vec::new();
        while prose.len() < tokens {
            prose.extend(&self.sentences[dice.below(self.sentences.len())]);
        }
        prose.truncate(tokens);
        prose
    }

    /// An opening that others have, too.
    pub(crate) fn opening(&self, which: usize) -> &[u32] {
        &self.openings[which % self.openings.len()]
    }

    /// Asks for a secret word that it tells.
    pub(crate) fn secret(&self, word: &str) -> Vec<u32> {
        let text = format!(" The password of the gate is {word}. Say it again: the password of the gate is");
        self.tokenizer.encode(&text).unwrap()
    }
}
