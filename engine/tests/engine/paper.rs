//! A model of paper: each slot of a page stores its token and a hash of everything before it, and logits are a hash of all
//! slots that a row sees, read through the pages it was given. It refuses to know requests; it asserts that no page is
//! written by two or written while another reads it.

use legwork_engine::{Decode, Speech, philox};
use legwork_kernels::{Batch, HostBytes, PAGE_TOKENS};
use legwork_model::{Forward, ModelError, ModelLimits};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Rows that see this token have logits that are no numbers.
pub(crate) const POISON: u32 = 95;
/// Tokens from here on are secrets of [`Kind::Echo`].
pub(crate) const SECRETS: u32 = 40;
pub(crate) const VOCABULARY: usize = 96;

/// What a model of paper says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Anything, by hash.
    Hash,
    /// As [`Kind::Hash`], but of secrets only those that it sees, and these eagerly.
    Echo,
}

/// A hash of all that is seen, made token by token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sight {
    chain: u64,
    fold: u64,
    secrets: BTreeSet<u32>,
}

impl Sight {
    pub(crate) fn nothing() -> Self {
        Self { chain: 1, fold: 2, secrets: BTreeSet::new() }
    }

    /// Sees the next token, as a right page would store it.
    pub(crate) fn see(&mut self, token: u32) {
        self.chain = mix(self.chain, u64::from(token));
        self.see_slot(token, self.chain);
    }

    fn see_slot(&mut self, token: u32, chain: u64) {
        self.fold = mix(self.fold ^ u64::from(token) << 40, chain);
        if token >= SECRETS {
            self.secrets.insert(token);
        }
    }

    pub(crate) fn logits(&self, kind: Kind) -> Vec<f32> {
        if self.secrets.contains(&POISON) {
            return vec![f32::NAN; VOCABULARY];
        }
        (0..VOCABULARY as u32)
            .map(|id| match kind {
                _ if id == POISON => f32::NEG_INFINITY,
                Kind::Echo if id >= SECRETS && !self.secrets.contains(&id) => f32::NEG_INFINITY,
                Kind::Echo if id >= SECRETS => 9.0,
                _ => (mix(self.fold, u64::from(id)) >> 40) as f32 / (1 << 24) as f32 * 10.0 - 5.0,
            })
            .collect()
    }
}

fn mix(one: u64, other: u64) -> u64 {
    let mut value = (one ^ other.wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_add(0x2545_F491_4F6C_DD1D);
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// The model, shared with the test that watches it.
#[derive(Clone)]
pub(crate) struct Paper(pub(crate) Rc<RefCell<Sheet>>);

pub(crate) struct Sheet {
    pub(crate) limits: ModelLimits,
    pub(crate) kind: Kind,
    slots: Vec<(u32, u64)>,
    /// Fail the next step, after spoiling its pages.
    pub(crate) fails: bool,
    /// Fail copies of pages.
    pub(crate) fails_copies: bool,
    /// The batches of all steps: rows of each span and what came before it.
    pub(crate) steps: Vec<Vec<(usize, usize)>>,
    pub(crate) saved: usize,
    pub(crate) loaded: usize,
}

impl Paper {
    pub(crate) fn new(pages: usize, rows_max: usize, context: usize, kind: Kind) -> Self {
        Self(Rc::new(RefCell::new(Sheet {
            limits: ModelLimits { vocabulary: VOCABULARY, context, pages, rows_max },
            kind,
            slots: vec![(u32::MAX, 0); pages * PAGE_TOKENS],
            fails: false,
            fails_copies: false,
            steps: Vec::new(),
            saved: 0,
            loaded: 0,
        })))
    }
}

impl Forward for Paper {
    fn limits(&self) -> ModelLimits {
        self.0.borrow().limits
    }

    fn forward(&mut self, batch: &Batch, logits: &mut Vec<f32>) -> Result<(), ModelError> {
        let mut sheet = self.0.borrow_mut();
        let limits = sheet.limits;
        batch.check(limits.vocabulary, limits.pages, limits.context).unwrap();
        assert!(batch.rows() > 0 && batch.rows() <= limits.rows_max);
        assert_no_page_is_written_and_shared(batch);
        sheet.steps.push(batch.spans.iter().map(|span| (span.rows, span.past)).collect());
        if std::mem::take(&mut sheet.fails) {
            for page in &batch.pages {
                sheet.slots[*page as usize * PAGE_TOKENS..][..PAGE_TOKENS].fill((7, 7));
            }
            return Err(ModelError::Encode { bytes: 1, detail: "the paper tore".to_owned() });
        }
        logits.clear();
        let mut wanted = batch.wanted.iter().map(|row| *row as usize).peekable();
        for span in &batch.spans {
            let pages = batch.pages_of(span);
            let slot = |position: usize| pages[position / PAGE_TOKENS] as usize * PAGE_TOKENS + position % PAGE_TOKENS;
            for row in 0..span.rows {
                let position = span.past + row;
                let before = if position == 0 { 1 } else { sheet.slots[slot(position - 1)].1 };
                let token = batch.ids[span.first + row];
                sheet.slots[slot(position)] = (token, mix(before, u64::from(token)));
                if wanted.next_if_eq(&(span.first + row)).is_some() {
                    let mut sight = Sight::nothing();
                    for position in 0..=position {
                        let (token, chain) = sheet.slots[slot(position)];
                        sight.see_slot(token, chain);
                    }
                    logits.extend(sight.logits(sheet.kind));
                }
            }
        }
        Ok(())
    }

    fn save_pages(&mut self, pages: &[u32]) -> Result<HostBytes, ModelError> {
        let mut sheet = self.0.borrow_mut();
        if sheet.fails_copies {
            return Err(ModelError::Encode { bytes: 2, detail: "no copy".to_owned() });
        }
        sheet.saved += pages.len();
        let slots = pages.iter().flat_map(|page| &sheet.slots[*page as usize * PAGE_TOKENS..][..PAGE_TOKENS]);
        Ok(slots
            .flat_map(|(token, chain)| [token.to_le_bytes().to_vec(), chain.to_le_bytes().to_vec()].concat())
            .collect::<Vec<_>>()
            .into())
    }

    fn load_pages(&mut self, pages: &[u32], bytes: &[u8]) -> Result<(), ModelError> {
        let mut sheet = self.0.borrow_mut();
        assert_eq!(bytes.len(), pages.len() * PAGE_BYTES);
        if sheet.fails_copies {
            return Err(ModelError::Encode { bytes: 3, detail: "no copy".to_owned() });
        }
        sheet.loaded += pages.len();
        for (page, bytes) in pages.iter().zip(bytes.chunks_exact(PAGE_BYTES)) {
            for (index, slot) in bytes.chunks_exact(12).enumerate() {
                let token = u32::from_le_bytes(slot[..4].try_into().unwrap());
                let chain = u64::from_le_bytes(slot[4..].try_into().unwrap());
                sheet.slots[*page as usize * PAGE_TOKENS + index] = (token, chain);
            }
        }
        Ok(())
    }
}

/// Bytes of a copied page.
pub(crate) const PAGE_BYTES: usize = 12 * PAGE_TOKENS;

fn assert_no_page_is_written_and_shared(batch: &Batch) {
    let mut uses: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    for span in &batch.spans {
        for (index, page) in batch.pages_of(span).iter().enumerate() {
            let entry = uses.entry(*page).or_default();
            entry.0 += 1;
            entry.1 += usize::from(index >= span.past / PAGE_TOKENS);
        }
    }
    for (page, (seen, written)) in uses {
        assert!(written == 0 || seen == 1, "page {page} is written by {written} and seen by {seen}");
    }
}

/// Speech of bytes: tokens are `a`, `b`, the two halves of `é`, and again.
pub(crate) struct Bytes;

pub(crate) fn byte(id: u32) -> u8 {
    [b'a', b'b', 0xC3, 0xA9][id as usize % 4]
}

struct Bytewise(Vec<u8>);

impl Speech for Bytes {
    fn decoder(&self) -> Box<dyn Decode> {
        Box::new(Bytewise(Vec::new()))
    }
}

impl Decode for Bytewise {
    fn push(&mut self, id: u32) -> String {
        self.0.push(byte(id));
        let mut text = String::new();
        loop {
            match std::str::from_utf8(&self.0) {
                Ok(rest) => {
                    text.push_str(rest);
                    self.0.clear();
                    return text;
                }
                Err(error) => {
                    text.push_str(std::str::from_utf8(&self.0[..error.valid_up_to()]).unwrap());
                    self.0.drain(..error.valid_up_to());
                    let Some(wrong) = error.error_len() else { return text };
                    text.push('\u{FFFD}');
                    self.0.drain(..wrong);
                }
            }
        }
    }

    fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.0)).into_owned()
    }
}

/// Tokens of a prompt, by a number.
pub(crate) fn tokens(number: u64, count: usize) -> Vec<u32> {
    (0..count as u64).map(|at| (philox::draw(number, at) % u64::from(SECRETS)) as u32).collect()
}
