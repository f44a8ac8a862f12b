//! A plan: which misbehaviour meets which request, by its place in the order of arrival. Written step by step, drawn
//! from a seed, or both; the same plan gives the n-th request the same treatment, always.

use super::behaviour::{Misbehaviour, RetryAfter};
use super::play::HUGE_MAX_BYTES;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Written steps at most.
pub const STEPS_MAX: usize = 100_000;
/// The longest pause or closed door, in milliseconds.
pub const PAUSE_MAX_MS: u64 = 600_000;
/// The farthest `Retry-After` that is not the absurd one, in seconds: a year.
const RETRY_AFTER_MAX_S: u64 = 366 * 86_400;

/// What a server does, request by request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerPlan {
    /// One for each request, in order of arrival.
    pub steps: Vec<Misbehaviour>,
    /// What becomes of the requests after the written steps; they are served well if absent.
    pub mix: Option<Mix>,
}

/// A drawn part of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Where the draws come from.
    pub seed: u64,
    /// How many of a hundred requests meet a misbehaviour.
    pub percent: u32,
    /// Which of them are drawn, each as likely as another. Empty for all recoverable ones.
    #[serde(default)]
    pub of: Vec<Misbehaviour>,
}

/// A plan that cannot be carried out.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PlanError {
    /// Too many steps.
    #[error("expected at most {STEPS_MAX} steps, got {0}: draw the rest by `mix`")]
    TooManySteps(usize),
    /// A figure beyond its limit.
    #[error("`{name}`: expected at most {most}, got {got}")]
    TooMuch {
        /// Of which misbehaviour.
        name: &'static str,
        /// The most that may be.
        most: u64,
        /// What it is.
        got: u64,
    },
}

impl ServerPlan {
    /// Every request is served well.
    pub fn fine() -> Self {
        Self::default()
    }

    /// Every request meets `misbehaviour`.
    pub fn always(misbehaviour: Misbehaviour) -> Self {
        Self::mixed(0, 100, vec![misbehaviour])
    }

    /// The first requests meet these; the rest are served well.
    pub fn then_fine(steps: impl IntoIterator<Item = Misbehaviour>) -> Self {
        Self { steps: steps.into_iter().collect(), mix: None }
    }

    /// Of a hundred requests, `percent` meet one of these; of all recoverable ones if there are none.
    pub fn mixed(seed: u64, percent: u32, of: Vec<Misbehaviour>) -> Self {
        Self { steps: Vec::new(), mix: Some(Mix { seed, percent, of }) }
    }

    /// What becomes of the n-th request, from 0.
    pub fn for_request(&self, number: u64) -> Misbehaviour {
        let written = usize::try_from(number).ok().and_then(|place| self.steps.get(place));
        match (written, &self.mix) {
            (Some(step), _) => step.clone(),
            (None, Some(mix)) => mix.draw(number),
            (None, None) => Misbehaviour::Fine,
        }
    }

    /// Checks every figure against its limit.
    ///
    /// # Errors
    /// The first that is beyond it.
    pub fn validate(&self) -> Result<(), PlanError> {
        if self.steps.len() > STEPS_MAX {
            return Err(PlanError::TooManySteps(self.steps.len()));
        }
        if let Some(mix) = &self.mix {
            within("mix.percent", u64::from(mix.percent), 100)?;
        }
        self.steps.iter().chain(self.mix.iter().flat_map(|mix| &mix.of)).try_for_each(validate)
    }
}

impl Mix {
    /// What becomes of the n-th request. Each request has a stream of dice of its own, so that no order of asking
    /// changes another's draw.
    fn draw(&self, number: u64) -> Misbehaviour {
        let mut dice = ChaCha8Rng::seed_from_u64(self.seed);
        dice.set_stream(number);
        if dice.random_range(0..100) >= self.percent {
            return Misbehaviour::Fine;
        }
        let recoverable: Vec<Misbehaviour>;
        let of = if self.of.is_empty() {
            recoverable = Misbehaviour::gallery().into_iter().filter(Misbehaviour::is_recoverable).collect();
            &recoverable
        } else {
            &self.of
        };
        of[dice.random_range(0..of.len())].clone()
    }
}

fn within(name: &'static str, got: u64, most: u64) -> Result<(), PlanError> {
    if got <= most { Ok(()) } else { Err(PlanError::TooMuch { name, most, got }) }
}

fn validate(step: &Misbehaviour) -> Result<(), PlanError> {
    let name = step.name();
    match step {
        Misbehaviour::RateLimited { retry_after: RetryAfter::Seconds(seconds) | RetryAfter::DateIn(seconds) } => {
            within(name, *seconds, RETRY_AFTER_MAX_S)
        }
        Misbehaviour::DoorClosed { for_ms: ms }
        | Misbehaviour::SingleBytes { pause_ms: ms }
        | Misbehaviour::EndlessComments { pause_ms: ms } => within(name, *ms, PAUSE_MAX_MS),
        Misbehaviour::HugeBody { bytes } => within(name, *bytes, HUGE_MAX_BYTES),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_written_in_toml_as_it_is_read() {
        let text = r#"
            steps = ["fine", "reset_in_body", { rate_limited = { retry_after = { seconds = 7 } } }, { rate_limited = {} },
                     { single_bytes = { pause_ms = 1 } }, { error_under_200 = { code = 429 } }]
            [mix]
            seed = 3
            percent = 30
        "#;
        let plan: ServerPlan = toml::from_str(text).unwrap();
        plan.validate().unwrap();
        assert_eq!(plan.for_request(1), Misbehaviour::ResetInBody);
        assert_eq!(plan.for_request(2), Misbehaviour::RateLimited { retry_after: RetryAfter::Seconds(7) });
        let again: ServerPlan = toml::from_str(&toml::to_string(&plan).unwrap()).unwrap();
        assert_eq!(again, plan);
        for step in Misbehaviour::gallery() {
            let plan = ServerPlan::then_fine([step]);
            assert_eq!(toml::from_str::<ServerPlan>(&toml::to_string(&plan).unwrap()).unwrap(), plan);
        }
        assert!(toml::from_str::<ServerPlan>("steps = [{ huge_body = { bytes = 1, color = 2 } }]").is_err());
    }

    #[test]
    fn a_drawn_plan_repeats_itself_and_keeps_its_share() {
        let plan = ServerPlan::mixed(9, 30, Vec::new());
        let drawn: Vec<Misbehaviour> = (0..2000).map(|number| plan.for_request(number)).collect();
        assert_eq!(drawn, (0..2000).map(|number| plan.for_request(number)).collect::<Vec<_>>());
        let bad = drawn.iter().filter(|step| **step != Misbehaviour::Fine).count();
        assert!((500..700).contains(&bad), "{bad} of 2000");
        assert!(drawn.iter().all(Misbehaviour::is_recoverable));
        let other = ServerPlan::mixed(10, 30, Vec::new());
        assert_ne!(drawn, (0..2000).map(|number| other.for_request(number)).collect::<Vec<_>>());
        assert_eq!(ServerPlan::always(Misbehaviour::NoChoices).for_request(77), Misbehaviour::NoChoices);
    }

    #[test]
    fn figures_beyond_their_limits_are_refused_by_name() {
        let told = |plan: ServerPlan| plan.validate().unwrap_err().to_string();
        let huge = Misbehaviour::HugeBody { bytes: u64::MAX };
        assert!(told(ServerPlan::always(huge)).contains("`huge_body`: expected at most"));
        assert!(told(ServerPlan::mixed(0, 101, Vec::new())).contains("mix.percent"));
        assert!(told(ServerPlan::then_fine([Misbehaviour::DoorClosed { for_ms: u64::MAX }])).contains("door_closed"));
        let many = ServerPlan::then_fine(std::iter::repeat_n(Misbehaviour::Fine, STEPS_MAX + 1));
        assert!(told(many).contains("draw the rest"));
    }
}
