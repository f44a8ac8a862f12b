//! The program. It reads the command line, runs one verb, and turns its end into an exit code: 0 done, 1 failed,
//! 2 usage, 3 incomplete.

use clap::Parser;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = legwork::verbs::Cli::parse();
    legwork::verbs::run(cli)
}
