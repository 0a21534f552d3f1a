//! Messages on the standard error that the program had at its start.

use std::os::fd::BorrowedFd;
use std::sync::OnceLock;

use rustix::fs::fstat;

/// Standard error as `timeous run` handed it over: device and file. A daemon may have something else at its number later.
static AT_START: OnceLock<Option<(u64, u64)>> = OnceLock::new();

fn standard_error() -> BorrowedFd<'static> {
    // SAFETY: used only for calls that refuse what is no open descriptor.
    unsafe { BorrowedFd::borrow_raw(2) }
}

fn identity() -> Option<(u64, u64)> {
    fstat(standard_error()).ok().map(|status| (status.st_dev, status.st_ino))
}

/// Notes what standard error is. Called when the library is loaded.
pub(super) fn note_standard_error() {
    AT_START.get_or_init(identity);
}

/// Writes a line to standard error, if it is still what it was.
pub(crate) fn say(text: &str) {
    if identity().is_some() && identity() == *AT_START.get_or_init(identity) {
        // A failure cannot be reported anywhere.
        let _ = rustix::io::write(standard_error(), format!("timeous run: {text}\n").as_bytes());
    }
}
