//! Every configuration that the README shows must read.

use legwork::config::{Given, Settings, resolve};

#[test]
fn every_toml_block_of_the_readme_reads() {
    let readme = include_str!("../README.md");
    let blocks: Vec<&str> = readme.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!blocks.is_empty(), "the README shows a configuration");
    for block in blocks {
        if block.contains("[[step]]") {
            toml::from_str::<legwork_protocol::coordinator::Script>(block).unwrap();
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("readme.toml");
        std::fs::write(&path, block).unwrap();
        let resolved = resolve(&Given { file: Some(path), ..Given::default() }).unwrap();
        Settings::read(&resolved).unwrap_or_else(|error| panic!("{error}\n{block}"));
    }
}
