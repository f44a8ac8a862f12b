//! A group of ranks: they meet, each brings numbers, and all go on with their sum or maximum, taken in rank order, or with those
//! of one rank, so that every rank has the same bits. They are threads of one process; one of another process is at a meeting
//! through a [`Carrier`], and a thread here brings what it brings.
//!
//! It refuses to know what the numbers are. A rank that is gone, or that asks for something else than the others, ends the
//! group for good and for all: nobody waits for what cannot come.

use crate::ops::OpsError;
use std::borrow::Cow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How numbers of several ranks become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    /// Their sum, in rank order.
    Sum,
    /// The greatest.
    Max,
    /// Those of this rank.
    Of(usize),
}

/// Makes groups.
#[derive(Clone, Copy, Debug)]
pub struct Group;

impl Group {
    /// The members of a new group of `ranks`, in rank order; each is for one thread.
    pub fn of(ranks: usize) -> Vec<Member> {
        let state = State {
            meetings: 0,
            calls: vec![None; ranks],
            brought: vec![Vec::new(); ranks],
            result: Vec::new(),
            ended: None,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let member =
            |rank| Member { way: Way::Here(Arc::clone(&shared)), is_across: false, rank, ranks, turn: Mutex::new(()) };
        (0..ranks).map(member).collect()
    }
}

/// What takes a rank's calls to its group in another process.
pub trait Carrier: Send + Sync + std::fmt::Debug {
    /// Meets all other ranks, as [`Member::meet`] does.
    ///
    /// # Errors
    /// As [`Member::meet`].
    fn meet(&self, op: &str, reduce: Reduce, values: &mut Vec<f64>) -> Result<(), OpsError>;

    /// Says whether there may be a further meeting; it waits for nobody.
    ///
    /// # Errors
    /// Why there will be none.
    fn check(&self) -> Result<(), OpsError>;
}

/// One rank's place in its group. Dropping it ends the group for those who still meet.
#[derive(Debug)]
pub struct Member {
    way: Way,
    /// Whether its group spans processes.
    is_across: bool,
    rank: usize,
    ranks: usize,
    /// Held through a meeting, so that a rank is at one meeting at a time whoever asks for it.
    turn: Mutex<()>,
}

/// How a member comes to its group.
#[derive(Debug)]
enum Way {
    Here(Arc<Shared>),
    Carried(Box<dyn Carrier>),
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Meetings that all ranks have come to.
    meetings: u64,
    /// Of the meeting that is on: what each rank that has come asks for.
    calls: Vec<Option<Call>>,
    /// What they brought.
    brought: Vec<Vec<f64>>,
    /// Of the last meeting. It stays until all are at the next, to which nobody comes before having read this.
    result: Vec<f64>,
    /// Why there will be no further meeting.
    ended: Option<OpsError>,
}

/// What a rank asks for; all must ask for the same.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Call {
    op: Cow<'static, str>,
    reduce: Reduce,
    len: usize,
}

impl Member {
    /// The place of a rank whose group is in another process.
    pub fn carried(carrier: Box<dyn Carrier>, rank: usize, ranks: usize) -> Self {
        Self { way: Way::Carried(carrier), is_across: true, rank, ranks, turn: Mutex::new(()) }
    }

    /// The same place in a group of which some ranks are in other processes.
    pub fn across_processes(mut self) -> Self {
        self.is_across = true;
        self
    }

    /// Whether its group spans processes, so that a meeting is a way through the network.
    pub fn is_across_processes(&self) -> bool {
        self.is_across
    }

    /// Its rank, from 0.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Ranks of its group.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Meets all other ranks, which must ask for the same; each value becomes that of all ranks together.
    ///
    /// # Errors
    /// [`OpsError::Device`], for every rank and for good, if one left the group or asked for something else.
    pub fn meet<T>(&self, op: &'static str, reduce: Reduce, values: &mut [T]) -> Result<(), OpsError>
    where
        T: Copy + Into<f64> + FromDouble,
    {
        self.meet_as(Cow::Borrowed(op), reduce, values)
    }

    /// Meets all other ranks in place of one of another process, whose words these are.
    ///
    /// # Errors
    /// As [`Member::meet`]; the values of a rank that there is not.
    pub fn meet_for(&self, op: String, reduce: Reduce, values: &mut [f64]) -> Result<(), OpsError> {
        if let Reduce::Of(rank) = reduce
            && rank >= self.ranks
        {
            return Err(OpsError::Device(format!("expected a rank below {} in {op}, got {rank}", self.ranks)));
        }
        self.meet_as(Cow::Owned(op), reduce, values)
    }

    /// Says whether there may be a further meeting; it waits for nobody.
    ///
    /// # Errors
    /// Why there will be none.
    pub fn check(&self) -> Result<(), OpsError> {
        match &self.way {
            Way::Here(shared) => shared.lock().ended.clone().map_or(Ok(()), Err),
            Way::Carried(carrier) => carrier.check(),
        }
    }

    fn meet_as<T>(&self, op: Cow<'static, str>, reduce: Reduce, values: &mut [T]) -> Result<(), OpsError>
    where
        T: Copy + Into<f64> + FromDouble,
    {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        match &self.way {
            Way::Here(shared) => self.meet_here(shared, op, reduce, values),
            Way::Carried(carrier) => {
                let mut carried: Vec<f64> = values.iter().map(|value| (*value).into()).collect();
                carrier.meet(&op, reduce, &mut carried)?;
                if carried.len() != values.len() {
                    let (sent, came) = (values.len(), carried.len());
                    return Err(OpsError::Device(format!("expected {sent} values of {op}, got {came}")));
                }
                values.iter_mut().zip(carried).for_each(|(value, carried)| *value = T::from_double(carried));
                Ok(())
            }
        }
    }

    fn meet_here<T>(
        &self,
        shared: &Shared,
        op: Cow<'static, str>,
        reduce: Reduce,
        values: &mut [T],
    ) -> Result<(), OpsError>
    where
        T: Copy + Into<f64> + FromDouble,
    {
        let mut state = shared.lock();
        if let Some(ended) = &state.ended {
            return Err(ended.clone());
        }
        let call = Call { op, reduce, len: values.len() };
        if let Some((other, asked)) = state.asked().filter(|(_, asked)| **asked != call) {
            let told = format!("rank {} of {} asked for {call}, and rank {other} for {asked}", self.rank, self.ranks);
            let ended = OpsError::Device(told);
            state.ended = Some(ended.clone());
            shared.changed.notify_all();
            return Err(ended);
        }
        state.calls[self.rank] = Some(call);
        let brought = &mut state.brought[self.rank];
        brought.clear();
        brought.extend(values.iter().map(|value| (*value).into()));
        let meeting = state.meetings;
        if state.calls.iter().all(Option::is_some) {
            state.conclude(reduce);
            shared.changed.notify_all();
        }
        // A meeting that all came to is good, even if somebody left right after it.
        while state.meetings == meeting {
            if let Some(ended) = &state.ended {
                return Err(ended.clone());
            }
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        values.iter_mut().zip(&state.result).for_each(|(value, result)| *value = T::from_double(*result));
        Ok(())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // A carrier's other end sees by itself that it is gone.
        let Way::Here(shared) = &self.way else { return };
        let left = OpsError::Device(format!("rank {} of {} left the group", self.rank, self.ranks));
        shared.lock().ended.get_or_insert(left);
        shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A rank that has come to the meeting that is on, and what it asked for.
    fn asked(&self) -> Option<(usize, &Call)> {
        self.calls.iter().enumerate().find_map(|(rank, call)| call.as_ref().map(|call| (rank, call)))
    }

    fn conclude(&mut self, reduce: Reduce) {
        self.calls.fill(None);
        self.meetings += 1;
        if let Reduce::Of(rank) = reduce {
            self.result.clone_from(&self.brought[rank]);
            return;
        }
        let (first, others) = self.brought.split_first().expect("whoever concludes a meeting has come to it");
        self.result.clear();
        self.result.extend_from_slice(first);
        for other in others {
            for (result, other) in self.result.iter_mut().zip(other) {
                *result = match reduce {
                    Reduce::Sum => *result + other,
                    Reduce::Max => result.max(*other),
                    Reduce::Of(_) => unreachable!("the lines above took it"),
                };
            }
        }
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let reduce = match self.reduce {
            Reduce::Sum => "sum",
            Reduce::Max => "maximum",
            Reduce::Of(rank) => return write!(f, "the {} values of rank {rank} in {}", self.len, self.op),
        };
        write!(f, "the {reduce} of {} values in {}", self.len, self.op)
    }
}

/// A number that a sum in double precision is rounded to.
pub trait FromDouble {
    /// Rounds.
    fn from_double(value: f64) -> Self;
}

impl FromDouble for f32 {
    fn from_double(value: f64) -> Self {
        value as f32
    }
}

impl FromDouble for f64 {
    fn from_double(value: f64) -> Self {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::scope;

    #[test]
    fn every_rank_gets_the_same_sum_and_maximum_meeting_after_meeting() {
        let members = Group::of(4);
        scope(|scope| {
            for member in members {
                scope.spawn(move || {
                    for round in 0..200 {
                        let mine = member.rank() as f32 + round as f32 * 10.0;
                        let mut sum = [mine, 1.0];
                        member.meet("first", Reduce::Sum, &mut sum).unwrap();
                        assert_eq!(sum, [6.0 + 40.0 * round as f32, 4.0]);
                        let mut most = [f64::from(mine)];
                        member.meet("second", Reduce::Max, &mut most).unwrap();
                        assert_eq!(most, [3.0 + 10.0 * f64::from(round)]);
                    }
                });
            }
        });
    }

    #[test]
    fn a_member_that_leaves_wakes_those_who_wait_and_ends_the_group_for_good() {
        let mut members = Group::of(3);
        let leaver = members.pop().unwrap();
        scope(|scope| {
            for member in members {
                scope.spawn(move || {
                    for _ in 0..2 {
                        let failed = member.meet("sum", Reduce::Sum, &mut [1.0_f32]).unwrap_err();
                        assert_eq!(failed, OpsError::Device("rank 2 of 3 left the group".into()));
                    }
                });
            }
            scope
                .spawn(move || {
                    let _held = leaver;
                    std::panic::resume_unwind(Box::new("made up"));
                })
                .join()
                .unwrap_err();
        });
    }

    #[test]
    fn a_meeting_that_all_came_to_is_good_though_one_leaves_at_once() {
        for _ in 0..100 {
            let members = Group::of(2);
            scope(|scope| {
                for member in members {
                    scope.spawn(move || {
                        let mut value = [1.0_f32];
                        member.meet("sum", Reduce::Sum, &mut value).unwrap();
                        assert_eq!(value, [2.0]);
                    });
                }
            });
        }
    }

    #[test]
    fn ranks_that_ask_for_different_things_are_all_told() {
        for (reduce, len) in [(Reduce::Sum, 3), (Reduce::Max, 2)] {
            let members = Group::of(2);
            scope(|scope| {
                for member in members {
                    scope.spawn(move || {
                        let (reduce, len) = if member.rank() == 0 { (Reduce::Sum, 2) } else { (reduce, len) };
                        let failed = member.meet("gather", reduce, &mut vec![1.0_f32; len]).unwrap_err().to_string();
                        assert!(
                            failed.contains("asked for the") && failed.contains("of 2 values in gather"),
                            "{failed}"
                        );
                        assert!(member.meet("gather", Reduce::Sum, &mut [1.0_f32]).is_err(), "the group has ended");
                    });
                }
            });
        }
    }

    #[test]
    fn one_rank_is_its_own_group() {
        let member = Group::of(1).pop().unwrap();
        let mut value = [5.0_f32, -1.0];
        member.meet("sum", Reduce::Sum, &mut value).unwrap();
        assert_eq!(value, [5.0, -1.0]);
        assert!(Group::of(0).is_empty());
    }

    /// Brings what is carried to a member of the group, as a thread for a rank of another process does.
    #[derive(Debug)]
    struct Carried(Member);

    impl Carrier for Carried {
        fn meet(&self, op: &str, reduce: Reduce, values: &mut Vec<f64>) -> Result<(), OpsError> {
            self.0.meet_for(op.to_owned(), reduce, values)?;
            if op == "cut" {
                values.pop();
            }
            Ok(())
        }

        fn check(&self) -> Result<(), OpsError> {
            self.0.check()
        }
    }

    #[test]
    fn a_rank_that_is_carried_meets_as_one_that_is_here() {
        let mut members = Group::of(2);
        let distant = members.pop().unwrap().across_processes();
        let here = members.pop().unwrap();
        scope(|scope| {
            scope.spawn(move || {
                let distant = Member::carried(Box::new(Carried(distant)), 1, 2);
                assert!(distant.is_across_processes() && !here.is_across_processes());
                let here = scope.spawn(move || {
                    let mut sum = [0.1_f32, 2.0];
                    here.meet("sum", Reduce::Sum, &mut sum).unwrap();
                    here.meet("cut", Reduce::Max, &mut [0.0_f32]).unwrap();
                    assert_eq!(here.meet("sum", Reduce::Sum, &mut [0.0_f32]).unwrap_err(), here.check().unwrap_err());
                    sum
                });
                let mut sum = [0.2_f32, 3.0];
                distant.meet("sum", Reduce::Sum, &mut sum).unwrap();
                let cut = distant.meet("cut", Reduce::Max, &mut [1.0_f32]).unwrap_err().to_string();
                assert!(cut.contains("expected 1 values of cut, got 0"), "{cut}");
                let of_nobody = distant.meet("of", Reduce::Of(2), &mut [1.0_f32]).unwrap_err().to_string();
                assert!(of_nobody.contains("expected a rank below 2 in of, got 2"), "{of_nobody}");
                assert_eq!(distant.check(), Ok(()));
                drop(distant);
                assert_eq!(here.join().unwrap(), sum);
            });
        });
    }
}
