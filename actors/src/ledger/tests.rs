//! The ledger on real files: what was acknowledged is there, what could not be written is said, and nothing that was
//! changed behind its back passes.

use super::*;
use legwork_protocol::episode::{Episode, EpisodeEffect, EpisodeEvent};
use legwork_protocol::event::Event;
use legwork_protocol::failure::FailureKind;
use legwork_protocol::profile::Profile;
use legwork_protocol::question::Question;
use std::path::Path;
use std::sync::Arc;

fn manifest() -> Manifest {
    let profile: Profile = toml::from_str(include_str!("../../../src/profiles/archive-mock.toml")).unwrap();
    Manifest {
        run: "test".into(),
        began_epoch_ms: 7,
        legwork: "test".into(),
        world: "w".into(),
        profile,
        seed: 1,
        rounds: 2,
        questions: 2,
        mock: true,
        inputs: BTreeMap::from([("corpus".to_owned(), "abc".to_owned())]),
        script: None,
        forked_from: None,
    }
}

fn questions() -> Vec<Question> {
    ["1", "01"]
        .map(|id| Question {
            id: id.into(),
            text: format!("question {id}"),
            answers: vec!["a".into()],
            tier: "t".into(),
            gold: Vec::new(),
            evidence: Vec::new(),
            decomposition: Vec::new(),
        })
        .to_vec()
}

fn create(folder: &Path) -> Store {
    Store::create(folder, &manifest(), &questions()).unwrap()
}

fn key(round: u32, id: &str) -> EpisodeKey {
    EpisodeKey { round, question: id.into() }
}

fn append(episode: EpisodeKey, seq: u32, bytes: usize) -> Box<Append> {
    let failure = Failure::new(FailureKind::Ledger, "x".repeat(bytes));
    let event = Event::Episode(EpisodeEvent::ActorLost(failure));
    Box::new(Append::new(episode, Scope::Episode, 5, &RecordedEvent { seq, event, effect: None }))
}

#[test]
fn what_was_appended_is_read_back_by_episode_and_the_plan_is_the_denominator() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = create(folder.path());
    store.append(&[append(key(0, "1"), 0, 3), append(key(0, "01"), 0, 4), append(key(0, "1"), 1, 5)]).unwrap();
    drop(store);
    let reader = LedgerReader::open(folder.path()).unwrap();
    assert_eq!(reader.planned().unwrap(), [key(0, "1"), key(0, "01"), key(1, "1"), key(1, "01")]);
    assert_eq!(reader.history(&key(0, "1")).unwrap()[&Scope::Episode].len(), 2, "ids 1 and 01 are two questions");
    assert_eq!(reader.begun().unwrap().len(), 2);
    assert_eq!(reader.verify_chain().unwrap().0, 3);
    assert!(reader.history(&key(0, "2")).unwrap().is_empty());
}

#[test]
fn the_chain_goes_on_over_a_reopened_store() {
    let folder = tempfile::tempdir().unwrap();
    for seq in 0..3 {
        let mut store = if seq == 0 { create(folder.path()) } else { Store::open(folder.path()).unwrap() };
        store.append(&[append(key(1, "1"), seq, 10)]).unwrap();
    }
    assert_eq!(LedgerReader::open(folder.path()).unwrap().verify_chain().unwrap().0, 3);
}

#[test]
fn a_record_changed_dropped_or_added_breaks_the_chain() {
    for tampering in [
        "UPDATE events SET at_ms = 6 WHERE id = 2",
        "DELETE FROM events WHERE id = 2",
        "INSERT INTO events SELECT 9, episode, scope, 9, at_ms, body, effect, link FROM events WHERE id = 3",
        "UPDATE manifest SET body = replace(body, '\"seed\":1', '\"seed\":2')",
    ] {
        let folder = tempfile::tempdir().unwrap();
        create(folder.path())
            .append(&[append(key(0, "1"), 0, 3), append(key(0, "1"), 1, 3), append(key(0, "1"), 2, 3)])
            .unwrap();
        let connection = rusqlite::Connection::open(folder.path().join(RUN_DB)).unwrap();
        connection.execute(tampering, []).unwrap();
        let verified = LedgerReader::open(folder.path()).unwrap().verify_chain();
        assert!(matches!(verified, Err(LedgerError::ChainBroken { .. })), "{tampering}: {verified:?}");
    }
}

#[test]
fn an_event_whose_place_is_taken_is_refused_alone_and_what_was_kept_first_stays() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = create(folder.path());
    assert_eq!(store.append(&[append(key(0, "1"), 0, 3)]).unwrap(), [true]);
    let batch = [append(key(0, "01"), 0, 3), append(key(0, "1"), 0, 99), append(key(0, "1"), 1, 3)];
    assert_eq!(store.append(&batch).unwrap(), [true, false, true]);
    drop(store);
    let reader = LedgerReader::open(folder.path()).unwrap();
    assert_eq!(reader.verify_chain().unwrap().0, 3, "the chain goes past what was refused");
    let kept = reader.history(&key(0, "1")).unwrap();
    assert_eq!(
        serde_json::to_string(&kept).unwrap().matches("xxx\"").count(),
        2,
        "the first of both is there: {kept:?}"
    );
}

#[tokio::test]
async fn of_two_actors_that_say_the_same_event_the_second_is_refused_and_the_run_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let writer = WriterHandle::start(create(folder.path())).unwrap();
    let say = async |seq| {
        let (reply, owed) = crate::address::reply();
        writer.append(append(key(0, "1"), seq, 3), reply).await;
        owed.await.unwrap()
    };
    assert_eq!(say(0).await, Ok(()));
    let refused = say(0).await.unwrap_err();
    assert!(refused.kind == FailureKind::Ledger && refused.detail.contains("is kept already"), "{refused}");
    assert_eq!(say(1).await, Ok(()), "the ledger is not broken by it");
    writer.close().await;
}

/// Dies when it hears that the ledger is broken.
struct Hearer;

impl Actor for Hearer {
    type Msg = LedgerMsg;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<LedgerMsg>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(&self, _: ActorRef<LedgerMsg>, message: LedgerMsg, (): &mut ()) -> Result<(), ActorProcessingErr> {
        if let LedgerMsg::Broken(failure) = message { Err(failure.into()) } else { Ok(()) }
    }
}

#[tokio::test]
async fn the_actor_hears_of_a_failed_write_though_it_is_named_in_the_same_batch_or_later() {
    for is_named_later in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let mut scribe = scribe::Scribe::new(create(folder.path()));
        let (hearer, _join) = Actor::spawn(None, Hearer, ()).await.unwrap();
        let refusal = Some(Failure::new(FailureKind::Ledger, "full"));
        let (reply, owed) = crate::address::reply();
        let mut jobs = vec![scribe::Job::Append(append(key(0, "1"), 0, 3), reply)];
        let tell = scribe::Job::Tell(hearer.clone());
        if is_named_later {
            assert!(scribe.carry_out(&mut jobs, refusal).is_none());
            assert!(scribe.carry_out(&mut vec![tell], None).is_none());
        } else {
            jobs.push(tell);
            assert!(scribe.carry_out(&mut jobs, refusal).is_none());
        }
        assert!(owed.await.unwrap().is_err());
        hearer.wait(None).await.unwrap();
    }
}

#[test]
fn a_full_disk_is_named_and_what_was_acknowledged_stays() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = create(folder.path());
    store.limit_growth(20);
    let mut acknowledged = 0;
    let error = loop {
        match store.append(&[append(key(0, "1"), acknowledged, 8_000)]) {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, LedgerError::DiskFull { .. }), "{error}");
    assert!(error.to_string().contains("--resume"));
    drop(store);
    let reader = LedgerReader::open(folder.path()).unwrap();
    assert!(acknowledged > 2);
    assert_eq!(reader.verify_chain().unwrap().0, u64::from(acknowledged));
}

#[test]
fn another_schema_and_another_writer_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = create(folder.path());
    assert!(matches!(Store::open(folder.path()), Err(LedgerError::Locked { .. })));
    drop(store);
    assert!(matches!(Store::create(folder.path(), &manifest(), &[]), Err(LedgerError::RunExists { .. })));
    let connection = rusqlite::Connection::open(folder.path().join(RUN_DB)).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    let refused = Store::open(folder.path()).err().unwrap();
    assert!(matches!(refused, LedgerError::OtherSchema { found: 99, expected: SCHEMA_VERSION, .. }), "{refused}");
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(LedgerReader::open(empty.path()), Err(LedgerError::NoRun { .. })));
}

#[test]
fn a_resume_names_what_differs_and_takes_only_what_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    drop(create(folder.path()));
    let mut now = manifest();
    now.inputs.insert("corpus".into(), "def".into());
    now.inputs.insert("models.worker".into(), "another, and absent before".into());
    now.profile.worker.turns_max = 3;
    let refused = Store::resume(folder.path(), &now, &["inputs".into()], 9).err().unwrap();
    match &refused {
        LedgerError::ManifestDiffers { differences, .. } => {
            let names: Vec<_> = differences.iter().map(|difference| difference.name.as_str()).collect();
            assert_eq!(names, ["profile.worker.turns_max"]);
        }
        other => panic!("{other}"),
    }
    let accept = ["inputs.corpus".to_owned(), "inputs.models.worker".to_owned(), "profile.worker".to_owned()];
    drop(Store::resume(folder.path(), &now, &accept, 9).unwrap());
    // Accepted once, it is what the run now has: nothing differs any more, and going back would.
    drop(Store::resume(folder.path(), &now, &[], 9).unwrap());
    assert!(Store::resume(folder.path(), &manifest(), &[], 9).is_err());
    assert_eq!(LedgerReader::open(folder.path()).unwrap().accepted().unwrap().len(), 3);
}

#[test]
fn a_reader_sees_the_run_of_one_moment_while_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = create(folder.path());
    store.append(&[append(key(0, "1"), 0, 3)]).unwrap();
    let reader = LedgerReader::open(folder.path()).unwrap();
    assert_eq!(reader.verify_chain().unwrap().0, 1);
    store.append(&[append(key(0, "1"), 1, 3), append(key(0, "01"), 0, 3)]).unwrap();
    assert_eq!(reader.verify_chain().unwrap().0, 1, "what came later is of a later moment");
    assert_eq!(reader.begun().unwrap().len(), 1);
    drop(reader);
    assert_eq!(LedgerReader::open(folder.path()).unwrap().verify_chain().unwrap().0, 3);
}

#[test]
fn episodes_have_ended_in_the_order_of_their_last_events_whatever_was_planned_first() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = create(folder.path());
    let ends = |key: EpisodeKey, seq: u32| {
        let question = questions().into_iter().find(|question| question.id == key.question).unwrap();
        let mut machine = Episode::new(key.clone(), Arc::new(question));
        let Some(EpisodeEffect::End(record)) = machine.apply(&EpisodeEvent::Cancelled) else { panic!("it ends") };
        Box::new(Append { finished: Some(record), ..*append(key, seq, 3) })
    };
    let of_worker = Box::new(Append { scope: Scope::Worker(0), ..*append(key(0, "01"), 0, 3) });
    store.append(&[append(key(0, "1"), 0, 3), append(key(0, "01"), 0, 3), ends(key(1, "1"), 0)]).unwrap();
    store.append(&[ends(key(0, "01"), 1), of_worker, append(key(1, "01"), 0, 3), ends(key(0, "1"), 1)]).unwrap();
    let reader = LedgerReader::open(folder.path()).unwrap();
    let expected = vec![(key(1, "1"), 3), (key(0, "01"), 4), (key(0, "1"), 7)];
    assert_eq!(reader.ended_after(0).unwrap(), expected, "and what a worker writes late moves nothing");
    assert_eq!(reader.ended_after(3).unwrap(), expected[1..]);
    let records = reader.records().unwrap();
    drop(reader);
    store.append(&[ends(key(1, "01"), 1)]).unwrap();
    store.replace_records(&records).unwrap();
    assert_eq!(LedgerReader::open(folder.path()).unwrap().ended_after(0).unwrap(), expected, "records made again");
}

#[tokio::test]
async fn after_a_failed_write_nothing_more_is_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let store = create(folder.path());
    store.limit_growth(4);
    let writer = WriterHandle::start(store).unwrap();
    let mut acknowledged = 0;
    for seq in 0..40 {
        let (reply, owed) = crate::address::reply();
        writer.append(append(key(0, "1"), seq, 4_000), reply).await;
        match owed.await.unwrap() {
            Ok(()) => {
                assert_eq!(acknowledged, seq, "no success after a failure");
                acknowledged += 1;
            }
            Err(failure) => assert_eq!(failure.kind, FailureKind::Ledger),
        }
    }
    writer.close().await;
    assert!(acknowledged < 40);
    assert_eq!(LedgerReader::open(folder.path()).unwrap().verify_chain().unwrap().0, u64::from(acknowledged));
}
