//! How a request draws its tokens and when it stops, and which of that makes sense. It refuses to know logits.

use legwork_kernels::DrawRules;

/// Most probable tokens that may be asked for.
pub const LOGPROBS_MAX: u8 = 20;
/// Stop strings at most.
pub const STOP_STRINGS_MAX: usize = 16;
/// Bytes of a stop string at most.
pub const STOP_BYTES_MAX: usize = 1_024;
/// Stop tokens at most.
pub const STOP_IDS_MAX: usize = 64;
/// Biased tokens at most.
pub const LOGIT_BIAS_MAX: usize = 1_024;

/// How to draw, and when to stop. The default draws from the whole distribution at temperature 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// Tokens to come at most, at least 1.
    pub max_new: usize,
    /// Divides the logits; 0 takes the greatest, of equal ones that with the lowest id.
    pub temperature: f64,
    /// Keeps the smallest set of most probable tokens whose mass is at least this, 0 < p ≤ 1; at 1 nothing is cut. The token
    /// that crosses is kept; of equally probable ones lower ids come first.
    pub top_p: f64,
    /// Keeps so many most probable tokens, exactly; of equally probable ones the lower ids.
    pub top_k: Option<usize>,
    /// Keeps tokens at least this times as probable as the most probable, 0 ≤ p ≤ 1.
    pub min_p: f64,
    /// Divides positive logits of tokens seen in prompt or answer and multiplies negative ones, as Hugging Face
    /// transformers does; 1 for none.
    pub repetition_penalty: f64,
    /// Is taken from logits of tokens drawn before, as OpenAI's API has it; 0 for none.
    pub presence_penalty: f64,
    /// Is taken from logits of tokens drawn before, once for each time, as OpenAI's API has it; 0 for none.
    pub frequency_penalty: f64,
    /// Of the draws: the same seed and request give the same tokens, whatever else runs.
    pub seed: u64,
    /// Tokens that end the answer.
    pub stop_ids: Vec<u32>,
    /// Texts that end the answer, and are not part of it. The first to be complete wins, of several complete at once the
    /// longest.
    pub stop: Vec<String>,
    /// Draws `max_new` tokens, stop tokens or not; stop strings still stop.
    pub ignore_stop_ids: bool,
    /// Whether logarithms of probabilities are wanted, and of how many most probable tokens besides the drawn one.
    pub logprobs: Option<u8>,
    /// Is added to logits after the penalties.
    pub logit_bias: Vec<(u32, f64)>,
}

/// What makes no sense about a [`Sampling`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{name} is {got}, expected {expected}")]
pub struct SamplingError {
    /// The field.
    pub name: &'static str,
    /// What came.
    pub got: String,
    /// What may come.
    pub expected: String,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            max_new: 1,
            temperature: 1.0,
            top_p: 1.0,
            top_k: None,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            seed: 0,
            stop_ids: Vec::new(),
            stop: Vec::new(),
            ignore_stop_ids: false,
            logprobs: None,
            logit_bias: Vec::new(),
        }
    }
}

impl Sampling {
    /// Whether everything makes sense with ids below `vocabulary`.
    ///
    /// # Errors
    /// The first field that does not, with what may come.
    pub fn check(&self, vocabulary: usize) -> Result<(), SamplingError> {
        let real = |name, value: f64, fits: bool, expected: &str| match value.is_finite() && fits {
            true => Ok(()),
            false => Err(SamplingError { name, got: value.to_string(), expected: expected.to_owned() }),
        };
        real("temperature", self.temperature, (0.0..=100.0).contains(&self.temperature), "0 to 100")?;
        real("top_p", self.top_p, self.top_p > 0.0 && self.top_p <= 1.0, "more than 0 and at most 1")?;
        real("min_p", self.min_p, (0.0..=1.0).contains(&self.min_p), "0 to 1")?;
        let repetition = (0.01..=100.0).contains(&self.repetition_penalty);
        real("repetition_penalty", self.repetition_penalty, repetition, "0.01 to 100, 1 for none")?;
        real("presence_penalty", self.presence_penalty, self.presence_penalty.abs() <= 100.0, "-100 to 100")?;
        real("frequency_penalty", self.frequency_penalty, self.frequency_penalty.abs() <= 100.0, "-100 to 100")?;
        let whole = |name, got: usize, least: usize, most: usize| match (least..=most).contains(&got) {
            true => Ok(()),
            false => Err(SamplingError { name, got: got.to_string(), expected: format!("{least} to {most}") }),
        };
        whole("max_new", self.max_new, 1, u32::MAX as usize)?;
        whole("top_k", self.top_k.unwrap_or(1), 1, usize::MAX)?;
        whole("logprobs", self.logprobs.unwrap_or(0).into(), 0, LOGPROBS_MAX.into())?;
        whole("number of stop_ids", self.stop_ids.len(), 0, STOP_IDS_MAX)?;
        whole("number of stop strings", self.stop.len(), 0, STOP_STRINGS_MAX)?;
        whole("size of logit_bias", self.logit_bias.len(), 0, LOGIT_BIAS_MAX)?;
        for stop in &self.stop {
            whole("bytes of a stop string", stop.len(), 1, STOP_BYTES_MAX)?;
        }
        for (id, bias) in &self.logit_bias {
            whole("a token of logit_bias", *id as usize, 0, vocabulary - 1)?;
            real("a bias of logit_bias", *bias, bias.abs() <= 1e6, "-1e6 to 1e6")?;
        }
        Ok(())
    }

    /// The rules for the token at a position, where nothing but the row itself matters: then whoever has the logits may draw.
    pub(crate) fn rules_at(&self, position: u64) -> Option<DrawRules> {
        let Self { temperature, top_p, min_p, seed, .. } = *self;
        let is_plain = !self.changes_logits() && self.top_k.is_none() && self.logprobs.is_none_or(|top| top == 0);
        is_plain.then_some(DrawRules { temperature, top_p, min_p, seed, position })
    }

    /// Whether logits are changed before they are drawn from.
    pub(crate) fn changes_logits(&self) -> bool {
        self.counts_tokens() || !self.logit_bias.is_empty()
    }

    /// Whether it matters which tokens came before.
    pub(crate) fn counts_tokens(&self) -> bool {
        self.repetition_penalty != 1.0 || self.presence_penalty != 0.0 || self.frequency_penalty != 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_named_with_what_came_and_what_may_come() {
        let wrong = |change: fn(&mut Sampling)| {
            let mut sampling = Sampling::default();
            change(&mut sampling);
            sampling.check(10).unwrap_err().to_string()
        };
        assert_eq!(Sampling::default().check(10), Ok(()));
        assert_eq!(wrong(|s| s.temperature = -0.5), "temperature is -0.5, expected 0 to 100");
        assert_eq!(wrong(|s| s.temperature = f64::NAN), "temperature is NaN, expected 0 to 100");
        assert_eq!(wrong(|s| s.top_p = 0.0), "top_p is 0, expected more than 0 and at most 1");
        assert_eq!(wrong(|s| s.max_new = 0), "max_new is 0, expected 1 to 4294967295");
        assert_eq!(wrong(|s| s.logprobs = Some(21)), "logprobs is 21, expected 0 to 20");
        assert_eq!(wrong(|s| s.stop = vec![String::new()]), "bytes of a stop string is 0, expected 1 to 1024");
        assert_eq!(wrong(|s| s.logit_bias = vec![(10, 1.0)]), "a token of logit_bias is 10, expected 0 to 9");
        assert!(wrong(|s| s.top_k = Some(0)).starts_with("top_k is 0"));
        assert!(wrong(|s| s.min_p = 1.5).starts_with("min_p is 1.5"));
        assert!(wrong(|s| s.repetition_penalty = 0.0).starts_with("repetition_penalty is 0"));
        assert!(wrong(|s| s.presence_penalty = f64::INFINITY).starts_with("presence_penalty is inf"));
        assert!(wrong(|s| s.logit_bias = vec![(1, f64::NAN)]).starts_with("a bias of logit_bias is NaN"));
    }
}
