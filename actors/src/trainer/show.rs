//! Whoever looks on hears each record once it is kept: a queue to the terminal. A looker-on who is slow is waited for, one who
//! has gone is not.
//! It refuses to know what they make of it.

use super::record::Record;
use std::path::Path;
use tokio::sync::mpsc;

/// Records on their way to whoever looks on.
pub const SHOWN_MAX: usize = 256;

/// The lookers-on of a run.
#[derive(Default)]
pub struct Show {
    /// Hears each record.
    pub records: Option<mpsc::Sender<Record>>,
}

impl Show {
    pub(super) fn tell(&mut self, record: Record) {
        if let Some(records) = &self.records
            && records.blocking_send(record).is_err()
        {
            self.records = None;
        }
    }

    /// Records of steps after the checkpoint are no more.
    pub(super) fn rewound(&mut self, _folder: &Path) {}
}
