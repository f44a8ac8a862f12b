//! An answer as it is read, whatever carried it: pieces of a stream go to a decoder and its events to a reader, a whole
//! body goes to the reader at once. What an end means depends on what was told before it.
//!
//! It refuses to know connections and time.

use crate::call::Reader;
use crate::fault::{Fault, one_line};
use crate::sse::{Decoder, Event};

/// What ends a stream of the OpenAI kind.
const DONE: &str = "[DONE]";

/// A stream that is being told.
pub(crate) struct Stream<R> {
    decoder: Decoder,
    reader: R,
}

/// Whether a stream goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// More is to come.
    More,
    /// It said that it was done.
    Done,
}

impl<R: Reader> Stream<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { decoder: Decoder::default(), reader }
    }

    /// Takes the next piece; what stands behind the end is not looked at.
    pub(crate) fn take(&mut self, piece: &[u8]) -> Result<Told, Fault> {
        for event in self.decoder.push(piece).map_err(|error| Fault::bad(error.to_string()))? {
            if event.data.trim() == DONE {
                return Ok(Told::Done);
            }
            take_event(&mut self.reader, &event)?;
        }
        Ok(Told::More)
    }

    /// Whether what came so far is a whole answer, so that an end here is no loss.
    pub(crate) fn complete(&self) -> bool {
        self.reader.complete()
    }

    /// The answer of a stream that said it was done, or was complete when its connection broke.
    pub(crate) fn finish(self) -> Result<R::Out, Fault> {
        self.reader.finish()
    }

    /// The answer of a stream that ended without saying that it was done.
    pub(crate) fn end(self) -> Result<R::Out, Fault> {
        let Self { decoder, mut reader } = self;
        let stray = decoder.stray().map(one_line);
        if let Some(last) = decoder.finish()
            && last.data.trim() != DONE
            && !reader.complete()
        {
            // The last event has no blank line behind it and may be cut: what cannot be read of it is
            // told by the truncation below.
            let _cut = take_event(&mut reader, &last);
        }
        if !reader.complete() {
            let stray = stray.map(|line| format!("; the server wrote {line}")).unwrap_or_default();
            return Err(Fault::truncated(format!("the stream ended before it gave a finish reason{stray}")));
        }
        reader.finish()
    }
}

/// Reads a whole body; `is_html` is what its header said.
pub(crate) fn read_whole<R: Reader>(reader: R, is_html: bool, body: &[u8]) -> Result<R::Out, Fault> {
    if is_html || body.trim_ascii_start().first() == Some(&b'<') {
        let page = String::from_utf8_lossy(body);
        let cure = "does `url` name the API's base?";
        return Err(Fault::bad(format!("JSON was expected, a page of HTML came: {cure} {}", one_line(&page))));
    }
    reader.whole(body)
}

fn take_event<R: Reader>(reader: &mut R, event: &Event) -> Result<(), Fault> {
    // A keep-alive may come as an event without data.
    if event.data.trim().is_empty() { Ok(()) } else { reader.event(&event.data) }
}
