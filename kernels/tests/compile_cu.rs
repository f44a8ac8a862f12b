//! Every kernel compiled for every generation of cards that it is written for, by NVRTC, which needs no card. Where there is
//! no NVRTC (it is looked for by its usual names, also in the folders of `LD_LIBRARY_PATH`), the test says that it skips.

#![allow(clippy::unwrap_used, reason = "a test")]

use legwork_kernels::Heads;
use legwork_kernels::cuda::driver::Product;
use legwork_kernels::cuda::linear::{Layout, MAX_ROWS};
use legwork_kernels::cuda::plan::Fast;
use legwork_kernels::cuda::source::Unit;
use legwork_kernels::cuda::{Arch, compile, compiler_version};

/// Ampere, Hopper, and Blackwell twice.
const CAPABILITIES: [(i32, i32); 4] = [(8, 0), (9, 0), (10, 0), (10, 3)];
/// Query heads, key heads and values of a head: Qwen3-4B, its quarter by tensor parallelism, SmolLM2-135M, Qwen2.5-0.5B.
const HEADS: [(usize, usize, usize); 4] = [(32, 8, 128), (8, 2, 128), (9, 3, 64), (14, 2, 64)];
/// Bytes of registers that a thread may keep in slow memory at most: what decode keeps there is used once a tile.
const SPILLED_MAX_BYTES: u32 = 96;

fn units() -> Vec<Unit> {
    let mut units = vec![Unit::rows(), Unit::rotate(), Unit::plain(), Unit::sample()];
    units.extend([
        Unit::train_rows(),
        Unit::train_rotate(),
        Unit::train_plain(),
        Unit::train_loss(),
        Unit::train_update(),
    ]);
    for (query, kv, dim) in HEADS {
        let fast = Fast::of(Heads { query, kv, dim }).unwrap();
        let of_heads = [
            Unit::decode(dim, fast.heads),
            Unit::prefill(dim, fast.group),
            Unit::prefill_hopper(dim, fast.group),
            Unit::train_attend(dim, fast.group),
            Unit::train_queries(dim, fast.group),
            Unit::train_keys(dim, fast.group),
            Unit::train_bases(dim),
            Unit::train_attend_hopper(dim, fast.group),
            Unit::train_queries_hopper(dim, fast.group),
            Unit::train_keys_hopper(dim, fast.group),
        ];
        for unit in of_heads {
            if !units.contains(&unit) {
                units.push(unit);
            }
        }
    }
    for rows in [1, 2, 8, MAX_ROWS] {
        for (inputs, outputs) in [(2_560, 6_144), (2_560, 19_456), (4_096, 2_560), (9_728, 2_560)] {
            let shape = (0, inputs);
            let product = Product { rows, inputs, outputs, x: shape, weight: shape, bias: None, out: (0, outputs) };
            let unit = Unit::linear(Layout::of(&product).unwrap().form);
            if !units.contains(&unit) {
                units.push(unit);
            }
        }
    }
    units
}

/// The number before some words of a line: of `12 bytes spill stores` the 12.
fn number_before(line: &str, words: &str) -> Option<u32> {
    line.split(words).next().filter(|before| *before != line)?.split_whitespace().last()?.parse().ok()
}

#[test]
fn every_source_compiles_for_every_architecture_without_spilling() {
    let Some((major, minor)) = compiler_version() else {
        eprintln!("skipped: there is no NVRTC here; .ci/fixtures nvrtc fetches one, LD_LIBRARY_PATH names its folder");
        return;
    };
    eprintln!("NVRTC {major}.{minor}");
    let kept = tempfile::tempdir().unwrap();
    for unit in units() {
        for (major, minor) in CAPABILITIES {
            let arch = Arch::of(major, minor).unwrap();
            if unit.is_for_hopper() && !arch.is_hopper() {
                continue;
            }
            let compiled = compile(&unit, &arch, Some(kept.path())).unwrap();
            assert_eq!(&compiled.image[..4], b"\x7fELF", "{} for {}", unit.file, arch.name());
            let (mut compiled_kernels, mut kernel) = (Vec::new(), "");
            for line in compiled.log.lines() {
                let worse = line.contains("warning") || line.contains("Performance Loss");
                assert!(!worse, "{} for {}: {line}", unit.file, arch.name());
                if let Some(name) = line.split("Compiling entry function '").nth(1) {
                    kernel = name.split('\'').next().unwrap_or_default();
                    compiled_kernels.push(kernel);
                }
                if let Some(spilled) = number_before(line, " bytes spill stores") {
                    assert!(spilled <= SPILLED_MAX_BYTES, "{kernel} for {}: {spilled} bytes spilled", arch.name());
                }
                if line.contains("Used ") {
                    let used = line.split("Used ").nth(1).unwrap_or_default();
                    eprintln!("{} {:?} {kernel} {}: {used}", unit.file, unit.defines, arch.name());
                }
            }
            compiled_kernels.sort_unstable();
            let mut expected = unit.kernels.to_vec();
            expected.sort_unstable();
            assert_eq!(compiled_kernels, expected, "{} for {}", unit.file, arch.name());
            let again = compile(&unit, &arch, Some(kept.path())).unwrap();
            assert_eq!((again.image, again.log.as_str()), (compiled.image, ""), "it was kept");
        }
    }
}

#[test]
fn a_source_that_does_not_compile_is_refused_with_the_compilers_words() {
    if compiler_version().is_none() {
        eprintln!("skipped: there is no NVRTC here");
        return;
    }
    let unit = Unit { file: "wrong.cu", text: "int x = nothing;", defines: Vec::new(), kernels: &[] };
    let error = compile(&unit, &Arch::of(9, 0).unwrap(), None).unwrap_err().to_string();
    assert!(error.contains("wrong.cu does not compile for sm_90a") && error.contains("\"nothing\""), "{error}");
}
