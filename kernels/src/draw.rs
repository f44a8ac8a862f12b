//! How a backend draws a token where its logits are, and what it tells of the draw. The rules are those that need nothing but
//! the row itself; top-k, penalties and biases are not among them.
//!
//! It refuses to know requests.

/// How one row is drawn from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrawRules {
    /// 0 for the most probable token; finite and not negative.
    pub temperature: f64,
    /// The part of the mass that the nucleus has at least; 1 for all.
    pub top_p: f64,
    /// The part of the greatest mass that a token has at least; 0 for all.
    pub min_p: f64,
    /// The request's seed.
    pub seed: u64,
    /// Tokens drawn before it.
    pub position: u64,
}

impl Default for DrawRules {
    /// The most probable token.
    fn default() -> Self {
        Self { temperature: 0.0, top_p: 1.0, min_p: 0.0, seed: 0, position: 0 }
    }
}

/// What was drawn from one row, with what its log-probability is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowDraw {
    /// The token.
    pub id: u32,
    /// Its logit.
    pub logit: f32,
    /// The greatest logit of the row.
    pub top: f32,
    /// The mass of the whole row at temperature 1, in units of 2^-44 of the greatest: the row's log-sum-exp is `top` and its
    /// logarithm.
    pub mass: u64,
}
