//! Where the model is computed: in a process of its own, this program again, which opens the card and makes it fail when its time
//! has come. A card that failed is lost to the process that used it, so this one only asks how much memory is free there.
//!
//! It refuses to know requests.

use legwork_kernels::cuda::{Cuda, Nvidia};
use legwork_kernels::{Batch, Cpu, DrawRules, HostBytes, OpsError};
use legwork_model::apart::{Apart, serve};
use legwork_model::{Decoder, DecoderSettings, Forward, ModelError, ModelFiles, ModelLimits, Next};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// The first argument of the process that computes.
pub(crate) const CHILD: &str = "--card-process";
/// A card is opened so often at most, and so long after it could not be.
const OPENINGS_MAX: usize = 6;
const OPENING_PAUSE: Duration = Duration::from_secs(3);

/// A model's folder and what computes it.
pub(super) struct Machine {
    pub(super) folder: PathBuf,
    /// The card's number; none for the processor.
    pub(super) card: Option<usize>,
    /// For asking what is free.
    pub(super) gauge: Option<Nvidia>,
    /// The process that computes.
    pub(super) process: Cell<Option<u32>>,
}

impl Machine {
    /// The model in a process of its own, whose machine fails after a while, if at all. A card that has just failed may be
    /// missing for some seconds: then it is looked for again.
    pub(super) fn model(&self, pages: usize, rows_max: usize, fails_after: Option<Duration>) -> Model {
        let card = self.card.map_or_else(|| "cpu".to_owned(), |card| card.to_string());
        let fails = fails_after.map_or_else(|| "never".to_owned(), |after| after.as_millis().to_string());
        let opening = format!("{card} {pages} {rows_max} {fails} {}", self.folder.display());
        let mut tries = 1;
        loop {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.arg(CHILD);
            match Apart::start(command, opening.as_bytes()) {
                Ok(model) => {
                    self.process.set(Some(model.process_id()));
                    return Model(Some(model));
                }
                Err(error) => {
                    println!("opening {card}, try {tries} of {OPENINGS_MAX}: {error}");
                    assert!(tries < OPENINGS_MAX, "{card} could not be opened: {error}");
                }
            }
            tries += 1;
            std::thread::sleep(OPENING_PAUSE);
        }
    }

    /// Tokens of its vocabulary.
    pub(super) fn vocabulary(&self) -> usize {
        ModelFiles::open(&self.folder).unwrap().decoder().unwrap().vocabulary
    }

    /// MB that are free on the card.
    pub(super) fn free_mb(&self) -> Option<f64> {
        self.gauge.as_ref()?.memory().ok().map(|(free, _)| free as f64 / 1e6)
    }
}

/// What the process that computes does.
pub(crate) fn child() -> ExitCode {
    let served = serve(std::io::stdin().lock(), std::io::stdout().lock(), |opening| {
        let text = String::from_utf8_lossy(opening);
        let [card, pages, rows, fails, folder] = text.splitn(5, ' ').collect::<Vec<_>>()[..] else {
            return Err(format!("not a card, pages, rows, a time and a folder: {text}"));
        };
        let (pages, rows_max) = (pages.parse().unwrap(), rows.parse().unwrap());
        let settings = DecoderSettings { pages, rows_max, context_max: usize::MAX };
        let due = fails.parse().ok().map(|after| Instant::now() + Duration::from_millis(after));
        open(card, Path::new(folder), settings, due).map_err(|error| error.to_string())
    });
    if served.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn open(
    card: &str,
    folder: &Path,
    settings: DecoderSettings,
    due: Option<Instant>,
) -> Result<Box<dyn Forward + Send>, ModelError> {
    let mut files = ModelFiles::open(folder)?;
    let config = files.decoder()?.clone();
    if let Ok(card) = card.parse() {
        let model = Decoder::load(Cuda::open(card, None)?, &config, &mut files.weights, settings)?;
        let fail: fn(&Decoder<Cuda>) -> Result<(), OpsError> = |model| model.ops().driver().inject_failure();
        return Ok(Box::new(Failing { model, due, fail }));
    }
    let model = Decoder::load(Cpu::new(), &config, &mut files.weights, settings)?;
    let fail: fn(&Decoder<Cpu>) -> Result<(), OpsError> = |_| Err(OpsError::Device("it was told to".to_owned()));
    Ok(Box::new(Failing { model, due, fail }))
}

/// A model whose machine fails in the first step after a moment.
struct Failing<M> {
    model: M,
    due: Option<Instant>,
    fail: fn(&M) -> Result<(), OpsError>,
}

impl<M> Failing<M> {
    fn when_due(&mut self) -> Result<(), ModelError> {
        if self.due.is_some_and(|due| due <= Instant::now()) {
            self.due = None;
            (self.fail)(&self.model)?;
        }
        Ok(())
    }
}

impl<M: Forward> Forward for Failing<M> {
    fn limits(&self) -> ModelLimits {
        self.model.limits()
    }

    fn forward(&mut self, batch: &Batch, logits: &mut Vec<f32>) -> Result<(), ModelError> {
        self.when_due()?;
        self.model.forward(batch, logits)
    }

    fn forward_and_draw(
        &mut self,
        batch: &Batch,
        rules: &[Option<DrawRules>],
        next: &mut Vec<Next>,
        logits: &mut Vec<f32>,
    ) -> Result<(), ModelError> {
        self.when_due()?;
        self.model.forward_and_draw(batch, rules, next, logits)
    }

    fn save_pages(&mut self, pages: &[u32]) -> Result<HostBytes, ModelError> {
        self.model.save_pages(pages)
    }

    fn load_pages(&mut self, pages: &[u32], bytes: &[u8]) -> Result<(), ModelError> {
        self.model.load_pages(pages, bytes)
    }
}

/// A model in its process, or none at all.
pub(super) struct Model(Option<Apart>);

impl Model {
    /// Holds the place of a model while there is none.
    pub(super) fn none() -> Self {
        Self(None)
    }

    fn model(&mut self) -> Result<&mut Apart, ModelError> {
        self.0.as_mut().ok_or_else(|| OpsError::Device("there is no model".to_owned()).into())
    }
}

impl Forward for Model {
    fn limits(&self) -> ModelLimits {
        let nothing = ModelLimits { vocabulary: 1, context: 1, pages: 1, rows_max: 8 };
        self.0.as_ref().map_or(nothing, Apart::limits)
    }

    fn forward(&mut self, batch: &Batch, logits: &mut Vec<f32>) -> Result<(), ModelError> {
        self.model()?.forward(batch, logits)
    }

    fn forward_and_draw(
        &mut self,
        batch: &Batch,
        rules: &[Option<DrawRules>],
        next: &mut Vec<Next>,
        logits: &mut Vec<f32>,
    ) -> Result<(), ModelError> {
        self.model()?.forward_and_draw(batch, rules, next, logits)
    }

    fn save_pages(&mut self, pages: &[u32]) -> Result<HostBytes, ModelError> {
        self.model()?.save_pages(pages)
    }

    fn load_pages(&mut self, pages: &[u32], bytes: &[u8]) -> Result<(), ModelError> {
        self.model()?.load_pages(pages, bytes)
    }
}
