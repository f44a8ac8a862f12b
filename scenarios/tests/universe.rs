//! Universes: every named scenario keeps the promises of a run and shows what it says, the same scenario gives the same
//! events, and so do drawn ones.

use legwork_scenarios::checkers::Finding;
use legwork_scenarios::mocks::{Lines, MockCoordinator, Move};
use legwork_scenarios::soak::{play_in, soak};
use legwork_scenarios::{Fault, Harm, Link, Player, Recast, Scenario, catalogue, draw, play_with};
use std::collections::BTreeSet;
use std::sync::Mutex;

#[test]
fn every_named_scenario_shows_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let failed = Mutex::new(Vec::new());
    let all = catalogue::all();
    std::thread::scope(|scope| {
        for half in 0..2 {
            let (all, failed, folder) = (&all, &failed, folder.path());
            scope.spawn(move || {
                for scenario in all.iter().skip(half).step_by(2) {
                    let place = folder.join(&scenario.name);
                    let played = catalogue::play_named(scenario, &place).unwrap();
                    if !played.is_sound() {
                        failed.lock().unwrap().push((scenario.name.clone(), played.lives, played.findings));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    let told: Vec<String> =
        failed.iter().map(|(name, lives, found)| format!("{name}: {lives:?}: {}", texts(found))).collect();
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), all.len(), told.join("\n"));
}

fn texts(findings: &[Finding]) -> String {
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[test]
fn the_folder_and_the_list_agree_and_each_scenario_has_a_name_and_a_sentence() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("catalogue");
    let files: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    let listed: BTreeSet<String> = catalogue::names().map(str::to_owned).collect();
    assert_eq!(files, listed);
    assert!(listed.len() >= 40);
    for scenario in catalogue::all() {
        assert!(listed.contains(&scenario.name), "the file of {} has another name", scenario.name);
        assert!(scenario.shows.ends_with('.') && scenario.shows.len() > 20, "{}", scenario.name);
        assert_eq!(Scenario::from_toml(&scenario.to_toml()).unwrap(), scenario);
    }
}

#[test]
fn the_same_scenario_gives_the_same_events() {
    let folder = tempfile::tempdir().unwrap();
    let play = |scenario: &Scenario| play_in(scenario, &folder.path().join("u")).unwrap();
    let scenarios = (0..20).map(draw::scenario).chain(catalogue::named("everything-at-once"));
    let mut hashes = BTreeSet::new();
    for scenario in scenarios {
        let (once, again) = (play(&scenario), play(&scenario));
        assert_eq!(once.hash, again.hash, "{}", scenario.to_toml());
        hashes.insert(once.hash);
    }
    assert_eq!(hashes.len(), 21, "other scenarios give others");
}

#[test]
fn drawn_scenarios_keep_the_promises_of_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let report = soak(folder.path(), 0, 2, |report| report.scenarios < 300).unwrap();
    let told: Vec<String> =
        report.failing.iter().map(|f| format!("{}\n{}", texts(&f.findings), f.scenario.to_toml())).collect();
    assert!(told.is_empty(), "{} of {}:\n{}", report.failed, report.scenarios, told.join("\n---\n"));
    assert!(report.marks.len() > 30, "{:?}", report.marks);
}

#[test]
fn a_coordinator_of_toml_lines_thinks_dies_and_answers() {
    let lines = Lines::from_toml(
        "[[line]]\nquestion = \"s0\"\nthink_ms = 200\nbriefs = [[\"{question}\"], [\"{question}\", \"{question}\"]]\ndies = 1\ndies_before = 1\n\
         [[line]]\nanswer = \"Northwell-501\"\n",
    )
    .unwrap();
    let recast = Recast::new(move |cast| cast.coordinator = MockCoordinator::following(lines.clone()).role());
    let folder = tempfile::tempdir().unwrap();
    let scenario = Scenario::new("lines").questions(3).fault(Fault::new(Harm::Lose(Link::Decision)));
    let played = play_with(&scenario, folder.path(), &recast).unwrap();
    assert!(played.is_sound(), "{:#?}", played.findings);
    assert_eq!(played.records[0].workers, 3, "one brief, then two, and the death between them cost none");
    assert_eq!(played.correct(), 2, "the third question's answer is another: {:#?}", played.records);
}

#[test]
fn a_coordinator_of_a_closure_gives_up_when_told() {
    let mock = MockCoordinator::new(|question, _, _| match question.id.as_str() {
        "s0" => Move::GiveUp,
        _ => Move::Answer(question.answers[0].clone()),
    });
    let folder = tempfile::tempdir().unwrap();
    let scenario = Scenario::new("closure").fault(Fault::new(Harm::Kill(Player::Board)));
    let recast = Recast::new(move |cast| cast.coordinator = mock.role());
    let played = play_with(&scenario, folder.path(), &recast).unwrap();
    assert!(played.is_sound(), "{:#?}", played.findings);
    assert_eq!(played.correct(), 2);
}

#[test]
fn a_scenario_that_cannot_be_played_says_why() {
    let error = Scenario::from_toml("name = \"x\"\nquestions = 0").unwrap_err().to_string();
    assert!(error.contains("questions") && error.contains('1'), "{error}");
    let error = Scenario::from_toml("name = \"x\"\n[[fault]]\nharm = \"explode\"").unwrap_err().to_string();
    assert!(error.contains("explode") && error.contains("power_cut"), "{error}");
}
