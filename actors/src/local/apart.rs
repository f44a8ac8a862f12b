//! A model in a process of its own. A card that has failed is lost to the whole process that used it, however it lets go: only
//! another process can open it again. So whoever computes on a card does so apart, and its end is an error of the device to
//! the engine here, which has another one started; what is known of requests and pages stays on this side.
//!
//! It refuses to know what a card is.

mod child;
mod wire;

pub use child::serve;

use super::device::Place;
use super::opening::{LocalError, LocalSettings};
use legwork_kernels::{Batch, DrawRules, HostBytes, OpsError};
use legwork_model::{Forward, ModelError, ModelLimits, Next};
use serde::{Deserialize, Serialize};
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use wire::{Frame, Kind};

/// What a model's process is told first.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Opening {
    path: PathBuf,
    settings: LocalSettings,
    /// The card's number; none for the processor.
    card: Option<usize>,
}

/// A model in a process of its own, which ends with this.
pub(super) struct Apart {
    child: Child,
    ask: BufWriter<ChildStdin>,
    answers: BufReader<ChildStdout>,
    limits: ModelLimits,
    /// Why nothing more can be asked.
    ended: Option<String>,
}

impl Apart {
    /// Starts a program that serves a model as [`serve`] does, and has it open one.
    pub(super) fn start(
        program: &Path,
        path: &Path,
        settings: &LocalSettings,
        place: Place,
    ) -> Result<Self, LocalError> {
        let failed = |what: &str, error: &dyn std::fmt::Display| LocalError::Process(format!("{what}: {error}"));
        let mut command = Command::new(program);
        command.arg(super::PROCESS_VERB).stdin(Stdio::piped()).stdout(Stdio::piped());
        // A Ctrl-C is meant for this process, which still needs the model while it drains.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(|error| failed(&program.display().to_string(), &error))?;
        let (Some(ask), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(LocalError::Process("it has no pipes".to_owned()));
        };
        let limits = ModelLimits { vocabulary: 0, context: 0, pages: 0, rows_max: 0 };
        let (ask, answers) = (BufWriter::new(ask), BufReader::new(answers));
        let mut apart = Self { child, ask, answers, limits, ended: None };
        let card = match place {
            Place::Card(number) => Some(number),
            Place::Processor => None,
        };
        let opening = Opening { path: path.to_path_buf(), settings: settings.clone(), card };
        let opening = serde_json::to_vec(&opening).map_err(|error| failed("its settings", &error))?;
        let answer = apart.ask(Kind::Open, &[], &opening, Kind::Opened)?;
        let limits = wire::take_limits(&answer.words);
        apart.limits = limits.ok_or_else(|| LocalError::Process("it told no limits".to_owned()))?;
        Ok(apart)
    }

    /// Asks, and waits for the answer. After any failure of the process itself there is no further one.
    fn ask(&mut self, kind: Kind, words: &[u32], bytes: &[u8], expected: Kind) -> Result<Frame, ModelError> {
        if let Some(why) = &self.ended {
            return Err(lost(why));
        }
        let asked = Frame::write(kind, words, bytes, &mut self.ask).and_then(|()| Frame::read(&mut self.answers));
        match asked {
            Ok(frame) if frame.kind == expected => Ok(frame),
            Ok(frame) if frame.kind == Kind::Failed => {
                let why = String::from_utf8_lossy(&frame.bytes).into_owned();
                // Whatever else could not be done was refused, and the model goes on.
                let device_failed = frame.words.first() == Some(&1);
                match device_failed {
                    true => Err(self.end(&why)),
                    false => {
                        Err(OpsError::Shape { op: "model", expected: "what it can do".to_owned(), got: why }.into())
                    }
                }
            }
            Ok(frame) => Err(self.end(&format!("it answered {:?}, expected {expected:?}", frame.kind))),
            Err(error) => Err(self.end(&error.to_string())),
        }
    }

    /// Ends the process.
    fn end(&mut self, why: &str) -> ModelError {
        let _ = self.child.kill();
        let how = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let why = format!("the process of the model has ended ({how}): {why}");
        self.ended = Some(why.clone());
        lost(&why)
    }
}

fn lost(why: &str) -> ModelError {
    OpsError::Device(why.to_owned()).into()
}

impl Drop for Apart {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Forward for Apart {
    fn limits(&self) -> ModelLimits {
        self.limits
    }

    fn forward(&mut self, batch: &Batch, logits: &mut Vec<f32>) -> Result<(), ModelError> {
        let mut words = Vec::new();
        wire::put_batch(batch, &mut words);
        let answer = self.ask(Kind::Forward, &words, &[], Kind::Done)?;
        *logits = wire::floats(&answer.bytes).ok_or_else(|| lost("logits that are cut"))?;
        Ok(())
    }

    fn forward_and_draw(
        &mut self,
        batch: &Batch,
        rules: &[Option<DrawRules>],
        next: &mut Vec<Next>,
        logits: &mut Vec<f32>,
    ) -> Result<(), ModelError> {
        let mut words = Vec::new();
        wire::put_batch(batch, &mut words);
        wire::put_rules(rules, &mut words);
        let answer = self.ask(Kind::Draw, &words, &[], Kind::Done)?;
        *next = wire::take_next(&answer.words).ok_or_else(|| lost("draws that are cut"))?;
        *logits = wire::floats(&answer.bytes).ok_or_else(|| lost("logits that are cut"))?;
        Ok(())
    }

    fn save_pages(&mut self, pages: &[u32]) -> Result<HostBytes, ModelError> {
        Ok(self.ask(Kind::Save, pages, &[], Kind::Done)?.bytes.into())
    }

    fn load_pages(&mut self, pages: &[u32], bytes: &[u8]) -> Result<(), ModelError> {
        self.ask(Kind::Load, pages, bytes, Kind::Done).map(drop)
    }
}
