//! Whoever looks on hears each record once it is kept: a queue to the terminal, and TensorBoard's files. A looker-on who is slow
//! is waited for, one who has gone is not. TensorBoard's files are only a view: they are made anew from the records when steps
//! are taken back, and a disk that has no room for them ends them and not the run.
//! It refuses to know what they make of it.

use super::folder::read_records;
use super::record::Record;
use legwork_training::TrainingError;
use legwork_training::tensorboard::EventWriter;
use std::path::{Path, PathBuf};
use tokio::sync::mpsc;

/// Records on their way to whoever looks on.
pub const SHOWN_MAX: usize = 256;
/// The machine's name in the files: nobody who is given a run needs to know it.
const HOST: &str = "legwork";

/// The lookers-on of a run.
#[derive(Debug, Default)]
pub struct Show {
    /// Hears each record.
    pub records: Option<mpsc::Sender<Record>>,
    /// Where TensorBoard's files are; this folder is the trainer's own.
    pub tensorboard: Option<PathBuf>,
    /// Begun at the first rewinding, which is before the first record.
    writer: Option<EventWriter>,
}

impl Show {
    /// Lookers-on.
    pub fn new(records: Option<mpsc::Sender<Record>>, tensorboard: Option<PathBuf>) -> Self {
        Self { records, tensorboard, writer: None }
    }

    pub(super) fn tell(&mut self, record: Record) {
        if let Some(writer) = &mut self.writer
            && let Err(error) = write(writer, &record)
        {
            given_up(&error);
            self.writer = None;
        }
        if let Some(records) = &self.records
            && records.blocking_send(record).is_err()
        {
            self.records = None;
        }
    }

    /// Records of steps after the checkpoint are no more.
    pub(super) fn rewound(&mut self, run: &Path, at_ms: u64) {
        self.writer = None;
        if let Some(folder) = &self.tensorboard {
            match begin(folder, run, at_ms) {
                Ok(writer) => self.writer = Some(writer),
                Err(error) => given_up(&*error),
            }
        }
    }
}

fn begin(folder: &Path, run: &Path, at_ms: u64) -> Result<EventWriter, Box<dyn std::error::Error>> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let mut writer = EventWriter::create(folder, seconds(at_ms), HOST)?;
    for record in read_records(run)?.records {
        write(&mut writer, &record)?;
    }
    Ok(writer)
}

fn write(writer: &mut EventWriter, record: &Record) -> Result<(), TrainingError> {
    let scalars: Vec<(&str, f64)> = match record {
        Record::Step(step) => {
            let figures = [
                ("train/loss", step.loss),
                ("train/learning_rate", Some(step.rate)),
                ("train/grad_norm", step.grad_norm),
                ("train/tokens_per_s", step.tokens_per_s()),
                ("train/mfu", step.mfu),
            ];
            figures.into_iter().filter_map(|(tag, figure)| Some((tag, figure?))).collect()
        }
        Record::Evaluation { loss: Some(loss), .. } => vec![("eval/loss", *loss)],
        _ => return Ok(()),
    };
    let scalars: Vec<(&str, f32)> = scalars.into_iter().map(|(tag, figure)| (tag, figure as f32)).collect();
    writer.scalars(record.step(), seconds(record.at_ms()), &scalars)
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}

fn given_up(error: &dyn std::error::Error) {
    tracing::warn!("TensorBoard's files are left out from here on: {error}");
}

#[cfg(test)]
mod tests {
    use super::super::{StepRecord, TrainingFolder, TrainingManifest};
    use super::*;

    fn step(number: u64) -> Record {
        Record::Step(StepRecord {
            step: number,
            updates: number,
            loss: Some(2.5),
            rate: 1e-5,
            grad_norm: None,
            updated: false,
            tokens: 10,
            supervised: 5,
            padding: 0,
            took_ms: 20,
            flops: None,
            mfu: None,
            at_ms: 1_000 * number,
        })
    }

    #[test]
    fn steps_that_were_taken_back_are_in_no_file_of_tensorboard() {
        let place = tempfile::tempdir().unwrap();
        let run = place.path().join("run");
        let manifest = TrainingManifest::new("a".to_owned(), 1, "0".to_owned());
        let mut folder = TrainingFolder::create(&run, &manifest).unwrap();
        let board = run.join("tensorboard");
        let mut show = Show::new(None, Some(board.clone()));
        show.rewound(&run, 1_000);
        for number in 1..=3 {
            folder.append(&step(number)).unwrap();
            show.tell(step(number));
        }
        let bytes = |place: &Path| -> Vec<Vec<u8>> {
            let entries = std::fs::read_dir(place).unwrap().flatten();
            entries.map(|entry| std::fs::read(entry.path()).unwrap()).collect()
        };
        let three = bytes(&board);
        folder.rewind(2, None).unwrap();
        show.rewound(&run, 1_000);
        let two = bytes(&board);
        assert_eq!((three.len(), two.len()), (1, 1), "one file at a time");
        assert!(two[0].len() < three[0].len() && three[0].starts_with(&two[0]));
        show.tell(step(3));
        assert_eq!(bytes(&board), three);
    }

    #[test]
    fn a_folder_that_cannot_be_written_ends_the_view_and_not_the_run() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("board"), "a file").unwrap();
        let (records, mut heard) = mpsc::channel(4);
        let mut show = Show::new(Some(records), Some(place.path().join("board")));
        show.rewound(place.path(), 1_000);
        show.tell(step(1));
        assert_eq!(heard.try_recv().unwrap(), step(1));
        drop(heard);
        show.tell(step(2));
        assert!(show.records.is_none(), "nobody looks on any more");
    }
}
