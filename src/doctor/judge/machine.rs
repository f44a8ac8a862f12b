//! Findings about the machine: what will run, and where.

use super::{bad, good, note, size};
use crate::doctor::Finding;
use crate::doctor::seen::{Gpu, Memory, Processor, Terminal};
use crate::terminal::WatchMode;
use std::path::PathBuf;

/// With less memory than this available little fits besides the program, in bytes.
const MEMORY_BAD_BELOW: u64 = 256 << 20;
/// With less than this a corpus of a hundred thousand pages does not fit, in bytes.
const MEMORY_NOTE_BELOW: u64 = 2 << 30;
/// Open files of an episode at most: connections to models, a search server.
const FILES_AN_EPISODE: u64 = 4;
/// Open files of the rest: ledger, index parts, log.
const FILES_BESIDES: u64 = 128;

pub(super) fn processor(seen: &Processor) -> Finding {
    let vector = if seen.vector.is_empty() {
        "no vector instructions that matter here".to_owned()
    } else {
        seen.vector.join(" ")
    };
    let saw =
        format!("{} {}, {}, {vector}", seen.cores, if seen.cores == 1 { "core" } else { "cores" }, seen.architecture);
    if seen.architecture == "x86_64" && !(seen.vector.contains(&"avx2") && seen.vector.contains(&"fma")) {
        return note(
            "processor",
            saw,
            "without avx2 and fma vector search and models run several times slower: use a newer machine for them",
        );
    }
    good("processor", saw)
}

pub(super) fn memory(seen: Option<Memory>) -> Option<Finding> {
    let seen = seen?;
    let saw = format!("{} available of {}", size(seen.available_bytes), size(seen.total_bytes));
    Some(if seen.available_bytes < MEMORY_BAD_BELOW {
        bad("memory", saw, format!("free at least {}", size(MEMORY_BAD_BELOW)))
    } else if seen.available_bytes < MEMORY_NOTE_BELOW {
        note("memory", saw, format!("large corpora and models want {} or more", size(MEMORY_NOTE_BELOW)))
    } else {
        good("memory", saw)
    })
}

pub(super) fn open_files(seen: Option<u64>, concurrency: usize) -> Option<Finding> {
    let limit = seen?;
    let wanted = FILES_BESIDES.saturating_add(FILES_AN_EPISODE.saturating_mul(concurrency as u64));
    let saw = if limit == u64::MAX { "no limit".to_owned() } else { format!("at most {limit}") };
    let saw = format!("{saw}; {concurrency} episodes at once may want {wanted}");
    Some(if limit < wanted {
        note("open files", saw, format!("ulimit -n {wanted}, or lower the concurrency"))
    } else {
        good("open files", saw)
    })
}

pub(super) fn gpu(seen: &Gpu, has_gpu_code: bool) -> Finding {
    const CPU: &str = "everything runs on the CPU";
    if seen.devices == 0 {
        return match &seen.libcuda {
            None => good("gpu", format!("no GPU: {CPU}")),
            Some(library) => note(
                "gpu",
                format!("a driver library ({}) but no device: {CPU}", library.display()),
                "if there is a GPU, pass it into the container or load its kernel module",
            ),
        };
    }
    let cards =
        if seen.names.is_empty() { format!("{} NVIDIA device(s)", seen.devices) } else { seen.names.join(", ") };
    let driver = seen.driver.as_ref().map_or(String::new(), |version| format!(", driver {version}"));
    if seen.libcuda.is_none() {
        return note(
            "gpu",
            format!("{cards}{driver}, but no libcuda.so: {CPU}"),
            "install the driver's user library, or start the container with it; add its folder to LD_LIBRARY_PATH",
        );
    }
    if !has_gpu_code {
        return note(
            "gpu",
            format!("{cards}{driver}, but this build has no code for it: {CPU}"),
            "build it with --features cuda",
        );
    }
    for (library, path) in [("nvrtc", &seen.nvrtc), ("cublasLt", &seen.cublaslt)] {
        if path.is_none() {
            return note("gpu", format!("{cards}{driver}, unused without {library}: {CPU}"), format!("see {library}"));
        }
    }
    let word = if seen.devices > 1 { "cuda, cuda:N or cuda:all" } else { "cuda" };
    good("gpu", format!("{cards}{driver}: a model runs on it where --device says {word}"))
}

/// What is looked for when a card is opened, beside its driver.
pub(super) fn gpu_libraries(seen: &Gpu, has_gpu_code: bool) -> [Finding; 3] {
    let is_used = seen.devices > 0 && has_gpu_code;
    let library = |name: &str, path: &Option<PathBuf>, is_needed: bool, missing: &str, cure: &str| match path {
        Some(path) => good(name, path.display().to_string()),
        None if is_needed => note(name, missing, cure),
        None => good(name, "not there, not needed"),
    };
    [
        library(
            "nvrtc",
            &seen.nvrtc,
            is_used,
            "no libnvrtc.so, with which kernels are compiled",
            "install the toolkit's cuda-nvrtc package, or set CUDA_HOME to the toolkit's folder",
        ),
        library(
            "cublasLt",
            &seen.cublaslt,
            is_used,
            "no libcublasLt.so, with which matrices are multiplied",
            "install the toolkit's libcublas package of CUDA 13, or set CUDA_HOME to the toolkit's folder",
        ),
        library(
            "nccl",
            &seen.nccl,
            is_used && seen.devices > 1,
            "no libnccl.so of just this name, by which cards talk to each other: no model is cut over them or trains on several",
            "install libnccl-dev, or link libnccl.so to the libnccl.so.2 of the wheel nvidia-nccl-cu13 and add the link's folder to \
             LD_LIBRARY_PATH",
        ),
    ]
}

pub(super) fn terminal(seen: &Terminal) -> Finding {
    let kind = seen.term.as_deref().filter(|term| !term.is_empty()).unwrap_or("TERM is not set");
    let size = seen.size.map_or(String::new(), |(columns, rows)| format!(", {columns}x{rows}"));
    if seen.mode != WatchMode::Live {
        return good(
            "terminal",
            format!("{kind}; standard error is no screen to draw on: runs are shown as plain lines"),
        );
    }
    if seen.has_utf8 {
        return good("terminal", format!("{kind}{size}: runs are shown live"));
    }
    note(
        "terminal",
        format!("{kind}{size}, in a locale without UTF-8"),
        "set LANG to a UTF-8 locale such as C.UTF-8, or use --plain",
    )
}
