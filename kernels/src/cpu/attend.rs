//! Causal attention over a paged cache, with the online softmax of Milakov and Gimelshein (2018): a page at a time, so that
//! scores of a long context are never all there. Keys lie transposed within a page, so that its tokens are lanes.
//!
//! It refuses to know which pages belong to whom.

use super::panel::Level;
use super::product::{Strided, StridedMut, product};
use super::rowwise::{exp_and_sum, greatest, scale};
use super::team::{Parts, together};
use crate::batch::{Batch, PAGE_TOKENS, Span};
use crate::ops::{CacheShape, Heads};

/// Rows of one span that a task takes: with the query heads of a group they share each page of keys.
const ROWS: usize = 8;

/// Keys and values of all layers: for each layer and page the keys of each head `[dim, PAGE_TOKENS]`, then its values
/// `[PAGE_TOKENS, dim]`.
#[derive(Debug)]
pub struct PagedCache {
    shape: CacheShape,
    values: Vec<f32>,
}

impl PagedCache {
    /// An empty cache; its size is the caller's care.
    pub fn new(shape: CacheShape) -> Self {
        Self { shape, values: vec![0.0; shape.layers * shape.pages * Self::page(&shape)] }
    }

    /// Its shape.
    pub fn shape(&self) -> &CacheShape {
        &self.shape
    }

    /// Values of one page of one layer.
    pub fn page(shape: &CacheShape) -> usize {
        2 * shape.kv_heads * shape.head_dim * PAGE_TOKENS
    }

    /// One page of one layer.
    pub fn at(&self, layer: usize, page: usize) -> &[f32] {
        let size = Self::page(&self.shape);
        &self.values[(layer * self.shape.pages + page) * size..][..size]
    }

    /// One page of one layer.
    pub fn at_mut(&mut self, layer: usize, page: usize) -> &mut [f32] {
        let size = Self::page(&self.shape);
        &mut self.values[(layer * self.shape.pages + page) * size..][..size]
    }

    /// Writes key and value of one token and head.
    pub fn keep(&mut self, layer: usize, page: usize, slot: usize, head: usize, key: &[f32], value: &[f32]) {
        let dim = self.shape.head_dim;
        let of_head = &mut self.at_mut(layer, page)[2 * head * dim * PAGE_TOKENS..][..2 * dim * PAGE_TOKENS];
        let (keys, values) = of_head.split_at_mut(dim * PAGE_TOKENS);
        for (keys, key) in keys.chunks_exact_mut(PAGE_TOKENS).zip(key) {
            keys[slot] = *key;
        }
        values[slot * dim..][..dim].copy_from_slice(value);
    }

    /// Keys `[dim, PAGE_TOKENS]` and values `[PAGE_TOKENS, dim]` of a head.
    fn head(&self, layer: usize, page: usize, head: usize) -> (&[f32], &[f32]) {
        let size = self.shape.head_dim * PAGE_TOKENS;
        self.at(layer, page)[2 * head * size..][..2 * size].split_at(size)
    }
}

/// Some rows of a span with the query heads that share a key head.
struct Task<'a> {
    span: &'a Span,
    /// From the span's first row.
    row: usize,
    rows: usize,
    kv_head: usize,
}

/// Attention of all rows of a batch; `qkv` holds rows of [`Heads::fused`] values, `out` gets rows of [`Heads::width`].
pub fn attend(
    level: Level,
    qkv: &[f32],
    heads: Heads,
    batch: &Batch,
    layer: usize,
    cache: &PagedCache,
    out: &mut [f32],
) {
    let outputs = Parts::new(out);
    let tasks: Vec<Task<'_>> = batch
        .spans
        .iter()
        .flat_map(|span| (0..span.rows).step_by(ROWS).map(move |row| (span, row)))
        .flat_map(|(span, row)| {
            let rows = ROWS.min(span.rows - row);
            (0..heads.kv).map(move |kv_head| Task { span, row, rows, kv_head })
        })
        .collect();
    together(tasks.len(), &|task| {
        let mut scratch = Scratch::new(tasks[task].rows * heads.query / heads.kv, heads.dim);
        one(level, &tasks[task], qkv, heads, batch, layer, cache, &mut scratch, &outputs);
    });
}

struct Scratch {
    /// `[queries, dim]`, scaled.
    queries: Vec<f32>,
    /// `[queries, PAGE_TOKENS]`.
    scores: Vec<f32>,
    /// `[queries, dim]`.
    sums: Vec<f32>,
    /// Of each query: the greatest score, and the sum of exponentials.
    most: Vec<f32>,
    mass: Vec<f32>,
}

impl Scratch {
    fn new(queries: usize, dim: usize) -> Self {
        Self {
            queries: vec![0.0; queries * dim],
            scores: vec![0.0; queries * PAGE_TOKENS],
            sums: vec![0.0; queries * dim],
            most: vec![0.0; queries],
            mass: vec![0.0; queries],
        }
    }
}

#[allow(clippy::too_many_arguments, reason = "the operands of one operation")]
fn one(
    level: Level,
    task: &Task<'_>,
    qkv: &[f32],
    heads: Heads,
    batch: &Batch,
    layer: usize,
    cache: &PagedCache,
    scratch: &mut Scratch,
    outputs: &Parts<f32>,
) {
    let (dim, group) = (heads.dim, heads.query / heads.kv);
    let queries = task.rows * group;
    let factor = 1.0 / (dim as f32).sqrt();
    for row in 0..task.rows {
        let from = (task.span.first + task.row + row) * heads.fused() + task.kv_head * group * dim;
        let to = &mut scratch.queries[row * group * dim..][..group * dim];
        to.copy_from_slice(&qkv[from..][..group * dim]);
        scale(level, to, factor);
    }
    scratch.sums[..queries * dim].fill(0.0);
    scratch.most[..queries].fill(f32::NEG_INFINITY);
    scratch.mass[..queries].fill(0.0);
    // The first row sees `seen` tokens, each later one a token more.
    let seen = task.span.past + task.row + 1;
    let last = seen + task.rows - 1;
    for (p, page) in batch.pages_of(task.span).iter().take(last.div_ceil(PAGE_TOKENS)).enumerate() {
        let (keys, values) = cache.head(layer, *page as usize, task.kv_head);
        let tokens = PAGE_TOKENS.min(last - p * PAGE_TOKENS);
        let scores = &mut scratch.scores[..queries * PAGE_TOKENS];
        scores.fill(0.0);
        let left = Strided { values: &scratch.queries, stride: dim };
        let into = StridedMut { values: scores, stride: PAGE_TOKENS };
        product(level, [queries, dim, PAGE_TOKENS], left, Strided { values: keys, stride: PAGE_TOKENS }, into);
        for query in 0..queries {
            let scores = &mut scratch.scores[query * PAGE_TOKENS..][..tokens];
            // Of what this row may see, so much lies on this page.
            let visible = (seen + query / group).saturating_sub(p * PAGE_TOKENS).min(tokens);
            let (scores, hidden) = scores.split_at_mut(visible);
            hidden.fill(0.0);
            if visible == 0 {
                continue;
            }
            let most = greatest(level, scores, scratch.most[query]);
            let kept = (scratch.most[query] - most).exp();
            scratch.mass[query] = scratch.mass[query] * kept + exp_and_sum(level, scores, most);
            if kept != 1.0 {
                scale(level, &mut scratch.sums[query * dim..][..dim], kept);
            }
            scratch.most[query] = most;
        }
        let left = Strided { values: &scratch.scores, stride: PAGE_TOKENS };
        let into = StridedMut { values: &mut scratch.sums, stride: dim };
        product(level, [queries, tokens, dim], left, Strided { values, stride: dim }, into);
    }
    for query in 0..queries {
        let sums = &mut scratch.sums[query * dim..][..dim];
        scale(level, sums, 1.0 / scratch.mass[query]);
        let row = task.span.first + task.row + query / group;
        let at = row * heads.width() + (task.kv_head * group + query % group) * dim;
        // SAFETY: tasks differ in rows or heads, so none takes what another does.
        #[allow(unsafe_code)]
        unsafe { outputs.part(at, dim) }.copy_from_slice(sums);
    }
}
