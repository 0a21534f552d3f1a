//! Forks and the end of the process.

/// Calls `in_child` in each child that is forked from now on.
pub(crate) fn watch_forks(in_child: extern "C" fn()) {
    // SAFETY: the function allocates nothing and takes no lock.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

/// Calls `at_exit` when the process ends by `exit()` or by a return from `main()`.
pub(crate) fn watch_exit(at_exit: extern "C" fn()) {
    // SAFETY: the library is never unloaded, so that the function stays.
    unsafe { libc::atexit(at_exit) };
}
