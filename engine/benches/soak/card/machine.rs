//! Where the model is computed: opening it, making it fail, and a model that fails when it is told to where the machine itself
//! cannot. It refuses to know requests.

use legwork_kernels::{Batch, DrawRules, HostBytes, Ops, OpsError};
use legwork_model::{Decoder, DecoderSettings, Forward, ModelError, ModelFiles, ModelLimits, Next};
use std::cell::Cell;
use std::path::PathBuf;

/// A model's folder and what computes it.
pub(super) struct Machine<B: Ops> {
    pub(super) folder: PathBuf,
    pub(super) open: fn() -> B,
    /// Makes it fail; false where it cannot, and the model then says that it did.
    pub(super) fail: fn(&B) -> bool,
    /// MB that are free on it.
    pub(super) free_mb: fn(&B) -> Option<f64>,
}

impl<B: Ops> Machine<B> {
    /// The model, opened anew.
    pub(super) fn model(&self, pages: usize, rows_max: usize) -> Failing<B> {
        let mut files = ModelFiles::open(&self.folder).unwrap();
        let config = files.decoder().unwrap().clone();
        let settings = DecoderSettings { pages, rows_max, context_max: usize::MAX };
        let model = Decoder::load((self.open)(), &config, &mut files.weights, settings).unwrap();
        Failing { model: Some(model), fails: Cell::new(false) }
    }

    /// Tokens of its vocabulary.
    pub(super) fn vocabulary(&self) -> usize {
        ModelFiles::open(&self.folder).unwrap().decoder().unwrap().vocabulary
    }
}

/// A model that can be made to fail, or none at all.
pub(super) struct Failing<B: Ops> {
    model: Option<Decoder<B>>,
    fails: Cell<bool>,
}

impl<B: Ops> Failing<B> {
    /// Holds the place of a model while there is none.
    pub(super) fn none() -> Self {
        Self { model: None, fails: Cell::new(true) }
    }

    pub(super) fn ops(&self) -> Option<&B> {
        self.model.as_ref().map(Decoder::ops)
    }

    /// Makes the machine fail, or else the model; false where the machine says that it did and there is no model.
    pub(super) fn fail(&self, fail: fn(&B) -> bool) -> bool {
        let Some(ops) = self.ops() else { return false };
        if !fail(ops) {
            self.fails.set(true);
        }
        true
    }

    fn model(&mut self) -> Result<&mut Decoder<B>, ModelError> {
        let told = || ModelError::Ops(OpsError::Device("it was told to".to_owned()));
        if self.fails.get() {
            return Err(told());
        }
        self.model.as_mut().ok_or_else(told)
    }
}

impl<B: Ops> Forward for Failing<B> {
    fn limits(&self) -> ModelLimits {
        let nothing = ModelLimits { vocabulary: 1, context: 1, pages: 1, rows_max: 8 };
        self.model.as_ref().map_or(nothing, Decoder::limits)
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
