//! What computes the rows that a vector is made of: an encoder, or a decoder whose cache holds the texts of one step.
//!
//! It refuses to know texts and prompts.

use super::plan::Budget;
use crate::config::DecoderConfig;
use crate::decoder::{Decoder, DecoderSettings};
use crate::encoder::Encoder;
use crate::error::ModelError;
use crate::folder::{ModelFiles, ModelShape};
use crate::forward::Forward;
use legwork_kernels::{Batch, Cpu, PAGE_TOKENS};
use std::ops::Range;

/// Which rows of a text of so many tokens are wanted.
type Wanted<'a> = &'a dyn Fn(usize) -> Range<usize>;

pub(super) enum Body {
    Encoder(Box<Encoder>),
    Decoder(Box<Decoder<Cpu>>),
}

impl Body {
    pub(super) fn load(
        cpu: Cpu,
        files: &mut ModelFiles,
        tokens_max: usize,
        batch_tokens: usize,
    ) -> Result<Self, ModelError> {
        let weights = &mut files.weights;
        match &files.shape {
            // All rows of a text look at one another, so a step has room for the longest.
            ModelShape::Encoder(config) => {
                Ok(Body::Encoder(Box::new(Encoder::load(cpu, config, weights, batch_tokens.max(tokens_max))?)))
            }
            ModelShape::Decoder(config) => {
                // The head is of no use here, and files of embedders have none.
                let config = DecoderConfig { tied: true, ..config.clone() };
                let rows_max = batch_tokens.max(1);
                let pages = rows_max.max(tokens_max).div_ceil(PAGE_TOKENS);
                let settings = DecoderSettings { pages, rows_max, context_max: tokens_max };
                Ok(Body::Decoder(Box::new(Decoder::load(cpu, &config, weights, settings)?)))
            }
        }
    }

    /// Numbers of a row.
    pub(super) fn width(&self) -> usize {
        match self {
            Body::Encoder(encoder) => encoder.config().hidden,
            Body::Decoder(decoder) => decoder.config().hidden,
        }
    }

    pub(super) fn budget(&self) -> Budget {
        match self {
            Body::Encoder(encoder) => Budget { tokens: encoder.rows_max(), pages: usize::MAX },
            Body::Decoder(decoder) => {
                let limits = decoder.limits();
                Budget { tokens: limits.rows_max, pages: limits.pages }
            }
        }
    }

    /// The mean of the wanted rows of each text; zeros where none is wanted. The texts are within the budget, or one alone.
    pub(super) fn means(&mut self, texts: &[&[u32]], wanted: Wanted<'_>) -> Result<Vec<Vec<f32>>, ModelError> {
        let width = self.width();
        let mut means = Vec::with_capacity(texts.len());
        match self {
            Body::Encoder(encoder) => {
                let mut rows = encoder.states(texts)?;
                for text in texts {
                    let (of_text, rest) = rows.split_at(text.len() * width);
                    let wanted = wanted(text.len());
                    means.push(mean(&of_text[wanted.start * width..wanted.end * width], width));
                    rows = rest;
                }
            }
            Body::Decoder(decoder) => {
                let states = decode(decoder, texts, wanted)?;
                let mut rows = states.as_slice();
                for text in texts {
                    let (of_text, rest) = rows.split_at(wanted(text.len()).len() * width);
                    means.push(mean(of_text, width));
                    rows = rest;
                }
            }
        }
        Ok(means)
    }
}

/// The wanted rows of all texts, one behind the other.
fn decode(decoder: &mut Decoder<Cpu>, texts: &[&[u32]], wanted: Wanted<'_>) -> Result<Vec<f32>, ModelError> {
    let limits = decoder.limits();
    let pages: Vec<u32> = (0..limits.pages as u32).collect();
    let (mut batch, mut states) = (Batch::default(), Vec::new());
    if let [long] = texts
        && long.len() > limits.rows_max
    {
        let (wanted, mut some) = (wanted(long.len()), Vec::new());
        for (chunk, ids) in long.chunks(limits.rows_max).enumerate() {
            let past = chunk * limits.rows_max;
            batch.clear();
            batch.push(ids, past, &pages, false);
            let rows = wanted.start.max(past)..wanted.end.min(past + ids.len());
            batch.wanted = rows.map(|row| (row - past) as u32).collect();
            decoder.states(&batch, &mut some)?;
            states.append(&mut some);
        }
        return Ok(states);
    }
    let mut page = 0;
    for text in texts.iter().filter(|text| !text.is_empty()) {
        let first = batch.rows();
        batch.push(text, 0, &pages[page..], false);
        batch.wanted.extend(wanted(text.len()).map(|row| (first + row) as u32));
        page += text.len().div_ceil(PAGE_TOKENS);
    }
    if batch.rows() > 0 {
        decoder.states(&batch, &mut states)?;
    }
    Ok(states)
}

fn mean(rows: &[f32], width: usize) -> Vec<f32> {
    let mut sums = vec![0.0_f64; width];
    for row in rows.chunks_exact(width) {
        sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(*value));
    }
    let count = (rows.len() / width).max(1) as f64;
    sums.into_iter().map(|sum| (sum / count) as f32).collect()
}
