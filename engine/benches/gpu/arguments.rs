//! What the program is asked for. It refuses to know what becomes of it.

use std::path::PathBuf;

pub(crate) const HELP: &str = "gpu MODEL [--only parity,layouts,recorded,decode,prefill,episodes] [--turns 40] [--episodes 64] \
[--turns-off 4] [--step-rows 2048] [--chunk-rows 8192] [--rows-max 32768] [--steps 64] [--contexts 1024,8192] \
[--batches 1,8,64,128] [--prompts 2048,8192,32768] [--pages N] [--card 0] [--kernels FOLDER] [--cpu]";

/// A part of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Parity,
    Layouts,
    Recorded,
    Decode,
    Prefill,
    Episodes,
}

const PARTS: [Part; 6] = [Part::Parity, Part::Layouts, Part::Recorded, Part::Decode, Part::Prefill, Part::Episodes];

impl Part {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Part::Parity => "parity",
            Part::Layouts => "layouts",
            Part::Recorded => "recorded",
            Part::Decode => "decode",
            Part::Prefill => "prefill",
            Part::Episodes => "episodes",
        }
    }
}

/// What was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Arguments {
    pub(crate) model: Option<PathBuf>,
    pub(crate) parts: Vec<Part>,
    /// Turns of an episode.
    pub(crate) turns: usize,
    /// Turns of an episode where the prefix cache is compared with none.
    pub(crate) turns_off: usize,
    pub(crate) episodes: usize,
    /// Rows of a step of the engine.
    pub(crate) step_rows: usize,
    /// Rows of a chunk of a prompt.
    pub(crate) chunk_rows: usize,
    /// Rows of a step of the model.
    pub(crate) rows_max: usize,
    /// Steps of a row of the decode table.
    pub(crate) steps: usize,
    pub(crate) contexts: Vec<usize>,
    pub(crate) batches: Vec<usize>,
    pub(crate) prompts: Vec<usize>,
    /// Pages of the cache; what fits if not given.
    pub(crate) pages: Option<usize>,
    /// The card's number: two programs on two cards are two replicas.
    pub(crate) card: usize,
    /// Where compiled kernels are kept.
    pub(crate) kernels: Option<PathBuf>,
    /// On the processor, which only shows that the program works.
    pub(crate) cpu: bool,
}

impl Arguments {
    /// Reads them; what is wrong, or the help.
    pub(crate) fn of(mut given: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut read = Self {
            model: None,
            parts: PARTS.to_vec(),
            turns: 40,
            turns_off: 4,
            episodes: 64,
            step_rows: 2_048,
            chunk_rows: 8_192,
            rows_max: 32_768,
            steps: 64,
            contexts: vec![1_024, 8_192],
            batches: vec![1, 8, 64, 128],
            prompts: vec![2_048, 8_192, 32_768],
            pages: None,
            card: 0,
            kernels: None,
            cpu: false,
        };
        while let Some(name) = given.next() {
            let mut value = || given.next().ok_or_else(|| format!("{name} wants a value\n{HELP}"));
            match name.as_str() {
                "--only" => read.parts = list(&value()?, |name| PARTS.into_iter().find(|part| part.name() == name))?,
                "--turns" => read.turns = number(&value()?)?,
                "--turns-off" => read.turns_off = number(&value()?)?,
                "--episodes" => read.episodes = number(&value()?)?,
                "--step-rows" => read.step_rows = number(&value()?)?,
                "--chunk-rows" => read.chunk_rows = number(&value()?)?,
                "--rows-max" => read.rows_max = number(&value()?)?,
                "--steps" => read.steps = number(&value()?)?,
                "--contexts" => read.contexts = list(&value()?, |text| text.parse().ok())?,
                "--batches" => read.batches = list(&value()?, |text| text.parse().ok())?,
                "--prompts" => read.prompts = list(&value()?, |text| text.parse().ok())?,
                "--pages" => read.pages = Some(number(&value()?)?),
                "--card" => read.card = value()?.parse().map_err(|_| HELP.to_owned())?,
                "--kernels" => read.kernels = Some(value()?.into()),
                "--cpu" => read.cpu = true,
                "--help" => return Err(HELP.to_owned()),
                _ if name.starts_with('-') || read.model.is_some() => return Err(format!("what is {name}?\n{HELP}")),
                _ => read.model = Some(name.into()),
            }
        }
        Ok(read)
    }
}

fn number(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|number| *number > 0)
        .ok_or_else(|| format!("expected a number from 1, got {text}\n{HELP}"))
}

fn list<T>(text: &str, one: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, String> {
    text.split(',').map(|text| one(text).ok_or_else(|| format!("what is {text}?\n{HELP}"))).collect()
}
