//! Where two runs of one model part: the first token that a conversation has in one run only, how near to each other the two tokens
//! were there, and how far the two runs' probabilities are apart where they still agree. It knows token ids and logarithms of
//! probabilities; it refuses to know what computed them.

use crate::number::Finite;
use legwork_protocol::id::{EpisodeKey, Scope};
use legwork_protocol::outcome::Outcome;
use serde::{Deserialize, Serialize};

/// A margin counts as a tie up to so many times the largest distance at places where the runs agree: each of the two tokens may be
/// off by as much.
pub const TIE_DISTANCES: f64 = 2.0;

/// One answer of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Answer<'a> {
    /// The prompt's ids; none where the server gave none.
    pub prompt: &'a [u32],
    /// The ids drawn.
    pub drawn: &'a [u32],
    /// Natural logarithms of their probabilities, or none.
    pub logprobs: &'a [f32],
}

/// A token and the logarithm of its probability.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Token {
    /// Its id.
    pub id: u32,
    /// What it spells, where a tokenizer was at hand.
    #[serde(default)]
    pub text: Option<String>,
    /// The natural logarithm of its probability.
    #[serde(default)]
    pub logprob: Option<Finite>,
}

/// How two conversations part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parting {
    /// By a token; none where an answer had ended.
    Token {
        /// Place in the answer, from 0.
        place: u64,
        /// The first run's.
        before: Option<Token>,
        /// The second run's.
        after: Option<Token>,
    },
    /// The same was drawn, and yet the next prompt is another: something besides the model differs.
    Prompt {
        /// Place in the prompt, from 0.
        place: u64,
    },
    /// The same was drawn, and only one of the runs asked once more.
    Ended,
    /// A turn whose server gave no ids.
    Unknown,
}

/// What a model of reference gives the tokens drawn where two conversations part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Margin {
    /// Its likeliest token.
    pub likeliest: Token,
    /// How much less likely the first run's token is, in nats; none if there is no such token or it is not among those asked for.
    pub before: Option<Finite>,
    /// How much less likely the second run's token is, in nats.
    pub after: Option<Finite>,
}

impl Margin {
    /// How far the less likely one of the two is behind the likeliest, in nats.
    pub fn nats(&self) -> Option<Finite> {
        let (before, after) = (self.before?, self.after?);
        Some(if before >= after { before } else { after })
    }
}

/// An episode whose conversations part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Divergence {
    /// Which.
    pub key: EpisodeKey,
    /// How it ended in the first run; none if it has not.
    pub before: Option<Outcome>,
    /// How it ended in the second run.
    pub after: Option<Outcome>,
    /// The machine that parts first.
    pub scope: Scope,
    /// Its turn, from 0.
    pub turn: u32,
    /// How.
    pub parting: Parting,
    /// What a model of reference says, where one was asked.
    pub margin: Option<Margin>,
}

impl Divergence {
    /// Whether both tokens were as good as the likeliest: no further behind it than `tie_nats`.
    pub fn is_tie(&self, tie_nats: Finite) -> bool {
        self.margin.as_ref().and_then(Margin::nats).is_some_and(|nats| nats <= tie_nats)
    }
}

/// How far two runs' logarithms of probabilities are apart where both drew the same token behind the same tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distance {
    /// Places with both logarithms.
    pub places: u64,
    /// The sum of the distances, in nats.
    pub sum_nats: f64,
    /// The largest, in nats.
    pub largest_nats: f64,
}

impl Distance {
    /// The mean, in nats.
    pub fn mean_nats(&self) -> Option<Finite> {
        Finite::new(self.sum_nats / self.places as f64).filter(|_| self.places > 0)
    }

    fn add(&mut self, before: Option<&f32>, after: Option<&f32>) {
        let (Some(before), Some(after)) = (before, after) else { return };
        let nats = (f64::from(*before) - f64::from(*after)).abs();
        if nats.is_finite() {
            self.places += 1;
            self.sum_nats += nats;
            self.largest_nats = self.largest_nats.max(nats);
        }
    }
}

/// Two runs' tokens side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Divergences {
    /// The first run's title.
    pub a: String,
    /// The second run's title.
    pub b: String,
    /// Episodes that both runs have.
    pub episodes: u64,
    /// Episodes of one run only, left out.
    pub left_out: u64,
    /// How far apart they are where they agree.
    pub distance: Distance,
    /// Up to which margin a parting counts as a tie, in nats.
    pub tie_nats: Option<Finite>,
    /// Every episode whose conversations part, in the first run's order.
    pub partings: Vec<Divergence>,
}

impl Divergences {
    /// The margin that counts as a tie where none is given, in nats: none where no place has both logarithms.
    pub fn measured_tie(distance: &Distance) -> Option<Finite> {
        Finite::new(TIE_DISTANCES * distance.largest_nats).filter(|_| distance.places > 0)
    }

    /// Partings that are ties.
    pub fn ties(&self) -> u64 {
        self.tie_nats.map_or(0, |nats| self.partings.iter().filter(|parting| parting.is_tie(nats)).count() as u64)
    }

    /// Episodes that ended otherwise.
    pub fn other_outcomes(&self) -> impl Iterator<Item = &Divergence> {
        self.partings.iter().filter(|parting| parting.before != parting.after)
    }
}

/// Where the answers of two conversations part, with the turn; none if they are the same to the last token. Distances of
/// the places before are added up.
pub fn part(before: &[Answer<'_>], after: &[Answer<'_>], distance: &mut Distance) -> Option<(u32, Parting)> {
    (0..before.len().max(after.len())).find_map(|turn| {
        let parting = match (before.get(turn), after.get(turn)) {
            (Some(before), Some(after)) => part_of_turn(before, after, distance)?,
            _ => Parting::Ended,
        };
        Some((u32::try_from(turn).unwrap_or(u32::MAX), parting))
    })
}

fn part_of_turn(before: &Answer<'_>, after: &Answer<'_>, distance: &mut Distance) -> Option<Parting> {
    if before.prompt.is_empty() || after.prompt.is_empty() {
        return Some(Parting::Unknown);
    }
    if let Some(place) = first_other(before.prompt, after.prompt) {
        return Some(Parting::Prompt { place: place as u64 });
    }
    let parts_at = first_other(before.drawn, after.drawn);
    let same = parts_at.unwrap_or(before.drawn.len());
    (0..same).for_each(|place| distance.add(before.logprobs.get(place), after.logprobs.get(place)));
    parts_at.map(|place| Parting::Token {
        place: place as u64,
        before: token(before, place),
        after: token(after, place),
    })
}

/// The first place at which two rows differ; the end of the shorter if it is the other's beginning.
fn first_other(before: &[u32], after: &[u32]) -> Option<usize> {
    let same = before.iter().zip(after).take_while(|(before, after)| before == after).count();
    (same < before.len().max(after.len())).then_some(same)
}

fn token(answer: &Answer<'_>, place: usize) -> Option<Token> {
    let logprob = answer.logprobs.get(place).and_then(|logprob| Finite::new(f64::from(*logprob)));
    answer.drawn.get(place).map(|id| Token { id: *id, text: None, logprob })
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_protocol::id::QuestionId;
    use proptest::prelude::*;

    fn answer<'a>(prompt: &'a [u32], drawn: &'a [u32], logprobs: &'a [f32]) -> Answer<'a> {
        Answer { prompt, drawn, logprobs }
    }

    fn parted(before: &[Answer<'_>], after: &[Answer<'_>]) -> Option<(u32, Parting)> {
        part(before, after, &mut Distance::default())
    }

    #[test]
    fn the_first_other_token_is_named_with_what_each_gave_it() {
        let before = [answer(&[1], &[2, 3], &[]), answer(&[1, 2, 3, 4], &[5, 6, 7], &[-0.5, -0.25, -1.0])];
        let after = [answer(&[1], &[2, 3], &[]), answer(&[1, 2, 3, 4], &[5, 8], &[-0.75, -2.0])];
        let mut distance = Distance::default();
        let (turn, parting) = part(&before, &after, &mut distance).unwrap();
        let token = |id, logprob| Some(Token { id, text: None, logprob: Finite::new(logprob) });
        assert_eq!((turn, parting), (1, Parting::Token { place: 1, before: token(6, -0.25), after: token(8, -2.0) }));
        assert_eq!((distance.places, distance.largest_nats), (1, 0.25));
    }

    #[test]
    fn an_answer_that_ends_earlier_parts_at_its_end() {
        let (before, after) = ([answer(&[1], &[2], &[])], [answer(&[1], &[2, 3], &[])]);
        let Some((0, Parting::Token { place: 1, before: None, after: Some(more) })) = parted(&before, &after) else {
            panic!("expected a parting at place 1");
        };
        assert_eq!(more.id, 3);
    }

    #[test]
    fn another_observation_is_no_fault_of_the_model() {
        let before = [answer(&[1], &[2], &[]), answer(&[1, 2, 7], &[3], &[])];
        let after = [answer(&[1], &[2], &[]), answer(&[1, 2, 9], &[3], &[])];
        assert_eq!(parted(&before, &after), Some((1, Parting::Prompt { place: 2 })));
        assert_eq!(parted(&before, &before[..1]), Some((1, Parting::Ended)));
        assert_eq!(parted(&before, &[before[0], answer(&[], &[], &[])]), Some((1, Parting::Unknown)));
        assert_eq!(parted(&before, &before), None);
    }

    #[test]
    fn a_tie_is_between_two_tokens_that_are_both_as_good_as_the_likeliest() {
        let nats = |nats| Finite::new(nats).unwrap();
        let divergence = |before: Option<f64>, after: Option<f64>| Divergence {
            key: EpisodeKey { round: 0, question: QuestionId::from("q") },
            before: None,
            after: None,
            scope: Scope::Worker(0),
            turn: 0,
            parting: Parting::Ended,
            margin: Some(Margin {
                likeliest: Token { id: 1, text: None, logprob: None },
                before: before.map(nats),
                after: after.map(nats),
            }),
        };
        assert!(divergence(Some(0.0), Some(0.01)).is_tie(nats(0.01)));
        assert!(divergence(Some(0.02), Some(0.01)).is_tie(nats(0.02)), "neither need be the likeliest");
        assert!(!divergence(Some(0.0), Some(0.01)).is_tie(nats(0.009)));
        assert!(!divergence(Some(0.0), None).is_tie(nats(9.0)), "the other token is too unlikely to be listed");
        assert!(!Divergence { margin: None, ..divergence(None, None) }.is_tie(nats(9.0)));
    }

    proptest! {
        #[test]
        fn conversations_part_at_the_first_place_that_was_changed(
            drawn in prop::collection::vec(prop::collection::vec(0u32..50, 1..8), 1..5),
            at in any::<(prop::sample::Index, prop::sample::Index)>(),
        ) {
            fn answers(drawn: &[Vec<u32>]) -> Vec<Answer<'_>> {
                drawn.iter().map(|drawn| answer(&[0], drawn, &[])).collect()
            }
            prop_assert_eq!(parted(&answers(&drawn), &answers(&drawn)), None);
            let turn = at.0.index(drawn.len());
            let place = at.1.index(drawn[turn].len());
            let mut changed = drawn.clone();
            changed[turn][place] += 100;
            let Some((parted_turn, Parting::Token { place: parted_place, .. })) = parted(&answers(&drawn), &answers(&changed))
            else {
                return Err(TestCaseError::fail("expected a parting by a token"));
            };
            prop_assert_eq!((parted_turn as usize, parted_place as usize), (turn, place));
        }
    }
}
