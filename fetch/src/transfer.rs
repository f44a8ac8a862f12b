//! The bytes of one file, from the hub to the cache: resumed where a connection was cut, checked, put in place. What was
//! written before is read into the digest first, so a damaged start is found out.

use crate::cache::{Cache, Partial};
use crate::error::FetchError;
use crate::fetcher::Progress;
use crate::hub::{Failed, Hub, RemoteFile, passing};
use crate::reference::Reference;
use crate::settings::Patience;
use crate::verify::Hasher;
use std::io::{Seek, Write};
use std::time::Duration;

/// Where progress is told.
pub(crate) type Told<'a> = &'a mut (dyn FnMut(Progress<'_>) + Send);

/// One file on its way.
pub(crate) struct Transfer<'a> {
    pub(crate) hub: &'a Hub,
    pub(crate) cache: &'a Cache,
    pub(crate) of: &'a Reference,
    pub(crate) commit: &'a str,
    pub(crate) file: &'a RemoteFile,
}

impl Transfer<'_> {
    /// Fetches, checks and keeps the file.
    pub(crate) async fn run(&self, told: Told<'_>) -> Result<(), FetchError> {
        let expected = &self.file.expected;
        let partial = self.cache.lock(expected, &self.file.path)?;
        let resumed = self.cache.partial_bytes(expected) > 0;
        match self.to_the_end(&partial, told).await {
            // What an earlier run left may be damaged; a start from nothing tells.
            Err(FetchError::Digest { .. }) if resumed => self.to_the_end(&partial, told).await?,
            other => other?,
        }
        self.cache.keep(&partial, expected)
    }

    /// Fetches until all bytes are there and right; bytes that are wrong are thrown away.
    async fn to_the_end(&self, partial: &Partial, told: Told<'_>) -> Result<(), FetchError> {
        let mut tries = 0;
        loop {
            let before = self.written(partial);
            let failed = match self.once(partial, told).await {
                Ok(hasher) => return self.check(partial, hasher),
                Err(Failed::Lasting(error)) => {
                    if matches!(error, FetchError::Digest { .. }) {
                        discard(partial)?;
                    }
                    return Err(error);
                }
                Err(failed) => failed,
            };
            // A try that brought bytes is no failure in a row.
            tries = if self.written(partial) > before { 1 } else { tries + 1 };
            pause(self.hub.patience, tries, &self.file.path, failed, told).await?;
        }
    }

    fn written(&self, partial: &Partial) -> u64 {
        std::fs::metadata(&partial.path).map_or(0, |found| found.len())
    }

    /// One connection: from the last byte that is there.
    async fn once(&self, partial: &Partial, told: Told<'_>) -> Result<Hasher, Failed> {
        let (path, total) = (&partial.path, self.file.bytes);
        let lasting = |doing| move |error| Failed::Lasting(FetchError::io(doing, path)(error));
        if self.written(partial) > total {
            discard(partial).map_err(Failed::Lasting)?;
        }
        let there = self.written(partial);
        let mut hasher = self.hashed(partial, there).await?;
        if there == total && total > 0 {
            return Ok(hasher);
        }
        let (begin, mut response) = self.hub.bytes(self.of, self.commit, self.file, there).await?;
        let mut options = std::fs::File::options();
        let mut out = options.create(true).truncate(false).write(true).open(path).map_err(lasting("write"))?;
        if begin == 0 {
            out.set_len(0).map_err(lasting("empty"))?;
            hasher = self.file.expected.hasher(total);
        }
        out.seek(std::io::SeekFrom::Start(begin)).map_err(lasting("write"))?;
        let mut at = begin;
        while let Some(piece) = response.chunk().await.map_err(passing)? {
            at += piece.len() as u64;
            if at > total {
                let (file, expected) = (self.file.path.clone(), format!("of {total} bytes"));
                return Err(Failed::Lasting(FetchError::Digest { file, expected, got: "more bytes".to_owned() }));
            }
            out.write_all(&piece).map_err(lasting("write"))?;
            hasher.update(&piece);
            told(Progress::Advanced { file: &self.file.path, done_bytes: at, total_bytes: total });
        }
        if at == total {
            return Ok(hasher);
        }
        let detail = format!("the connection was cut after {at} of {total} bytes");
        Err(Failed::Passing { detail, wait_ms: None, unreachable: false })
    }

    /// The digest of what is there, made beside the runtime's own threads: it may be gigabytes.
    async fn hashed(&self, partial: &Partial, there: u64) -> Result<Hasher, Failed> {
        let hasher = self.file.expected.hasher(self.file.bytes);
        if there == 0 {
            return Ok(hasher);
        }
        let path = partial.path.clone();
        let wrong = |error| Failed::Lasting(FetchError::io("read", &partial.path)(error));
        let hashed = tokio::task::spawn_blocking(move || hasher.take_file(&path)).await;
        hashed.map_err(|error| wrong(std::io::Error::other(error)))?.map_err(wrong)
    }

    fn check(&self, partial: &Partial, hasher: Hasher) -> Result<(), FetchError> {
        let (expected, got) = (self.file.expected.hex(), hasher.hex());
        if got == expected {
            return Ok(());
        }
        discard(partial)?;
        Err(FetchError::Digest { file: self.file.path.clone(), expected: expected.to_owned(), got })
    }
}

fn discard(partial: &Partial) -> Result<(), FetchError> {
    std::fs::remove_file(&partial.path).map_err(FetchError::io("remove", &partial.path))
}

/// Waits before the next try, or gives up.
pub(crate) async fn pause(
    patience: Patience,
    tries: u32,
    what: &str,
    failed: Failed,
    told: Told<'_>,
) -> Result<(), FetchError> {
    let (detail, asked_ms) = match failed {
        Failed::Lasting(error) => return Err(error),
        Failed::Passing { detail, wait_ms, .. } => (detail, wait_ms),
    };
    let wait_ms = wait_ms(patience, tries, asked_ms).map_err(|gave_up| match gave_up {
        GaveUp::Tries => FetchError::Unreachable { what: what.to_owned(), tries, detail: detail.clone() },
        GaveUp::Pause(wait_ms) => {
            FetchError::Busy { what: what.to_owned(), wait_s: wait_ms / 1000, most_s: patience.wait_max_ms / 1000 }
        }
    })?;
    told(Progress::Waiting { what, why: &detail, wait_ms });
    tokio::time::sleep(Duration::from_millis(wait_ms)).await;
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum GaveUp {
    Tries,
    Pause(u64),
}

/// The pause before the next try: what the hub asked for, or twice the one before.
fn wait_ms(patience: Patience, tries: u32, asked_ms: Option<u64>) -> Result<u64, GaveUp> {
    if tries >= patience.tries_max {
        return Err(GaveUp::Tries);
    }
    match asked_ms {
        Some(asked) if asked > patience.wait_max_ms => Err(GaveUp::Pause(asked)),
        Some(asked) => Ok(asked),
        None => {
            let factor = 1_u64 << tries.saturating_sub(1).min(32);
            Ok(patience.first_wait_ms.saturating_mul(factor).min(patience.wait_max_ms))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit_and_end() {
        let patience = Patience { tries_max: 6, first_wait_ms: 100, wait_max_ms: 500, ..Patience::default() };
        let waits: Vec<_> = (1..=6).map(|tries| wait_ms(patience, tries, None)).collect();
        assert_eq!(waits, [Ok(100), Ok(200), Ok(400), Ok(500), Ok(500), Err(GaveUp::Tries)]);
        assert_eq!(wait_ms(patience, 1, Some(450)), Ok(450), "what the hub asks for");
        assert_eq!(wait_ms(patience, 1, Some(501)), Err(GaveUp::Pause(501)));
        assert_eq!(wait_ms(Patience { tries_max: u32::MAX, ..patience }, 400, None), Ok(500));
    }
}
