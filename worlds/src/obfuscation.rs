//! The obfuscation of BrowseComp-Plus: base64 of the text XORed with the SHA-256 of a canary, repeated. It hides
//! questions from crawlers, not from people; the form is that of the published set.

use crate::world::Canary;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// Why a text does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shut {
    /// The text is not canonical base64.
    NotBase64,
    /// What comes out is not UTF-8, as with a wrong canary.
    NotUtf8,
}

impl Shut {
    /// The reason in words.
    pub fn reason(self) -> &'static str {
        match self {
            Shut::NotBase64 => "it is not base64",
            Shut::NotUtf8 => "what comes out is not UTF-8",
        }
    }
}

/// A canary made ready to open and close texts.
pub struct Cipher([u8; 32]);

impl Cipher {
    /// The cipher of a canary.
    pub fn new(canary: &Canary) -> Self {
        Cipher(Sha256::digest(canary.reveal().as_bytes()).into())
    }

    /// The obfuscated form of a text.
    pub fn close(&self, text: &str) -> String {
        STANDARD.encode(self.xored(text.as_bytes()))
    }

    /// The text of an obfuscated form.
    pub fn open(&self, closed: &str) -> Result<String, Shut> {
        let bytes = STANDARD.decode(closed).map_err(|_| Shut::NotBase64)?;
        String::from_utf8(self.xored(&bytes)).map_err(|_| Shut::NotUtf8)
    }

    fn xored(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.iter().zip(self.0.iter().cycle()).map(|(byte, key)| byte ^ key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cipher() -> Cipher {
        Cipher::new(&Canary::new("a canary of the tests"))
    }

    #[test]
    fn the_form_agrees_with_an_independent_implementation() {
        // python3 -c 'import base64,hashlib; k=hashlib.sha256(b"a canary of the tests").digest();
        // t="Grüße, 14 March 1742: forty bytes and more of text".encode();
        // print(base64.b64encode(bytes(c^k[i%32] for i,c in enumerate(t))).decode())'
        let closed = "ymL/vMXSn+XJMalm2OoqOkms3gzyzzkiHGUL3uYl/Mj5dU8gZyOe6YRv7yO15D55VemXTw==";
        assert_eq!(cipher().close("Grüße, 14 March 1742: forty bytes and more of text"), closed);
    }

    #[test]
    fn a_wrong_canary_or_a_plain_text_is_named() {
        let other = Cipher::new(&Canary::new("another"));
        let closed = cipher().close("a text long enough that a wrong key cannot give UTF-8 by chance, or nearly so");
        assert_eq!(other.open(&closed), Err(Shut::NotUtf8));
        assert_eq!(cipher().open("What is this?"), Err(Shut::NotBase64));
    }

    proptest! {
        #[test]
        fn what_is_closed_opens_again(text in ".*") {
            prop_assert_eq!(cipher().open(&cipher().close(&text)), Ok(text));
        }

        #[test]
        fn opening_never_panics(text in ".*") {
            let _ = cipher().open(&text);
        }
    }
}
