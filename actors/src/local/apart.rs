//! A local model in a process of its own: this program again, told which model it is to open and where. It refuses to know how
//! the two processes talk.

use super::device::{Place, Site};
use super::loading;
use super::opening::{LocalError, LocalSettings};
use legwork_model::apart::{self, Apart};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a model's process is told first.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Opening {
    path: PathBuf,
    settings: LocalSettings,
    /// Where: a card's number, or none for the processor, for each rank.
    site: Vec<Option<usize>>,
}

/// Starts a program that serves a model as [`serve`] does.
pub(super) fn start(program: &Path, path: &Path, settings: &LocalSettings, site: &Site) -> Result<Apart, LocalError> {
    let number = |place: &Place| match place {
        Place::Card(number) => Some(*number),
        Place::Processor => None,
    };
    let site = site.0.iter().map(number).collect();
    let opening = Opening { path: path.to_path_buf(), settings: settings.clone(), site };
    let opening = serde_json::to_vec(&opening).map_err(|error| LocalError::Thread(error.to_string()))?;
    let mut command = Command::new(program);
    command.arg(super::PROCESS_VERB);
    Ok(Apart::start(command, &opening)?)
}

/// Serves a model to the process that started this one, by its pipes.
///
/// # Errors
/// A pipe that broke in the middle of a message. That nobody asks any more is no error.
pub fn serve(asks: impl Read, answers: impl Write) -> io::Result<()> {
    apart::serve(asks, answers, |opening| {
        let opening: Opening = serde_json::from_slice(opening)
            .map_err(|error| format!("it was told something else than a model: {error}"))?;
        let place = |number: Option<usize>| number.map_or(Place::Processor, Place::Card);
        let site = Site(opening.site.into_iter().map(place).collect());
        loading::model(&opening.path, &opening.settings, &site).map_err(|error| error.to_string())
    })
}
