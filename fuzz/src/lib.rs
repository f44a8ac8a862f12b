//! The fuzz crate: the readers under test, and an allocator that ends the process where one allocation is as large as
//! only a header can claim. `tests/corpora.rs` of the house includes the readers and not the allocator.

pub mod readers;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The largest single allocation that inputs of a few kilobytes can justify, in bytes.
pub const ALLOCATION_MAX_BYTES: usize = 256 << 20;
/// What a page of parquet may be unpacked to by the library, whatever it was packed from; a header cannot claim more.
pub const PAGE_MAX_BYTES: usize = 1 << 31;

static LIMIT_BYTES: AtomicUsize = AtomicUsize::new(ALLOCATION_MAX_BYTES);

/// For readers on a library that panics over damaged files, where the reader catches that: only a panic that gets out of the
/// reader ends the process, and one allocation may be so large.
pub fn on_a_library(allocation_max_bytes: usize) {
    LIMIT_BYTES.store(allocation_max_bytes, Ordering::Relaxed);
    std::panic::set_hook(Box::new(|_| ()));
}

/// The system's allocator with a limit. Memory that is asked for and never touched shows in no other figure.
struct Limited;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// Ends the process so that libFuzzer keeps the input.
fn refuse(bytes: usize) {
    if bytes > LIMIT_BYTES.load(Ordering::Relaxed) {
        let from = std::backtrace::Backtrace::force_capture();
        eprintln!("one allocation of {bytes} bytes was asked for; an input of this size justifies none such\n{from}");
        std::process::abort();
    }
}

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        refuse(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        refuse(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        refuse(new_size);
        unsafe { System.realloc(pointer, layout, new_size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}
