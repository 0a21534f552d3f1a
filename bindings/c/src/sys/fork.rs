//! Fork detection: whether this process is a child of the one that opened the library.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::failure::Failure;

static COPIED: AtomicBool = AtomicBool::new(false);

extern "C" fn in_child() {
    COPIED.store(true, Relaxed);
}

/// Notes it from now on when the process forks. The copy has none of the library's threads.
pub(crate) fn watch() -> Result<(), Failure> {
    // SAFETY: the handler does nothing but store to an atomic.
    match unsafe { libc::pthread_atfork(None, None, Some(in_child)) } {
        0 => Ok(()),
        error => Err(Failure::new(error, "no memory to watch for fork()")),
    }
}

/// # Errors
/// The caller's: it is a copy.
pub(crate) fn check() -> Result<(), Failure> {
    if COPIED.load(Relaxed) {
        return Err(Failure::new(
            libc::ECHILD,
            "libcm was used before fork(), whose child has none of its threads: open streams after fork(), in the process that uses them",
        ));
    }
    Ok(())
}
