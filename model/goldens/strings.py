"""The seeded strings that tokenizers are compared on. `tests/text/strings.rs` makes the same ones; a change here is a
change there, and new goldens."""

MASK = (1 << 64) - 1

WORDS = ["the", "don't", "I'LL", "they've", "'s", "'RE", "naïve", "Straße", "İstanbul", "ﬁne", "x'd", "can''t", "1st", "e.g.", "C++",
         "def f(x):", "https://example.org/a?b=c&d", "\\n", "NULL", "ǅ", "ſ", "K", "Å"]
LINES = ["\n", "\r\n", "\r", "\n\n", "\n \n", "\t", "\x0b", "\x0c", "\u0085", "\u2028", "\u2029", " \n", "\r\r\n"]
HOSTILE = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|im_start|>system\n", "<think>", "</think>", "<tool_call>", "</tool_call>",
           "<tool_response>", "</tool_response>", "<|im_end", "|im_end|>", "<|im_end|", "<|im_<|im_end|>end|>", "<|IM_END|>",
           "<|object_ref_start|>", "<|fim_prefix|>", "<|vision_pad|>", "<repo_name>", "<filename>", "<jupyter_text>", "<empty_output>",
           "<｜im_end｜>", "<|im_end|>\u200b", "< |im_end|>", "Ġ", "Ċ", "ĠĠ", "[PAD151935]", "<s>", "</s>", "<0x0A>", "▁", "##ing"]
EMOJI = ["😀", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "🇩", "❤️", "☺", "1️⃣", "🧑‍🚀", "\u200d", "\ufe0f", "🏽", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"]
MARKS = ["\u200e", "\u200f", "\u202a", "\u202b", "\u202c", "\u202e", "\u2066", "\u2069", "\u061c", "\ufeff", "\u00ad", "\u2060"]
SPACES = [" ", " ", " ", "\u00a0", "\u3000", "\u2003", "\u200b", "\u202f"]
PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~¡¿«»“”‘’…—·¥€§°"
REPEATED = "ab -=#*_\u3000.0é\n字"
RANGES = {8: (0x590, 0x6FF), 9: (0x4E00, 0x9FFF), 10: (0x300, 0x36F), 11: (0xE000, 0xF8FF), 12: (0x0, 0x1F), 15: (0x1100, 0x11FF),
          16: (0xC0, 0x24F), 19: (0x900, 0x97F), 20: (0xE00, 0xE7F), 21: (0xAC00, 0xD7A3), 22: (0x2150, 0x218F), 23: (0xF0000, 0xF00FF)}
DIGITS = [0x30, 0x660, 0x966, 0xFF10, 0x1D7CE]
CLASSES = 24


class Dice:
    """SplitMix64."""

    def __init__(self, seed):
        self.state = seed & MASK

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def below(self, n):
        return self.next() % n


def piece(dice):
    kind = dice.below(CLASSES)
    if kind in (0, 1):
        blank = dice.below(2)
        length = 1 + dice.below(9)
        base = 65 if dice.below(4) == 0 else 97
        return (" " if blank else "") + "".join(chr(base + dice.below(26)) for _ in range(length))
    if kind == 2:
        return "".join(chr(48 + dice.below(10)) for _ in range(1 + dice.below(12)))
    if kind == 3:
        blank = SPACES[dice.below(len(SPACES))]
        return blank * (1 + dice.below(40))
    if kind == 4:
        return LINES[dice.below(len(LINES))]
    if kind == 5:
        return "".join(PUNCTUATION[dice.below(len(PUNCTUATION))] for _ in range(1 + dice.below(6)))
    if kind == 6:
        return HOSTILE[dice.below(len(HOSTILE))]
    if kind == 7:
        return EMOJI[dice.below(len(EMOJI))]
    if kind == 13:
        point = dice.below(0x110000 - 0x800)
        return chr(point + 0x800 if point >= 0xD800 else point)
    if kind == 14:
        return " " + WORDS[dice.below(len(WORDS))]
    if kind == 17:
        return REPEATED[dice.below(len(REPEATED))] * (1 + dice.below(120))
    if kind == 18:
        base = DIGITS[dice.below(len(DIGITS))]
        return "".join(chr(base + dice.below(10)) for _ in range(1 + dice.below(4)))
    first, last = RANGES[kind]
    text = "".join(chr(first + dice.below(last - first + 1)) for _ in range(1 + dice.below(6)))
    return MARKS[dice.below(len(MARKS))] + text if kind == 8 and dice.below(3) == 0 else text


def string(seed, index):
    """The string of a number."""
    dice = Dice(seed ^ ((index * 0x9E3779B97F4A7C15) & MASK))
    return "".join(piece(dice) for _ in range(1 + dice.below(14)))
