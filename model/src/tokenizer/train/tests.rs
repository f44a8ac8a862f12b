use super::*;
use crate::special::SpecialTokens;
use crate::template::Templates;
use proptest::prelude::*;
use std::collections::BTreeMap;

const TEXT: &str =
    "the theatre of the north; they gather there, then the others gather. 2024\n\n\tthe\u{301} end é\r\n";

fn trained(texts: &[&str], vocabulary: usize) -> Result<TrainedTokenizer, ModelError> {
    train_tokenizer(texts.iter().map(|text| Ok::<_, ModelError>((*text).to_owned())), vocabulary, 512)
}

fn file<'t>(trained: &'t TrainedTokenizer, name: &str) -> &'t str {
    trained.files().iter().find(|(own, _)| *own == name).map(|(_, text)| text.as_str()).unwrap()
}

/// Merges in order, by counting all pairs anew before each: slow and plain. A pair that is seen most is merged first, of
/// several the one whose tokens were there first.
fn counted_anew(words: &[&[u8]], merges: usize) -> Vec<(String, String)> {
    let spell: BTreeMap<u8, char> = spelling();
    let mut names: Vec<String> = spell.values().map(char::to_string).collect();
    names.sort();
    let id = |names: &[String], name: &str| names.iter().position(|own| own == name).unwrap();
    let mut words: Vec<Vec<usize>> =
        words.iter().map(|word| word.iter().map(|byte| id(&names, &spell[byte].to_string())).collect()).collect();
    let mut done = Vec::new();
    while done.len() < merges {
        let mut counts: BTreeMap<(usize, usize), u64> = BTreeMap::new();
        for word in &words {
            word.windows(2).for_each(|pair| *counts.entry((pair[0], pair[1])).or_default() += 1);
        }
        let best = counts.into_iter().max_by_key(|(pair, count)| (*count, std::cmp::Reverse(*pair)));
        let Some(((a, b), _)) = best.filter(|(_, count)| *count >= PAIR_COUNT_MIN) else { break };
        let name = format!("{}{}", names[a], names[b]);
        let new = names.iter().position(|own| *own == name).unwrap_or(names.len());
        if new == names.len() {
            names.push(name);
        }
        done.push((names[a].clone(), names[b].clone()));
        for word in &mut words {
            let (mut at, mut merged) = (0, Vec::new());
            while at < word.len() {
                let is_pair = word.get(at) == Some(&a) && word.get(at + 1) == Some(&b);
                merged.push(if is_pair { new } else { word[at] });
                at += if is_pair { 2 } else { 1 };
            }
            *word = merged;
        }
    }
    done
}

/// How bytes are spelt: those that are visible in Latin-1 as themselves, the others from U+0100 on.
fn spelling() -> BTreeMap<u8, char> {
    let visible = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let hidden = (0..=255).filter(|byte| !visible(byte)).zip(0x100_u32..);
    let hidden = hidden.map(|(byte, code)| (byte, char::from_u32(code).unwrap()));
    (0..=255).filter(visible).map(|byte| (byte, char::from(byte))).chain(hidden).collect()
}

#[test]
fn merges_are_those_of_counting_all_pairs_anew() {
    let (words, size) = (["banana", "bandana", "cabana", "banana", "anna", "nab", "nab"], 256 + 6 + ADDED.len());
    let trained = trained(&words, size).unwrap();
    let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let expected: String = counted_anew(&bytes, 6).iter().map(|(a, b)| format!("{a} {b}\n")).collect();
    assert_eq!(file(&trained, "merges.txt"), format!("#version: 0.2\n{expected}"));
}

#[test]
fn the_same_texts_give_the_same_bytes_and_other_texts_do_not() {
    let texts = [TEXT, TEXT, "another one of the others"];
    let (first, second) = (trained(&texts, 280).unwrap(), trained(&texts, 280).unwrap());
    assert_eq!(first.files(), second.files());
    assert_ne!(file(&first, "merges.txt"), file(&trained(&["abab cdcd"; 30], 268).unwrap(), "merges.txt"));
    assert_eq!((first.texts, first.text_bytes), (3, (2 * TEXT.len() + 25) as u64));
}

#[test]
fn control_tokens_stand_behind_the_merges_in_qwens_order_and_text_is_every_byte() {
    let trained = trained(&[TEXT; 3], 280).unwrap();
    let tokenizer = &trained.tokenizer;
    assert_eq!(tokenizer.vocabulary(), 280);
    for ((token, special), id) in ADDED.iter().zip(280 - ADDED.len() as u32..) {
        assert_eq!(tokenizer.id_of(token), Some(id));
        let added = tokenizer.added().iter().find(|added| added.id == id).unwrap();
        assert_eq!((added.content.as_str(), added.special), (*token, *special));
    }
    assert_eq!((tokenizer.id_of("!"), tokenizer.id_of("Ā")), (Some(0), Some(188)), "bytes stand as in GPT-2 and Qwen");
    assert_eq!(tokenizer.encode_rendered("<|im_start|>").unwrap(), [272]);
    assert_eq!(tokenizer.encode("<think>").unwrap(), [278]);
    assert!(tokenizer.encode("<|im_end|>").unwrap().len() > 1, "in a message it is text");
    let all: String = "\u{0}\u{7f} ☃ 𝄞 ünï \r\n  42 don't".to_owned();
    assert_eq!(tokenizer.decode(&tokenizer.encode(&all).unwrap(), false).unwrap(), all);
    assert_eq!(tokenizer.encode("e\u{301}").unwrap(), tokenizer.encode("é").unwrap(), "characters are composed first");
}

#[test]
fn what_is_a_control_token_is_not_merged() {
    let trained = trained(&["<|im_start|>abab<|im_end|><think>abab</think>"; 9], 256 + 1 + ADDED.len()).unwrap();
    assert_eq!(file(&trained, "merges.txt"), "#version: 0.2\na b\n");
    assert_eq!(outside_added("x<think></think>y<|im_end|>"), ["x", "y"]);
}

#[test]
fn the_files_are_read_as_those_of_any_model() {
    let trained = trained(&[TEXT; 3], 280).unwrap();
    let folder = tempfile::tempdir().unwrap();
    trained.write(folder.path()).unwrap();
    let tokenizer = Tokenizer::open(&folder.path().join("tokenizer.json")).unwrap();
    assert_eq!(tokenizer.encode(TEXT).unwrap(), trained.tokenizer.encode(TEXT).unwrap());
    let special = SpecialTokens::of_folder(folder.path(), &tokenizer).unwrap();
    assert_eq!((special.eos, special.pad, special.bos), (vec![273], Some(271), None));
    let templates = Templates::of_folder(folder.path()).unwrap();
    assert_eq!(templates.choose(true).unwrap().source(), House::KeepThink.source());
    let vocabulary: BTreeMap<String, u32> = serde_json::from_str(file(&trained, "vocab.json")).unwrap();
    assert_eq!(vocabulary.len(), 271);
    assert!(vocabulary.iter().all(|(token, id)| tokenizer.id_of(token) == Some(*id)));
}

#[test]
fn sizes_that_cannot_be_had_are_refused_with_the_one_that_can() {
    let refused = |texts: &[&str], size: usize, words: &str| {
        let error = trained(texts, size).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    refused(&[TEXT], 264, "from 265 to 1048576");
    refused(&[TEXT], usize::MAX, "from 265 to 1048576");
    refused(&["abab"], 300, "ask for at most 266 tokens");
    assert!(trained(&["abab"], 266).is_ok());
    assert!(trained(&[], 265).is_ok(), "bytes alone need no text");
    let broken = [Ok("x".to_owned()), Err(wrong("line 2 is torn".to_owned()))];
    assert!(train_tokenizer(broken, 280, 512).unwrap_err().to_string().contains("line 2 is torn"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn merges_of_drawn_words_are_those_of_counting_anew(words in prop::collection::vec("[a-c]{1,8}", 1..30)) {
        let bytes: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let expected = counted_anew(&bytes, 12);
        // Two pairs that make one token are two merges of it, so the size is what tokens there are.
        let tokens: std::collections::BTreeSet<String> = expected.iter().map(|(a, b)| format!("{a}{b}")).collect();
        let texts: Vec<&str> = words.iter().map(String::as_str).collect();
        let trained = trained(&texts, 256 + tokens.len() + ADDED.len()).unwrap();
        let merges: Vec<&str> = file(&trained, "merges.txt").lines().skip(1).collect();
        let expected: Vec<String> = expected[..merges.len()].iter().map(|(a, b)| format!("{a} {b}")).collect();
        prop_assert_eq!(merges, expected);
    }

    #[test]
    fn any_text_is_trained_on_and_comes_back(text in "\\PC{0,60}") {
        let trained = trained(&[&text], 265).unwrap();
        let composed: String = unicode_composed(&trained.tokenizer, &text);
        prop_assert_eq!(trained.tokenizer.decode(&trained.tokenizer.encode(&composed).unwrap(), false).unwrap(), composed);
    }
}

/// What the tokenizer itself makes of a text; a second time changes nothing.
fn unicode_composed(tokenizer: &Tokenizer, text: &str) -> String {
    tokenizer.decode(&tokenizer.encode(text).unwrap(), false).unwrap()
}
