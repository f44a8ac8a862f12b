//! A model in a process of its own. A card that has failed is lost to the whole process that used it, however it lets go: only
//! another process can open it again. So whoever computes on a card does so apart, and its end is an error of the device to
//! the engine here, which has another one started; what is known of requests and pages stays on this side.
//!
//! It refuses to know what a card is, and which program serves a model.

mod child;
mod wire;

pub use child::serve;

use crate::error::ModelError;
use crate::forward::{Forward, ModelLimits, Next};
use legwork_kernels::{Batch, DrawRules, HostBytes, OpsError};
use std::io::{BufReader, BufWriter};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use wire::{Frame, Kind};

/// A model in a process of its own, which ends with this.
pub struct Apart {
    child: Child,
    ask: BufWriter<ChildStdin>,
    answers: BufReader<ChildStdout>,
    limits: ModelLimits,
    /// Why nothing more can be asked.
    ended: Option<String>,
}

impl Apart {
    /// Starts a program that serves a model as [`serve`] does, and has it open the one that `opening` names in its words.
    ///
    /// # Errors
    /// [`ModelError::Process`]: a program that does not start, or does not open the model, with its reason.
    pub fn start(mut command: Command, opening: &[u8]) -> Result<Self, ModelError> {
        let failed = |detail: String| ModelError::Process { detail };
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // A Ctrl-C is meant for this process, which still needs the model while it drains.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let started = command.spawn();
        let mut child =
            started.map_err(|error| failed(format!("{}: {error}", command.get_program().to_string_lossy())))?;
        let (Some(ask), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed("it has no pipes".to_owned()));
        };
        let limits = ModelLimits { vocabulary: 0, context: 0, pages: 0, rows_max: 0 };
        let (ask, answers) = (BufWriter::new(ask), BufReader::new(answers));
        let mut apart = Self { child, ask, answers, limits, ended: None };
        let answer = apart.ask(Kind::Open, &[], opening, Kind::Opened).map_err(|error| failed(error.to_string()))?;
        apart.limits = wire::take_limits(&answer.words).ok_or_else(|| failed("it told no limits".to_owned()))?;
        Ok(apart)
    }

    /// The number of its process, by which a system tells what it holds.
    pub fn process_id(&self) -> u32 {
        self.child.id()
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
