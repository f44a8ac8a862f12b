//! The model's step and what becomes of it: tokens are drawn, full pages shared, ends said; a failed step ends those who
//! were in it. It refuses to know why rows are in the batch.

use super::{Engine, say};
use crate::gauges::StepReport;
use crate::request::{Output, Reason};
use crate::sampler::{NotFinite, sample};
use crate::sequence::Sequence;
use legwork_kernels::PAGE_TOKENS;
use legwork_model::Forward;
use std::collections::BTreeSet;

impl<M: Forward> Engine<M> {
    /// Computes the batch and gives out what became of it.
    pub(super) fn compute(&mut self, out: &mut Vec<Output>, report: &mut StepReport) {
        self.counted.steps += 1;
        self.counted.rows += self.batch.rows() as u64;
        let computed = self.model.forward(&self.batch, &mut self.logits).map_err(|error| error.to_string());
        let expected = self.batch.wanted.len() * self.model_limits.vocabulary;
        let checked = computed.and_then(|()| match self.logits.len() == expected {
            true => Ok(()),
            false => Err(format!("the model gave {} logits, expected {expected}", self.logits.len())),
        });
        match checked {
            Ok(()) => self.draw_all(out, report),
            Err(detail) => {
                self.fail_batch(&detail, out);
                report.failure = Some(detail);
            }
        }
    }

    fn draw_all(&mut self, out: &mut Vec<Output>, report: &mut StepReport) {
        let mut row = 0;
        let running = std::mem::take(&mut self.running);
        for (mut sequence, rows) in running.into_iter().zip(std::mem::take(&mut self.rows)) {
            let is_wanted = rows > 0 && sequence.computed + rows == sequence.tokens.len();
            let reason = match is_wanted {
                true => self.draw(&mut sequence, row, rows, out),
                false => {
                    self.advance(&mut sequence, rows);
                    None
                }
            };
            row += usize::from(is_wanted);
            report.drawn += usize::from(is_wanted && !matches!(reason, Some(Reason::Failed(_))));
            match reason {
                Some(reason) => self.end(sequence, reason, out),
                None => self.running.push(sequence),
            }
        }
    }

    /// Draws the next token of one from its row of logits; gives its end, if this is it.
    fn draw(&mut self, sequence: &mut Sequence, row: usize, rows: usize, out: &mut Vec<Output>) -> Option<Reason> {
        let vocabulary = self.model_limits.vocabulary;
        let logits = &self.logits[row * vocabulary..(row + 1) * vocabulary];
        let position = sequence.drawn() as u64;
        match sample(logits, &sequence.sampling, &sequence.seen, position, &mut self.scratch) {
            Ok(drawn) => {
                self.advance(sequence, rows);
                self.counted.generated_tokens += 1;
                let (text, reason) = sequence.hear(drawn.id);
                say(out, sequence.id, Some(drawn), text);
                reason
            }
            Err(not_finite) => Some(self.distrust(sequence, &not_finite)),
        }
    }

    /// So many rows more are computed: pages that became full are shared, and their names known for the tokens drawn, too.
    fn advance(&mut self, sequence: &mut Sequence, rows: usize) {
        let first = sequence.computed / PAGE_TOKENS;
        sequence.advance(rows);
        self.memory.name_all(&sequence.tokens, &mut sequence.keys);
        for index in first..(sequence.computed / PAGE_TOKENS).min(sequence.keys.len()) {
            let (key, parent, tokens) = sequence.page(index);
            sequence.pages[index] = self.memory.share(sequence.pages[index], key, parent, tokens);
        }
    }

    /// A row of logits that are no numbers may come from a page that holds none: whatever this request has read or written
    /// is not handed to others any more.
    fn distrust(&mut self, sequence: &Sequence, why: &NotFinite) -> Reason {
        self.memory.forget_copies_too(&sequence.pages.iter().copied().collect());
        Reason::Failed(format!("after {} tokens {why}", sequence.tokens.len()))
    }

    /// The step failed, and no page of its batch may be used: requests of the batch end, others that hold such a page begin
    /// again, and nobody finds these pages any more.
    fn fail_batch(&mut self, detail: &str, out: &mut Vec<Output>) {
        self.counted.failed_steps += 1;
        let unusable: BTreeSet<u32> = self.batch.pages.iter().copied().collect();
        let (mut again, mut failed) = (Vec::new(), Vec::new());
        let running = std::mem::take(&mut self.running);
        for (sequence, rows) in running.into_iter().zip(std::mem::take(&mut self.rows)) {
            if rows > 0 {
                failed.push(sequence);
            } else if sequence.pages.iter().any(|page| unusable.contains(page)) {
                again.push(sequence);
            } else {
                self.running.push(sequence);
            }
        }
        again.into_iter().rev().for_each(|sequence| self.set_back(sequence));
        for sequence in failed {
            self.end(sequence, Reason::Failed(detail.to_owned()), out);
        }
        self.memory.forget(&unusable);
    }
}
