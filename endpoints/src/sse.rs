//! An incremental decoder of server-sent events over bytes: any split of the stream, also inside a
//! character or between CR and LF, gives the same events.
//!
//! It follows the WHATWG rules for `text/event-stream` and refuses to know what the data mean.

/// The largest event that is buffered, in bytes; beyond it the stream is refused.
pub const EVENT_MAX_BYTES: usize = 8 * 1024 * 1024;
/// How much of a line outside the protocol is kept to be quoted, in bytes.
const STRAY_MAX_BYTES: usize = 400;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The `event` field; empty for the default type.
    pub name: String,
    /// The `data` lines, joined by line feeds.
    pub data: String,
}

/// An event was longer than the limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a server-sent event is longer than {limit} bytes: the server is not sending separate events")]
pub struct EventTooLong {
    /// The limit.
    pub limit: usize,
}

/// The state between two pieces of a stream.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    line: Vec<u8>,
    data: Vec<u8>,
    name: Vec<u8>,
    has_data: bool,
    after_cr: bool,
    first_line: bool,
    stray: Option<String>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new(EVENT_MAX_BYTES)
    }
}

impl Decoder {
    /// A decoder that refuses events longer than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            data: Vec::new(),
            name: Vec::new(),
            has_data: false,
            after_cr: false,
            first_line: true,
            stray: None,
        }
    }

    /// Takes the next piece and returns the events that it completed.
    ///
    /// # Errors
    /// Where one event is longer than the limit; the decoder is of no use afterwards.
    pub fn push(&mut self, mut piece: &[u8]) -> Result<Vec<Event>, EventTooLong> {
        let mut events = Vec::new();
        if self.after_cr && !piece.is_empty() {
            self.after_cr = false;
            if piece[0] == b'\n' {
                piece = &piece[1..];
            }
        }
        while let Some(end) = piece.iter().position(|&byte| byte == b'\n' || byte == b'\r') {
            self.grow(&piece[..end])?;
            self.end_line(&mut events);
            let carriage_return = piece[end] == b'\r';
            piece = &piece[end + 1..];
            if carriage_return {
                match piece.first() {
                    Some(b'\n') => piece = &piece[1..],
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
        }
        self.grow(piece)?;
        Ok(events)
    }

    /// Ends the stream. The rules drop an event without its blank line; it is returned all the same,
    /// since servers leave the last one out, and the caller must expect it to be cut short.
    pub fn finish(mut self) -> Option<Event> {
        let mut events = Vec::new();
        self.end_line(&mut events);
        events.pop().or_else(|| self.take_event())
    }

    /// The start of the first line that is none of the protocol's, such as a bare JSON error.
    pub fn stray(&self) -> Option<&str> {
        self.stray.as_deref()
    }

    fn grow(&mut self, bytes: &[u8]) -> Result<(), EventTooLong> {
        if self.line.len() + self.data.len() + bytes.len() > self.limit {
            return Err(EventTooLong { limit: self.limit });
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<Event>) {
        let line = std::mem::take(&mut self.line);
        let mut bytes = line.as_slice();
        if std::mem::take(&mut self.first_line) {
            bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        }
        if bytes.is_empty() {
            events.extend(self.take_event());
        } else if bytes[0] != b':' {
            let (field, value) = match bytes.iter().position(|&byte| byte == b':') {
                Some(colon) => (&bytes[..colon], &bytes[colon + 1..]),
                None => (bytes, &b""[..]),
            };
            self.field(field, value.strip_prefix(b" ").unwrap_or(value), bytes);
        }
        // The line's allocation is used again.
        self.line = line;
        self.line.clear();
    }

    fn field(&mut self, field: &[u8], value: &[u8], line: &[u8]) {
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => self.name = value.to_vec(),
            b"id" | b"retry" => {}
            _ => {
                let start = &line[..line.len().min(STRAY_MAX_BYTES)];
                self.stray.get_or_insert_with(|| String::from_utf8_lossy(start).into_owned());
            }
        }
    }

    fn take_event(&mut self) -> Option<Event> {
        let name = std::mem::take(&mut self.name);
        if !std::mem::take(&mut self.has_data) {
            return None;
        }
        let data = String::from_utf8_lossy(&self.data).into_owned();
        self.data.clear();
        Some(Event { name: String::from_utf8_lossy(&name).into_owned(), data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(pieces: &[&[u8]]) -> Vec<Event> {
        let mut decoder = Decoder::default();
        let mut events = Vec::new();
        for piece in pieces {
            events.extend(decoder.push(piece).unwrap());
        }
        events.extend(decoder.finish());
        events
    }

    fn data(pieces: &[&[u8]]) -> Vec<String> {
        decode(pieces).into_iter().map(|event| event.data).collect()
    }

    const FRAME: &str = "\u{feff}: a comment\r\nevent: delta\r\ndata: {\"text\":\"na\u{ef}ve \u{1f600}\"}\r\ndata:two\r\n\r\ndata: [DONE]\n\n";

    #[test]
    fn line_ends_comments_names_and_several_data_lines_are_read() {
        let events = decode(&[FRAME.as_bytes()]);
        assert_eq!(events[0], Event { name: "delta".into(), data: "{\"text\":\"na\u{ef}ve \u{1f600}\"}\ntwo".into() });
        assert_eq!(events[1], Event { name: String::new(), data: "[DONE]".into() });
        assert_eq!(data(&[b"data: a\r\rdata: b\n\n"]), ["a", "b"]);
        assert_eq!(data(&[b"data\n\nid: 3\nretry: 9\n\ndata:  x\n\n"]), ["", " x"]);
    }

    #[test]
    fn every_two_way_split_gives_the_same_events() {
        let whole = decode(&[FRAME.as_bytes()]);
        for at in 0..=FRAME.len() {
            let (head, tail) = FRAME.as_bytes().split_at(at);
            assert_eq!(decode(&[head, tail]), whole, "split at byte {at}");
        }
    }

    #[test]
    fn an_event_without_its_blank_line_is_given_at_the_end() {
        assert_eq!(data(&[b"data: {\"a\":1}"]), ["{\"a\":1}"]);
        assert_eq!(data(&[b"data: x\n"]), ["x"]);
        assert_eq!(data(&[b"event: ping\n"]), Vec::<String>::new());
    }

    #[test]
    fn an_endless_event_is_refused_without_being_buffered() {
        let mut decoder = Decoder::new(16);
        assert_eq!(decoder.push(b"data: 0123456789abcdef"), Err(EventTooLong { limit: 16 }));
        let mut decoder = Decoder::new(16);
        decoder.push(b"data: 01234567\n").unwrap();
        assert_eq!(decoder.push(b"data: 89abcdef\n"), Err(EventTooLong { limit: 16 }));
    }

    #[test]
    fn a_line_outside_the_protocol_is_kept_to_be_quoted() {
        let mut decoder = Decoder::default();
        decoder.push(b"{\"error\":\"overloaded\"}\n\n").unwrap();
        assert_eq!(decoder.stray(), Some("{\"error\":\"overloaded\"}"));
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_split_never_panic_and_give_the_same_events(
            bytes in proptest::collection::vec(prop_oneof![
                4 => Just(b'\n'), 4 => Just(b'\r'), 2 => Just(b':'), 2 => Just(b' '), 8 => any::<u8>(),
                4 => proptest::sample::select(b"data".to_vec()),
            ], 0..200),
            cuts in proptest::collection::vec(0_usize..200, 0..8),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            cuts.push(bytes.len());
            let mut start = 0;
            let pieces: Vec<&[u8]> = cuts.iter().map(|&cut| { let piece = &bytes[start..cut]; start = cut; piece }).collect();
            prop_assert_eq!(decode(&pieces), decode(&[&bytes]));
        }
    }
}
