//! What transformers computed, beside the model: prompts and log-probabilities, in numpy's format; and how far distributions
//! are from each other.

use std::path::Path;

/// Bytes before the header of a file of version 1.
const BEFORE_HEADER: usize = 10;

/// One prompt.
pub(crate) struct Golden {
    pub(crate) ids: Vec<u32>,
    /// Log-probabilities of the last positions `[last, vocabulary]` in f32.
    pub(crate) exact: Vec<f32>,
    /// The same of transformers' bf16.
    pub(crate) bf16: Vec<f32>,
    pub(crate) last: usize,
}

/// All prompts that are there.
pub(crate) fn open(folder: &Path, vocabulary: usize) -> Vec<Golden> {
    let mut goldens = Vec::new();
    loop {
        let path = |what: &str| folder.join(format!("parity-{}-{what}.npy", goldens.len()));
        if !path("ids").exists() {
            return goldens;
        }
        let ids = read(&path("ids"), "<i4").iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        let floats = |what| read(&path(what), "<f4").iter().map(|bytes| f32::from_le_bytes(*bytes)).collect::<Vec<_>>();
        let (exact, bf16) = (floats("exact"), floats("bf16"));
        assert!(exact.len() == bf16.len() && exact.len().is_multiple_of(vocabulary), "{}", path("exact").display());
        let last = exact.len() / vocabulary;
        goldens.push(Golden { ids, exact, bf16, last });
    }
}

/// The values of a file, of four bytes each, in C's order.
fn read(path: &Path, kind: &str) -> Vec<[u8; 4]> {
    let bytes = std::fs::read(path).unwrap();
    assert!(bytes.starts_with(b"\x93NUMPY\x01"), "{} is not of numpy's version 1", path.display());
    let header = BEFORE_HEADER + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let told = String::from_utf8_lossy(&bytes[BEFORE_HEADER..header]);
    let fits = told.contains(&format!("'descr': '{kind}'")) && told.contains("'fortran_order': False");
    assert!(fits, "{}: expected {kind} in C's order, got {told}", path.display());
    bytes[header..].as_chunks::<4>().0.to_vec()
}

/// `log_softmax` of a row, in `f64`.
pub(crate) fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mass = logits.iter().map(|logit| f64::from(logit - top).exp()).sum::<f64>().ln();
    logits.iter().map(|logit| f64::from(*logit) - f64::from(top) - mass).collect()
}

/// `KL(one || other)` of each row, in nats.
pub(crate) fn divergences(one: &[f32], other: &[f32], vocabulary: usize) -> Vec<f64> {
    assert_eq!(one.len(), other.len(), "rows of both");
    let rows = one.chunks_exact(vocabulary).zip(other.chunks_exact(vocabulary));
    rows.map(|(one, other)| divergence(&log_softmax(one), &log_softmax(other))).collect()
}

fn divergence(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one.exp() * (one - other)).sum()
}

/// The greatest distance of two rows' logarithms of probabilities, over all rows.
pub(crate) fn farthest(one: &[f32], other: &[f32], vocabulary: usize) -> f64 {
    let rows = one.chunks_exact(vocabulary).zip(other.chunks_exact(vocabulary));
    let far = |(one, other): (&[f32], &[f32])| {
        let (one, other) = (log_softmax(one), log_softmax(other));
        one.iter().zip(&other).map(|(one, other)| (one - other).abs()).fold(0.0, f64::max)
    };
    rows.map(far).fold(0.0, f64::max)
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

pub(crate) fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}
