use super::super::double::{Act, Listener, Making, Plan, ask, command, maker, waiting};
use super::life::RESTARTS;
use super::*;
use std::sync::Arc;

const STEP_MAX_MS: u64 = 1_000;

fn started(plan: &Arc<Plan>, running_max: usize) -> EngineThread {
    let starting = EngineThread::start("cuda:7".to_owned(), maker(5, running_max, plan), STEP_MAX_MS, Clock::system());
    starting.unwrap().wait().unwrap().0
}

fn submit(thread: &EngineThread, id: u64, max_new: usize) -> Listener {
    let (command, listener) = command(ask(id, None, max_new));
    assert!(matches!(thread.submit(command), Ok(Ok(()))), "an engine that lives takes a request");
    listener
}

fn is_all(heard: (Vec<u32>, Option<Reason>), count: usize) {
    assert_eq!(heard, (vec![5; count], Some(Reason::Length)));
}

#[tokio::test]
async fn after_a_failed_device_who_was_served_hears_it_and_who_waited_is_served_by_the_next_engine() {
    let (wait, begun, go_on) = waiting();
    let plan = Plan::of([Act::Answer, wait, Act::FailDevice]);
    let thread = started(&plan, 1);
    let mut served = submit(&thread, 1, 40);
    assert_eq!(served.first().await, [5]);
    begun.recv().unwrap();
    let waited = submit(&thread, 2, 3);
    go_on.send(()).unwrap();
    served.fails_with("a kernel was told to fail").await;
    is_all(waited.whole().await, 3);
    is_all(submit(&thread, 3, 4).whole().await, 4);
    assert_eq!((plan.made(), thread.restarts(), thread.health(0)), (2, 1, Ok(())));
    let gauges = thread.gauges();
    assert_eq!((gauges.accepted, gauges.finished, gauges.failed), (3, 2, 1), "counted over both: {gauges:?}");
    assert_eq!((gauges.generated_tokens, gauges.failed_steps), (2 + 3 + 4, 1), "{gauges:?}");
    assert_eq!(thread.standing(0), Standing::Up { asked: 0 });
}

#[tokio::test]
async fn all_of_the_failed_step_hear_it_and_who_had_not_begun_is_served() {
    let (wait, begun, go_on) = waiting();
    let plan = Plan::of([wait, Act::FailDevice]);
    let thread = started(&plan, 2);
    let first = submit(&thread, 1, 9);
    begun.recv().unwrap();
    let [second, third] = [2, 3].map(|id| submit(&thread, id, 9));
    go_on.send(()).unwrap();
    for heard in [first, second] {
        heard.fails_with("a kernel was told to fail").await;
    }
    is_all(third.whole().await, 9);
}

#[tokio::test]
async fn after_a_panic_everybody_hears_it_and_the_next_request_is_answered() {
    let (wait, begun, go_on) = waiting();
    let plan = Plan::of([wait, Act::Panic]);
    let thread = started(&plan, 1);
    let served = submit(&thread, 1, 9);
    begun.recv().unwrap();
    let waited = submit(&thread, 2, 9);
    go_on.send(()).unwrap();
    served.fails_with("panicked").await;
    waited.fails_with("panicked").await;
    is_all(submit(&thread, 3, 2).whole().await, 2);
    assert_eq!((plan.made(), thread.restarts(), thread.gauges().failed), (2, 1, 2));
}

#[tokio::test]
async fn an_engine_that_fails_too_often_is_gone_and_health_says_so() {
    let plan = Plan::of([]);
    let thread = started(&plan, 1);
    let restarts = RESTARTS.restarts_max as usize;
    for id in 0..restarts {
        plan.does([Act::FailDevice]);
        submit(&thread, id as u64, 9).fails_with("a kernel was told to fail").await;
    }
    is_all(submit(&thread, 100, 2).whole().await, 2);
    let (wait, begun, go_on) = waiting();
    plan.does([wait, Act::FailDevice]);
    let last = submit(&thread, 101, 9);
    begun.recv().unwrap();
    let waits = submit(&thread, 102, 9);
    go_on.send(()).unwrap();
    last.fails_with("a kernel was told to fail").await;
    waits.fails_with("died more than 5 times").await;
    let why = thread.health(0).unwrap_err();
    assert!(why.contains("cuda:7") && why.contains("died more than 5 times") && why.contains("told to fail"), "{why}");
    assert_eq!((plan.made(), thread.restarts(), thread.standing(0)), (restarts + 1, restarts as u64, Standing::Gone));
    let (late, heard) = command(ask(103, None, 1));
    drop(thread.submit(late).expect_err("an engine that is gone gives a request back"));
    assert_eq!(heard.whole().await, (Vec::new(), None));
}

#[tokio::test]
async fn making_anew_is_tried_again_while_the_budget_lasts() {
    let plan = Plan::of([Act::FailDevice]);
    plan.makings.lock().unwrap().extend([Making::Succeeds, Making::Fails, Making::Panics]);
    let thread = started(&plan, 1);
    submit(&thread, 1, 1).fails_with("told to fail").await;
    is_all(submit(&thread, 2, 1).whole().await, 1);
    assert_eq!((plan.made(), thread.restarts()), (2, 1));
    plan.makings.lock().unwrap().extend([Making::Fails; 2]);
    plan.does([Act::FailDevice]);
    submit(&thread, 3, 1).fails_with("a kernel was told to fail").await;
    // The third try of five failed, and so do the fourth and the fifth.
    submit_until_gone(&thread).await;
    let why = thread.health(0).unwrap_err();
    assert!(why.contains("could not be made anew"), "{why}");
}

/// Requests until one meets an engine that is gone.
async fn submit_until_gone(thread: &EngineThread) {
    for id in 1_000..1_010 {
        let (late, heard) = command(ask(id, None, 1));
        if thread.submit(late).is_err() {
            return;
        }
        heard.fails_with("died more than 5 times").await;
    }
    panic!("ten requests met an engine that lives");
}

#[test]
fn an_engine_that_cannot_be_made_is_no_engine() {
    for (making, words) in [(Making::Fails, "told to fail"), (Making::Panics, "panicked")] {
        let plan = Plan::of([]);
        plan.makings.lock().unwrap().push_back(making);
        let starting = EngineThread::start("cpu".to_owned(), maker(5, 1, &plan), STEP_MAX_MS, Clock::system()).unwrap();
        let error = starting.wait().map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_step_that_hangs_is_told_with_its_time_until_it_ends() {
    let (wait, begun, go_on) = waiting();
    let clock = Clock::system();
    let starting = EngineThread::start("cuda:7".to_owned(), maker(5, 1, &Plan::of([wait])), STEP_MAX_MS, clock);
    let (thread, _) = starting.unwrap().wait().unwrap();
    assert_eq!(thread.health(u64::MAX - 1), Ok(()), "an engine without work hangs at nothing");
    let asked = submit(&thread, 1, 1);
    begun.recv().unwrap();
    let now_ms = clock.elapsed_ms();
    let why = thread.health(now_ms + STEP_MAX_MS + 1).unwrap_err();
    assert!(why.contains("cuda:7") && why.contains("has run for"), "{why}");
    assert_eq!(thread.standing(now_ms + STEP_MAX_MS + 1), Standing::Late { asked: 1 });
    go_on.send(()).unwrap();
    is_all(asked.whole().await, 1);
}

#[tokio::test]
async fn a_crowded_door_says_that_it_is() {
    let (wait, begun, go_on) = waiting();
    let thread = started(&Plan::of([wait]), 1);
    let first = submit(&thread, 0, 1);
    begun.recv().unwrap();
    let crowd: Vec<_> = (1..=DOOR_MAX as u64).map(|id| submit(&thread, id, 1)).collect();
    let (late, _heard) = command(ask(1 << 20, None, 1));
    assert!(matches!(thread.submit(late), Ok(Err(Refusal::QueueFull { .. }))));
    assert_eq!(thread.standing(0), Standing::Up { asked: DOOR_MAX + 1 });
    drop(crowd);
    go_on.send(()).unwrap();
    is_all(first.whole().await, 1);
}
