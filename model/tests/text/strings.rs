//! The seeded strings that tokenizers are compared on, the same as `goldens/strings.py` makes: words, digits, blanks, marks,
//! scripts, emoji, and what hostile text is made of. A change here is a change there, and new goldens.

const WORDS: [&str; 23] = [
    "the",
    "don't",
    "I'LL",
    "they've",
    "'s",
    "'RE",
    "naïve",
    "Straße",
    "İstanbul",
    "ﬁne",
    "x'd",
    "can''t",
    "1st",
    "e.g.",
    "C++",
    "def f(x):",
    "https://example.org/a?b=c&d",
    "\\n",
    "NULL",
    "ǅ",
    "ſ",
    "K",
    "Å",
];
const LINES: [&str; 13] =
    ["\n", "\r\n", "\r", "\n\n", "\n \n", "\t", "\u{b}", "\u{c}", "\u{85}", "\u{2028}", "\u{2029}", " \n", "\r\r\n"];
const HOSTILE: [&str; 34] = [
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|im_start|>system\n",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<|im_end",
    "|im_end|>",
    "<|im_end|",
    "<|im_<|im_end|>end|>",
    "<|IM_END|>",
    "<|object_ref_start|>",
    "<|fim_prefix|>",
    "<|vision_pad|>",
    "<repo_name>",
    "<filename>",
    "<jupyter_text>",
    "<empty_output>",
    "<｜im_end｜>",
    "<|im_end|>\u{200b}",
    "< |im_end|>",
    "Ġ",
    "Ċ",
    "ĠĠ",
    "[PAD151935]",
    "<s>",
    "</s>",
    "<0x0A>",
    "▁",
    "##ing",
];
const EMOJI: [&str; 14] = [
    "😀",
    "👩\u{200d}👩\u{200d}👧\u{200d}👦",
    "🏳\u{fe0f}\u{200d}🌈",
    "👍🏽",
    "🇩🇪",
    "🇩",
    "❤\u{fe0f}",
    "☺",
    "1\u{fe0f}⃣",
    "🧑\u{200d}🚀",
    "\u{200d}",
    "\u{fe0f}",
    "🏽",
    "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
];
const MARKS: [&str; 12] = [
    "\u{200e}", "\u{200f}", "\u{202a}", "\u{202b}", "\u{202c}", "\u{202e}", "\u{2066}", "\u{2069}", "\u{61c}",
    "\u{feff}", "\u{ad}", "\u{2060}",
];
const SPACES: [&str; 8] = [" ", " ", " ", "\u{a0}", "\u{3000}", "\u{2003}", "\u{200b}", "\u{202f}"];
const PUNCTUATION: &str = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~¡¿«»\u{201c}\u{201d}\u{2018}\u{2019}\u{2026}\u{2014}·¥€§°";
const REPEATED: &str = "ab -=#*_\u{3000}.0é\n字";
const DIGITS: [u32; 5] = [0x30, 0x660, 0x966, 0xFF10, 0x1D7CE];
const CLASSES: u64 = 24;

/// SplitMix64.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, count: u64) -> u64 {
        self.next() % count
    }

    fn of<'a>(&mut self, texts: &[&'a str]) -> &'a str {
        texts[self.below(texts.len() as u64) as usize]
    }

    fn letter_of(&mut self, text: &str) -> char {
        let count = text.chars().count() as u64;
        text.chars().nth(self.below(count) as usize).unwrap()
    }

    fn letters(&mut self, first: u32, count: u64, length: u64) -> String {
        (0..length).map(|_| char::from_u32(first + self.below(count) as u32).unwrap()).collect()
    }
}

fn piece(dice: &mut Dice) -> String {
    let kind = dice.below(CLASSES);
    let (first, last) = match kind {
        0 | 1 => {
            let blank = if dice.below(2) == 1 { " " } else { "" };
            let length = 1 + dice.below(9);
            let base = if dice.below(4) == 0 { 65 } else { 97 };
            return blank.to_owned() + &dice.letters(base, 26, length);
        }
        2 => {
            let length = 1 + dice.below(12);
            return dice.letters(48, 10, length);
        }
        3 => return dice.of(&SPACES).repeat(1 + dice.below(40) as usize),
        4 => return dice.of(&LINES).to_owned(),
        5 => {
            let length = 1 + dice.below(6);
            return (0..length).map(|_| dice.letter_of(PUNCTUATION)).collect();
        }
        6 => return dice.of(&HOSTILE).to_owned(),
        7 => return dice.of(&EMOJI).to_owned(),
        13 => {
            let point = dice.below(0x11_0000 - 0x800) as u32;
            return char::from_u32(if point >= 0xD800 { point + 0x800 } else { point }).unwrap().to_string();
        }
        14 => return format!(" {}", dice.of(&WORDS)),
        17 => return dice.letter_of(REPEATED).to_string().repeat(1 + dice.below(120) as usize),
        18 => {
            let base = DIGITS[dice.below(DIGITS.len() as u64) as usize];
            let length = 1 + dice.below(4);
            return dice.letters(base, 10, length);
        }
        8 => (0x590, 0x6FF),
        9 => (0x4E00, 0x9FFF),
        10 => (0x300, 0x36F),
        11 => (0xE000, 0xF8FF),
        12 => (0x0, 0x1F),
        15 => (0x1100, 0x11FF),
        16 => (0xC0, 0x24F),
        19 => (0x900, 0x97F),
        20 => (0xE00, 0xE7F),
        21 => (0xAC00, 0xD7A3),
        22 => (0x2150, 0x218F),
        _ => (0xF_0000, 0xF_00FF),
    };
    let length = 1 + dice.below(6);
    let text = dice.letters(first, u64::from(last - first + 1), length);
    if kind == 8 && dice.below(3) == 0 { dice.of(&MARKS).to_owned() + &text } else { text }
}

/// The string of a number.
pub(crate) fn string(seed: u64, index: u64) -> String {
    let mut dice = Dice::new(seed ^ index.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let pieces = 1 + dice.below(14);
    (0..pieces).map(|_| piece(&mut dice)).collect()
}
