//! What a coordinator may lend to workers over an episode: a lease per brief, reserved whole before the worker
//! starts, and the unspent part returned with its report.

use crate::budget::{Amount, Lease, Reservation};
use crate::profile::Profile;
use crate::worker::{Brief, Worker, WorkerReport};

/// The purse for all workers of one episode.
#[derive(Clone, Debug)]
pub struct WorkersPurse {
    lease: Lease,
    full: Amount,
    turn_tokens_min: u64,
    briefs_left: u32,
    at_once_max: u32,
    lent: Vec<Reservation>,
}

impl WorkersPurse {
    /// A full purse by this profile. Turns, time and money of workers are bounded by the number of briefs.
    pub fn new(profile: &Profile) -> Self {
        let settings = &profile.coordinator;
        let full = Worker::full_lease(profile);
        let all = Amount { tokens: settings.workers_tokens_max, ..Amount::UNLIMITED };
        Self {
            lease: Lease::new(all),
            full,
            turn_tokens_min: u64::from(profile.worker.turn_tokens_min.max(1)),
            briefs_left: settings.briefs_max,
            at_once_max: settings.briefs_at_once_max,
            lent: Vec::new(),
        }
    }

    /// Lends for as many of the briefs as the purse and the limits allow, in order; returns them with the number
    /// that was refused. The last lease may be smaller than a full one.
    pub fn lend(&mut self, texts: Vec<String>) -> (Vec<Brief>, u32) {
        let asked = u32::try_from(texts.len()).unwrap_or(u32::MAX);
        let mut briefs = Vec::new();
        for text in texts.into_iter().take(self.at_once_max as usize) {
            let lease = Amount { tokens: self.full.tokens.min(self.lease.left().tokens), ..self.full };
            if self.briefs_left == 0 || lease.tokens < self.turn_tokens_min {
                break;
            }
            let reserve = Amount { tokens: lease.tokens, ..Amount::default() };
            let Ok(reservation) = self.lease.reserve(reserve) else { break };
            self.lent.push(reservation);
            self.briefs_left -= 1;
            briefs.push(Brief { text, lease });
        }
        let given = u32::try_from(briefs.len()).unwrap_or(u32::MAX);
        (briefs, asked - given)
    }

    /// Takes the unspent part of each lease back. Reports come in the order of the briefs.
    pub fn take_back(&mut self, reports: &[WorkerReport]) {
        for (reservation, report) in self.lent.drain(..).zip(reports) {
            self.lease.settle(reservation, Amount { tokens: report.spent.tokens, ..Amount::default() });
        }
    }

    /// Briefs that may still be given.
    pub fn briefs_left(&self) -> u32 {
        self.briefs_left
    }

    /// What all workers have spent, in tokens.
    pub fn spent_tokens(&self) -> u64 {
        self.lease.spent().tokens
    }
}
