//! Reading the house: its members, manifests and sources from disk, the dependencies of a manifest, and a source as
//! code without comments, literals and unit tests. It knows no rule.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(super) struct House {
    pub(super) members: Vec<String>,
    pub(super) manifests: BTreeMap<String, String>,
    /// By path from the root, with `/`.
    pub(super) sources: BTreeMap<String, String>,
}

#[derive(PartialEq, Eq)]
pub(super) enum Section {
    Normal,
    Dev,
}

pub(super) struct Dependency {
    pub(super) name: String,
    pub(super) section: Section,
    pub(super) line: String,
    pub(super) number: usize,
}

pub(super) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

pub(super) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

impl House {
    pub(super) fn on_disk() -> House {
        let manifest = read(&root().join("Cargo.toml"));
        let members = members(&manifest);
        let mut house = House {
            members: members.clone(),
            manifests: BTreeMap::from([(String::new(), manifest)]),
            sources: BTreeMap::new(),
        };
        for room in &members {
            house.manifests.insert(room.clone(), read(&root().join(room).join("Cargo.toml")));
        }
        for room in members.iter().map(String::as_str).chain([""]) {
            for part in ["src", "tests", "benches", "examples"] {
                house.collect(&root().join(room).join(part));
            }
        }
        assert!(house.sources.len() > 100, "expected the sources of the house, got {} files", house.sources.len());
        house
    }

    fn collect(&mut self, folder: &Path) {
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
            if path.is_dir() {
                self.collect(&path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let from_root = path.strip_prefix(root()).expect("the walk began at the root");
                let parts: Vec<_> = from_root.iter().map(|part| part.to_string_lossy()).collect();
                self.sources.insert(parts.join("/"), read(&path));
            }
        }
    }

    /// The sources that go into a room's library or program.
    pub(super) fn sources_of<'a>(&'a self, room: &str) -> impl Iterator<Item = (&'a String, &'a String)> {
        let prefix = if room.is_empty() { "src/".to_owned() } else { format!("{room}/src/") };
        self.sources.iter().filter(move |(path, _)| path.starts_with(&prefix))
    }
}

pub(super) fn package(room: &str) -> String {
    if room.is_empty() { "legwork".to_owned() } else { format!("legwork-{room}") }
}

fn members(manifest: &str) -> Vec<String> {
    let list = manifest.split_once("members = [").and_then(|(_, rest)| rest.split_once(']')).map(|(list, _)| list);
    let list = list.expect("the root manifest has a line `members = [..]`");
    list.split(',').map(|name| name.trim().trim_matches('"').to_owned()).filter(|name| !name.is_empty()).collect()
}

/// The dependencies of a manifest, one a line, as this house writes them.
pub(super) fn dependencies(manifest: &str) -> Vec<Dependency> {
    let mut section = None;
    let mut found = Vec::new();
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            let header = header.trim_matches(['[', ']']);
            let last = header.rsplit('.').next().unwrap_or_default();
            section = match (header, last) {
                ("workspace.dependencies", _) => None,
                (_, "dependencies" | "build-dependencies") => Some(Section::Normal),
                (_, "dev-dependencies") => Some(Section::Dev),
                _ => None,
            };
        } else if let (Some(section), false) = (&section, line.is_empty() || line.starts_with('#')) {
            let name = line.split(['.', '=', ' ']).next().unwrap_or_default().trim_matches('"').to_owned();
            let section = if *section == Section::Dev { Section::Dev } else { Section::Normal };
            found.push(Dependency { name, section, line: line.to_owned(), number: index + 1 });
        }
    }
    found
}

/// A source without comments and without what stands in literals, its lines kept.
pub(super) fn code(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        let raw_hashes = rest[1..].bytes().take_while(|byte| *byte == b'#').count();
        let is_raw = c == 'r' && !before.is_alphanumeric() && rest[1 + raw_hashes..].starts_with('"');
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if is_raw {
            let close = format!("\"{}", "#".repeat(raw_hashes));
            let open = 2 + raw_hashes;
            rest[open..].find(&close).map_or(rest.len(), |end| open + end + close.len())
        } else if c == '"' {
            quoted_length(rest, '"')
        } else if c == '\'' && is_character(rest) {
            quoted_length(rest, '\'')
        } else {
            out.push(c);
            before = c;
            rest = &rest[c.len_utf8()..];
            continue;
        };
        out.extend(rest[..length].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        before = ' ';
        rest = &rest[length..];
    }
    out
}

/// A quote that begins a character and not a lifetime.
fn is_character(rest: &str) -> bool {
    let mut chars = rest.chars().skip(1);
    matches!((chars.next(), chars.next()), (Some('\\'), _) | (Some(_), Some('\'')))
}

fn quoted_length(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

/// Code without its unit tests, which stand at the end of a file.
pub(super) fn without_tests(code: &str) -> &str {
    let mut from = 0;
    while let Some(at) = code[from..].find("#[cfg(test)]").map(|at| at + from) {
        from = at + 1;
        let item = code[at..].lines().find(|line| !line.trim_start().starts_with("#["));
        if item.is_some_and(|line| line.contains("mod ") && line.contains('{')) {
            return &code[..at];
        }
    }
    code
}

pub(super) fn is_unit_test_file(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

pub(super) fn holds_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| !line[..at].chars().next_back().is_some_and(is_part))
}

/// Targets of Markdown links in a page, but for those of the web and within the page.
pub(super) fn links(page: &str) -> Vec<&str> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let local = targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
    local.map(|target| target.split('#').next().unwrap_or(target)).collect()
}

#[test]
fn comments_literals_and_unit_tests_are_not_code() {
    let source = "a /* env:: */ b // env::\nlet c = '\"'; let s = \"env:: \\\" env::\"; let r = r#\"env::\"\"#; fn f<'a>(x: &'a str) {}\n";
    let left = code(source);
    assert!(!left.contains("env::") && left.contains("fn f<'a>(x: &'a str) {}"), "{left}");
    assert_eq!(left.lines().count(), 2);
    let tested = "env::one\n#[cfg(test)]\nmod tests;\nenv::two\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n env::three }";
    let left = without_tests(tested);
    assert!(left.contains("env::two") && !left.contains("env::three"), "{left}");
    assert!(holds_word("std::env::var", "env::") && !holds_word("my_env::var", "env::"));
    assert_eq!(links("[a](b.md#c) [d](https://e) [f](#g)"), ["b.md"]);
}
