//! Makes an engine from a model's files: on the processor or on a card, the first time and after a death. It refuses to know
//! who asks the engine.

use super::apart;
use super::device::Place;
use super::memory::MemoryPlan;
use super::opening::{self, LocalError, LocalSettings};
use legwork_engine::{Decode, Engine, Speech};
use legwork_kernels::Cpu;
use legwork_model::{Decoder, DecoderConfig, DecoderSettings, Forward, ModelFiles, StreamDecoder, Tokenizer};
use std::path::{Path, PathBuf};
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
    pub(super) place: Place,
}

/// Tries to make an engine anew on a card, and the pause between two: just after a failure, a card was seen to be there for
/// nobody (two H200s under a hypervisor).
const CARD_TRIES: usize = 6;
const CARD_PAUSE: Duration = Duration::from_secs(3);

impl Maker {
    /// Makes an engine after one that died.
    pub(super) fn make_again(&self) -> Result<Local, LocalError> {
        let tries = if matches!(self.place, Place::Card(_)) { CARD_TRIES } else { 1 };
        tried(tries, || std::thread::sleep(CARD_PAUSE), || self.make())
    }

    pub(super) fn make(&self) -> Result<Local, LocalError> {
        let model: Box<dyn Forward + Send> = match &self.settings.program {
            Some(program) if self.settings.is_apart() => {
                Box::new(apart::start(program, &self.path, &self.settings, self.place)?)
            }
            _ => model(&self.path, &self.settings, self.place)?,
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

/// Loads a model's weights to where it computes, in this process.
pub(super) fn model(
    path: &Path,
    settings: &LocalSettings,
    place: Place,
) -> Result<Box<dyn Forward + Send>, LocalError> {
    let mut files = ModelFiles::open(path)?;
    let config = files.decoder()?.clone();
    let loading = Loading { path, settings, place, config: &config };
    match place {
        Place::Processor => {
            let plan = MemoryPlan::on_processor(&config, settings)?;
            let laid_out = loading.laid_out(&plan);
            Ok(Box::new(Decoder::load(Cpu::new(), &config, &mut files.weights, laid_out)?))
        }
        Place::Card(number) => loading.on_card(number, &mut files),
    }
}

/// What is loaded, and where to.
struct Loading<'a> {
    path: &'a Path,
    settings: &'a LocalSettings,
    place: Place,
    config: &'a DecoderConfig,
}

impl Loading<'_> {
    #[cfg(feature = "cuda")]
    fn on_card(&self, number: usize, files: &mut ModelFiles) -> Result<Box<dyn Forward + Send>, LocalError> {
        let failed = |error: legwork_kernels::OpsError| LocalError::Model(error.into());
        let card = legwork_kernels::Cuda::open(number, self.settings.kernels.clone()).map_err(failed)?;
        let (free, _) = card.driver().memory().map_err(|error| failed(error.into()))?;
        let plan = MemoryPlan::on_card(self.config, self.settings, free as u64)?;
        let laid_out = self.laid_out(&plan);
        Ok(Box::new(Decoder::load(card, self.config, &mut files.weights, laid_out)?))
    }

    #[cfg(not(feature = "cuda"))]
    fn on_card(&self, number: usize, _files: &mut ModelFiles) -> Result<Box<dyn Forward + Send>, LocalError> {
        Err(LocalError::BuiltWithoutCards { device: super::device::Device::Cards(vec![number]) })
    }

    /// Says where the memory goes, and gives what the decoder is told of it.
    fn laid_out(&self, plan: &MemoryPlan) -> DecoderSettings {
        let model = opening::name_of(self.path);
        tracing::info!(%model, device = %self.place, %plan, "a model is loaded");
        let context = self.config.context.min(self.settings.context);
        if plan.tokens() < context {
            let tokens = plan.tokens();
            tracing::warn!(%model, device = %self.place, context, tokens, "the cache holds less than one whole context");
        }
        DecoderSettings { pages: plan.pages, rows_max: self.settings.step_rows(), context_max: self.settings.context }
    }
}

/// Cards of NVIDIA here; none where the program was built without them.
pub(crate) fn cards() -> Option<usize> {
    #[cfg(feature = "cuda")]
    let cards = Some(legwork_kernels::cuda::Nvidia::count());
    #[cfg(not(feature = "cuda"))]
    let cards = None;
    cards
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
