//! Budgets as leases. A call reserves its worst case before it is sent and returns what it did not
//! use, so overspending cannot happen rather than being noticed. Limits count tokens, never characters;
//! time is time being served, so that queueing does not eat an episode's clock.

use serde::{Deserialize, Serialize};

/// What may be spent, or what was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amount {
    /// Tokens.
    pub tokens: u64,
    /// Turns, that is calls of the model.
    pub turns: u32,
    /// Milliseconds of being served.
    pub served_ms: u64,
    /// Millionths of a currency unit; zero prices make it free.
    #[serde(default)]
    pub micros: u64,
}

impl Amount {
    /// No limit on anything.
    pub const UNLIMITED: Amount = Amount { tokens: u64::MAX, turns: u32::MAX, served_ms: u64::MAX, micros: u64::MAX };

    /// Whether `self` holds at least `other` in every part.
    pub fn covers(&self, other: &Amount) -> bool {
        self.tokens >= other.tokens
            && self.turns >= other.turns
            && self.served_ms >= other.served_ms
            && self.micros >= other.micros
    }

    /// Part by part, never below zero.
    pub fn less(&self, other: &Amount) -> Amount {
        Amount {
            tokens: self.tokens.saturating_sub(other.tokens),
            turns: self.turns.saturating_sub(other.turns),
            served_ms: self.served_ms.saturating_sub(other.served_ms),
            micros: self.micros.saturating_sub(other.micros),
        }
    }

    /// Part by part, never above the largest number.
    pub fn plus(&self, other: &Amount) -> Amount {
        Amount {
            tokens: self.tokens.saturating_add(other.tokens),
            turns: self.turns.saturating_add(other.turns),
            served_ms: self.served_ms.saturating_add(other.served_ms),
            micros: self.micros.saturating_add(other.micros),
        }
    }

    /// Part by part, the smaller.
    pub fn min(&self, other: &Amount) -> Amount {
        Amount {
            tokens: self.tokens.min(other.tokens),
            turns: self.turns.min(other.turns),
            served_ms: self.served_ms.min(other.served_ms),
            micros: self.micros.min(other.micros),
        }
    }
}

/// Prices in millionths of a currency unit for a million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// For prompt tokens.
    pub prompt_per_million: u64,
    /// For new tokens.
    pub completion_per_million: u64,
}

impl Prices {
    /// The price of one call in millionths, rounded up.
    pub fn micros(&self, prompt_tokens: u64, completion_tokens: u64) -> u64 {
        let prompt = u128::from(prompt_tokens) * u128::from(self.prompt_per_million);
        let completion = u128::from(completion_tokens) * u128::from(self.completion_per_million);
        u64::try_from((prompt + completion).div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

/// A lease: what was lent, what of it is reserved by calls under way, and what is spent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    lent: Amount,
    reserved: Amount,
    spent: Amount,
}

/// The proof of a reservation; give it back to [`Lease::settle`].
#[must_use = "a reservation that is not settled holds its amount for ever"]
#[derive(Debug, PartialEq, Eq, Clone, Serialize, Deserialize)]
pub struct Reservation(Amount);

impl Reservation {
    /// The worst case that was set aside.
    pub fn amount(&self) -> Amount {
        self.0
    }
}

impl Lease {
    /// A fresh lease of `lent`.
    pub fn new(lent: Amount) -> Self {
        Self { lent, reserved: Amount::default(), spent: Amount::default() }
    }

    /// What was lent at the start.
    pub fn lent(&self) -> Amount {
        self.lent
    }

    /// What has been spent.
    pub fn spent(&self) -> Amount {
        self.spent
    }

    /// What can still be reserved.
    pub fn left(&self) -> Amount {
        self.lent.less(&self.spent).less(&self.reserved)
    }

    /// Sets `worst` aside, or says what is left if that is less.
    pub fn reserve(&mut self, worst: Amount) -> Result<Reservation, Amount> {
        let left = self.left();
        if !left.covers(&worst) {
            return Err(left);
        }
        self.reserved = self.reserved.plus(&worst);
        Ok(Reservation(worst))
    }

    /// Books what was used of a reservation and frees the rest. Use beyond the reservation is cut to
    /// it in every part, which is returned: the caller records the overrun as a fault of the server.
    pub fn settle(&mut self, reservation: Reservation, used: Amount) -> Amount {
        let charged = used.min(&reservation.0);
        self.reserved = self.reserved.less(&reservation.0);
        self.spent = self.spent.plus(&charged);
        used.less(&charged)
    }

    /// Charges what is not reserved beforehand, such as an observation's tokens. Cut to what is left;
    /// returns what could not be charged.
    pub fn charge(&mut self, used: Amount) -> Amount {
        let charged = used.min(&self.left());
        self.spent = self.spent.plus(&charged);
        used.less(&charged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tokens(n: u64) -> Amount {
        Amount { tokens: n, ..Amount::default() }
    }

    #[test]
    fn what_is_reserved_cannot_be_reserved_again() {
        let mut lease = Lease::new(tokens(100));
        let first = lease.reserve(tokens(70)).unwrap();
        assert_eq!(lease.reserve(tokens(31)), Err(tokens(30)));
        assert_eq!(lease.settle(first, tokens(20)), Amount::default());
        assert_eq!(lease.left(), tokens(80));
    }

    #[test]
    fn use_beyond_the_reservation_is_cut_and_told() {
        let mut lease = Lease::new(tokens(100));
        let reserved = lease.reserve(tokens(10)).unwrap();
        assert_eq!(lease.settle(reserved, tokens(25)), tokens(15));
        assert_eq!(lease.spent(), tokens(10));
    }

    #[test]
    fn a_price_is_rounded_up_and_never_overflows() {
        let prices = Prices { prompt_per_million: 300_000, completion_per_million: 1_200_000 };
        assert_eq!(prices.micros(1, 0), 1);
        assert_eq!(prices.micros(1_000_000, 500_000), 900_000);
        assert_eq!(prices.micros(u64::MAX, u64::MAX), u64::MAX);
    }

    proptest! {
        #[test]
        fn a_lease_is_never_overspent(steps in proptest::collection::vec((0u64..50, 0u64..80, any::<bool>()), 0..60)) {
            let mut lease = Lease::new(tokens(500));
            let mut held = Vec::new();
            for (worst, used, settle_first) in steps {
                if settle_first && !held.is_empty() {
                    lease.settle(held.remove(0), tokens(used));
                } else if let Ok(reservation) = lease.reserve(tokens(worst)) {
                    held.push(reservation);
                } else {
                    lease.charge(tokens(used));
                }
                let reserved: u64 = held.iter().map(|r| r.amount().tokens).sum();
                prop_assert!(lease.spent().tokens + reserved <= 500);
                prop_assert_eq!(lease.left().tokens, 500 - lease.spent().tokens - reserved);
            }
        }
    }
}
