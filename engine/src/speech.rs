//! How drawn tokens become text. It refuses to know vocabularies: whoever owns a tokenizer implements these two.

/// Makes a decoder for each request.
pub trait Speech: Send + Sync {
    /// A decoder that has heard nothing yet.
    fn decoder(&self) -> Box<dyn Decode>;
}

/// Turns one request's tokens into text, piece by piece.
pub trait Decode: Send {
    /// The text that this token completes: whole characters only, possibly none.
    fn push(&mut self, id: u32) -> String;

    /// The text that is still owed when no token follows.
    fn finish(&mut self) -> String;
}
