//! Signals to this process, and threads with all signals blocked.

use std::mem::MaybeUninit;

use libc::sigset_t;

/// Sends `SIGIO` to this process.
pub(crate) fn sigio() {
    // SAFETY: no memory is involved. A program that asked for the signal handles it.
    unsafe { libc::kill(libc::getpid(), libc::SIGIO) };
}

/// Runs `start` with all signals blocked, so that a thread that it starts gets none.
pub(crate) fn blocked<T>(start: impl FnOnce() -> T) -> T {
    let before = set(libc::SIG_BLOCK, &all());
    let started = start();
    set(libc::SIG_SETMASK, &before);
    started
}

fn all() -> sigset_t {
    let mut all = MaybeUninit::uninit();
    // SAFETY: sigfillset makes a set of any memory that has the size of one.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        all.assume_init()
    }
}

/// Changes this thread's mask; the one before.
fn set(how: libc::c_int, mask: &sigset_t) -> sigset_t {
    let mut before = MaybeUninit::<sigset_t>::zeroed();
    // SAFETY: both sets are there, and zeroes are one, too.
    unsafe {
        libc::pthread_sigmask(how, mask, before.as_mut_ptr());
        before.assume_init()
    }
}
