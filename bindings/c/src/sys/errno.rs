//! Access to C's `errno`.

use std::ffi::c_int;

/// Sets this thread's `errno`.
pub(crate) fn set(code: c_int) {
    // SAFETY: the location is this thread's own, and always there.
    unsafe { *libc::__errno_location() = code };
}

/// This thread's `errno`.
pub(crate) fn get() -> c_int {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() }
}
