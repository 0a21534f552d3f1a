//! Guard around all work within a hook: no recursion, no panic into the program, and `errno` as it was.

use std::cell::Cell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// Whether this thread is within this library. Needs no destructor, so that it is there until the thread's very end.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Sets this thread's `errno`.
pub(super) fn set_errno(code: c_int) {
    // SAFETY: the location is this thread's own, and always there.
    unsafe { *libc::__errno_location() = code };
}

/// This thread's `errno`.
pub(super) fn errno() -> c_int {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() }
}

/// Marks this thread as the library's own: its calls pass the hooks.
pub(super) fn stay_inside() {
    INSIDE.set(true);
}

/// Runs `work` unless this thread is within the library: a signal handler may call while a lock is held. `None` then, and after
/// a panic, which is a defect of ours: the program's call goes on as it is.
pub(super) fn inside<T>(work: impl FnOnce() -> Option<T>) -> Option<T> {
    if INSIDE.replace(true) {
        return None;
    }
    let before = errno();
    let done = catch_unwind(AssertUnwindSafe(work)).ok().flatten();
    set_errno(before);
    INSIDE.set(false);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_within_a_call_passes_and_errno_stays() {
        set_errno(libc::ENOENT);
        let nested = inside(|| {
            set_errno(libc::EIO);
            Some(inside(|| Some(1)))
        });
        assert_eq!((nested, errno()), (Some(None), libc::ENOENT));
        assert_eq!(inside(|| Some(2)), Some(2));
    }

    #[test]
    fn a_panic_leaves_the_call_to_the_program() {
        assert_eq!(inside(|| -> Option<u8> { panic!("a defect") }), None);
        assert_eq!(inside(|| Some(1)), Some(1));
    }
}
