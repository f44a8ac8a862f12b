use super::*;
use proptest::prelude::*;

const fn settings(slots: u64, save_every: u64, evaluate_every: Option<u64>) -> CourseSettings {
    CourseSettings { slots: Some(slots), save_every, evaluate_every }
}

/// A world that does what a course wants, remembers what counts, and is disturbed as it is told.
struct World {
    course: Course,
    /// Slots that come at most; more than the settings say, or fewer where they say nothing.
    offered: u64,
    /// The checkpoint, and what was evaluated up to it.
    saved: (Progress, bool),
    state: Progress,
    is_evaluated: bool,
    /// Slots in the order in which they count: those that were lost are taken out again.
    stepped: Vec<u64>,
    done: Vec<CourseEffect>,
    retries_left: u32,
    end: Option<CourseEnd>,
}

/// What disturbs one thing that is done.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Disturbance {
    Death,
    NotFinite,
    Stop,
}

impl World {
    fn new(settings: CourseSettings, offered: u64) -> Self {
        Self {
            course: Course::new(settings, Progress::default()),
            offered,
            saved: (Progress::default(), false),
            state: Progress::default(),
            is_evaluated: false,
            stepped: Vec::new(),
            done: Vec::new(),
            retries_left: 10_000,
            end: None,
        }
    }

    /// Runs to the end; `disturb` says what happens to the so-many-th thing that is done.
    fn run(&mut self, mut disturb: impl FnMut(usize) -> Option<Disturbance>) {
        let mut effect = self.course.apply(CourseEvent::Begun);
        for number in 0..100_000 {
            let Some(wanted) = effect.take() else { panic!("it stands still after {:?}", self.done.last()) };
            self.done.push(wanted.clone());
            if let CourseEffect::End(end) = wanted {
                self.end = Some(end);
                return;
            }
            let disturbance = disturb(number);
            if disturbance == Some(Disturbance::Stop) {
                effect = self.course.apply(CourseEvent::StopAsked);
                if effect.is_some() {
                    continue;
                }
            }
            let drops = matches!(wanted, CourseEffect::DropRanks { .. });
            if disturbance == Some(Disturbance::Death) && !drops {
                effect = self.course.apply(CourseEvent::RankDied("it was killed".to_owned()));
                assert_eq!(self.course.apply(CourseEvent::RankDied("its peer".to_owned())), None, "one death, one end");
                continue;
            }
            let event = self.carry_out(&wanted, disturbance == Some(Disturbance::NotFinite));
            effect = self.course.apply(event);
        }
        panic!("it does not end");
    }

    fn carry_out(&mut self, wanted: &CourseEffect, is_infinite: bool) -> CourseEvent {
        match *wanted {
            CourseEffect::MakeRanks => {
                (self.state, self.is_evaluated) = self.saved;
                self.stepped.truncate(self.state.slots as usize);
                CourseEvent::RanksReady { at: self.state, is_evaluated: self.is_evaluated }
            }
            CourseEffect::FormSlot(slot) if slot >= self.offered => CourseEvent::NoMoreSlots,
            CourseEffect::FormSlot(_) => CourseEvent::SlotFormed,
            CourseEffect::Step { slot, update } => {
                assert_eq!(update, self.state.updates + 1);
                self.stepped.push(slot);
                self.state.slots += 1;
                self.state.updates += u64::from(!is_infinite);
                self.is_evaluated = false;
                CourseEvent::Stepped { updated: !is_infinite }
            }
            CourseEffect::Evaluate(at) => {
                assert_eq!((at, self.is_evaluated), (self.state, false), "nothing is evaluated twice");
                self.is_evaluated = true;
                CourseEvent::Evaluated
            }
            CourseEffect::Save(at) => {
                assert_eq!(at, self.state);
                assert!(at.slots > self.saved.0.slots, "nothing is saved twice");
                self.saved = (at, self.is_evaluated);
                CourseEvent::Saved
            }
            CourseEffect::DropRanks { to_retry } => {
                self.retries_left = self.retries_left.saturating_sub(u32::from(to_retry));
                CourseEvent::RanksGone { may_retry: self.retries_left > 0 }
            }
            CourseEffect::End(_) => unreachable!("the end is not carried out"),
        }
    }

    fn count(&self, is: impl Fn(&CourseEffect) -> bool) -> usize {
        self.done.iter().filter(|done| is(done)).count()
    }
}

fn saves(world: &World) -> Vec<u64> {
    let saved = |done: &CourseEffect| if let CourseEffect::Save(at) = done { Some(at.slots) } else { None };
    world.done.iter().filter_map(saved).collect()
}

#[test]
fn an_undisturbed_course_steps_evaluates_and_saves_when_it_should() {
    let mut world = World::new(settings(7, 3, Some(2)), 9);
    world.run(|_| None);
    assert_eq!(world.stepped, [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(saves(&world), [3, 6, 7]);
    let evaluated = |done: &CourseEffect| if let CourseEffect::Evaluate(at) = done { Some(at.slots) } else { None };
    assert_eq!(world.done.iter().filter_map(evaluated).collect::<Vec<_>>(), [0, 2, 4, 6, 7]);
    assert_eq!(world.end, Some(CourseEnd::Complete(Progress { slots: 7, updates: 7 })));
}

#[test]
fn what_is_evaluated_at_a_checkpoint_is_evaluated_before_it_is_written() {
    let mut world = World::new(settings(2, 1, Some(1)), 2);
    world.run(|_| None);
    let at = Progress { slots: 1, updates: 1 };
    let place = |wanted| world.done.iter().position(|done| *done == wanted).unwrap();
    assert!(place(CourseEffect::Evaluate(at)) < place(CourseEffect::Save(at)));
}

#[test]
fn a_course_without_a_number_ends_when_no_more_comes() {
    let mut world = World::new(CourseSettings { slots: None, save_every: 2, evaluate_every: None }, 5);
    world.run(|_| None);
    assert_eq!((world.stepped.len(), saves(&world)), (5, vec![2, 4, 5]));
    assert_eq!(world.end, Some(CourseEnd::Complete(Progress { slots: 5, updates: 5 })));
}

#[test]
fn a_stopped_course_finishes_its_step_saves_and_ends_without_evaluating() {
    let mut world = World::new(settings(9, 0, Some(1)), 9);
    let mut steps = 0;
    world.run(|_| {
        steps += 1;
        // Make, evaluate, form, step: the stop comes in the first step.
        (steps == 4).then_some(Disturbance::Stop)
    });
    assert_eq!((saves(&world), world.stepped.as_slice()), (vec![1], &[0][..]));
    assert_eq!(world.count(|done| matches!(done, CourseEffect::Evaluate(_))), 1);
    assert_eq!(world.end, Some(CourseEnd::Stopped(Progress { slots: 1, updates: 1 })));
}

#[test]
fn a_course_that_waits_for_samples_stops_at_once() {
    let mut course =
        Course::new(CourseSettings { slots: None, save_every: 1, evaluate_every: None }, Progress::default());
    course.apply(CourseEvent::Begun);
    let ready = CourseEvent::RanksReady { at: Progress::default(), is_evaluated: false };
    assert_eq!(course.apply(ready), Some(CourseEffect::FormSlot(0)));
    assert_eq!(course.apply(CourseEvent::StopAsked), Some(CourseEffect::DropRanks { to_retry: false }));
    assert_eq!(course.apply(CourseEvent::SlotFormed), None, "late news");
    let end = CourseEffect::End(CourseEnd::Stopped(Progress::default()));
    assert_eq!(course.apply(CourseEvent::RanksGone { may_retry: true }), Some(end));
}

#[test]
fn an_update_that_is_left_out_counts_as_a_slot_and_not_as_an_update() {
    let mut world = World::new(settings(4, 0, None), 4);
    let mut seen = 0;
    world.run(|_| {
        seen += 1;
        (seen == 5).then_some(Disturbance::NotFinite)
    });
    assert_eq!(world.end, Some(CourseEnd::Complete(Progress { slots: 4, updates: 3 })));
}

#[test]
fn what_trying_again_does_not_mend_ends_the_course_and_names_the_last_checkpoint() {
    let mut course = Course::new(settings(3, 1, None), Progress::default());
    course.apply(CourseEvent::Begun);
    assert_eq!(
        course.apply(CourseEvent::Failed("no such model".to_owned())),
        Some(CourseEffect::DropRanks { to_retry: false })
    );
    let end = CourseEnd::Failed { saved: Progress::default(), why: "no such model".to_owned() };
    assert_eq!(course.apply(CourseEvent::RanksGone { may_retry: true }), Some(CourseEffect::End(end)));
    assert_eq!(course.apply(CourseEvent::Begun), None);
}

#[test]
fn deaths_without_end_use_the_budget_up() {
    let mut world = World::new(settings(3, 1, None), 3);
    world.retries_left = 4;
    world.run(|_| Some(Disturbance::Death));
    assert_eq!(world.count(|done| matches!(done, CourseEffect::MakeRanks)), 4);
    let end = CourseEnd::Failed { saved: Progress::default(), why: "it was killed".to_owned() };
    assert_eq!(world.end, Some(end));
}

proptest! {
    #[test]
    fn deaths_anywhere_change_nothing_that_counts(
        slots in 0u64..24, save_every in 0u64..6, evaluate_every in prop::option::of(0u64..5),
        deaths in prop::collection::btree_set(0usize..120, 0..12), is_live in any::<bool>(),
    ) {
        let settings = CourseSettings { slots: (!is_live).then_some(slots), save_every, evaluate_every };
        let mut world = World::new(settings, slots);
        world.run(|number| deaths.contains(&number).then_some(Disturbance::Death));
        prop_assert_eq!(&world.stepped, &(0..slots).collect::<Vec<_>>(), "each slot counts once, in order");
        let all = Progress { slots, updates: slots };
        prop_assert_eq!(world.end, Some(CourseEnd::Complete(all)));
        prop_assert_eq!(world.saved.0, all);
    }

    #[test]
    fn a_course_that_is_stopped_again_and_again_and_resumed_comes_to_the_same(
        slots in 1u64..20, save_every in 0u64..6, evaluate_every in prop::option::of(0u64..5),
        stops in prop::collection::vec(0usize..30, 1..8), deaths in prop::collection::btree_set(0usize..60, 0..4),
    ) {
        let settings = settings(slots, save_every, evaluate_every);
        let mut world = World::new(settings, slots);
        for stop in stops {
            world.course = Course::new(settings, world.saved.0);
            world.run(|number| match number {
                number if number == stop => Some(Disturbance::Stop),
                number => deaths.contains(&number).then_some(Disturbance::Death),
            });
            match world.end.clone().unwrap() {
                CourseEnd::Complete(at) => prop_assert_eq!(at.slots, slots),
                CourseEnd::Stopped(at) => prop_assert_eq!(at, world.saved.0, "all that counts is kept"),
                CourseEnd::Failed { why, .. } => prop_assert!(false, "{}", why),
            }
        }
        world.course = Course::new(settings, world.saved.0);
        world.run(|_| None);
        prop_assert_eq!(world.stepped, (0..slots).collect::<Vec<_>>());
        prop_assert_eq!(world.end, Some(CourseEnd::Complete(Progress { slots, updates: slots })));
        prop_assert!(world.is_evaluated || evaluate_every.is_none());
    }

    #[test]
    fn no_order_of_events_makes_it_panic_or_speak_after_its_end(events in prop::collection::vec(0u8..11, 0..60)) {
        let mut course = Course::new(settings(5, 2, Some(2)), Progress::default());
        let mut is_over = false;
        for event in events {
            let effect = course.apply(match event {
                0 => CourseEvent::Begun,
                1 => CourseEvent::RanksReady { at: Progress::default(), is_evaluated: false },
                2 => CourseEvent::SlotFormed,
                3 => CourseEvent::NoMoreSlots,
                4 => CourseEvent::Stepped { updated: true },
                5 => CourseEvent::Evaluated,
                6 => CourseEvent::Saved,
                7 => CourseEvent::RankDied(String::new()),
                8 => CourseEvent::Failed(String::new()),
                9 => CourseEvent::RanksGone { may_retry: true },
                _ => CourseEvent::StopAsked,
            });
            prop_assert!(!(is_over && effect.is_some()));
            is_over |= matches!(effect, Some(CourseEffect::End(_)));
        }
    }
}
