//! The system's allocator, with an optional count of live bytes. While it does not count, it costs
//! one load and one branch, which is the same for all contenders.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicIsize = AtomicIsize::new(0);

/// Starts counting from zero.
pub(crate) fn start() {
    LIVE.store(0, Ordering::SeqCst);
    COUNTS.store(true, Ordering::SeqCst);
}

/// Returns the bytes that were allocated and not freed since `start`, as the program requested
/// them. The allocator's own overhead is the same for all contenders and not counted.
pub(crate) fn live() -> isize {
    LIVE.load(Ordering::SeqCst)
}

/// Stops counting.
pub(crate) fn stop() {
    COUNTS.store(false, Ordering::SeqCst);
}

fn note(bytes: isize) {
    if COUNTS.load(Ordering::Relaxed) {
        LIVE.fetch_add(bytes, Ordering::Relaxed);
    }
}

// SAFETY: every call is passed to the system's allocator unchanged; counting does not access its
// memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        // SAFETY: the contract is the same, and the caller upholds it.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        // SAFETY: the contract is the same, and the caller upholds it.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(-(layout.size() as isize));
        // SAFETY: the contract is the same, and the caller upholds it.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size as isize - layout.size() as isize);
        // SAFETY: the contract is the same, and the caller upholds it.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
