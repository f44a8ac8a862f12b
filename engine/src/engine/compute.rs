//! The model's step and what becomes of it: tokens are drawn, full pages shared, ends said; a failed step ends those who
//! were in it. It refuses to know why rows are in the batch.

use super::{Engine, say};
use crate::gauges::StepReport;
use crate::request::{Output, Reason};
use crate::sampler::{NotFinite, sample, told};
use crate::sequence::Sequence;
use legwork_kernels::PAGE_TOKENS;
use legwork_model::{Forward, Next};
use std::collections::BTreeSet;

impl<M: Forward> Engine<M> {
    /// Computes the batch and gives out what became of it.
    pub(super) fn compute(&mut self, out: &mut Vec<Output>, report: &mut StepReport) {
        self.counted.steps += 1;
        self.counted.rows += self.batch.rows() as u64;
        self.rules.clear();
        let wanted = self.running.iter().zip(&self.rows).filter(|(sequence, rows)| sequence.is_wanted(**rows));
        self.rules.extend(wanted.map(|(sequence, _)| sequence.sampling.rules_at(sequence.drawn() as u64)));
        let computed = self.model.forward_and_draw(&self.batch, &self.rules, &mut self.next, &mut self.logits);
        let checked = computed.map_err(|error| (error.is_of_device(), error.to_string()));
        match checked.and_then(|()| self.check_next().map_err(|detail| (false, detail))) {
            Ok(()) => self.draw_all(out, report),
            Err((device, detail)) => {
                self.fail_batch(&detail, out);
                (report.failure, report.device_failed) = (Some(detail), device);
            }
        }
    }

    /// That the model told of each wanted row, and gave all logits that it says it gave.
    fn check_next(&self) -> Result<(), String> {
        let (wanted, vocabulary) = (self.batch.wanted.len(), self.model_limits.vocabulary);
        if self.next.len() != wanted {
            return Err(format!("the model told of {} rows, expected {wanted}", self.next.len()));
        }
        let on_host = self.next.iter().filter(|next| matches!(next, Next::Logits(_))).count();
        let expected = on_host * vocabulary;
        if self.logits.len() != expected {
            return Err(format!("the model gave {} logits, expected {expected}", self.logits.len()));
        }
        let known = |next: &Next| match next {
            Next::Logits(row) => *row < on_host,
            Next::Drawn(drawn) => (drawn.id as usize) < vocabulary,
        };
        match self.next.iter().position(|next| !known(next)) {
            None => Ok(()),
            Some(row) => {
                Err(format!("the model gave {:?} for row {row}, expected one of {vocabulary} tokens", self.next[row]))
            }
        }
    }

    fn draw_all(&mut self, out: &mut Vec<Output>, report: &mut StepReport) {
        let mut row = 0;
        let running = std::mem::take(&mut self.running);
        for (mut sequence, rows) in running.into_iter().zip(std::mem::take(&mut self.rows)) {
            let is_wanted = sequence.is_wanted(rows);
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
        let position = sequence.drawn() as u64;
        let drawn = match self.next[row] {
            Next::Drawn(drawn) => Ok(told(&drawn, &sequence.sampling)),
            Next::Logits(at) => {
                let logits = &self.logits[at * vocabulary..(at + 1) * vocabulary];
                sample(logits, &sequence.sampling, &sequence.seen, position, &mut self.scratch)
            }
        };
        match drawn {
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
