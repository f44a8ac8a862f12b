//! What all machines of an episode share: the meter that turns a lease into turns, the call of a model that a
//! machine asks for, and the digest by which a replay knows that an effect is the same.

use crate::budget::{Amount, Lease, Prices, Reservation};
use crate::conversation::Conversation;
use serde::{Deserialize, Serialize};

/// A call of the model, as a machine asks for it. The conversation is the machine's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnCall {
    /// The turn, from 0; a second try of a turn has the same number.
    pub turn: u32,
    /// Which try of this turn, from 0.
    pub attempt: u32,
    /// The most new tokens.
    pub max_tokens: u32,
    /// The longest wait for the reply being served, in milliseconds.
    pub timeout_ms: u64,
    /// Digest of the conversation to send.
    pub conversation: Digest,
}

/// A digest, written in hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

/// What one turn may take.
#[derive(Clone, Copy, Debug)]
pub struct TurnLimits {
    /// The most new tokens.
    pub tokens_max: u32,
    /// With fewer tokens left no turn is asked for.
    pub tokens_min: u32,
    /// The longest wait for one reply, in milliseconds.
    pub timeout_ms: u64,
    /// Tries of one turn.
    pub attempts_max: u32,
    /// What tokens cost.
    pub prices: Prices,
}

/// Turns a lease into turns: reserves the worst case of each call and settles it afterwards.
#[derive(Clone, Debug)]
pub struct TurnMeter {
    lease: Lease,
    limits: TurnLimits,
    pending: Option<(Reservation, u64)>,
    turns: u32,
    attempt: u32,
    served_ms: Vec<u64>,
}

impl TurnMeter {
    /// A meter over a fresh lease.
    pub fn new(lent: Amount, limits: TurnLimits) -> Self {
        Self { lease: Lease::new(lent), limits, pending: None, turns: 0, attempt: 0, served_ms: Vec::new() }
    }

    /// Reserves the next call, leaving `keep_tokens` and `keep_turns` untouched. None if less than the least
    /// turn is left of anything.
    pub fn next(&mut self, conversation: &Conversation, keep_tokens: u64, keep_turns: u32) -> Option<TurnCall> {
        debug_assert!(self.pending.is_none(), "one call at a time");
        let left = self.lease.left();
        let tokens = left.tokens.saturating_sub(keep_tokens).min(u64::from(self.limits.tokens_max));
        if tokens < u64::from(self.limits.tokens_min.max(1)) || left.turns <= keep_turns || left.served_ms == 0 {
            return None;
        }
        let prompt_tokens = conversation.tokens();
        let worst = Amount {
            tokens,
            turns: 1,
            served_ms: left.served_ms.min(self.limits.timeout_ms),
            micros: self.limits.prices.micros(prompt_tokens, tokens),
        };
        let reservation = self.lease.reserve(worst).ok()?;
        self.pending = Some((reservation, prompt_tokens));
        Some(TurnCall {
            turn: self.turns,
            attempt: self.attempt,
            max_tokens: u32::try_from(tokens).unwrap_or(u32::MAX),
            timeout_ms: worst.served_ms,
            conversation: Digest(conversation.digest()),
        })
    }

    /// Books a reply of `tokens` new tokens. Returns what the server took beyond the reservation.
    pub fn answered(&mut self, tokens: u64, served_ms: u64) -> Amount {
        self.turns += 1;
        self.attempt = 0;
        self.served_ms.push(served_ms);
        self.settle(tokens, 1, served_ms)
    }

    /// Books a try without a reply: its time is spent, its tokens are not. True if the turn may be tried
    /// again.
    pub fn failed(&mut self, served_ms: u64) -> bool {
        self.settle(0, 0, served_ms);
        self.attempt += 1;
        self.attempt < self.limits.attempts_max
    }

    /// Charges tokens that were not asked for by a call, such as an observation's. True if all of them
    /// could be paid.
    pub fn charge(&mut self, tokens: u64, served_ms: u64) -> bool {
        let unpaid = self.lease.charge(Amount { tokens, served_ms, ..Amount::default() });
        unpaid.tokens == 0
    }

    /// What was spent.
    pub fn spent(&self) -> Amount {
        self.lease.spent()
    }

    /// What is left.
    pub fn left(&self) -> Amount {
        self.lease.left()
    }

    /// What was lent.
    pub fn lent(&self) -> Amount {
        self.lease.lent()
    }

    /// Turns answered.
    pub fn turns(&self) -> u32 {
        self.turns
    }

    /// Serving time of each turn, in milliseconds.
    pub fn served_ms(&self) -> &[u64] {
        &self.served_ms
    }

    fn settle(&mut self, tokens: u64, turns: u32, served_ms: u64) -> Amount {
        let Some((reservation, prompt_tokens)) = self.pending.take() else { return Amount::default() };
        let micros = if turns > 0 { self.limits.prices.micros(prompt_tokens, tokens) } else { 0 };
        self.lease.settle(reservation, Amount { tokens, turns, served_ms, micros })
    }
}

/// The digest of an effect, by which a replay compares. Conversations are in it by their own digest, so the
/// cost does not grow with the episode.
pub fn effect_digest(effect: &impl Serialize) -> Digest {
    struct Into(blake3::Hasher);
    impl std::io::Write for Into {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut into = Into(blake3::Hasher::new());
    serde_json::to_writer(&mut into, effect).expect("effects hold only what JSON can write: a hasher never fails");
    Digest(*into.0.finalize().as_bytes())
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(blake3::Hash::from_bytes(self.0).to_hex().as_str())
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(blake3::Hash::from_bytes(self.0).to_hex().as_str())
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let hash = blake3::Hash::from_hex(text.as_bytes()).map_err(serde::de::Error::custom)?;
        Ok(Digest(*hash.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn limits() -> TurnLimits {
        TurnLimits { tokens_max: 100, tokens_min: 10, timeout_ms: 1000, attempts_max: 2, prices: Prices::default() }
    }

    #[test]
    fn a_turn_gets_what_is_left_down_to_the_floor() {
        let lent = Amount { tokens: 115, turns: 9, served_ms: 10_000, micros: 0 };
        let mut meter = TurnMeter::new(lent, limits());
        let talk = Conversation::default();
        assert_eq!(meter.next(&talk, 0, 0).unwrap().max_tokens, 100);
        assert_eq!(meter.answered(100, 5), Amount::default());
        assert_eq!(meter.next(&talk, 0, 0).unwrap().max_tokens, 15);
        meter.answered(6, 5);
        assert_eq!(meter.next(&talk, 0, 0), None, "9 tokens are under the floor of 10");
    }

    #[test]
    fn a_failed_try_costs_time_but_no_turn() {
        let mut meter = TurnMeter::new(Amount { tokens: 500, turns: 1, served_ms: 900, micros: 0 }, limits());
        let talk = Conversation::default();
        meter.next(&talk, 0, 0).unwrap();
        assert!(meter.failed(400));
        let again = meter.next(&talk, 0, 0).unwrap();
        assert_eq!((again.turn, again.attempt, again.timeout_ms), (0, 1, 500));
        assert!(!meter.failed(500), "two tries are allowed");
        assert_eq!(meter.spent(), Amount { served_ms: 900, ..Amount::default() });
    }

    #[test]
    fn a_call_that_money_does_not_cover_is_not_made() {
        let prices = Prices { prompt_per_million: 0, completion_per_million: 1_000_000 };
        let lent = Amount { tokens: 500, turns: 9, served_ms: 900, micros: 99 };
        let mut meter = TurnMeter::new(lent, TurnLimits { prices, ..limits() });
        assert_eq!(meter.next(&Conversation::default(), 0, 0), None);
    }

    proptest! {
        #[test]
        fn no_sequence_of_turns_spends_more_than_was_lent(
            turns in proptest::collection::vec((0u64..200, 0u64..90, 0u64..60, any::<bool>()), 0..40)
        ) {
            let lent = Amount { tokens: 700, turns: 12, served_ms: 4_000, micros: 0 };
            let mut meter = TurnMeter::new(lent, limits());
            let talk = Conversation::default();
            for (said, observed, ms, fails) in turns {
                if meter.next(&talk, 20, 1).is_none() { break; }
                if fails { meter.failed(ms); } else { meter.answered(said, ms); }
                meter.charge(observed, 0);
                prop_assert!(lent.covers(&meter.spent()));
            }
        }
    }
}
