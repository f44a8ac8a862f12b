//! What to fetch, as one writes it: `hf:OWNER/NAME`, `hf:OWNER/NAME@REVISION`, `hf:datasets/OWNER/NAME`. It refuses to know
//! where the hub is.

use crate::error::FetchError;
use std::fmt;
use std::str::FromStr;

/// Bytes of an owner or a name at most, as the hub has it.
const PART_MAX_BYTES: usize = 96;
/// Bytes of a revision at most.
const REVISION_MAX_BYTES: usize = 200;
/// The branch that is meant where none is named.
const MAIN: &str = "main";

/// A model or a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepositoryKind {
    /// A model.
    Model,
    /// A data set.
    Dataset,
}

impl RepositoryKind {
    /// As the hub's API and the folders of the cache have it.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            RepositoryKind::Model => "models",
            RepositoryKind::Dataset => "datasets",
        }
    }
}

/// A repository of the hub at a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    kind: RepositoryKind,
    /// None for the oldest models, as `gpt2`.
    owner: Option<String>,
    name: String,
    revision: String,
}

impl Reference {
    /// A model or a data set.
    pub fn kind(&self) -> RepositoryKind {
        self.kind
    }

    /// `OWNER/NAME`.
    pub fn id(&self) -> String {
        self.parts().collect::<Vec<_>>().join("/")
    }

    /// The branch, tag or commit.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// Owner and name.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &str> {
        self.owner.as_deref().into_iter().chain([self.name.as_str()])
    }

    /// Its folder in the cache.
    pub(crate) fn folder(&self) -> String {
        [self.kind.plural()].into_iter().chain(self.parts()).collect::<Vec<_>>().join("--")
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.kind == RepositoryKind::Dataset { "datasets/" } else { "" };
        write!(f, "hf:{kind}{}@{}", self.id(), self.revision)
    }
}

impl FromStr for Reference {
    type Err = FetchError;

    fn from_str(text: &str) -> Result<Self, FetchError> {
        let wrong = |expected: &'static str| FetchError::Reference { expected, got: text.to_owned() };
        let rest = text.strip_prefix("hf:").ok_or_else(|| wrong("a reference that begins with hf:"))?;
        let (id, revision) = rest.split_once('@').unwrap_or((rest, MAIN));
        let (kind, id) = match id.strip_prefix("datasets/") {
            Some(id) => (RepositoryKind::Dataset, id),
            None => (RepositoryKind::Model, id),
        };
        let (owner, name) = match id.split_once('/') {
            Some((owner, name)) => (Some(owner), name),
            None => (None, id),
        };
        if !owner.into_iter().chain([name]).all(is_part) {
            return Err(wrong("an owner and a name of letters, digits, `-`, `_` and `.`"));
        }
        if !is_revision(revision) {
            return Err(wrong("a branch, a tag or a commit behind @"));
        }
        let (owner, name, revision) = (owner.map(str::to_owned), name.to_owned(), revision.to_owned());
        Ok(Self { kind, owner, name, revision })
    }
}

fn is_part(part: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| !matches!(byte, b'-' | b'.'));
    let bytes = part.as_bytes();
    bytes.len() <= PART_MAX_BYTES
        && bytes.iter().all(|byte| plain(*byte))
        && edge(bytes.first().copied())
        && edge(bytes.last().copied())
        // The cache puts `--` between owner and name, and the hub allows neither.
        && !part.contains("--")
        && !part.contains("..")
}

/// A revision stands in a path of the cache: each of its parts is plain.
fn is_revision(revision: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'+');
    let part = |part: &str| !part.is_empty() && !part.starts_with('.') && part.bytes().all(plain);
    revision.len() <= REVISION_MAX_BYTES && revision.split('/').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn references_are_read_and_written_alike() {
        for (text, id, kind, revision, folder) in [
            ("hf:Qwen/Qwen3-4B", "Qwen/Qwen3-4B", RepositoryKind::Model, "main", "models--Qwen--Qwen3-4B"),
            ("hf:gpt2@v1.0", "gpt2", RepositoryKind::Model, "v1.0", "models--gpt2"),
            ("hf:datasets/a/b@refs/pr/1", "a/b", RepositoryKind::Dataset, "refs/pr/1", "datasets--a--b"),
        ] {
            let reference: Reference = text.parse().unwrap();
            assert_eq!(
                (reference.id().as_str(), reference.kind(), reference.revision(), reference.folder().as_str()),
                (id, kind, revision, folder)
            );
            assert_eq!(reference.to_string().parse::<Reference>().unwrap(), reference);
        }
    }

    #[test]
    fn what_is_no_reference_is_told_how_to_write_one() {
        for text in [
            "Qwen/Qwen3",
            "hf:",
            "hf:/x",
            "hf:a/",
            "hf:a/b/c",
            "hf:../b",
            "hf:a/..",
            "hf:a/b@",
            "hf:a/b@../x",
            "hf:a/b@.git",
            "hf:a/b@x//y",
            "hf:a--b/c",
            "hf:a b/c",
            "hf:a/b?x",
            "hf:-a/b",
            "hf:a/b.",
            "hf:https://huggingface.co/a/b",
        ] {
            let error = text.parse::<Reference>().unwrap_err().to_string();
            assert!(error.contains("hf:OWNER/NAME") && error.contains(text), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_taken_stays_in_its_folder(text in "hf:[ -~]{0,40}") {
            if let Ok(reference) = text.parse::<Reference>() {
                let folder = reference.folder();
                prop_assert!(!folder.contains('/') && !folder.contains(".."));
                prop_assert!(!reference.revision().split('/').any(|part| part.is_empty() || part == ".."));
                prop_assert_eq!(reference.to_string().parse::<Reference>().unwrap(), reference);
            }
        }
    }
}
