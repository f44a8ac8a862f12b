//! Answers that count as the same without a judge: FoldAgent's two rules (envs/local_search.py at cc09646,
//! false positives included) and ours. Texts in, yes or no out.

use crate::profile::ExactRule;
use regex::Regex;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::canonical_combining_class;

/// Words that FoldAgent leaves out when it compares words.
const IGNORED: [&str; 12] = ["a", "an", "the", "of", "on", "in", "and", "&", "for", "to", "by", "with"];
/// Characters of a first name that, for FoldAgent, stand for the whole.
const FIRST_NAME_CHARS_MIN: usize = 4;
/// The share of the shorter text's characters that, for FoldAgent's loose rule, the other must hold.
const SHARED_MIN: f64 = 0.9;
/// Words that we leave out at the front.
const ARTICLES: [&str; 3] = ["a", "an", "the"];

/// Spellings that FoldAgent mends in gold answers, written backwards: benchmark answers do not belong into
/// plain text that is crawled.
const GOLD_ERRATA: [(&str, &str); 2] =
    [("tellomS saiboT", "ttellomS saiboT"), ("yayhdapattahC najnarawsiB", "yayhdapottahC najnarawsiB")];
/// The spelling that FoldAgent mends in answers, written backwards for the same reason.
const ANSWER_ERRATUM: (&str, &str) =
    ("yrtnuoC a fo htaP ehT :sedirelC socfalG", "yrtnuoC a fo htaP ehT :sedirelC sokfalG");

static PARENTHESES: LazyLock<Regex> = LazyLock::new(|| pattern(r"\s*\([^)]*\)\s*"));
static QUOTES: LazyLock<Regex> = LazyLock::new(|| pattern("[“”\"'`]+"));
static PUNCTUATION: LazyLock<Regex> = LazyLock::new(|| pattern(r"[:–—\-_/.,;!()?]+"));
static YEAR: LazyLock<Regex> = LazyLock::new(|| pattern(r"\A\d{4}\z"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the patterns of this file are constants, and each is used by a test")
}

/// Whether an answer equals one of the gold answers by a rule. A blank answer equals none.
pub fn exact_match(rule: ExactRule, answer: &str, answers: &[String]) -> bool {
    let is_same: fn(&str, &str) -> bool = match rule {
        ExactRule::None => return false,
        ExactRule::Foldagent => foldagent_same,
        ExactRule::Strict => strict_same,
    };
    !answer.trim().is_empty() && answers.iter().any(|gold| is_same(gold, answer))
}

/// FoldAgent's looser rule, by which a judge's `no` gets a second try.
pub fn relaxed_match(answer: &str, gold: &str) -> bool {
    foldagent_alike(gold, answer)
}

/// A gold answer and an answer with the three spellings mended that FoldAgent mends before it grades.
pub fn foldagent_mended<'a>(gold: &'a str, answer: &'a str) -> (Cow<'a, str>, Cow<'a, str>) {
    let mend = |text: &'a str, errata: &[(&str, &str)]| {
        let backwards = |text: &str| text.chars().rev().collect::<String>();
        let wrong = errata.iter().find(|(wrong, _)| text.contains(&backwards(wrong)));
        wrong.map_or(Cow::Borrowed(text), |(_, right)| Cow::Owned(backwards(right)))
    };
    (mend(gold, &GOLD_ERRATA), mend(answer, &[ANSWER_ERRATUM]))
}

/// FoldAgent's `em_score`: equal without spaces; or equal bags of words without small words and years; or
/// equal last words and first words of which one begins with the other.
fn foldagent_same(gold: &str, answer: &str) -> bool {
    let (gold, answer) = foldagent_mended(gold, answer);
    let (gold, answer) = (foldagent_folded(&gold), foldagent_folded(&answer));
    if without_spaces(&gold) == without_spaces(&answer) {
        return true;
    }
    let (gold, answer) = (foldagent_words(&gold), foldagent_words(&answer));
    let (Some(gold_last), Some(answer_last)) = (gold.last(), answer.last()) else { return false };
    if sorted(&gold) == sorted(&answer) {
        return true;
    }
    let (gold_first, answer_first) = (gold[0], answer[0]);
    let shorter = gold_first.chars().count().min(answer_first.chars().count());
    let is_prefix = gold_first.starts_with(answer_first) || answer_first.starts_with(gold_first);
    gold.len() >= 2
        && answer.len() >= 2
        && gold_last == answer_last
        && (gold_first == answer_first || shorter >= FIRST_NAME_CHARS_MIN && is_prefix)
}

fn foldagent_folded(text: &str) -> String {
    let lower = unaccented(text).to_lowercase();
    let outside = PARENTHESES.replace_all(&lower, " ");
    let unquoted = QUOTES.replace_all(&outside, "");
    PUNCTUATION.replace_all(&unquoted, " ").into_owned()
}

fn foldagent_words(folded: &str) -> Vec<&str> {
    folded.split_whitespace().filter(|word| !IGNORED.contains(word) && !YEAR.is_match(word)).collect()
}

/// FoldAgent's `relaxed_em`. Its middle condition, a sequence likeness of 0.9, is left out because it never
/// decides: matched characters are shared ones and the shorter text is at most half of both, so whatever
/// meets it also meets the last condition.
fn foldagent_alike(gold: &str, answer: &str) -> bool {
    if gold.is_empty() || answer.is_empty() {
        return false;
    }
    let folded = |text: &str| {
        let spaced = PUNCTUATION.replace_all(&unaccented(text).to_lowercase(), " ").into_owned();
        without_spaces(&QUOTES.replace_all(&spaced, ""))
    };
    let (gold, answer) = (folded(gold), folded(answer));
    if gold.contains(&answer) || answer.contains(&gold) {
        return true;
    }
    let mut left: HashMap<char, usize> = HashMap::new();
    for c in gold.chars() {
        *left.entry(c).or_default() += 1;
    }
    let mut shared = 0_u32;
    for c in answer.chars() {
        if let Some(count) = left.get_mut(&c).filter(|count| **count > 0) {
            *count -= 1;
            shared += 1;
        }
    }
    f64::from(shared) / gold.chars().count().min(answer.chars().count()) as f64 >= SHARED_MIN
}

fn sorted<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let mut words = words.to_vec();
    words.sort_unstable();
    words
}

fn without_spaces(text: &str) -> String {
    text.split_whitespace().collect()
}

fn unaccented(text: &str) -> String {
    text.nfkd().filter(|c| canonical_combining_class(*c) == 0).collect()
}

fn strict_same(gold: &str, answer: &str) -> bool {
    let (gold, answer) = (strict_words(gold), strict_words(answer));
    !gold.is_empty() && gold == answer
}

/// Words with compatibility forms, Latin, Greek and Cyrillic accents, case and punctuation folded, and
/// without an article at the front. What changes an amount stays: signs, decimal marks, units.
fn strict_words(text: &str) -> Vec<String> {
    let folded: Vec<char> =
        text.nfkd().filter(|c| !is_accent(*c) && !is_silent(*c)).flat_map(char::to_lowercase).collect();
    let is_digit = |at: Option<usize>| at.and_then(|at| folded.get(at)).is_some_and(|c| c.is_numeric());
    let mut spaced = String::with_capacity(text.len());
    for (at, &c) in folded.iter().enumerate() {
        let before = at.checked_sub(1);
        let begins_word = before.is_none_or(|before| folded[before].is_whitespace() || folded[before] == '(');
        let is_kept = match c {
            '-' | '−' => begins_word && is_digit(Some(at + 1)),
            '.' | ',' => is_digit(before) && is_digit(Some(at + 1)),
            _ => c.is_alphanumeric() || canonical_combining_class(c) != 0 || is_sign(c),
        };
        spaced.push(match c {
            '−' if is_kept => '-',
            _ if is_kept => c,
            _ => ' ',
        });
    }
    let mut words: Vec<String> = spaced.split_whitespace().map(|word| word.nfc().collect()).collect();
    if words.len() > 1 && ARTICLES.contains(&words[0].as_str()) {
        words.remove(0);
    }
    words
}

/// Accents over letters of alphabets that are also written without them. Marks of other scripts, such as
/// the one that tells `が` from `か`, make other letters.
fn is_accent(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}'
        | '\u{fe20}'..='\u{fe2f}')
}

/// Marks that are written or left out at will within a word.
fn is_silent(c: char) -> bool {
    matches!(c, '\'' | '’' | '‘' | 'ʼ' | '`' | '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}')
}

/// Signs that change what an answer means: `C`, `C++` and `C#` differ, and so do 5 and 5 %.
fn is_sign(c: char) -> bool {
    matches!(c, '+' | '#' | '%' | '$' | '€' | '£' | '¥' | '°' | '&')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(rule: ExactRule, gold: &str, answer: &str) -> bool {
        exact_match(rule, answer, &[gold.to_owned()])
    }

    #[test]
    fn foldagent_matches_what_the_published_code_matches() {
        let cases = [
            ("Café Zoé", "cafe zoe", true),
            ("Paris (France)", "paris", true),
            ("O'Neil", "oneil", true),
            ("Spider-Man", "spiderman", true),
            ("The Art of War", "war art", true),
            ("ﬁne", "fine", true),
            ("March 1984", "March 1985", true),
            ("John Smith", "Johnathan Q Smith", true),
            ("Anna Smith", "Anne Smith", false),
            ("Jon Smith", "Jonathan Smith", false),
            ("Alpha: a story", "Alpha", false),
            ("1984", "1985", false),
            ("war art art", "war art", true),
            ("art art war", "war art", false),
            ("", "x", false),
            ("x", " ", false),
        ];
        for (gold, answer, expected) in cases {
            assert_eq!(matches(ExactRule::Foldagent, gold, answer), expected, "{gold} / {answer}");
        }
    }

    #[test]
    fn strict_matches_writing_and_not_meaning() {
        let cases = [
            ("Café Zoé", "cafe zoe", true),
            ("The Art of War", "Art of War.", true),
            ("O'Neil", "O’Neil", true),
            ("Spider-Man", "spider man", true),
            ("Ｆｕｌｌ", "full", true),
            ("Zürich\u{200b}", "Zu\u{308}rich", true),
            ("\"1,000\"", "1,000", true),
            ("A", "a", true),
            ("March 1984", "March 1985", false),
            ("John Smith", "Johnathan Q Smith", false),
            ("Paris (France)", "Paris", false),
            ("The Art of War", "war art", false),
            ("3.5", "35", false),
            ("3.5", "3 5", false),
            ("-5", "5", false),
            ("−5", "-5", true),
            ("1990-1995", "1990–1995", true),
            ("C++", "C", false),
            ("かき", "がき", false),
            ("が", "か\u{3099}", true),
            ("!", "?", false),
            ("", "", false),
        ];
        for (gold, answer, expected) in cases {
            assert_eq!(matches(ExactRule::Strict, gold, answer), expected, "{gold} / {answer}");
        }
        let aliases = ["New York City".to_owned(), "NYC".to_owned()];
        assert!(exact_match(ExactRule::Strict, "nyc", &aliases));
        assert!(!exact_match(ExactRule::None, "nyc", &aliases));
    }

    #[test]
    fn the_relaxed_rule_is_as_loose_as_published() {
        let cases = [
            ("Alpha", "I think Alpha it is", true),
            ("listen", "silent", true),
            ("Alpha", "omega", false),
            ("Alpha", "!", true),
            ("Alpha", "", false),
            ("abcdefghij", "abcdefghiX", true),
            ("abcdefghij", "abcdefghXY", false),
            ("aabb", "abbb", false),
        ];
        for (gold, answer, expected) in cases {
            assert_eq!(relaxed_match(answer, gold), expected, "{gold} / {answer}");
        }
    }

    #[test]
    fn errata_are_mended_whole_and_one_way() {
        let backwards = |text: &str| text.chars().rev().collect::<String>();
        for (wrong, right) in GOLD_ERRATA {
            let gold = format!("{} (novelist)", backwards(wrong));
            assert_eq!(foldagent_mended(&gold, "x"), (backwards(right).into(), "x".into()));
            assert_eq!(foldagent_mended("x", &gold).1, gold);
        }
        let (wrong, right) = ANSWER_ERRATUM;
        assert_eq!(foldagent_mended("x", &backwards(wrong)).1, backwards(right));
    }
}
