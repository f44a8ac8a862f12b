//! The documents of an index: mapped text, found by row, docid or url.
//!
//! It refuses to know ranking. Two files hold the bytes and where each document lies; two more hold rows in
//! the order of ids and of urls. All are written once, and their lengths are checked against each other.

use crate::corpus::Document;
use crate::error::RetrievalError;
use legwork_kernels::MappedBytes;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

const BYTES: &str = "documents.bin";
const PLACES: &str = "documents.idx";
const BY_DOCID: &str = "docids.u32";
const BY_URL: &str = "urls.u32";

/// The files of a store, for manifests.
pub(crate) const FILES: [&str; 4] = [BYTES, PLACES, BY_DOCID, BY_URL];

/// Bytes of one place: offset (8), then lengths of docid, title + 1, url + 1 and text (4 each); zero means none.
const PLACE_BYTES: usize = 24;

const CURE: &str = "the index is damaged: build it anew";

/// A document as it lies in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredDocument<'a> {
    /// Its id.
    pub docid: &'a str,
    /// Its title, where the corpus has one.
    pub title: Option<&'a str>,
    /// Its address, where the corpus has one.
    pub url: Option<&'a str>,
    /// Its text.
    pub text: &'a str,
}

/// Writes documents one after the other.
pub(crate) struct StoreWriter {
    folder: PathBuf,
    bytes: BufWriter<File>,
    places: BufWriter<File>,
    offset: u64,
}

/// Mapped documents.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    bytes: MappedBytes,
    places: MappedBytes,
    by_docid: MappedBytes,
    by_url: MappedBytes,
    /// For each row, its position in the order of ids: ties of a ranking are broken by it.
    docid_ranks: Vec<u32>,
}

impl StoreWriter {
    pub(crate) fn create(folder: &Path) -> Result<Self, RetrievalError> {
        let create = |name: &str| {
            let path = folder.join(name);
            File::create(&path).map(BufWriter::new).map_err(RetrievalError::io("creating", &path))
        };
        Ok(Self { bytes: create(BYTES)?, places: create(PLACES)?, offset: 0, folder: folder.to_owned() })
    }

    pub(crate) fn push(&mut self, document: &Document) -> Result<(), RetrievalError> {
        let Document { docid, text, title, url } = document;
        let failed = |e| RetrievalError::io("writing", &self.folder)(e);
        // The corpus limits every field far below 4 GiB.
        let optional = |field: &Option<String>| field.as_ref().map_or(0, |f| f.len() as u32 + 1);
        let lengths = [docid.len() as u32, optional(title), optional(url), text.len() as u32];
        self.places.write_all(&self.offset.to_le_bytes()).map_err(failed)?;
        for length in lengths {
            self.places.write_all(&length.to_le_bytes()).map_err(failed)?;
        }
        for field in [Some(docid), title.as_ref(), url.as_ref(), Some(text)].into_iter().flatten() {
            self.bytes.write_all(field.as_bytes()).map_err(failed)?;
            self.offset += field.len() as u64;
        }
        Ok(())
    }

    /// Ends the files and writes the two orders.
    pub(crate) fn finish(self) -> Result<(), RetrievalError> {
        let Self { folder, bytes, places, .. } = self;
        for writer in [bytes, places] {
            let file = writer.into_inner().map_err(|e| RetrievalError::io("writing", &folder)(e.into_error()))?;
            file.sync_all().map_err(RetrievalError::io("writing", &folder))?;
        }
        let open = |name: &str| {
            let path = folder.join(name);
            MappedBytes::open(&path).map_err(RetrievalError::io("mapping", &path))
        };
        let store = Store {
            bytes: open(BYTES)?,
            places: open(PLACES)?,
            by_docid: open(PLACES)?,
            by_url: open(PLACES)?,
            docid_ranks: Vec::new(),
            folder: folder.clone(),
        };
        let mut ids = Vec::with_capacity(store.len());
        let mut urls = Vec::new();
        for row in 0..store.len() as u32 {
            let document = store.get(row)?;
            ids.push((document.docid, row));
            urls.extend(document.url.map(|url| (url, row)));
        }
        for (name, mut order) in [(BY_DOCID, ids), (BY_URL, urls)] {
            order.sort_unstable();
            let bytes: Vec<u8> = order.iter().flat_map(|(_, row)| row.to_le_bytes()).collect();
            let path = folder.join(name);
            std::fs::write(&path, bytes).map_err(RetrievalError::io("writing", &path))?;
        }
        Ok(())
    }
}

impl Store {
    /// Maps the store in `folder`.
    ///
    /// # Errors
    /// Missing files, or files that do not fit each other.
    pub(crate) fn open(folder: &Path) -> Result<Self, RetrievalError> {
        let open = |name: &str| {
            let path = folder.join(name);
            MappedBytes::open(&path).map_err(RetrievalError::io("mapping", &path))
        };
        let mut store = Self {
            bytes: open(BYTES)?,
            places: open(PLACES)?,
            by_docid: open(BY_DOCID)?,
            by_url: open(BY_URL)?,
            docid_ranks: Vec::new(),
            folder: folder.to_owned(),
        };
        let rows = store.len();
        let fits = store.places.len().is_multiple_of(PLACE_BYTES)
            && store.by_docid.len() == rows * 4
            && store.by_url.len().is_multiple_of(4)
            && store.by_url.len() <= rows * 4;
        if !fits {
            let what = format!("expected an order of {rows} documents, got files of other lengths");
            return Err(RetrievalError::file(folder, what, CURE));
        }
        let mut ranks = vec![u32::MAX; rows];
        for rank in 0..rows {
            match ranks.get_mut(ordered(&store.by_docid, rank) as usize) {
                Some(slot) if *slot == u32::MAX => *slot = rank as u32,
                _ => {
                    let what = format!("expected each row once in {BY_DOCID}, got one twice or none");
                    return Err(RetrievalError::file(folder, what, CURE));
                }
            }
        }
        store.docid_ranks = ranks;
        Ok(store)
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.places.len() / PLACE_BYTES
    }

    /// Whether there are no documents; an index always has some.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The document of a row.
    ///
    /// # Errors
    /// No such row, or a damaged index.
    pub fn get(&self, row: u32) -> Result<StoredDocument<'_>, RetrievalError> {
        self.read(row).ok_or_else(|| {
            let what = format!("expected a document in row {row} of {}, got none", self.len());
            RetrievalError::file(&self.folder, what, CURE)
        })
    }

    fn read(&self, row: u32) -> Option<StoredDocument<'_>> {
        let start = usize::try_from(row).ok()?.checked_mul(PLACE_BYTES)?;
        let place = self.places.get(start..start + PLACE_BYTES)?;
        let length = |field: usize| le_u32(&place[8 + field * 4..]) as usize;
        let mut offset_bytes = [0; 8];
        offset_bytes.copy_from_slice(&place[..8]);
        let mut at = usize::try_from(u64::from_le_bytes(offset_bytes)).ok()?;
        let mut take = |length: usize| {
            let end = at.checked_add(length)?;
            let text = std::str::from_utf8(self.bytes.get(at..end)?).ok()?;
            at = end;
            Some(text)
        };
        let docid = take(length(0))?;
        let title = if length(1) == 0 { None } else { Some(take(length(1) - 1)?) };
        let url = if length(2) == 0 { None } else { Some(take(length(2) - 1)?) };
        Some(StoredDocument { docid, title, url, text: take(length(3))? })
    }

    /// The row with exactly this id.
    ///
    /// # Errors
    /// A damaged index.
    pub fn row_of_docid(&self, docid: &str) -> Result<Option<u32>, RetrievalError> {
        self.find(&self.by_docid, docid, |document| Some(document.docid))
    }

    /// The first row in corpus order with exactly this url.
    ///
    /// # Errors
    /// A damaged index.
    pub fn row_of_url(&self, url: &str) -> Result<Option<u32>, RetrievalError> {
        self.find(&self.by_url, url, |document| document.url)
    }

    fn find(
        &self,
        order: &[u8],
        key: &str,
        key_of: impl for<'a> Fn(StoredDocument<'a>) -> Option<&'a str>,
    ) -> Result<Option<u32>, RetrievalError> {
        let (mut low, mut high) = (0, order.len() / 4);
        while low < high {
            let middle = low + (high - low) / 2;
            if key_of(self.get(ordered(order, middle))?) < Some(key) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if low == order.len() / 4 {
            return Ok(None);
        }
        let row = ordered(order, low);
        Ok((key_of(self.get(row)?) == Some(key)).then_some(row))
    }

    /// For each row, its position in the order of ids.
    pub(crate) fn docid_ranks(&self) -> &[u32] {
        &self.docid_ranks
    }

    /// The row at a position in the order of ids.
    pub(crate) fn row_of_rank(&self, rank: u32) -> u32 {
        ordered(&self.by_docid, rank as usize)
    }
}

/// Number `i` of a list of little-endian `u32`.
fn ordered(order: &[u8], i: usize) -> u32 {
    le_u32(&order[i * 4..])
}

fn le_u32(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn store(documents: &[Document]) -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = StoreWriter::create(folder.path()).unwrap();
        documents.iter().for_each(|d| writer.push(d).unwrap());
        writer.finish().unwrap();
        let store = Store::open(folder.path()).unwrap();
        (folder, store)
    }

    fn doc(docid: &str, url: Option<&str>) -> Document {
        Document { docid: docid.into(), text: format!("text of {docid}"), url: url.map(Into::into), title: None }
    }

    #[test]
    fn documents_are_found_by_row_id_and_url() {
        let (_folder, store) =
            store(&[doc("b", Some("u2")), doc("a", None), doc("c", Some("u1")), doc("d", Some("u2"))]);
        assert_eq!(store.get(2).unwrap().docid, "c");
        assert_eq!(store.row_of_docid("a").unwrap(), Some(1));
        assert_eq!(store.row_of_docid("aa").unwrap(), None);
        assert_eq!(store.row_of_docid("z").unwrap(), None);
        assert_eq!(store.row_of_url("u2").unwrap(), Some(0), "the first of equal urls");
        assert_eq!(store.row_of_url("u3").unwrap(), None);
        assert_eq!(store.docid_ranks(), [1, 0, 2, 3]);
        assert_eq!(store.row_of_rank(0), 1);
        assert!(store.get(4).is_err());
    }

    #[test]
    fn an_empty_title_is_not_a_missing_one() {
        let document = Document { title: Some(String::new()), ..doc("a", None) };
        let (_folder, store) = store(&[document]);
        let got = store.get(0).unwrap();
        assert_eq!((got.title, got.url, got.text), (Some(""), None, "text of a"));
    }

    #[test]
    fn damaged_files_are_refused_and_never_panic() {
        let (folder, _store) = store(&[doc("b", Some("u")), doc("a", None)]);
        for name in FILES {
            let path = folder.path().join(name);
            let good = std::fs::read(&path).unwrap();
            for i in 0..good.len() {
                let mut bad = good.clone();
                bad[i] ^= 0xff;
                std::fs::write(&path, &bad).unwrap();
                let Ok(store) = Store::open(folder.path()) else { continue };
                for row in 0..3 {
                    let _ = store.get(row);
                }
                let _ = (store.row_of_docid("a"), store.row_of_url("u"));
            }
            std::fs::write(&path, &good[..good.len() - 1]).unwrap();
            if name != BYTES {
                assert!(Store::open(folder.path()).is_err(), "{name} cut short");
            }
            std::fs::write(&path, &good).unwrap();
        }
    }

    proptest! {
        #[test]
        fn any_document_comes_back_whole(texts in proptest::collection::vec((".{0,20}", proptest::option::of(".{0,9}")), 1..9)) {
            let documents: Vec<_> = texts.iter().enumerate().map(|(i, (text, title))| Document {
                docid: format!("{i}"), text: text.clone(), title: title.clone(), url: title.clone(),
            }).collect();
            let (_folder, store) = store(&documents);
            for (i, d) in documents.iter().enumerate() {
                let got = store.get(i as u32).unwrap();
                prop_assert_eq!((got.text, got.title, got.url), (d.text.as_str(), d.title.as_deref(), d.url.as_deref()));
                prop_assert_eq!(store.row_of_docid(&d.docid).unwrap(), Some(i as u32));
            }
        }
    }
}
