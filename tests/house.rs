//! The rules of the house, checked over every manifest and source file: which room may depend on which, which crate is
//! known to which room only, who may read a clock, dice or the environment, and how files look. Each rule is a function
//! from the house to what breaks it, with the cure; a made-up house shows that each of them fires.
//! It refuses to know what the code does.

#[path = "house/reading.rs"]
mod reading;

use reading::{
    Dependency, House, Section, code, dependencies, holds_word, is_unit_test_file, links, package, read, root,
    without_tests,
};
use std::collections::{BTreeMap, BTreeSet};

/// A room: its folder (empty for the root package), the rooms it depends on, and those that only its tests need.
type Room = (&'static str, &'static [&'static str], &'static [&'static str]);

/// The direction of dependencies, exactly as it is. Whoever changes a manifest changes this table in the same commit.
const ROOMS: &[Room] = &[
    ("kernels", &[], &[]),
    ("model", &["kernels"], &[]),
    ("fetch", &[], &[]),
    ("engine", &["kernels", "model"], &[]),
    ("protocol", &[], &[]),
    ("retrieval", &["kernels"], &[]),
    ("training", &["kernels", "model", "protocol"], &[]),
    ("report", &["protocol"], &[]),
    ("worlds", &["protocol"], &[]),
    ("endpoints", &["protocol"], &[]),
    ("actors", &["endpoints", "engine", "kernels", "model", "protocol", "retrieval", "training"], &[]),
    ("edge", &["actors", "protocol"], &["endpoints"]),
    ("scenarios", &["actors", "endpoints", "protocol", "worlds"], &["model", "report"]),
    ("tests/downstream", &[], &[]),
    (
        "",
        &[
            "actors",
            "edge",
            "endpoints",
            "engine",
            "fetch",
            "model",
            "protocol",
            "report",
            "retrieval",
            "scenarios",
            "training",
            "worlds",
        ],
        &[],
    ),
];

/// Crates that only some rooms know, and rooms that know them in their tests only.
const KNOWN_TO: &[(&str, &[&str], &[&str])] = &[
    ("actix-web", &["edge"], &[]),
    ("arc-swap", &["actors"], &[]),
    ("candle-core", &["model"], &["kernels", "training"]),
    ("clap", &[""], &[]),
    ("crossterm", &[""], &[]),
    ("cudarc", &["kernels"], &[]),
    ("dashmap", &["actors"], &[]),
    ("frostem", &["retrieval"], &[]),
    ("indicatif", &[""], &[]),
    ("memmap2", &["kernels"], &[]),
    ("mimalloc", &[""], &["scenarios", "engine"]),
    ("minijinja", &["model", "protocol"], &[]),
    ("minijinja-contrib", &["model"], &[]),
    ("parquet", &["retrieval", "training", "worlds"], &[]),
    ("qdrant-client", &["retrieval"], &[]),
    ("ractor", &["actors", "scenarios", ""], &[]),
    ("crc32c", &["training"], &[]),
    ("rand_mt", &["training"], &[]),
    ("rand", &["endpoints", "report", "scenarios"], &[""]),
    ("ratatui", &[""], &[]),
    ("rayon", &["kernels", "retrieval"], &[]),
    ("reqwest", &["endpoints", "fetch"], &[]),
    ("rusqlite", &["actors"], &[""]),
    ("tantivy", &["retrieval"], &[]),
    ("tokenizers", &["model"], &[]),
    ("tokio", &["actors", "edge", "endpoints", "fetch", "scenarios", ""], &["retrieval"]),
    ("tonic", &["retrieval"], &[]),
];

/// All that the pure room may depend on: nothing here has a clock, dice, files, sockets or tasks to offer.
const PURE: (&str, &[&str]) = (
    "protocol",
    &[
        "aho-corasick",
        "blake3",
        "minijinja",
        "regex",
        "serde",
        "serde_json",
        "thiserror",
        "toml",
        "unicode-normalization",
    ],
);

/// What reads the world outside, and the files that may; everything else gets times, seeds and settings by argument.
const READERS: &[(&str, &[&str], &[&str])] = &[
    (
        "a clock",
        &["SystemTime::now", "Instant::now"],
        &[
            "actors/src/clock.rs",
            "actors/src/retriever/local.rs",
            "edge/src/model_server/moment.rs",
            "edge/src/search_server/routes.rs",
            "endpoints/src/admission.rs",
            "endpoints/src/call.rs",
            "endpoints/src/rate.rs",
            "endpoints/src/search.rs",
            "endpoints/src/shared.rs",
            "kernels/src/cuda/nvidia.rs",
            "scenarios/src/universe/life.rs",
            "src/doctor/look.rs",
            "src/terminal/watching.rs",
            "src/verbs/eval.rs",
            "src/verbs/scenario.rs",
        ],
    ),
    ("dice", &["rand::random", "rand::rng", "thread_rng", "from_os_rng", "getrandom"], &["endpoints/src/shared.rs"]),
    (
        "the environment",
        &["env::"],
        &[
            "endpoints/src/config.rs",
            "src/assemble/machine.rs",
            "src/assemble/library.rs",
            "src/doctor/look.rs",
            "src/doctor/look/machine.rs",
            "src/doctor/look/places.rs",
            "src/terminal/mode.rs",
            "src/verbs/eval.rs",
            "src/verbs/fetch.rs",
            "src/verbs/scenario.rs",
            "src/verbs/serve.rs",
            "src/verbs/train/launch.rs",
        ],
    ),
    (
        "threads, files or sockets from the pure room",
        &["std::fs", "std::net", "std::thread", "std::process", "std::time"],
        &[],
    ),
];

/// Lines of a file at most.
const LINES_MAX: usize = 600;
/// Lines of a file's head at most; STYLE.md asks for two to six.
const HEAD_LINES_MAX: usize = 8;
/// Pages whose links must lead somewhere.
const PAGES: &[&str] = &["README.md", "ARCHITECTURE.md", "GLOSSARY.md", "CHANGELOG.md", "STYLE.md"];

fn rooms_are_those_of_the_table(house: &House) -> Vec<String> {
    let listed: BTreeSet<&str> = ROOMS.iter().map(|(room, ..)| *room).filter(|room| !room.is_empty()).collect();
    let real: BTreeSet<&str> = house.members.iter().map(String::as_str).collect();
    let differ = listed.symmetric_difference(&real);
    differ.map(|room| format!("`{room}` is a member or in ROOMS, but not both; add what is missing")).collect()
}

fn directions_match_the_table(house: &House) -> Vec<String> {
    let mut broken = Vec::new();
    for (room, needs, tests_need) in ROOMS {
        let Some(manifest) = house.manifests.get(*room) else { continue };
        let found: Vec<Dependency> = dependencies(manifest);
        for (section, listed, name) in
            [(Section::Normal, needs, "dependencies"), (Section::Dev, tests_need, "dev-dependencies")]
        {
            let real: BTreeSet<&str> = found
                .iter()
                .filter(|dependency| dependency.section == section)
                .filter_map(|dependency| dependency.name.strip_prefix("legwork-"))
                .collect();
            let listed: BTreeSet<&str> = listed.iter().copied().collect();
            if real != listed {
                broken.push(format!(
                    "{}: [{name}] on rooms are {real:?}, the table ROOMS says {listed:?}; take the dependency out, or change the table \
                     and ARCHITECTURE.md with a reason",
                    package(room)
                ));
            }
        }
    }
    broken
}

fn no_room_leads_back_to_itself(house: &House) -> Vec<String> {
    let edges: BTreeMap<String, Vec<String>> = house
        .manifests
        .iter()
        .map(|(room, manifest)| (package(room), dependencies(manifest).into_iter().map(|found| found.name).collect()))
        .collect();
    let reaches_itself = |from: &String| {
        let (mut seen, mut left) = (BTreeSet::new(), edges[from].clone());
        while let Some(next) = left.pop() {
            if let (true, Some(further)) = (seen.insert(next.clone()), edges.get(&next)) {
                left.extend(further.iter().cloned());
            }
        }
        seen.contains(from)
    };
    let circles = edges.keys().filter(|name| reaches_itself(name));
    circles
        .map(|name| format!("{name} depends on itself by way of others, tests included; turn one of them round"))
        .collect()
}

fn rooms_use_what_they_depend_on(house: &House) -> Vec<String> {
    let mut broken = Vec::new();
    for (room, needs, _) in ROOMS {
        for need in *needs {
            let name = format!("legwork_{need}");
            if !house.sources_of(room).any(|(_, source)| holds_word(&code(source), &name)) {
                broken
                    .push(format!("{} depends on {need} and never names it; take it out of Cargo.toml", package(room)));
            }
        }
    }
    broken
}

fn crates_are_known_to_their_rooms_only(house: &House) -> Vec<String> {
    let mut broken = Vec::new();
    for (room, manifest) in &house.manifests {
        for dependency in dependencies(manifest) {
            let Some((name, rooms, in_tests)) = KNOWN_TO.iter().find(|(name, ..)| *name == dependency.name) else {
                continue;
            };
            let may = rooms.contains(&room.as_str())
                || dependency.section == Section::Dev && in_tests.contains(&room.as_str());
            if !may {
                broken.push(format!(
                    "{} line {}: {name} is known to {rooms:?} only (tests: {in_tests:?}); ask one of them for what you need from it",
                    package(room),
                    dependency.number
                ));
            }
        }
    }
    let (pure, allowed) = PURE;
    for dependency in house.manifests.get(pure).map(|manifest| dependencies(manifest)).unwrap_or_default() {
        if dependency.section == Section::Normal && !allowed.contains(&dependency.name.as_str()) {
            broken.push(format!(
                "{} line {}: `{}` is not on the list PURE; the pure room gets time, chance and files by argument",
                package(pure),
                dependency.number,
                dependency.name
            ));
        }
    }
    broken
}

fn versions_and_lints_are_the_workspaces(house: &House) -> Vec<String> {
    let mut broken = Vec::new();
    for (room, manifest) in &house.manifests {
        for dependency in dependencies(manifest) {
            let shared = dependency.line.contains("workspace = true") && !dependency.line.contains("package =");
            if !shared {
                broken.push(format!(
                    "{} line {}: `{}`; one version for the whole house: name it in [workspace.dependencies] and write `{}.workspace = true`",
                    package(room),
                    dependency.number,
                    dependency.line,
                    dependency.name
                ));
            }
        }
        if !manifest.contains("[lints]\nworkspace = true") {
            broken.push(format!(
                "{} has no `[lints]` with `workspace = true`; one table of lints for the whole house",
                package(room)
            ));
        }
    }
    broken
}

fn the_world_is_read_in_listed_files_only(house: &House) -> Vec<String> {
    let mut broken = Vec::new();
    for (what, patterns, files) in READERS {
        let rooms: Vec<&str> =
            ROOMS.iter().map(|(room, ..)| *room).filter(|room| !files.is_empty() || *room == PURE.0).collect();
        let mut readers = BTreeSet::new();
        for (path, source) in rooms.iter().flat_map(|room| house.sources_of(room)) {
            if is_unit_test_file(path) {
                continue;
            }
            let code = code(source);
            for (index, line) in without_tests(&code).lines().enumerate() {
                if !patterns.iter().any(|pattern| holds_word(line, pattern)) {
                    continue;
                }
                readers.insert(path.as_str());
                if !files.contains(&path.as_str()) {
                    let number = index + 1;
                    broken.push(format!(
                        "{path}:{number}: reads {what}; take it by argument, or list the file in READERS with a reason"
                    ));
                }
            }
        }
        let idle = files.iter().filter(|file| !readers.contains(**file));
        broken.extend(
            idle.map(|file| format!("{file} is listed in READERS and does not read {what}; take it off the list")),
        );
    }
    broken
}

fn unsafe_code_lives_in_kernels(house: &House) -> Vec<String> {
    let elsewhere = house.sources.iter().filter(|(path, _)| !path.starts_with("kernels/"));
    let found = elsewhere.filter(|(_, source)| {
        let code = code(source);
        holds_word(&code, "unsafe ") || code.contains("allow(unsafe_code)")
    });
    found.map(|(path, _)| format!("{path}: unsafe code lives in kernels only; ask it for a safe function")).collect()
}

fn files_look_like_one_house(house: &House) -> Vec<String> {
    let mut broken = Vec::new();
    for (path, source) in &house.sources {
        let head = source.lines().take_while(|line| line.starts_with("//!")).count();
        // A file of unit tests is headed by the file that it tests.
        if head == 0 && !path.ends_with("/tests.rs") {
            broken.push(format!(
                "{path}: opens without `//!`; say in two to six lines what it is and what it refuses to know"
            ));
        }
        if head > HEAD_LINES_MAX && !path.ends_with("/lib.rs") {
            broken.push(format!(
                "{path}: its head has {head} lines, at most {HEAD_LINES_MAX}; move the rest to the items it is about"
            ));
        }
        let lines = source.lines().count();
        if lines > LINES_MAX {
            broken.push(format!("{path}: {lines} lines, at most {LINES_MAX}; it holds two ideas, give each a file"));
        }
        if path.ends_with("/mod.rs") {
            broken.push(format!("{path}: a module `x` with children is `x.rs` beside `x/`; rename it"));
        }
        let code = code(source);
        for (index, line) in code.lines().enumerate() {
            let unfinished =
                ["todo!", "unimplemented!"].iter().any(|name| holds_word(line, name)) || line.contains("#[ignore");
            if unfinished {
                broken.push(format!(
                    "{path}:{}: left unfinished; build it, or leave it out and say so in README.md",
                    index + 1
                ));
            }
        }
    }
    broken
}

#[track_caller]
fn holds(rule: fn(&House) -> Vec<String>) {
    let broken = rule(&House::on_disk());
    assert!(broken.is_empty(), "the rules of the house are broken:\n  {}\n", broken.join("\n  "));
}

#[test]
fn every_member_is_a_room_of_the_table() {
    holds(rooms_are_those_of_the_table);
}

#[test]
fn rooms_depend_on_one_another_in_one_direction() {
    holds(directions_match_the_table);
    holds(no_room_leads_back_to_itself);
}

#[test]
fn rooms_name_what_they_depend_on() {
    holds(rooms_use_what_they_depend_on);
}

#[test]
fn a_heavy_crate_is_known_to_its_room_only() {
    holds(crates_are_known_to_their_rooms_only);
}

#[test]
fn the_house_has_one_version_of_everything_and_one_table_of_lints() {
    holds(versions_and_lints_are_the_workspaces);
}

#[test]
fn clocks_dice_and_the_environment_are_read_in_few_places() {
    holds(the_world_is_read_in_listed_files_only);
}

#[test]
fn unsafe_code_has_one_room() {
    holds(unsafe_code_lives_in_kernels);
}

#[test]
fn every_file_has_a_head_and_none_is_too_long_or_unfinished() {
    holds(files_look_like_one_house);
}

#[test]
fn pages_link_to_what_exists() {
    let mut lost = Vec::new();
    for page in PAGES {
        let text = read(&root().join(page));
        lost.extend(
            links(&text).into_iter().filter(|link| !root().join(link).exists()).map(|link| format!("{page}: {link}")),
        );
    }
    assert!(
        lost.is_empty(),
        "links that lead nowhere; correct them or write what they name:\n  {}\n",
        lost.join("\n  ")
    );
}

fn made_up(manifests: &[(&str, &str)], sources: &[(&str, &str)]) -> House {
    let own = |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    let members = manifests.iter().map(|(room, _)| (*room).to_owned()).filter(|room| !room.is_empty()).collect();
    House { members, manifests: own(manifests), sources: own(sources) }
}

#[test]
fn each_rule_fires_on_a_house_that_breaks_it() {
    let told = |rule: fn(&House) -> Vec<String>, house: House, word: &str| {
        let broken = rule(&house).join("\n");
        assert!(broken.contains(word), "expected {word:?} in {broken:?}");
    };
    let manifest = |text: &'static str| made_up(&[("protocol", text)], &[]);
    told(rooms_are_those_of_the_table, made_up(&[("attic", "")], &[]), "`attic`");
    told(directions_match_the_table, manifest("[dependencies]\nlegwork-actors.workspace = true"), "\"actors\"");
    let circle = [("actors", "[dependencies]\nlegwork-edge = {}"), ("edge", "[dev-dependencies]\nlegwork-actors = {}")];
    told(no_room_leads_back_to_itself, made_up(&circle, &[]), "legwork-edge depends on itself");
    let unnamed = [("training/src/lib.rs", "// legwork_protocol\nuse xlegwork_protocol::x;")];
    told(rooms_use_what_they_depend_on, made_up(&[], &unnamed), "legwork-training depends on protocol");
    told(
        crates_are_known_to_their_rooms_only,
        manifest("[target.'cfg(unix)'.dependencies]\nreqwest = \"0\""),
        "reqwest is known",
    );
    told(crates_are_known_to_their_rooms_only, manifest("[dependencies]\nfutures.workspace = true"), "list PURE");
    told(versions_and_lints_are_the_workspaces, manifest("[dependencies]\nserde = \"1\""), "line 2: `serde = \"1\"`");
    let source = |path: &'static str, text: &'static str| made_up(&[], &[(path, text)]);
    let clock = source("worlds/src/world.rs", "//! x\nlet now = std::time::Instant::now();");
    told(the_world_is_read_in_listed_files_only, clock, "world.rs:2: reads a clock");
    told(
        the_world_is_read_in_listed_files_only,
        source("src/a.rs", "let x = env::var(\"X\");"),
        "src/a.rs:1: reads the environment",
    );
    told(the_world_is_read_in_listed_files_only, source("protocol/src/a.rs", "use std::fs;"), "from the pure room");
    told(the_world_is_read_in_listed_files_only, made_up(&[], &[]), "actors/src/clock.rs is listed");
    told(unsafe_code_lives_in_kernels, source("model/src/a.rs", "unsafe { x() }"), "kernels only");
    told(files_look_like_one_house, source("src/a.rs", "fn x() {}"), "opens without");
    told(files_look_like_one_house, source("src/a/mod.rs", "//! x"), "rename it");
    told(files_look_like_one_house, source("src/a.rs", "//! x\nfn x() { todo!() }"), "a.rs:2: left unfinished");
    let long: &'static str = Box::leak("\n".repeat(LINES_MAX + 1).into_boxed_str());
    told(files_look_like_one_house, source("src/a.rs", long), "601 lines");
}
