//! Real files of real models, where they are at hand, and a reader of a GGUF file's texts that knows just what a tokenizer
//! needs. It refuses to know tensors.

use legwork_model::{BpeParts, PreTokenizer, Tokenizer};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A fixture, or none with a word about it.
pub(crate) fn fixture(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/fixtures").join(name);
    if !path.exists() {
        println!("skipped: {} is not there; .ci/fixtures fetches it", path.display());
        return None;
    }
    Some(path)
}

/// The text of a golden.
pub(crate) fn golden(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Qwen3's tokenizer, read once.
pub(crate) fn qwen3() -> Option<Tokenizer> {
    static READ: OnceLock<Option<Tokenizer>> = OnceLock::new();
    READ.get_or_init(|| Some(Tokenizer::open(&fixture("qwen3/tokenizer.json")?).unwrap())).clone()
}

/// SmolLM2's tokenizer and template, from its GGUF file.
pub(crate) fn smollm2() -> Option<(Tokenizer, String)> {
    static READ: OnceLock<Option<(Tokenizer, String)>> = OnceLock::new();
    READ.get_or_init(|| {
        let path = fixture("smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")?;
        let mut texts = GgufTexts::read(&path);
        let pre = PreTokenizer::of_gguf(&texts.list("tokenizer.ggml.pre")[0]).unwrap();
        let kinds = texts.list("tokenizer.ggml.token_type").iter().map(|kind| kind.parse().unwrap()).collect();
        let (tokens, merges) = (texts.list("tokenizer.ggml.tokens"), texts.list("tokenizer.ggml.merges"));
        let template = texts.list("tokenizer.chat_template").remove(0);
        let parts = BpeParts { tokens, merges, kinds, pre };
        Some((Tokenizer::from_bpe_parts("SmolLM2", parts).unwrap(), template))
    })
    .clone()
}

/// The metadata of a GGUF file, every value as a list of texts.
struct GgufTexts(std::collections::BTreeMap<String, Vec<String>>);

impl GgufTexts {
    fn read(path: &Path) -> Self {
        use std::io::Read;
        /// Metadata lies before the tensors, and is smaller than this.
        const HEAD_BYTES: u64 = 8 << 20;
        let mut bytes = Vec::new();
        std::fs::File::open(path).unwrap().take(HEAD_BYTES).read_to_end(&mut bytes).unwrap();
        let mut at = Cursor { bytes: &bytes };
        assert_eq!(at.take(4), b"GGUF");
        let (_version, _tensors, count) = (at.number(4), at.number(8), at.number(8));
        let pairs = (0..count).map(|_| {
            let key = at.text();
            let kind = at.number(4);
            (key, at.values(kind))
        });
        Self(pairs.collect())
    }

    fn list(&mut self, key: &str) -> Vec<String> {
        self.0.remove(key).unwrap_or_else(|| panic!("the file has no {key}"))
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.bytes.split_at(count);
        self.bytes = rest;
        taken
    }

    fn number(&mut self, size: usize) -> u64 {
        self.take(size).iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    fn text(&mut self) -> String {
        let length = self.number(8) as usize;
        String::from_utf8(self.take(length).to_vec()).unwrap()
    }

    fn values(&mut self, kind: u64) -> Vec<String> {
        match kind {
            0 | 1 | 7 => vec![self.number(1).to_string()],
            2 | 3 => vec![self.number(2).to_string()],
            4..=6 => vec![self.number(4).to_string()],
            8 => vec![self.text()],
            9 => {
                let (kind, count) = (self.number(4), self.number(8));
                (0..count).flat_map(|_| self.values(kind)).collect()
            }
            _ => vec![self.number(8).to_string()],
        }
    }
}
