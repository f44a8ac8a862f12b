//! The fuzz crate: the readers under test, and an allocator that ends the process where one allocation is as large as
//! only a header can claim. `tests/corpora.rs` of the house includes the readers and not the allocator.

pub mod readers;

use std::alloc::{GlobalAlloc, Layout, System};

/// The largest single allocation that inputs of a few kilobytes can justify, in bytes.
const ALLOCATION_MAX_BYTES: usize = 256 << 20;

/// The system's allocator with a limit. Memory that is asked for and never touched shows in no other figure.
struct Limited;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// Ends the process so that libFuzzer keeps the input.
fn refuse(bytes: usize) {
    if bytes > ALLOCATION_MAX_BYTES {
        eprintln!("one allocation of {bytes} bytes was asked for; an input of this size justifies none such");
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
