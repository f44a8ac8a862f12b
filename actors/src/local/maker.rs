//! Makes an engine from a model's files: on the processor, on a card or cut over several, the first time and after a death. It
//! refuses to know who asks the engine.

use super::apart;
use super::device::{Place, Site};
use super::loading;
use super::opening::{self, LocalError, LocalSettings};
use legwork_engine::{Decode, Engine, Speech};
use legwork_model::{Forward, StreamDecoder, Tokenizer};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// An engine over whatever computes.
pub(super) type Local = Engine<Box<dyn Forward + Send>>;
/// Makes one.
pub(super) type Make = Box<dyn FnMut() -> Result<Local, LocalError> + Send>;

/// What one engine is made of.
pub(super) struct Maker {
    pub(super) path: PathBuf,
    pub(super) settings: LocalSettings,
    pub(super) tokenizer: Tokenizer,
    pub(super) site: Site,
}

/// Tries to make an engine anew on a card, and the pause between two: just after a failure, a card was seen to be there for
/// nobody (two H200s under a hypervisor).
const CARD_TRIES: usize = 6;
const CARD_PAUSE: Duration = Duration::from_secs(3);

impl Maker {
    /// Makes an engine after one that died.
    pub(super) fn make_again(&self) -> Result<Local, LocalError> {
        let tries = if matches!(self.site.0[..], [Place::Card(_), ..]) { CARD_TRIES } else { 1 };
        tried(tries, || std::thread::sleep(CARD_PAUSE), || self.make())
    }

    pub(super) fn make(&self) -> Result<Local, LocalError> {
        let model: Box<dyn Forward + Send> = match &self.settings.program {
            Some(program) if self.settings.is_apart() => {
                Box::new(apart::start(program, &self.path, &self.settings, &self.site)?)
            }
            _ => loading::model(&self.path, &self.settings, &self.site)?,
        };
        let speech: Arc<dyn Speech> = Arc::new(Spoken(self.tokenizer.clone()));
        Ok(Engine::new(model, Some(speech), opening::engine_limits(&self.settings))?)
    }
}

/// Tries so often at most, with a pause between two; gives the last error.
fn tried<T, E>(tries: usize, mut pause: impl FnMut(), mut make: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    for _ in 1..tries {
        if let Ok(made) = make() {
            return Ok(made);
        }
        pause();
    }
    make()
}

/// The tokenizer as the engine hears it: control tokens are no text.
struct Spoken(Tokenizer);

struct Hearing {
    decoder: Option<StreamDecoder>,
}

impl Speech for Spoken {
    fn decoder(&self) -> Box<dyn Decode> {
        Box::new(Hearing { decoder: Some(self.0.stream(true)) })
    }
}

impl Decode for Hearing {
    fn push(&mut self, id: u32) -> String {
        // An id that the tokenizer does not know (padding rows of a vocabulary) has no text.
        self.decoder.as_mut().and_then(|decoder| decoder.push(id).ok()).unwrap_or_default()
    }

    fn finish(&mut self) -> String {
        self.decoder.take().map(StreamDecoder::finish).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_tried_again_after_a_pause_and_not_for_ever() {
        let run = |tries: usize, succeeds_at: usize| {
            let (mut tried_so_often, mut pauses) = (0, 0);
            let made = tried(
                tries,
                || pauses += 1,
                || {
                    tried_so_often += 1;
                    if tried_so_often == succeeds_at { Ok(tried_so_often) } else { Err(tried_so_often) }
                },
            );
            (made, pauses)
        };
        assert_eq!(run(1, 2), (Err(1), 0));
        assert_eq!(run(6, 1), (Ok(1), 0));
        assert_eq!(run(6, 6), (Ok(6), 5));
        assert_eq!(run(6, 7), (Err(6), 5));
    }
}
