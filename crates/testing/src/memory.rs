//! How much memory something takes, counted by the allocator of a test binary:
//!
//! ```
//! use walwright_testing::memory::{self, Counting};
//!
//! #[global_allocator]
//! static ALLOCATOR: Counting = Counting;
//!
//! let (made, most) = memory::alone().measured(|| vec![0_u8; 1 << 20]);
//! drop(made);
//! assert!(most >= 1 << 20);
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Counts bytes in use and the most there were.
pub struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
static ALONE: Mutex<()> = Mutex::new(());

// SAFETY: all is handed to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = IN_USE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

/// One test at a time, or each would count the others.
pub struct Alone(#[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

/// Waits until no other test counts.
///
/// # Panics
///
/// Where [`Counting`] is not the allocator of this binary: all would seem to take nothing.
pub fn alone() -> Alone {
    assert!(IN_USE.load(Ordering::Relaxed) > 0, "Counting is not the global allocator");
    Alone(ALONE.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Alone {
    /// What `work` gives, and the bytes that it took at most.
    pub fn measured<T>(&self, work: impl FnOnce() -> T) -> (T, usize) {
        let before = IN_USE.load(Ordering::Relaxed);
        MOST.store(before, Ordering::Relaxed);
        let done = work();
        (done, MOST.load(Ordering::Relaxed).saturating_sub(before))
    }
}
