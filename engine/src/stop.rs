//! Text that ends at a stop string: holds back what may still become one, and no more than that. It refuses to know tokens;
//! how the text is cut into pieces makes no difference.

/// Watches a text for stop strings.
#[derive(Clone, Debug, Default)]
pub struct StopText {
    stops: Vec<Watched>,
    held: String,
}

/// What a piece of text came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// This much more is certain.
    More(String),
    /// The text ends with this, before a stop string.
    End {
        /// The rest of the text.
        text: String,
        /// The stop string that it came to.
        stop: String,
    },
}

/// A stop string and how much of it the text ends with (Knuth, Morris and Pratt).
#[derive(Clone, Debug)]
struct Watched {
    stop: String,
    /// For each length of a beginning: the longest shorter beginning that it ends with.
    falls_back: Vec<usize>,
    seen: usize,
}

impl StopText {
    /// Watches for these, none of which is empty; empty ones are never found.
    pub fn new(stops: &[String]) -> Self {
        let stops = stops.iter().filter(|stop| !stop.is_empty()).map(|stop| Watched::new(stop)).collect();
        Self { stops, held: String::new() }
    }

    /// Hears more. The first stop string to be complete ends the text; of several complete at the same place the longest.
    pub fn push(&mut self, piece: &str) -> Heard {
        if self.stops.is_empty() {
            return Heard::More(piece.to_owned());
        }
        let before = self.held.len();
        self.held.push_str(piece);
        for (index, byte) in piece.bytes().enumerate() {
            let mut longest = None;
            for watched in &mut self.stops {
                if watched.hears(byte) {
                    longest = longest.max(Some(watched.stop.len()));
                }
            }
            if let Some(length) = longest {
                let end = before + index + 1;
                let stop = self.held[end - length..end].to_owned();
                self.held.truncate(end - length);
                return Heard::End { text: std::mem::take(&mut self.held), stop };
            }
        }
        let keep = self.stops.iter().map(|watched| watched.seen).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - keep);
        Heard::More(std::mem::replace(&mut self.held, rest))
    }

    /// What was held back, when nothing follows.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

impl Watched {
    fn new(stop: &str) -> Self {
        let bytes = stop.as_bytes();
        let mut falls_back = vec![0; bytes.len() + 1];
        let mut length = 0;
        for end in 1..bytes.len() {
            while length > 0 && bytes[length] != bytes[end] {
                length = falls_back[length];
            }
            length += usize::from(bytes[length] == bytes[end]);
            falls_back[end + 1] = length;
        }
        Self { stop: stop.to_owned(), falls_back, seen: 0 }
    }

    /// Whether this byte completes it.
    fn hears(&mut self, byte: u8) -> bool {
        let bytes = self.stop.as_bytes();
        if self.seen == bytes.len() {
            self.seen = self.falls_back[self.seen];
        }
        while self.seen > 0 && bytes[self.seen] != byte {
            self.seen = self.falls_back[self.seen];
        }
        self.seen += usize::from(bytes[self.seen] == byte);
        self.seen == bytes.len()
    }
}

#[cfg(test)]
mod tests;
