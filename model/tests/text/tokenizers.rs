//! Real tokenizers against transformers and llama.cpp on thousands of random and hostile strings. The goldens are hashes
//! of blocks of strings; each block that differs is named with both lines.

use crate::fixtures::{fixture, golden, qwen3, smollm2};
use crate::strings::string;
use legwork_model::{BpeParts, PreTokenizer, Tokenizer};
use sha2::{Digest, Sha256};

const SEED: u64 = 20_261_130;
const BLOCK: u64 = 100;

#[derive(Default)]
struct Hashes {
    tokens: [usize; 2],
    hashes: [Sha256; 3],
}

impl Hashes {
    fn ids(&mut self, place: usize, ids: &[u32]) {
        self.tokens[place] += ids.len();
        self.hashes[place].update((ids.len() as u32).to_le_bytes());
        ids.iter().for_each(|id| self.hashes[place].update(id.to_le_bytes()));
    }

    fn line(self, block: u64) -> String {
        let mut line = format!("{block} {} {}", self.tokens[0], self.tokens[1]);
        for hash in self.hashes {
            let digest = hash.finalize();
            line.push(' ');
            digest[..8].iter().for_each(|byte| line.push_str(&format!("{byte:02x}")));
        }
        line
    }
}

/// The bytes that SmolLM2's vocabulary lacks; what becomes of them differs between libraries, as the script says.
const SMOLLM2_LACKS: [u8; 10] = [0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xC0, 0xC1, 0xF1, 0xF2];

fn without(text: &str, lacking: &[u8]) -> String {
    let lacks = |one: &char| one.encode_utf8(&mut [0; 4]).bytes().any(|byte| lacking.contains(&byte));
    text.chars().filter(|one| !lacks(one)).collect()
}

fn block(tokenizer: &Tokenizer, lacking: &[u8], block: u64) -> String {
    let mut hashes = Hashes::default();
    for index in block * BLOCK..(block + 1) * BLOCK {
        let text = without(&string(SEED, index), lacking);
        hashes.ids(0, &tokenizer.encode(&text).unwrap());
        let ids = tokenizer.encode_rendered(&text).unwrap();
        hashes.ids(1, &ids);
        let decoded = tokenizer.decode(&ids, false).unwrap();
        hashes.hashes[2].update((decoded.len() as u32).to_le_bytes());
        hashes.hashes[2].update(decoded.as_bytes());
    }
    hashes.line(block)
}

/// Every block whose hashes differ.
fn differing(tokenizer: &Tokenizer, lacking: &[u8], goldens: &str) -> Vec<String> {
    const THREADS: usize = 4;
    let lines: Vec<&str> = goldens.lines().collect();
    let share = |first: usize| {
        let lines = &lines;
        move || -> Vec<String> {
            let mine =
                (first..lines.len()).step_by(THREADS).map(|at| (lines[at], block(tokenizer, lacking, at as u64)));
            let differ = mine.filter(|(expected, got)| expected != got);
            differ.map(|(expected, got)| format!("expected {expected}\n     got {got}")).collect()
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|first| scope.spawn(share(first))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[track_caller]
fn agree(tokenizer: &Tokenizer, lacking: &[u8], goldens: &str) {
    let differ = differing(tokenizer, lacking, goldens);
    assert!(differ.is_empty(), "{} blocks differ:\n{}", differ.len(), differ.join("\n"));
}

#[test]
fn qwen3_encodes_and_decodes_ten_thousand_strings_as_transformers_does() {
    let Some(tokenizer) = qwen3() else { return };
    agree(&tokenizer, &[], &golden("tokenizer_qwen3.txt"));
}

#[test]
fn smollm2_built_from_gguf_parts_encodes_and_decodes_two_thousand_strings_as_llama_cpp_does() {
    let Some((tokenizer, _)) = smollm2() else { return };
    agree(&tokenizer, &SMOLLM2_LACKS, &golden("tokenizer_smollm2.txt"));
}

#[test]
fn the_strings_are_those_of_the_goldens_script() {
    // Made by `string(20261130, index)` of goldens/strings.py.
    let mut hash = Sha256::new();
    (0..200).for_each(|index| hash.update(string(SEED, index).as_bytes()));
    let hex: String = hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "7df78a709f82710d");
}

/// Qwen3's own file taken apart, as a GGUF file would carry it.
#[test]
fn qwen3_built_from_parts_encodes_as_from_its_file() {
    let (Some(path), Some(whole)) = (fixture("qwen3/tokenizer.json"), qwen3()) else { return };
    let file: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let vocabulary = file["model"]["vocab"].as_object().unwrap();
    let added = file["added_tokens"].as_array().unwrap();
    let mut tokens = vec![String::new(); vocabulary.len() + added.len()];
    let mut kinds = vec![1; tokens.len()];
    for (token, id) in vocabulary {
        tokens[id.as_u64().unwrap() as usize].clone_from(token);
    }
    for token in added {
        let id = token["id"].as_u64().unwrap() as usize;
        tokens[id] = token["content"].as_str().unwrap().to_owned();
        kinds[id] = if token["special"].as_bool().unwrap() { 3 } else { 4 };
    }
    let merge = |merge: &serde_json::Value| match merge.as_array() {
        Some(pair) => format!("{} {}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap()),
        None => merge.as_str().unwrap().to_owned(),
    };
    let merges = file["model"]["merges"].as_array().unwrap().iter().map(merge).collect();
    let pre = PreTokenizer::of_gguf("qwen2").unwrap();
    let built = Tokenizer::from_bpe_parts("parts", BpeParts { tokens, merges, kinds, pre }).unwrap();
    for index in 0..10 {
        assert_eq!(block(&built, &[], index), block(&whole, &[], index));
    }
}
