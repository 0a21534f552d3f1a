//! The library's own thread, which takes no signals and passes the hooks.

use std::mem::MaybeUninit;
use std::thread::{Builder, JoinHandle};

use super::guard::stay_inside;

/// Starts a thread with all signals blocked: the program's handlers run on its own threads.
pub(crate) fn start(work: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: sigfillset makes a set of any memory that has the size of one; both sets are there.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let started = Builder::new().name("timeous-run".to_owned()).spawn(|| {
        stay_inside();
        work();
    });
    // SAFETY: the set was filled in above; zeroes are one, too.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    started
}
