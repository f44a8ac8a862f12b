//! Processor, memory, limits and the GPU's driver, as the system tells them without any tool of a vendor.

use crate::doctor::seen::{Gpu, Memory, Processor};
use std::fs;
use std::path::{Path, PathBuf};

/// Files of the system that are read are smaller than this, in bytes.
const SYSTEM_FILE_MAX_BYTES: u64 = 1024 * 1024;
/// Entries of a folder of libraries that are looked at.
const ENTRIES_MAX: usize = 20_000;
/// Where the GPU's libraries lie, besides the folders of `LD_LIBRARY_PATH` and of the toolkit's variables.
const LIBRARY_FOLDERS: [&str; 10] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/lib64",
    "/usr/local/lib",
    "/usr/local/cuda/lib64",
    "/usr/local/nvidia/lib64",
    "/usr/lib/wsl/lib",
    "/opt/cuda/lib64",
];
/// Variables that name the toolkit's folder.
const TOOLKIT_VARIABLES: [&str; 3] = ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"];

/// The processor.
pub(super) fn processor() -> Processor {
    Processor {
        architecture: std::env::consts::ARCH,
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        vector: vector_instructions(),
    }
}

#[cfg(target_arch = "x86_64")]
fn vector_instructions() -> Vec<&'static str> {
    let all = [
        ("avx2", std::arch::is_x86_feature_detected!("avx2")),
        ("fma", std::arch::is_x86_feature_detected!("fma")),
        ("avx512f", std::arch::is_x86_feature_detected!("avx512f")),
    ];
    all.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name).collect()
}

#[cfg(target_arch = "aarch64")]
fn vector_instructions() -> Vec<&'static str> {
    // Every processor of this architecture has it.
    vec!["neon"]
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn vector_instructions() -> Vec<&'static str> {
    Vec::new()
}

/// Memory, within the limit of the control group if there is one.
pub(super) fn memory() -> Option<Memory> {
    let machine = memory_of(&read(Path::new("/proc/meminfo"))?)?;
    let group = |name: &str| read(&Path::new("/sys/fs/cgroup").join(name))?.trim().parse::<u64>().ok();
    Some(within(machine, group("memory.max"), group("memory.current")))
}

fn memory_of(meminfo: &str) -> Option<Memory> {
    let bytes = |key: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    Some(Memory { total_bytes: bytes("MemTotal")?, available_bytes: bytes("MemAvailable")? })
}

fn within(machine: Memory, limit: Option<u64>, used: Option<u64>) -> Memory {
    let Some(limit) = limit else { return machine };
    let left = limit.saturating_sub(used.unwrap_or(0));
    Memory { total_bytes: machine.total_bytes.min(limit), available_bytes: machine.available_bytes.min(left) }
}

/// The most files and connections that this process may have open.
pub(super) fn open_files_max() -> Option<u64> {
    open_files_of(&read(Path::new("/proc/self/limits"))?)
}

fn open_files_of(limits: &str) -> Option<u64> {
    let soft = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?.split_whitespace().next()?;
    if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() }
}

/// The GPU's device files, driver and libraries.
pub(super) fn gpu() -> Gpu {
    let is_card = |name: &str| {
        name.strip_prefix("nvidia").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let devices = names_in(Path::new("/dev")).into_iter().filter(|name| is_card(name)).count();
    let cards = Path::new("/proc/driver/nvidia/gpus");
    let name_of = |card: String| {
        let information = read(&cards.join(card).join("information"))?;
        information.lines().find_map(|line| Some(line.strip_prefix("Model:")?.trim().to_owned()))
    };
    let folders = library_folders();
    Gpu {
        devices,
        names: names_in(cards).into_iter().filter_map(name_of).collect(),
        driver: read(Path::new("/proc/driver/nvidia/version")).and_then(|text| driver_of(&text)),
        libcuda: library(&folders, "libcuda.so"),
        nvrtc: library(&folders, "libnvrtc.so"),
        cublaslt: library(&folders, "libcublasLt.so"),
        // It is not looked for by any version, so a `libnccl.so.2` alone is not found.
        nccl: folders.iter().map(|folder| folder.join("libnccl.so")).find(|path| path.exists()),
    }
}

/// The first thing in the driver's own words that looks like its version.
fn driver_of(version: &str) -> Option<String> {
    let is_version = |word: &&str| word.contains('.') && word.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    version.lines().next()?.split_whitespace().find(is_version).map(str::to_owned)
}

fn library_folders() -> Vec<PathBuf> {
    let listed = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let toolkits =
        TOOLKIT_VARIABLES.into_iter().filter_map(std::env::var_os).map(|folder| Path::new(&folder).join("lib64"));
    std::env::split_paths(&listed).chain(toolkits).chain(LIBRARY_FOLDERS.map(PathBuf::from)).collect()
}

/// The library of this name, or of this name and a version.
fn library(folders: &[PathBuf], name: &str) -> Option<PathBuf> {
    folders.iter().find_map(|folder| {
        let is_it =
            |entry: &String| entry.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let mut found: Vec<_> = names_in(folder).into_iter().filter(is_it).collect();
        found.sort();
        found.into_iter().next().map(|entry| folder.join(entry))
    })
}

fn names_in(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.take(ENTRIES_MAX).filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

fn read(path: &Path) -> Option<String> {
    use std::io::Read;
    let mut text = String::new();
    fs::File::open(path).ok()?.take(SYSTEM_FILE_MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_and_cut_to_the_control_group() {
        let machine = memory_of("MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    800 kB\n").unwrap();
        assert_eq!(machine, Memory { total_bytes: 1_024_000, available_bytes: 819_200 });
        assert_eq!(within(machine, None, None), machine);
        let group = within(machine, Some(500_000), Some(400_000));
        assert_eq!(group, Memory { total_bytes: 500_000, available_bytes: 100_000 });
        assert_eq!(within(machine, Some(1), Some(9)).available_bytes, 0);
        for text in ["", "MemTotal: 1 kB", "MemTotal: x kB\nMemAvailable: 1 kB", "MemTotal: 99999999999999999999 kB"] {
            assert_eq!(memory_of(text), None, "{text}");
        }
    }

    #[test]
    fn the_limit_of_open_files_is_the_soft_one() {
        let limits =
            "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 524288    files\n";
        assert_eq!(open_files_of(limits), Some(1_024));
        assert_eq!(open_files_of("Max open files  unlimited unlimited files"), Some(u64::MAX));
        assert_eq!(open_files_of("Max processes 1 1"), None);
    }

    #[test]
    fn a_library_is_found_by_its_name_and_not_by_a_longer_one() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("libnvrtc-builtins.so.12"), "").unwrap();
        let folders = [folder.path().join("missing"), folder.path().to_owned()];
        assert_eq!(library(&folders, "libnvrtc.so"), None);
        fs::write(folder.path().join("libnvrtc.so.12"), "").unwrap();
        assert_eq!(library(&folders, "libnvrtc.so"), Some(folder.path().join("libnvrtc.so.12")));
    }

    #[test]
    fn the_drivers_version_is_found_in_its_own_words() {
        let text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.133.20  Sun Mar 30 2025\nGCC version: 12.3.0";
        assert_eq!(driver_of(text).as_deref(), Some("570.133.20"));
        assert_eq!(driver_of("no version"), None);
    }
}
