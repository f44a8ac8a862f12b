//! Readers of what people write to have things go wrong: scenarios, lines of a mock coordinator, plans of a misbehaving
//! server, hostile documents. What is taken is within its bounds and reads the same when written again.

use super::{files, text};
use legwork_scenarios::hostile::{read_folder, readable};
use legwork_scenarios::misbehaving::{STEPS_MAX, ServerPlan};
use legwork_scenarios::mocks::Lines;
use legwork_scenarios::scenario::{QUESTIONS_MAX, Scenario};

/// Bytes that an attack may put into a document at most: eight mebibytes of filler, and its text.
const WHOLE_MAX_BYTES: usize = 9 << 20;

/// A scenario as TOML.
pub fn whole(bytes: &[u8]) {
    let Ok(scenario) = Scenario::from_toml(&text(bytes)).inspect_err(|error| assert!(!error.to_string().is_empty()))
    else {
        return;
    };
    assert!((1..=QUESTIONS_MAX).contains(&scenario.questions) && scenario.rounds > 0 && scenario.concurrency > 0);
    let written = scenario.to_toml();
    match Scenario::from_toml(&written) {
        Ok(again) => assert_eq!(again, scenario, "{written}"),
        Err(error) => panic!("{error} in what was just written: {written}"),
    }
}

/// Lines of a mock coordinator.
pub fn lines(bytes: &[u8]) {
    let Ok(lines) = Lines::from_toml(&text(bytes)) else { return };
    let written = toml::to_string(&lines).expect("what was read from TOML can be written as TOML");
    assert_eq!(Lines::from_toml(&written).as_ref(), Ok(&lines), "{written}");
}

/// The plan of a misbehaving server: each request meets what was written or drawn, and the same one every time.
pub fn server(bytes: &[u8]) {
    let Ok(plan) = toml::from_str::<ServerPlan>(&text(bytes)) else { return };
    if let Err(error) = plan.validate() {
        assert!(!error.to_string().is_empty());
        return;
    }
    assert!(plan.steps.len() <= STEPS_MAX);
    for number in [0, 1, plan.steps.len() as u64, u64::MAX] {
        assert_eq!(plan.for_request(number), plan.for_request(number));
    }
}

/// The bytes are the only file of a folder of attacks, and a text that an eager reader makes out.
pub fn attack(bytes: &[u8]) {
    let folder = files::folder().join("attacks");
    std::fs::create_dir_all(&folder).expect("a folder for the attack");
    std::fs::write(folder.join("input.toml"), bytes).expect("the attack is written");
    match read_folder(&folder) {
        Ok(attacks) => {
            assert_eq!(attacks.len(), 1);
            assert!(attacks[0].whole_text().len() <= WHOLE_MAX_BYTES);
        }
        Err(error) => assert!(error.to_string().contains("attacks"), "an error without its file: {error}"),
    }
    let text = text(bytes);
    let seen = readable(&text);
    assert!(!seen.starts_with(' ') && !seen.contains("  "), "{seen:?}");
}
