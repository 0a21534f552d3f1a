//! Life of this process's state: made at the first datagram, forgotten in a forked child, flushed at the end.

use std::os::fd::RawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::process::Process;
use crate::settings::Settings;
use crate::statistics::program;
use crate::sys::current::Slot;
use crate::sys::messages::say;
use crate::sys::{ending, sockets, thread};
use crate::worker;

static CURRENT: Slot<Process> = Slot::new();
/// Whether forks and the end are watched: children inherit both.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

fn settings() -> Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    *SETTINGS.get_or_init(Settings::from_environment)
}

/// Returns this process's state, if there is any. `None` in a child of `vfork()`.
pub(crate) fn existing() -> Option<&'static Process> {
    CURRENT.get().filter(|process| process.is_own())
}

/// Returns this process's state, and makes it first if necessary. `None` if the system refuses a thread or a descriptor.
pub(crate) fn current() -> Option<&'static Process> {
    if let Some(process) = CURRENT.get() {
        return process.is_own().then_some(process);
    }
    let (process, is_new) = CURRENT.fill(Process::new(settings())?);
    if is_new {
        if !IS_WATCHED.swap(true, Ordering::Relaxed) {
            ending::watch_forks(in_child);
            ending::watch_exit(at_exit);
        }
        if thread::start(|| worker::run(process)).is_err() {
            process.sending().has_failed = true;
            say(&format!("{}: no congestion control: the system refuses a thread", program()));
        }
    }
    Some(process)
}

/// The child has none of the threads, and perhaps held locks: it begins anew. The parent sends what is queued.
extern "C" fn in_child() {
    CURRENT.clear();
}

extern "C" fn at_exit() {
    let Some(process) = existing() else { return };
    process.flush();
    if !process.settings.stats {
        return;
    }
    let program = program();
    let figures = process.try_sending().map(|sending| sending.latest_figures()).unwrap_or_default();
    figures.iter().for_each(|(&to, figures)| say(&figures.line(&program, to)));
    let receiving = process.receiving();
    if receiving.reporter.accepted > 0 {
        let (reported, senders) = (receiving.reporter.reported, receiving.reporter.accepted);
        say(&format!("{program}: reported {reported} datagrams to {senders} subscriptions"));
    }
}

/// Lets queued datagrams leave before the process becomes another program.
pub(crate) fn before_exec() {
    if let Some(process) = existing() {
        process.flush();
    }
}

/// Notes that descriptors are about to be closed.
pub(crate) fn closes(first: RawFd, last: RawFd) {
    match CURRENT.get() {
        // A child of `vfork()`: the parent's stay open.
        Some(process) if !process.is_own() => {}
        Some(process) => {
            process.descriptors(first, last).into_iter().for_each(|fd| process.closes(fd));
            sockets::forget_range(first as u32, last as u32);
        }
        None => sockets::forget_range(first as u32, last as u32),
    }
}
