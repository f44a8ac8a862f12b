//! What a process does that is not the first: its rank carries out orders as they come, and meets others through the first
//! process, until that says that the run is over.
//! It refuses to know what is ordered next. Checkpoints are found by their names within the run's own folder, and nowhere else.

use super::line::{Line, of_device, peer};
use super::message::{Making, Message, Over};
use crate::error::TrainingError;
use crate::rank::Rank;
use legwork_kernels::{Carrier, Member, OpsError, Reduce};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Rows of a pack at most that room is made for on somebody's word.
const ROWS_MAX: usize = 1 << 24;

/// What a process brings to the run.
pub struct Served<'s> {
    /// The connection to the first process.
    pub line: &'s Arc<Line>,
    /// Where the run's checkpoints are, as this process sees them.
    pub checkpoints: &'s Path,
    /// Its rank and the number of ranks, among which the model is cut.
    pub of_cut: [usize; 2],
    /// Its replica and the number of replicas.
    pub of_replicas: [usize; 2],
}

/// Carries out orders until the run is over. A rank that fails says so and waits for the end.
///
/// # Errors
/// The first process is gone without a word.
pub fn serve(
    served: &Served<'_>,
    make: &dyn Fn(Making, [Member; 2]) -> Result<Box<dyn Rank>, TrainingError>,
) -> Result<Over, TrainingError> {
    let Served { line, .. } = served;
    let mut rank: Option<Box<dyn Rank>> = None;
    loop {
        let order = match (line.heard(), line.over()) {
            (Ok(order), _) => order,
            (Err(_), Some(over)) => return Ok(over.clone()),
            (Err(error), None) => return Err(error),
        };
        let carried = catch_unwind(AssertUnwindSafe(|| served.carry_out(order, &mut rank, make)));
        let answer = match carried {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => Message::Failed(error.to_string()),
            Err(_) => Message::Failed("it panicked; its own output says how".to_owned()),
        };
        if matches!(answer, Message::Failed(_)) {
            // Others that wait for it in a sum on their cards are woken by its leaving.
            rank = None;
        }
        // Who is gone by now is told of at the next look.
        let _is_seen_above = line.send(&answer);
    }
}

impl Served<'_> {
    fn carry_out(
        &self,
        order: Message,
        rank: &mut Option<Box<dyn Rank>>,
        make: &dyn Fn(Making, [Member; 2]) -> Result<Box<dyn Rank>, TrainingError>,
    ) -> Result<Message, TrainingError> {
        if let Message::Make(making) = order {
            // What there was is given up before room is made anew.
            *rank = None;
            *rank = Some(self.made(making, make)?);
            return Ok(Message::Done);
        }
        let Some(rank) = rank else {
            return Err(peer(self.line.who(), format!("expected an order to make a rank first, got {}", order.name())));
        };
        Ok(match order {
            Message::Step(packs, update) => Message::Stepped(rank.step(&packs, &update)?),
            Message::Evaluate(packs) => Message::Evaluated(rank.evaluate(&packs)?),
            Message::Save(name) => rank.save(&self.folder(&name)?).map(|()| Message::Done)?,
            Message::Restore(name) => rank.restore(&self.folder(&name)?).map(|()| Message::Done)?,
            other => return Err(peer(self.line.who(), format!("expected an order, got {}", other.name()))),
        })
    }

    fn made(
        &self,
        making: Making,
        make: &dyn Fn(Making, [Member; 2]) -> Result<Box<dyn Rank>, TrainingError>,
    ) -> Result<Box<dyn Rank>, TrainingError> {
        if making.settings.rows_max > ROWS_MAX {
            let problem = format!("expected packs of at most {ROWS_MAX} rows, got {}", making.settings.rows_max);
            return Err(peer(self.line.who(), problem));
        }
        let member = |group: usize, [rank, ranks]: [usize; 2]| {
            Member::carried(Box::new(ThroughLine { line: Arc::clone(self.line), group }), rank, ranks)
        };
        make(making, [member(0, self.of_cut), member(1, self.of_replicas)])
    }

    fn folder(&self, name: &str) -> Result<PathBuf, TrainingError> {
        folder_within(self.checkpoints, name).map_err(|problem| peer(self.line.who(), problem))
    }
}

/// A folder of the run's checkpoints, which must be there: the first process made it.
fn folder_within(checkpoints: &Path, name: &str) -> Result<PathBuf, String> {
    let mut parts = Path::new(name).components();
    let is_name = matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name);
    if !is_name {
        return Err(format!("expected the name of a checkpoint, got {name:?}"));
    }
    let folder = checkpoints.join(name);
    if folder.is_dir() {
        return Ok(folder);
    }
    Err(format!(
        "{} is not there, where rank 0 made it; give --out in a folder that all processes of the run see",
        folder.display()
    ))
}

/// Calls go to the first process, which has a member of each group in this one's place.
#[derive(Debug)]
struct ThroughLine {
    line: Arc<Line>,
    group: usize,
}

impl Carrier for ThroughLine {
    fn meet(&self, op: &str, reduce: Reduce, values: &mut Vec<f64>) -> Result<(), OpsError> {
        self.check()?;
        let call = Message::Meet { group: self.group, op: op.to_owned(), reduce, values: std::mem::take(values) };
        match self.line.ask(&call).map_err(|error| of_device(&error))? {
            Message::Met(met) => *values = met,
            Message::Failed(why) => return Err(OpsError::Device(why)),
            other => return Err(OpsError::Device(format!("expected what came of {op}, got {}", other.name()))),
        }
        Ok(())
    }

    fn check(&self) -> Result<(), OpsError> {
        self.line.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_a_name_within_the_runs_own_folder_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let checkpoints = place.path().join("checkpoints");
        for folder in ["step-1", "step-1/deeper"] {
            std::fs::create_dir_all(checkpoints.join(folder)).unwrap();
        }
        assert_eq!(folder_within(&checkpoints, "step-1"), Ok(checkpoints.join("step-1")));
        for name in ["..", ".", "", "/", "/tmp", "../checkpoints", "step-1/deeper", "step-1/..", "./step-1", "step-1/"]
        {
            let told = folder_within(&checkpoints, name).unwrap_err();
            assert!(told.contains("expected the name of a checkpoint"), "{name:?}: {told}");
        }
        assert!(folder_within(&checkpoints, "step-2").unwrap_err().contains("give --out in a folder that all"));
    }
}
