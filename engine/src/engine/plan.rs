//! Who begins, and which rows the next step has: one of each that generates, then prompts, oldest first. It refuses to know
//! what the rows come to.

use super::Engine;
use crate::gauges::StepReport;
use legwork_kernels::PAGE_TOKENS;
use legwork_model::Forward;
use std::collections::HashSet;

impl<M: Forward> Engine<M> {
    /// Begins requests from the head of the queue while they fit; gives how many.
    pub(super) fn admit(&mut self) -> usize {
        let before = self.running.len();
        while self.running.len() < self.limits.running_max && self.admit_head() {}
        self.running.len() - before
    }

    /// Begins the request at the head of the queue, if it fits: with the pages that it needs for what is there and what is
    /// reserved, all who run must still get theirs.
    fn admit_head(&mut self) -> bool {
        let reserve = self.limits.reserve_tokens;
        let Some(head) = self.waiting.front_mut() else { return false };
        self.memory.name_all(&head.tokens, &mut head.keys);
        let known: Vec<u32> = (0..head.pages_shareable())
            .map_while(|index| {
                let (key, parent, tokens) = head.page(index);
                self.memory.find(key, parent, tokens)
            })
            .collect();
        let of_nobody = known.iter().filter(|page| !self.memory.is_held(**page)).count();
        let fresh = head.pages_ahead(reserve) - known.len();
        let running = self.running.iter();
        let promised: usize = running.map(|other| other.pages_ahead(reserve).saturating_sub(other.pages.len())).sum();
        if fresh + of_nobody + promised > self.memory.available() {
            return false;
        }
        let Some(mut head) = self.waiting.pop_front() else { return false };
        for page in known {
            self.memory.hold(page);
            self.counted.prefix_hit_tokens += head.take_over(page) as u64;
        }
        while head.pages.len() < head.pages_shareable() {
            let (key, parent, tokens) = head.page(head.pages.len());
            let Some(page) = self.memory.restore(&mut self.model, key, parent, tokens) else { break };
            self.counted.restored_tokens += head.take_over(page) as u64;
        }
        if let Some(session) = head.session {
            self.memory.touch(session);
        }
        self.counted.prompt_tokens += if head.has_begun { 0 } else { head.prompt_tokens() as u64 };
        head.has_begun = true;
        self.running.push(head);
        true
    }

    /// Fills the batch of the next step.
    pub(super) fn plan(&mut self, report: &mut StepReport) {
        let set_back = self.counted.preemptions;
        self.rows.clear();
        self.rows.resize(self.running.len(), 0);
        let mut left = self.rows_max;
        self.plan_generating(&mut left);
        self.plan_prompts(&mut left);
        self.batch.clear();
        for (sequence, rows) in self.running.iter().zip(&self.rows).filter(|(_, rows)| **rows > 0) {
            let end = sequence.computed + rows;
            let is_last = end == sequence.tokens.len();
            self.batch.push(&sequence.tokens[sequence.computed..end], sequence.computed, &sequence.pages, is_last);
            let kind = if sequence.missing() == 1 { &mut report.decode_rows } else { &mut report.prefill_rows };
            *kind += rows;
        }
        report.preempted = (self.counted.preemptions - set_back) as usize;
    }

    /// One row for each with one token missing. There are fewer of them than rows.
    fn plan_generating(&mut self, left: &mut usize) {
        let mut index = 0;
        while index < self.running.len() {
            if self.running[index].missing() == 1 {
                self.rows[index] = self.rows_with_pages(index, 1);
                *left -= self.rows[index];
            }
            index += 1;
        }
    }

    /// What is left goes to prompts. A page that another computes in this step is waited for, and taken over when it is
    /// there: the other gets on with it in each step in which this one waits.
    fn plan_prompts(&mut self, left: &mut usize) {
        let mut in_hand = HashSet::new();
        let mut index = 0;
        while index < self.running.len() && *left > 0 {
            if self.running[index].missing() > 1 {
                self.take_over(index);
                let sequence = &self.running[index];
                let first = sequence.computed / PAGE_TOKENS;
                let begins_page = sequence.computed.is_multiple_of(PAGE_TOKENS) && first < sequence.pages_shareable();
                if !(begins_page && in_hand.contains(&sequence.keys[first])) {
                    let rows = sequence.missing().min(*left);
                    self.rows[index] = self.rows_with_pages(index, rows);
                    *left -= self.rows[index];
                    let sequence = &self.running[index];
                    let end = (sequence.computed + self.rows[index]).div_ceil(PAGE_TOKENS);
                    in_hand.extend(sequence.keys.iter().take(end).skip(first).copied());
                }
            }
            index += 1;
        }
    }

    /// Takes over pages that others have computed since.
    fn take_over(&mut self, index: usize) {
        let sequence = &mut self.running[index];
        while sequence.computed == sequence.pages.len() * PAGE_TOKENS
            && sequence.pages.len() < sequence.pages_shareable()
        {
            let (key, parent, tokens) = sequence.page(sequence.pages.len());
            let Some(page) = self.memory.find(key, parent, tokens) else { break };
            self.memory.hold(page);
            self.counted.prefix_hit_tokens += sequence.take_over(page) as u64;
        }
    }

    /// Gets pages for so many rows more of one that runs, at the cost of those that began after it; gives for how many rows
    /// there are pages. The oldest always gets all.
    fn rows_with_pages(&mut self, index: usize, rows: usize) -> usize {
        loop {
            let sequence = &self.running[index];
            let room = sequence.pages.len() * PAGE_TOKENS - sequence.computed;
            if room >= rows {
                return rows;
            }
            if let Some(page) = self.memory.take(&mut self.model) {
                self.running[index].pages.push(page);
            } else if index + 1 < self.running.len() {
                self.set_back_youngest();
            } else {
                return room;
            }
        }
    }
}
