//! Which files of a repository are wanted: of a model the weights in one safe format and what says how to use them; or what
//! patterns name. Pickles are refused, since reading one can run code.

use crate::error::FetchError;
use crate::hub::RemoteFile;
use crate::reference::RepositoryKind;

/// Endings of pickles, and of what wraps one.
const PICKLES: [&str; 9] = [".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib", ".npz", ".dill"];
/// Endings of what says how a model is used.
const SIDE_ENDINGS: [&str; 4] = [".json", ".txt", ".jinja", ".model"];
/// Names of what says under which terms.
const TERMS: [&str; 4] = ["LICENSE", "LICENSE.txt", "LICENSE.md", "NOTICE"];
/// A file beside the weights is at most so large, in bytes.
const SIDE_MAX_BYTES: u64 = 64 << 20;
/// Names that a message lists.
const LISTED_MAX: usize = 8;
/// Patterns at most.
const PATTERNS_MAX: usize = 64;
/// Bytes of a pattern at most.
const PATTERN_MAX_BYTES: usize = 256;

/// Which files are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Patterns of paths, `*` for anything, `/` included, `?` for one character. Without any, what a model needs, and of a
    /// data set everything.
    pub include: Vec<String>,
    /// Patterns of paths that are left out.
    pub exclude: Vec<String>,
    /// Whether files that are in the cache already are read and checked again.
    pub verify_cached: bool,
}

impl Wanted {
    /// Chooses, in the order given.
    pub(crate) fn choose(&self, kind: RepositoryKind, files: Vec<RemoteFile>) -> Result<Vec<RemoteFile>, FetchError> {
        self.check()?;
        let all: Vec<RemoteFile> = files.into_iter().filter(|file| !matches_any(&self.exclude, &file.path)).collect();
        let chosen = if !self.include.is_empty() {
            for pattern in &self.include {
                if !all.iter().any(|file| matches(pattern, &file.path)) {
                    let names = listed(all.iter().map(|file| file.path.as_str()));
                    return Err(FetchError::Choice {
                        detail: format!("no file matches {pattern:?}; there are {names}"),
                    });
                }
            }
            let chosen: Vec<RemoteFile> =
                all.into_iter().filter(|file| matches_any(&self.include, &file.path)).collect();
            if let Some(pickle) = chosen.iter().find(|file| is_pickle(&file.path)) {
                return Err(FetchError::Pickle { file: pickle.path.clone() });
            }
            chosen
        } else {
            match kind {
                RepositoryKind::Model => of_a_model(all)?,
                RepositoryKind::Dataset => all.into_iter().filter(|file| !is_pickle(&file.path)).collect(),
            }
        };
        if chosen.is_empty() {
            return Err(FetchError::Choice { detail: "nothing is left to fetch; exclude less".to_owned() });
        }
        Ok(chosen)
    }

    fn check(&self) -> Result<(), FetchError> {
        let patterns = || self.include.iter().chain(&self.exclude);
        if patterns().count() > PATTERNS_MAX || patterns().any(|pattern| pattern.len() > PATTERN_MAX_BYTES) {
            let detail =
                format!("expected at most {PATTERNS_MAX} patterns of at most {PATTERN_MAX_BYTES} bytes; give fewer");
            return Err(FetchError::Choice { detail });
        }
        Ok(())
    }
}

/// The weights of a model in one format, and the small files beside them.
fn of_a_model(files: Vec<RemoteFile>) -> Result<Vec<RemoteFile>, FetchError> {
    let weights = weights_of(&files)?;
    let side = |file: &RemoteFile| {
        let beside = match file.path.split_once('/') {
            None => {
                SIDE_ENDINGS.iter().any(|ending| file.path.ends_with(ending)) || TERMS.contains(&file.path.as_str())
            }
            // Modules of sentence-transformers: `1_Pooling/config.json`.
            Some((folder, "config.json")) => folder.split_once('_').is_some_and(|(n, _)| n.parse::<u8>().is_ok()),
            Some(_) => false,
        };
        beside && file.bytes <= SIDE_MAX_BYTES && !file.path.ends_with(".bin.index.json")
    };
    Ok(files.into_iter().filter(|file| weights.contains(&file.path) || side(file)).collect())
}

fn weights_of(files: &[RemoteFile]) -> Result<Vec<String>, FetchError> {
    let at_the_top = |ending: &str| -> Vec<String> {
        let found = files.iter().filter(|file| file.path.ends_with(ending) && !file.path.contains('/'));
        found.map(|file| file.path.clone()).collect()
    };
    let safe = at_the_top(".safetensors");
    // Some repositories carry the same weights under other names also: of another precision, or as their makers trained them.
    let usual: [fn(&str) -> bool; 3] =
        [|path| path == "model.safetensors", |path| path.starts_with("model-"), |path| path.starts_with("model")];
    for is_usual in usual {
        let found: Vec<String> = safe.iter().filter(|path| is_usual(path)).cloned().collect();
        if !found.is_empty() {
            return Ok(found);
        }
    }
    if !safe.is_empty() {
        return Ok(safe);
    }
    match at_the_top(".gguf").as_slice() {
        [] => {}
        [one] => return Ok(vec![one.clone()]),
        several => {
            let names = listed(several.iter().map(String::as_str));
            let detail = format!("there are {} GGUF files, {names}; choose with a pattern to include", several.len());
            return Err(FetchError::Choice { detail });
        }
    }
    match files.iter().find(|file| is_pickle(&file.path)) {
        Some(pickle) => Err(FetchError::Pickle { file: pickle.path.clone() }),
        None => {
            let names = listed(files.iter().map(|file| file.path.as_str()));
            let detail =
                format!("expected .safetensors or .gguf among the files, got {names}; name a pattern to include");
            Err(FetchError::Choice { detail })
        }
    }
}

fn is_pickle(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    PICKLES.iter().any(|ending| path.ends_with(ending))
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    let more = if names.len() > LISTED_MAX { format!(" and {} more", names.len() - LISTED_MAX) } else { String::new() };
    if names.is_empty() { "none".to_owned() } else { names[..names.len().min(LISTED_MAX)].join(", ") + &more }
}

pub(crate) fn matches_any(patterns: &[String], path: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, path))
}

/// Whether a path is of a pattern; at most as many steps as the product of both lengths.
fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<char>, Vec<char>) = (pattern.chars().collect(), path.chars().collect());
    let (mut at, mut of) = (0, 0);
    // The last star, and what of the path it has swallowed.
    let mut star: Option<(usize, usize)> = None;
    while of < path.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, of));
                at += 1;
            }
            Some(c) if *c == '?' || *c == path[of] => {
                at += 1;
                of += 1;
            }
            _ => match star {
                Some((place, swallowed)) => {
                    star = Some((place, swallowed + 1));
                    at = place + 1;
                    of = swallowed + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::Expected;
    use proptest::prelude::*;

    fn files(paths: &[&str]) -> Vec<RemoteFile> {
        let file = |path: &&str| RemoteFile {
            path: (*path).to_owned(),
            bytes: 10,
            expected: Expected::sha256(&"0".repeat(64)).unwrap(),
        };
        paths.iter().map(file).collect()
    }

    fn chosen(wanted: &Wanted, kind: RepositoryKind, paths: &[&str]) -> Result<Vec<String>, String> {
        let chosen = wanted.choose(kind, files(paths)).map_err(|error| error.to_string())?;
        Ok(chosen.into_iter().map(|file| file.path).collect())
    }

    fn of_model(paths: &[&str]) -> Result<Vec<String>, String> {
        chosen(&Wanted::default(), RepositoryKind::Model, paths)
    }

    #[test]
    fn of_a_model_comes_what_is_needed_to_run_it() {
        let found = of_model(&[
            ".gitattributes",
            "1_Pooling/config.json",
            "LICENSE",
            "README.md",
            "config.json",
            "consolidated.safetensors",
            "merges.txt",
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
            "model.safetensors.index.json",
            "onnx/config.json",
            "onnx/model.onnx",
            "original/model.safetensors",
            "pytorch_model.bin",
            "pytorch_model.bin.index.json",
            "tokenizer.json",
        ]);
        let expected = [
            "1_Pooling/config.json",
            "LICENSE",
            "config.json",
            "merges.txt",
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
            "model.safetensors.index.json",
            "tokenizer.json",
        ];
        assert_eq!(found.unwrap(), expected);
        let twice = ["model.fp16.safetensors", "model.safetensors", "model-00001-of-00001.safetensors"];
        assert_eq!(of_model(&twice).unwrap(), ["model.safetensors"]);
        assert_eq!(of_model(&["m.Q4_K_M.gguf", "README.md"]).unwrap(), ["m.Q4_K_M.gguf"]);
        assert_eq!(of_model(&["adapter_model.safetensors"]).unwrap(), ["adapter_model.safetensors"]);
    }

    #[test]
    fn what_could_run_code_or_is_too_much_is_refused_by_name() {
        assert!(of_model(&["config.json", "pytorch_model.bin"]).unwrap_err().contains("pytorch_model.bin is a pickle"));
        assert!(of_model(&["a.gguf", "b.gguf"]).unwrap_err().contains("2 GGUF files, a.gguf, b.gguf; choose"));
        assert!(
            of_model(&["README.md"])
                .unwrap_err()
                .contains("expected .safetensors or .gguf among the files, got README.md")
        );
        assert!(of_model(&[]).unwrap_err().contains("got none"));
        let include = Wanted { include: vec!["*.bin".to_owned()], ..Wanted::default() };
        let found = chosen(&include, RepositoryKind::Model, &["a/PYTORCH.bin", "b.json"]);
        assert!(found.unwrap_err().contains("a/PYTORCH.bin is a pickle"));
    }

    #[test]
    fn patterns_choose_and_leave_out() {
        let wanted = Wanted {
            include: vec!["*Q4_K_M*".to_owned(), "README.m?".to_owned()],
            exclude: vec!["old/*".to_owned()],
            verify_cached: false,
        };
        let paths = ["README.md", "m-Q4_K_M.gguf", "m-Q8_0.gguf", "old/m-Q4_K_M.gguf"];
        assert_eq!(chosen(&wanted, RepositoryKind::Model, &paths).unwrap(), ["README.md", "m-Q4_K_M.gguf"]);
        let none = Wanted { include: vec!["*.onnx".to_owned()], ..Wanted::default() };
        assert!(
            chosen(&none, RepositoryKind::Model, &paths)
                .unwrap_err()
                .contains("no file matches \"*.onnx\"; there are README.md")
        );
        let many = Wanted { include: vec!["x".to_owned(); 65], ..Wanted::default() };
        assert!(chosen(&many, RepositoryKind::Model, &paths).unwrap_err().contains("at most 64 patterns"));
    }

    #[test]
    fn of_a_data_set_comes_everything_but_pickles() {
        let paths = ["README.md", "data/train.parquet", "x.pkl"];
        let found = chosen(&Wanted::default(), RepositoryKind::Dataset, &paths).unwrap();
        assert_eq!(found, ["README.md", "data/train.parquet"]);
    }

    proptest! {
        #[test]
        fn a_pattern_matches_as_its_slow_definition_does(pattern in "[ab*?]{0,8}", path in "[ab/]{0,10}") {
            fn slow(pattern: &[u8], path: &[u8]) -> bool {
                match pattern.split_first() {
                    None => path.is_empty(),
                    Some((b'*', rest)) => (0..=path.len()).any(|n| slow(rest, &path[n..])),
                    Some((c, rest)) => path.split_first().is_some_and(|(p, left)| (c == p || *c == b'?') && slow(rest, left)),
                }
            }
            prop_assert_eq!(matches(&pattern, &path), slow(pattern.as_bytes(), path.as_bytes()));
        }
    }
}
