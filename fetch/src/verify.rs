//! The digests by which the hub names its files: SHA-256 of large ones, git's own of small ones. A cached file is named by
//! its digest, so a digest is also what keeps two versions apart.

use sha2::Digest;
use std::io::Read;
use std::path::Path;

/// Bytes that are read at once.
const PIECE_BYTES: usize = 1 << 20;

/// The digest that a file must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Of the bytes.
    Sha256(String),
    /// Of `blob`, a space, the length, a zero byte and the bytes.
    GitSha1(String),
}

/// A digest in the making.
pub(crate) enum Hasher {
    Sha256(sha2::Sha256),
    GitSha1(sha1::Sha1),
}

impl Expected {
    pub(crate) fn sha256(hex: &str) -> Option<Self> {
        is_hex(hex, 64).then(|| Self::Sha256(hex.to_owned()))
    }

    pub(crate) fn git_sha1(hex: &str) -> Option<Self> {
        is_hex(hex, 40).then(|| Self::GitSha1(hex.to_owned()))
    }

    /// In hex; the name of the file in the cache.
    pub(crate) fn hex(&self) -> &str {
        match self {
            Expected::Sha256(hex) | Expected::GitSha1(hex) => hex,
        }
    }

    pub(crate) fn hasher(&self, bytes: u64) -> Hasher {
        match self {
            Expected::Sha256(_) => Hasher::Sha256(sha2::Sha256::new()),
            Expected::GitSha1(_) => {
                let mut hasher = sha1::Sha1::new();
                hasher.update(format!("blob {bytes}\0").as_bytes());
                Hasher::GitSha1(hasher)
            }
        }
    }
}

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Sha256(hasher) => hasher.update(bytes),
            Hasher::GitSha1(hasher) => hasher.update(bytes),
        }
    }

    pub(crate) fn hex(self) -> String {
        match self {
            Hasher::Sha256(hasher) => hex(&hasher.finalize()),
            Hasher::GitSha1(hasher) => hex(&hasher.finalize()),
        }
    }

    /// Takes a file that is there already, from its start.
    pub(crate) fn take_file(mut self, path: &Path) -> std::io::Result<Self> {
        let mut file = std::fs::File::open(path)?;
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(self),
                read => self.update(&piece[..read]),
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Lower-case hex of a length: nothing that could be a path.
pub(crate) fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_git_and_of_sha256sum() {
        let of = |expected: Expected| {
            let mut hasher = expected.hasher(6);
            hasher.update(b"hel");
            hasher.update(b"lo\n");
            hasher.hex()
        };
        // `printf 'hello\n' | git hash-object --stdin` and `… | sha256sum`.
        assert_eq!(of(Expected::GitSha1(String::new())), "ce013625030ba8dba906f756967f9e9ca394464a");
        let sha256 = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
        assert_eq!(of(Expected::Sha256(String::new())), sha256);
        assert_eq!(Expected::sha256(sha256).unwrap().hex(), sha256);
    }

    #[test]
    fn what_is_no_digest_is_none() {
        for wrong in ["", "../../etc", &"A".repeat(64), &"g".repeat(64), &"0".repeat(63)] {
            assert_eq!(Expected::sha256(wrong), None, "{wrong}");
            assert_eq!(Expected::git_sha1(wrong), None, "{wrong}");
        }
    }
}
