use super::super::double::{Act, Listener, Making, Plan, ask, maker, waiting};
use super::*;
use legwork_engine::Reason;
use std::sync::Arc;

const STEP_MAX_MS: u64 = 1_000;

/// Two replicas that say 0 and 1.
fn two(plans: &[Arc<Plan>; 2]) -> Replicas {
    let makers = (0..2).map(|at| (format!("cuda:{at}"), maker(at as u32, 4, &plans[at]))).collect();
    Replicas::start(makers, STEP_MAX_MS, Clock::system()).map_err(|error| error.to_string()).unwrap().0
}

fn submit(replicas: &Replicas, id: u64, session: Option<u128>) -> Listener {
    let (request, speaker, listener) = ask(id, session, 1);
    replicas.submit(request, speaker).unwrap();
    listener
}

/// Which replica answers.
async fn served_by(replicas: &Replicas, id: u64, session: u128) -> u32 {
    match submit(replicas, id, Some(session)).whole().await {
        (ids, Some(Reason::Length)) => ids[0],
        other => panic!("expected a token, heard {other:?}"),
    }
}

/// Makes the replica of `plan` fail until its budget is used up, by requests of a session that is there.
async fn kill(replicas: &Replicas, plan: &Plan, session: u128) {
    plan.makings.lock().unwrap().extend([Making::Fails; 5]);
    plan.does([Act::FailDevice]);
    submit(replicas, 500, Some(session)).fails_with("a kernel was told to fail").await;
}

#[tokio::test]
async fn turns_of_a_session_go_to_one_replica_and_sessions_spread() {
    let replicas = two(&[Plan::of([]), Plan::of([])]);
    let mut homes = Vec::new();
    for (id, session) in [1_u128, 2, 3, 4, 1, 2, 3, 4, 4, 1].into_iter().enumerate() {
        homes.push(served_by(&replicas, id as u64, session).await);
    }
    assert_eq!(homes, [0, 1, 0, 1, 0, 1, 0, 1, 1, 0]);
    assert_eq!((replicas.gauges().finished, replicas.gauges().pages), (10, 512), "all as one");
    let each = replicas.each();
    assert_eq!(
        each.iter().map(|one| (&*one.device, one.gauges.finished)).collect::<Vec<_>>(),
        [("cuda:0", 5), ("cuda:1", 5)]
    );
}

#[tokio::test]
async fn requests_of_no_session_go_to_who_has_fewest_before_any_has_begun() {
    let (wait, begun, go_on) = waiting();
    let replicas = two(&[Plan::of([wait]), Plan::of([])]);
    let busy = submit(&replicas, 0, None);
    begun.recv().unwrap();
    for id in 1..5 {
        assert_eq!(submit(&replicas, id, None).whole().await.0, [1]);
    }
    go_on.send(()).unwrap();
    assert_eq!(busy.whole().await.0, [0]);
}

#[tokio::test]
async fn sessions_of_a_replica_that_is_gone_go_to_the_others_and_all_gone_is_told() {
    let plans = [Plan::of([]), Plan::of([])];
    let replicas = two(&plans);
    assert_eq!([served_by(&replicas, 0, 1).await, served_by(&replicas, 1, 2).await], [0, 1]);
    kill(&replicas, &plans[0], 1).await;
    assert_eq!(served_by(&replicas, 2, 1).await, 1, "a later turn is answered by another");
    assert_eq!(served_by(&replicas, 3, 2).await, 1);
    assert_eq!(replicas.health(), Ok(()), "one is left");
    let trouble: Vec<_> = replicas.each().into_iter().map(|one| one.trouble.is_some()).collect();
    assert_eq!(trouble, [true, false]);
    kill(&replicas, &plans[1], 1).await;
    // While it is made anew it still takes requests, and fails them in the end.
    let mut id = 600;
    while submit(&replicas, id, Some(1)).whole().await.1.is_some() {
        id += 1;
    }
    let why = replicas.health().unwrap_err();
    assert!(why.contains("cuda:0") && why.contains("cuda:1"), "{why}");
}

#[tokio::test]
async fn a_session_leaves_a_replica_that_hangs() {
    let (wait, begun, go_on) = waiting();
    let plans = [Plan::of([]), Plan::of([])];
    let replicas = two(&plans);
    assert_eq!(served_by(&replicas, 0, 1).await, 0);
    plans[0].does([wait]);
    let hangs = submit(&replicas, 1, Some(1));
    begun.recv().unwrap();
    let late_ms = replicas.clock.elapsed_ms() + STEP_MAX_MS + 1;
    assert_eq!(replicas.health_at(late_ms), Ok(()), "the other answers");
    let standings: Vec<_> = replicas.threads.iter().map(|thread| thread.standing(late_ms)).collect();
    assert_eq!(standings, [Standing::Late { asked: 1 }, Standing::Up { asked: 0 }]);
    go_on.send(()).unwrap();
    assert_eq!(hangs.whole().await.0, [0]);
}

#[test]
fn if_one_of_them_cannot_be_made_there_is_no_model() {
    let plans = [Plan::of([]), Plan::of([])];
    plans[1].makings.lock().unwrap().push_back(Making::Fails);
    let makers = (0..2).map(|at| (format!("cuda:{at}"), maker(at as u32, 4, &plans[at]))).collect();
    let error = Replicas::start(makers, STEP_MAX_MS, Clock::system()).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("told to fail"), "{error}");
}
