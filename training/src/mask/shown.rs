//! A sample for a person to look at: the text of each token, and whether it is learned. It refuses to make the text harmless:
//! whoever shows it does.

use super::Encoder;
use crate::error::TrainingError;
use crate::sample::Sample;
use legwork_protocol::untrusted::Untrusted;

/// A token of a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownToken {
    /// Its id.
    pub id: u32,
    /// The text that became certain by it; empty where a character goes on with the next.
    pub text: Untrusted,
    /// Whether it is in the loss.
    pub supervised: bool,
}

impl Encoder {
    /// The tokens of a sample; their texts together are the text of the sample.
    ///
    /// # Errors
    /// A tokenizer that gives up on a token.
    pub fn shown(&self, sample: &Sample) -> Result<Vec<ShownToken>, TrainingError> {
        let mut stream = self.prompts().tokenizer().stream(false);
        let mut shown = Vec::with_capacity(sample.ids.len());
        for (id, supervised) in sample.ids.iter().zip(&sample.supervised) {
            shown.push((*id, stream.push(*id)?, *supervised));
        }
        if let Some((_, text, _)) = shown.last_mut() {
            text.push_str(&stream.finish());
        }
        Ok(shown.into_iter().map(|(id, text, supervised)| ShownToken { id, text: text.into(), supervised }).collect())
    }
}
