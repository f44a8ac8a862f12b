//! Writes the archive as JSON lines: `cargo run -p legwork-worlds --example archive -- FOLDER [SEED]`.

use legwork_worlds::{WorldError, archive, plain};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("name a folder to write to")?);
    let seed = arguments.next().map_or(Ok(archive::DEFAULT_SEED), |text| text.parse())?;
    let started = std::time::Instant::now();
    let archive = archive::generate(seed)?;
    let world = &archive.world;
    let took = started.elapsed();
    std::fs::create_dir_all(&folder)?;
    write(&folder.join("corpus.jsonl"), |sink| plain::write_corpus(&world.documents, sink))?;
    write(&folder.join("train.jsonl"), |sink| plain::write_questions(&world.train, sink))?;
    write(&folder.join("test.jsonl"), |sink| plain::write_questions(&world.test, sink))?;
    let mut out = std::io::stdout();
    writeln!(
        out,
        "{} documents, {} train and {} test questions",
        world.documents.len(),
        world.train.len(),
        world.test.len()
    )?;
    writeln!(out, "generated in {took:?}\n{:#?}", world.digests()?)?;
    Ok(())
}

fn write(
    path: &Path,
    records: impl FnOnce(&mut dyn Write) -> Result<(), WorldError>,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut sink = BufWriter::new(File::create(path)?);
    records(&mut sink)?;
    Ok(sink.flush()?)
}
