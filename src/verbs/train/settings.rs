//! What `legwork train` may be told: by flags over a file over defaults, which are the published recipe's where it states
//! them. The resolved settings go into the run's manifest.
//! It refuses to know what they do.

use super::super::VerbError;
use super::follow::RowChoice;
use super::launch::{Launch, LaunchError};
use crate::assemble::for_machine;
use crate::config::ConfigError;
use clap::Args;
use legwork_actors::local::{Device, LocalSettings};
use legwork_actors::trainer::{KEPT_MAX, RankPlaces, UpdateSettings};
use legwork_model::DecoderConfig;
use legwork_training::mask::{MaskKind, TemplateChoice};
use legwork_training::pack::Normalisation;
use legwork_training::rows::BadRows;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Ranks at most.
const RANKS_MAX: usize = 64;
/// Seconds that processes wait for each other at most: a day.
const WAIT_MAX_S: u64 = 86_400;
/// Samples of a slot at most.
const BATCH_MAX: u64 = 65_536;
/// Slots that a run may be planned for at most.
const SLOTS_MAX: u64 = 1 << 32;
/// Tokens of a pack at most.
const TOKENS_MAX: usize = 1 << 22;

/// Flags; each is also a key of the file, with `_` for `-`.
#[derive(Clone, Debug, Default, Args, Serialize)]
pub(super) struct TrainFlags {
    /// Rows to train on: chat rows or rows of token ids, JSONL or parquet; `file@[a:b]` is a slice.
    #[arg(long, value_name = "FILE")]
    rows: Option<String>,
    /// In place of rows: the folder of a run, under way or over, whose episodes become rows as they end.
    #[arg(long, value_name = "RUN", conflicts_with = "rows")]
    follow: Option<PathBuf>,
    /// Of --follow: rows of the token ids that the engine used and made, and not of messages.
    #[arg(long, num_args = 0..=1, default_missing_value = "true")]
    token_ids: Option<bool>,
    /// Of --follow: rows of all episodes that have ended, not only of correct ones.
    #[arg(long, num_args = 0..=1, default_missing_value = "true")]
    all_episodes: Option<bool>,
    /// Of --follow: also workers that concluded wrongly in an episode that was right, their last report out of the loss.
    #[arg(long, num_args = 0..=1, default_missing_value = "true")]
    process_rows: Option<bool>,
    /// Of --follow: the part of the question set that the run is made over, for the rows' lineage.
    #[arg(long)]
    split: Option<String>,
    /// Of --follow: slots over which the rate goes up and down; without it the rate rises over 10 slots and stays.
    #[arg(long)]
    slots: Option<u64>,
    /// The model's folder.
    #[arg(long, value_name = "FOLDER")]
    model: Option<PathBuf>,
    /// Rows that are held out and evaluated.
    #[arg(long, value_name = "FILE")]
    eval: Option<String>,
    /// Samples of a slot, of which each is one update [default: 32].
    #[arg(long)]
    batch: Option<u64>,
    /// Passes over the rows [default: 1].
    #[arg(long)]
    epochs: Option<u64>,
    /// The largest learning rate [default: 1e-5].
    #[arg(long)]
    lr: Option<f64>,
    /// The learning rate at the end [default: 1e-6].
    #[arg(long)]
    min_lr: Option<f64>,
    /// The share of samples over which the rate rises from 0 [default: 0.1].
    #[arg(long)]
    warmup: Option<f64>,
    /// How a slot's loss is normalised: token or sample [default: token].
    #[arg(long)]
    normalisation: Option<String>,
    /// The first slot's number: 0, or 1 as the published run has it, which makes one update less [default: 0].
    #[arg(long)]
    first_slot: Option<u64>,
    /// Where the order of rows comes from [default: 42].
    #[arg(long)]
    seed: Option<u32>,
    /// Where it computes: cpu, cuda (the first card), cuda:1, cuda:0,1 (a rank on each) or cuda:all [default: cpu].
    #[arg(long)]
    device: Option<String>,
    /// The folder that keeps kernels once they are compiled for a card [default: where the user keeps caches].
    #[arg(long, value_name = "FOLDER")]
    kernels: Option<PathBuf>,
    /// Ranks among which the model is cut [default: 1].
    #[arg(long)]
    tp: Option<usize>,
    /// Replicas of the model, each of which takes some of a slot's packs [default: 1].
    #[arg(long)]
    dp: Option<usize>,
    /// Of processes that RANK numbers: seconds that they wait for each other at the beginning [default: 600].
    #[arg(long)]
    wait_s: Option<u64>,
    /// Tokens of a pack; a longer row has its own [default: 40960].
    #[arg(long)]
    tokens_max: Option<usize>,
    /// Tokens of a row; a longer one is bad, never cut [default: the model's context].
    #[arg(long)]
    length_max: Option<usize>,
    /// Packs are padded to a multiple of this [default: 128 times the ranks].
    #[arg(long)]
    pad_multiple: Option<usize>,
    /// How messages are rendered one by one: qwen3 or qwen [default: qwen3].
    #[arg(long)]
    mask: Option<String>,
    /// Which template renders them: own, keep_think, qwen3_fixed or qwen3 [default: own].
    #[arg(long)]
    template: Option<String>,
    /// What is done with bad rows: refuse, or skip and list them in bad-rows.json [default: refuse].
    #[arg(long)]
    bad_rows: Option<String>,
    /// Slots between two checkpoints; 0 for one at the end only [default: 100].
    #[arg(long)]
    save_every: Option<u64>,
    /// Checkpoints that are kept [default: 2].
    #[arg(long)]
    keep_last: Option<usize>,
    /// Slots between two evaluations, beside those at the beginning and the end; 0 for no others [default: 0].
    #[arg(long)]
    eval_every: Option<u64>,
    /// The global norm of the gradient is clipped to this [default: 1].
    #[arg(long)]
    clip: Option<f64>,
    /// Weight decay of tensors of more than one dimension [default: 0.1].
    #[arg(long)]
    decay: Option<f64>,
    /// AdamW's decay of the mean of gradients [default: 0.9].
    #[arg(long)]
    beta1: Option<f64>,
    /// AdamW's decay of the mean of their squares [default: 0.95].
    #[arg(long)]
    beta2: Option<f64>,
    /// AdamW's epsilon [default: 1e-8].
    #[arg(long)]
    eps: Option<f64>,
    /// Let the rows that pad the vocabulary take part in the softmax, as Megatron seems to.
    #[arg(long, num_args = 0..=1, default_missing_value = "true")]
    softmax_over_padding: Option<bool>,
    /// Keep what attention gave of every layer until the way back: the same weights in less time, and more memory [default: true].
    #[arg(long, num_args = 0..=1, default_missing_value = "true")]
    keep_attention: Option<bool>,
    /// Keep what the first products of both halves of a layer gave as well: faster still, where there is much memory [default: false].
    #[arg(long, num_args = 0..=1, default_missing_value = "true")]
    keep_products: Option<bool>,
    /// What the machine could do: 10^12 operations a second of all ranks together. Measured in small products if absent.
    #[arg(long)]
    peak_tflops: Option<f64>,
}

/// The settings, resolved.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TrainSettings {
    pub(super) rows: Option<String>,
    pub(super) follow: Option<PathBuf>,
    token_ids: bool,
    all_episodes: bool,
    process_rows: bool,
    split: Option<String>,
    pub(super) slots: Option<u64>,
    pub(super) model: Option<PathBuf>,
    pub(super) eval: Option<String>,
    pub(super) batch: u64,
    pub(super) epochs: u64,
    pub(super) lr: f64,
    pub(super) min_lr: f64,
    pub(super) warmup: f64,
    pub(super) normalisation: Normalisation,
    pub(super) first_slot: u64,
    pub(super) seed: u32,
    pub(super) device: Device,
    /// Whether the device was given as a card's number.
    #[serde(skip)]
    is_card_named: bool,
    kernels: Option<PathBuf>,
    pub(super) tp: usize,
    pub(super) dp: usize,
    wait_s: u64,
    pub(super) tokens_max: usize,
    pub(super) length_max: Option<usize>,
    pub(super) pad_multiple: Option<usize>,
    mask: String,
    template: String,
    bad_rows: String,
    pub(super) save_every: u64,
    pub(super) keep_last: usize,
    pub(super) eval_every: u64,
    clip: f64,
    decay: f64,
    beta1: f64,
    beta2: f64,
    eps: f64,
    pub(super) softmax_over_padding: bool,
    pub(super) keep_attention: bool,
    pub(super) keep_products: bool,
    pub(super) peak_tflops: Option<f64>,
}

impl Default for TrainSettings {
    fn default() -> Self {
        let UpdateSettings { clip, beta1, beta2, eps, decay } = UpdateSettings::default();
        Self {
            rows: None,
            follow: None,
            token_ids: false,
            all_episodes: false,
            process_rows: false,
            split: None,
            slots: None,
            model: None,
            eval: None,
            batch: 32,
            epochs: 1,
            lr: 1e-5,
            min_lr: 1e-6,
            warmup: 0.1,
            normalisation: Normalisation::Token,
            first_slot: 0,
            seed: 42,
            device: Device::Processor,
            is_card_named: false,
            kernels: None,
            tp: 1,
            dp: 1,
            wait_s: 600,
            tokens_max: 40_960,
            length_max: None,
            pad_multiple: None,
            mask: MaskKind::Qwen3.name().to_owned(),
            template: TemplateChoice::Own.name().to_owned(),
            bad_rows: "refuse".to_owned(),
            save_every: 100,
            keep_last: 2,
            eval_every: 0,
            clip,
            decay,
            beta1,
            beta2,
            eps,
            softmax_over_padding: false,
            keep_attention: true,
            keep_products: false,
            peak_tflops: None,
        }
    }
}

impl TrainSettings {
    /// Flags over a file over defaults.
    pub(super) fn resolve(file: Option<&PathBuf>, flags: &TrainFlags) -> Result<Self, ConfigError> {
        let mut table = match file {
            Some(path) => crate::config::read(path)?,
            None => toml::Table::new(),
        };
        let of_file = |detail: String| ConfigError::Syntax {
            origin: file.map_or_else(|| "the flags".to_owned(), |path| path.display().to_string()),
            detail,
        };
        // What is wrong with the file is told of the file.
        let _alone: Self = Self::deserialize(table.clone()).map_err(|error| of_file(error.to_string()))?;
        let flags = toml::Table::try_from(flags).map_err(|error| of_file(error.to_string()))?;
        table.extend(flags);
        let is_card = |word: &str| word.contains(':') && word != "cuda:all";
        let is_card_named = table.get("device").and_then(toml::Value::as_str).is_some_and(is_card);
        let settings: Self = Self::deserialize(table)
            .map_err(|error| ConfigError::Syntax { origin: "the flags".to_owned(), detail: error.to_string() })?;
        let settings = Self { is_card_named, ..settings };
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let wrong = |section: &str, expected: String, got: String| {
            let detail = format!("expected {expected}, got {got}");
            Err(ConfigError::Value { section: section.to_owned(), detail })
        };
        if !(1..=BATCH_MAX).contains(&self.batch) {
            return wrong("batch", format!("a number from 1 to {BATCH_MAX}"), self.batch.to_string());
        }
        if !(1..=RANKS_MAX).contains(&self.tp) {
            return wrong("tp", format!("a number of ranks from 1 to {RANKS_MAX}"), self.tp.to_string());
        }
        if self.dp == 0 || self.tp * self.dp > RANKS_MAX {
            let expected = format!("replicas of {} ranks, from 1 to {} of them", self.tp, RANKS_MAX / self.tp);
            return wrong("dp", expected, self.dp.to_string());
        }
        if !(1..=WAIT_MAX_S).contains(&self.wait_s) {
            return wrong("wait_s", format!("a number of seconds from 1 to {WAIT_MAX_S}"), self.wait_s.to_string());
        }
        if !(1..=TOKENS_MAX).contains(&self.tokens_max) {
            return wrong("tokens_max", format!("a number from 1 to {TOKENS_MAX}"), self.tokens_max.to_string());
        }
        if !(1..=TOKENS_MAX).contains(&self.multiple()) {
            return wrong("pad_multiple", format!("a number from 1 to {TOKENS_MAX}"), self.multiple().to_string());
        }
        let positive = [("clip", self.clip), ("eps", self.eps), ("peak_tflops", self.peak_tflops.unwrap_or(1.0))];
        if let Some((name, got)) = positive.into_iter().find(|(_, got)| !(got.is_finite() && *got > 0.0)) {
            return wrong(name, "a number above 0".to_owned(), got.to_string());
        }
        let shares = [("beta1", self.beta1), ("beta2", self.beta2)];
        if let Some((name, got)) = shares.into_iter().find(|(_, got)| !(0.0..1.0).contains(got)) {
            return wrong(name, "a number from 0 to below 1".to_owned(), got.to_string());
        }
        if !(self.decay.is_finite() && self.decay >= 0.0) {
            return wrong("decay", "a number from 0".to_owned(), self.decay.to_string());
        }
        self.check_source()?;
        if self.mask_kind().is_none() {
            return wrong("mask", "qwen3 or qwen".to_owned(), self.mask.clone());
        }
        if self.template_choice().is_none() {
            return wrong("template", "own, keep_think, qwen3_fixed or qwen3".to_owned(), self.template.clone());
        }
        if self.bad_rule().is_none() {
            return wrong("bad_rows", "refuse or skip".to_owned(), self.bad_rows.clone());
        }
        Ok(())
    }

    /// What a run that is followed cannot be, and what is of such a run only.
    fn check_source(&self) -> Result<(), ConfigError> {
        let wrong = |section: &str, expected: String, got: String| {
            let detail = format!("expected {expected}, got {got}");
            Err(ConfigError::Value { section: section.to_owned(), detail })
        };
        if self.follow.is_none() {
            let given = [
                ("token_ids", self.token_ids),
                ("all_episodes", self.all_episodes),
                ("process_rows", self.process_rows),
                ("split", self.split.is_some()),
                ("slots", self.slots.is_some()),
            ];
            return match given.into_iter().find(|(_, is_given)| *is_given) {
                Some((name, _)) => wrong(name, "it with --follow only".to_owned(), "it without".to_owned()),
                None => Ok(()),
            };
        }
        if self.rows.is_some() {
            return wrong("follow", "either a run or rows".to_owned(), "both".to_owned());
        }
        if self.epochs != 1 {
            return wrong("epochs", "1, since a run is followed once".to_owned(), self.epochs.to_string());
        }
        if self.first_slot != 0 {
            return wrong(
                "first_slot",
                "0, since of a run no slot is left out".to_owned(),
                self.first_slot.to_string(),
            );
        }
        if self.slots.is_some_and(|slots| !(1..=SLOTS_MAX).contains(&slots)) {
            let got = self.slots.unwrap_or_default().to_string();
            return wrong("slots", format!("a number from 1 to {SLOTS_MAX}"), got);
        }
        // What came is kept until a checkpoint is written of it.
        let slots_kept_max = KEPT_MAX / self.batch;
        if !(1..=slots_kept_max).contains(&self.save_every) {
            let expected = format!("a number from 1 to {slots_kept_max}, as samples of a run are kept that long");
            return wrong("save_every", expected, self.save_every.to_string());
        }
        Ok(())
    }

    /// How rows are made of a run that is followed.
    pub(super) fn row_choice(&self) -> RowChoice {
        let Self { token_ids, all_episodes, process_rows, .. } = *self;
        RowChoice { token_ids, all_episodes, process_rows, split: self.split.clone() }
    }

    fn mask_kind(&self) -> Option<MaskKind> {
        MaskKind::named(&self.mask)
    }

    fn template_choice(&self) -> Option<TemplateChoice> {
        TemplateChoice::named(&self.template)
    }

    fn bad_rule(&self) -> Option<BadRows> {
        match self.bad_rows.as_str() {
            "refuse" => Some(BadRows::Refuse),
            "skip" => Some(BadRows::Skip),
            _ => None,
        }
    }

    /// How rows become samples.
    pub(super) fn mask(&self) -> MaskKind {
        self.mask_kind().unwrap_or_default()
    }

    /// Which template renders them.
    pub(super) fn template(&self) -> TemplateChoice {
        self.template_choice().unwrap_or_default()
    }

    /// What is done with bad rows.
    pub(super) fn bad_rows(&self) -> BadRows {
        self.bad_rule().unwrap_or_default()
    }

    /// Packs are padded to a multiple of this: Megatron's 128 times the ranks.
    pub(super) fn multiple(&self) -> usize {
        self.pad_multiple.unwrap_or(128 * self.tp)
    }

    /// What whoever started this process said to it; none where it is alone.
    pub(super) fn launch(&self) -> Result<Option<Launch>, LaunchError> {
        Launch::of_environment([self.tp, self.dp], Duration::from_secs(self.wait_s))
    }

    /// Where the ranks of this process compute.
    pub(super) fn places(&self, launch: Option<&Launch>) -> Result<RankPlaces, VerbError> {
        let local =
            LocalSettings { device: self.device.clone(), kernels: self.kernels.clone(), ..LocalSettings::default() };
        let (grid, kernels) = ([self.tp, self.dp], for_machine(local).kernels);
        match launch {
            None => Ok(RankPlaces::new(&self.device, grid, kernels)?),
            Some(launch) => {
                let device = launch.device(&self.device, self.is_card_named)?;
                Ok(RankPlaces::of_process(&device, grid, kernels)
                    .map_err(|error| format!("{error}; where each process sees one card only, give --device cuda:0"))?)
            }
        }
    }

    /// Tokens of a row at most.
    pub(super) fn length_of(&self, config: &DecoderConfig) -> usize {
        self.length_max.unwrap_or(config.context).min(config.context)
    }

    /// How each update is made.
    pub(super) fn update(&self) -> UpdateSettings {
        let Self { clip, beta1, beta2, eps, decay, .. } = *self;
        UpdateSettings { clip, beta1, beta2, eps, decay }
    }

    /// What a path that must be given is.
    pub(super) fn needed<'a, T>(&self, flag: &str, value: &'a Option<T>) -> Result<&'a T, VerbError> {
        value
            .as_ref()
            .ok_or_else(|| format!("nothing says what to train: give {flag}, or the key in the file of -c").into())
    }

    /// The settings that weights depend on, for the manifest. Files are there by their digests.
    pub(super) fn manifest(&self, length_max: usize) -> serde_json::Value {
        let mut settings = serde_json::json!({
            "batch": self.batch, "epochs": self.epochs, "lr": self.lr, "min_lr": self.min_lr, "warmup": self.warmup,
            "normalisation": self.normalisation, "first_slot": self.first_slot, "seed": self.seed, "tp": self.tp, "dp": self.dp,
            "tokens_max": self.tokens_max, "length_max": length_max, "pad_multiple": self.multiple(),
            "mask": self.mask, "template": self.template, "bad_rows": self.bad_rows, "clip": self.clip,
            "decay": self.decay, "beta1": self.beta1, "beta2": self.beta2, "eps": self.eps,
            "softmax_over_padding": self.softmax_over_padding,
        });
        if self.follow.is_some() {
            let RowChoice { all_episodes, process_rows, split, .. } = self.row_choice();
            settings["follow"] = serde_json::json!({
                "format": self.row_choice().format().name(), "all_episodes": all_episodes, "process_rows": process_rows,
                "split": split, "slots": self.slots,
            });
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: TrainFlags,
    }

    fn resolved(file: &str, line: &[&str]) -> Result<TrainSettings, String> {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("train.toml");
        std::fs::write(&path, file).unwrap();
        let line = Line::parse_from(["train"].iter().chain(line));
        TrainSettings::resolve(Some(&path), &line.flags).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_go_over_the_file_and_the_file_over_defaults() {
        let settings = resolved("batch = 8\nseed = 7\nrows = \"a.jsonl\"", &["--batch", "4", "--lr", "2e-4"]).unwrap();
        assert_eq!((settings.batch, settings.seed, settings.lr, settings.min_lr), (4, 7, 2e-4, 1e-6));
        assert_eq!((settings.rows.as_deref(), settings.multiple()), (Some("a.jsonl"), 128));
    }

    #[test]
    fn the_defaults_are_the_published_recipes() {
        let settings = TrainSettings::default();
        assert_eq!(
            (settings.batch, settings.lr, settings.min_lr, settings.warmup, settings.seed),
            (32, 1e-5, 1e-6, 0.1, 42)
        );
        let update = settings.update();
        assert_eq!((update.beta1, update.beta2, update.decay, update.clip, update.eps), (0.9, 0.95, 0.1, 1.0, 1e-8));
        assert_eq!((settings.first_slot, settings.normalisation), (0, Normalisation::Token));
    }

    #[test]
    fn what_cannot_be_is_told_with_its_place() {
        for (file, line, told) in [
            ("batches = 8", &[][..], "unknown field `batches`"),
            ("", &["--tp", "0"][..], "tp: expected a number of ranks from 1 to 64, got 0"),
            ("", &["--tp", "2", "--dp", "33"], "dp: expected replicas of 2 ranks, from 1 to 32 of them, got 33"),
            ("", &["--device", "gpu"], "device is `gpu`; expected cpu, cuda, cuda:N"),
            ("", &["--mask", "llama"], "mask: expected qwen3 or qwen, got llama"),
            ("", &["--bad-rows", "ignore"], "bad_rows: expected refuse or skip"),
            ("", &["--normalisation", "batch"], "unknown variant `batch`"),
            ("clip = -1.0", &[], "clip: expected a number above 0"),
            ("beta2 = 1.0", &[], "beta2: expected a number from 0 to below 1"),
            ("decay = nan", &[], "decay: expected a number from 0"),
            ("slots = 7", &[], "slots: expected it with --follow only"),
            ("rows = \"a\"", &["--follow", "runs/a"], "follow: expected either a run or rows, got both"),
            ("epochs = 2", &["--follow", "runs/a"], "epochs: expected 1"),
            ("first_slot = 1", &["--follow", "runs/a"], "first_slot: expected 0"),
            ("slots = 0", &["--follow", "runs/a"], "slots: expected a number from 1"),
            ("", &["--follow", "runs/a", "--save-every", "0"], "save_every: expected a number from 1 to 2048"),
        ] {
            let refused = resolved(file, line).unwrap_err();
            assert!(refused.contains(told), "{told:?} in {refused:?}");
        }
    }
}
