use super::super::{DistantRank, Making, Served, serve};
use super::*;
use crate::network::NetworkSettings;
use crate::pack::Pack;
use crate::rank::{Rank, StepDone, Update};
use legwork_kernels::{Group, Member, Reduce};
use std::path::Path;
use std::thread::{ScopedJoinHandle, scope};

const VERSION: &str = "1.2.3";
const UPDATE: Update = Update { step: 1, rate: 0.1, clip: 1.0, beta1: 0.9, beta2: 0.95, eps: 1e-8, decay: 0.0 };

fn world(rank: usize, ranks: usize, port: u16) -> World {
    World { rank, ranks, host: "127.0.0.1".to_owned(), port, wait: Duration::from_secs(20) }
}

fn listening(ranks: usize) -> (Listening, u16) {
    let listening = Listening::bind(world(0, ranks, 0), VERSION).unwrap();
    let port = listening.listener.local_addr().unwrap().port();
    (listening, port)
}

fn deaf() -> Watch {
    Arc::new(|_, _| {})
}

fn alike(_rank: usize, described: &str) -> Result<(), String> {
    if described == "alike" { Ok(()) } else { Err(format!("expected alike, got {described}")) }
}

fn joined(rank: usize, ranks: usize, port: u16) -> Result<Arc<Line>, TrainingError> {
    join(&world(rank, ranks, port), VERSION, "alike".to_owned(), deaf())
}

fn making() -> Making {
    let settings =
        NetworkSettings { rows_max: 8, keep_attention: true, keep_products: false, softmax_over_padding: false };
    Making { names: [None, Some(vec![7; 128])], settings }
}

/// A rank whose loss is what its two groups sum.
struct Summing {
    members: [Member; 2],
}

impl Rank for Summing {
    fn step(&mut self, packs: &[Pack], update: &Update) -> Result<StepDone, TrainingError> {
        let mut mine = [1.0 + self.members[0].rank() as f64];
        self.members[0].meet("cut", Reduce::Sum, &mut mine)?;
        self.members[1].meet("replicas", Reduce::Max, &mut mine)?;
        Ok(StepDone { loss: mine[0] * packs.len() as f64, grad_norm: update.rate, updated: true })
    }

    fn evaluate(&mut self, _packs: &[Pack]) -> Result<f64, TrainingError> {
        panic!("made up")
    }

    fn save(&mut self, folder: &Path) -> Result<(), TrainingError> {
        std::fs::write(folder.join("part"), "saved").unwrap();
        Ok(())
    }

    fn restore(&mut self, _folder: &Path) -> Result<(), TrainingError> {
        Ok(())
    }
}

/// A process that is not the first, on a thread.
fn process(rank: usize, ranks: usize, port: u16, checkpoints: &Path) -> Result<Over, TrainingError> {
    let line = joined(rank, ranks, port)?;
    let served = Served { line: &line, checkpoints, of_cut: [rank, ranks], of_replicas: [0, 1] };
    serve(&served, &|told, members| {
        assert_eq!(told, making());
        Ok(Box::new(Summing { members }))
    })
}

#[test]
fn ranks_of_three_processes_sum_as_threads_would_and_end_as_the_run_does() {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("step-1.partial")).unwrap();
    let (listening, port) = listening(3);
    scope(|scope| {
        let folder = place.path();
        let others = [1, 2].map(|rank| scope.spawn(move || process(rank, 3, port, folder)));
        let peers = listening.gather(&alike, &deaf()).unwrap();
        let mut members = Group::of(3).into_iter().map(Member::across_processes);
        let alone = || Group::of(1).remove(0);
        let mut first = Summing { members: [members.next().unwrap(), alone()] };
        let steps: Vec<ScopedJoinHandle<'_, StepDone>> = members
            .zip(peers.lines())
            .map(|(member, line)| {
                let line = Arc::clone(line);
                scope.spawn(move || {
                    let mut rank = DistantRank::make(line, [member, alone()], making()).unwrap();
                    rank.save(Path::new("elsewhere/checkpoints/step-1.partial")).unwrap();
                    rank.restore(Path::new("step-1.partial")).unwrap();
                    rank.step(&[Pack::default(), Pack::default()], &UPDATE).unwrap()
                })
            })
            .collect();
        let done = first.step(&[Pack::default(), Pack::default()], &UPDATE).unwrap();
        assert_eq!((done.loss, done.grad_norm, done.updated), (12.0, 0.1, true));
        assert!(steps.into_iter().all(|step| step.join().unwrap() == done));
        assert_eq!(std::fs::read_to_string(place.path().join("step-1.partial/part")).unwrap(), "saved");
        let over = Over { kind: OverKind::Stopped, why: String::new() };
        peers.close(&over);
        assert!(others.into_iter().all(|other| other.join().unwrap().unwrap() == over));
    });
}

/// What comes of an order to one distant rank.
fn ordered(order: impl Fn(&mut DistantRank) -> TrainingError + Send + Sync) -> String {
    let place = tempfile::tempdir().unwrap();
    let (listening, port) = listening(2);
    scope(|scope| {
        let other = scope.spawn(|| process(1, 2, port, place.path()));
        let peers = listening.gather(&alike, &deaf()).unwrap();
        let mut members = Group::of(2).into_iter();
        let _first = members.next();
        let members = [members.next().unwrap(), Group::of(1).remove(0)];
        let mut rank = DistantRank::make(Arc::clone(&peers.lines()[0]), members, making()).unwrap();
        let told = order(&mut rank).to_string();
        peers.close(&Over { kind: OverKind::Failed, why: told.clone() });
        assert_eq!(other.join().unwrap().unwrap().why, told);
        told
    })
}

#[test]
fn what_fails_over_there_is_told_here_by_name() {
    let panicked = ordered(|rank| rank.evaluate(&[]).unwrap_err());
    assert!(panicked.starts_with("rank 1 at 127.0.0.1:") && panicked.contains("it panicked"), "{panicked}");
    let missing = ordered(|rank| rank.save(Path::new("a/step-2.partial")).unwrap_err());
    assert!(missing.contains("give --out in a folder that all processes of the run see"), "{missing}");
    for name in ["/etc", "a/.."] {
        let told = ordered(|rank| match rank.restore(Path::new(name)) {
            Err(error) => error,
            Ok(()) => panic!("{name} was taken"),
        });
        assert!(told.contains("expected the name of a checkpoint") || told.contains("is not there"), "{told}");
    }
}

#[test]
fn a_process_that_is_gone_is_missed_by_those_who_wait_for_it() {
    let (listening, port) = listening(2);
    let (news, heard) = std::sync::mpsc::channel();
    let news = std::sync::Mutex::new(news);
    let watch: Watch = Arc::new(move |rank, what| news.lock().unwrap().send((rank, what)).unwrap());
    scope(|scope| {
        // It comes, and ends at its first order.
        let other = scope.spawn(move || {
            let line = joined(1, 2, port).unwrap();
            assert!(matches!(line.heard(), Ok(Message::Make(_))));
        });
        let peers = listening.gather(&alike, &watch).unwrap();
        let mut members = Group::of(2).into_iter();
        let (first, second) = (members.next().unwrap(), members.next().unwrap());
        let line = Arc::clone(&peers.lines()[0]);
        let told = DistantRank::make(line, [second, Group::of(1).remove(0)], making()).unwrap_err().to_string();
        assert!(told.starts_with("rank 1 at 127.0.0.1:") && told.contains("its process has ended"), "{told}");
        let told = first.meet("cut", Reduce::Sum, &mut [1.0]).unwrap_err().to_string();
        assert!(told.contains("rank 1 of 2 left the group"), "{told}");
        other.join().unwrap();
        assert!(matches!(heard.recv().unwrap(), (1, News::Gone(_))));
    });
}

#[test]
fn whoever_waits_where_it_hears_nothing_is_told_that_others_are_gone() {
    let (listening, port) = listening(2);
    scope(|scope| {
        let other = scope.spawn(move || {
            let line = joined(1, 2, port).unwrap();
            assert!(matches!(line.heard(), Ok(Message::Make(_))));
            // As one that waits for its card does.
            loop {
                if let Err(error) = line.check() {
                    let _has_gone = line.send(&Message::Failed(error.to_string()));
                    return error.to_string();
                }
                std::thread::yield_now();
            }
        });
        let peers = listening.gather(&alike, &deaf()).unwrap();
        let mut members = Group::of(2).into_iter();
        drop(members.next());
        let members = [members.next().unwrap(), Group::of(1).remove(0)];
        let told = DistantRank::make(Arc::clone(&peers.lines()[0]), members, making()).unwrap_err().to_string();
        assert!(told.contains("rank 0 of 2 left the group"), "{told}");
        assert!(other.join().unwrap().contains("rank 0 of 2 left the group"));
    });
}

#[test]
fn one_who_does_not_agree_ends_the_meeting_for_all_with_the_difference() {
    let cases: [(usize, usize, &str, &str, &str); 5] = [
        (1, 3, VERSION, "other", "expected alike, got other"),
        (1, 2, VERSION, "alike", "expected WORLD_SIZE 3 as rank 0 has it, got 2"),
        (7, 3, VERSION, "alike", "expected a RANK below 3, got 7"),
        (2, 3, VERSION, "alike", "got a second of rank 2"),
        (1, 3, "1.2.4", "alike", "expected legwork 1.2.3, got 1.2.4"),
    ];
    for (rank, ranks, version, described, told) in cases {
        let (listening, port) = listening(3);
        scope(|scope| {
            let good = scope.spawn(move || process(2, 3, port, Path::new("")));
            let bad = scope.spawn(move || {
                join(&world(rank, ranks, port), version, described.to_owned(), deaf()).and_then(|line| {
                    // Of two with one rank, either is the second.
                    match (line.heard(), line.over()) {
                        (_, Some(over)) => Err::<Message, _>(peer("rank 0", over.why.clone())),
                        (heard, None) => panic!("{heard:?}"),
                    }
                })
            });
            let refused = listening.gather(&alike, &deaf()).map(drop).unwrap_err().to_string();
            assert!(refused.contains(told), "{told:?} in {refused:?}");
            drop(listening);
            let bad = bad.join().unwrap().unwrap_err().to_string();
            assert!(bad.contains(told), "{told:?} in {bad:?}");
            // The other was there in time to be told, or found nobody any more.
            match good.join().unwrap() {
                Ok(over) => assert!(over.why.contains(told), "{over:?}"),
                Err(error) => {
                    assert!(error.to_string().contains("rank 0 at") || error.to_string().contains(told), "{error}")
                }
            }
        });
    }
}

#[test]
fn whoever_speaks_another_language_or_none_keeps_nobody_waiting() {
    let (listening, port) = listening(2);
    let silent = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut browser = TcpStream::connect(("127.0.0.1", port)).unwrap();
    browser.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    scope(|scope| {
        let other = scope.spawn(move || process(1, 2, port, Path::new("")));
        let peers = listening.gather(&alike, &deaf()).unwrap();
        peers.close(&Over { kind: OverKind::Done, why: String::new() });
        assert_eq!(other.join().unwrap().unwrap().kind, OverKind::Done);
    });
    drop(silent);
}

#[test]
fn those_who_do_not_come_in_time_are_named_and_so_is_a_first_rank_that_is_not_there() {
    let place = World { wait: Duration::from_millis(1), ..world(0, 3, 0) };
    let listening = Listening::bind(place, VERSION).unwrap();
    let told = listening.gather(&alike, &deaf()).map(drop).unwrap_err().to_string();
    assert!(told.contains("expected 3 processes within 0 s, got 1; rank 1, 2 did not come"), "{told}");
    let port = listening.listener.local_addr().unwrap().port();
    let taken = Listening::bind(world(0, 3, port), VERSION).unwrap_err().to_string();
    assert!(taken.contains("give another MASTER_PORT"), "{taken}");
    drop(listening);
    let alone = World { wait: Duration::from_millis(1), ..world(1, 3, port) };
    let told = join(&alone, VERSION, String::new(), deaf()).map(drop).unwrap_err().to_string();
    assert!(told.contains("expected rank 0 to listen") && told.contains("MASTER_ADDR"), "{told}");
    let elsewhere = World { host: "192.0.2.1".to_owned(), ..world(0, 2, 29_500) };
    let told = Listening::bind(elsewhere, VERSION).unwrap_err().to_string();
    assert!(told.contains("MASTER_ADDR must be an address of the machine of rank 0"), "{told}");
}
