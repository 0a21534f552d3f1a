//! C functions that dispatch callbacks: in the application's loop, by a signal, or in the library's own loop.

use std::ffi::{c_int, c_short, c_void};
use std::os::fd::AsRawFd;

use super::ReadyFn;
use crate::failure::Failure;
use crate::guard::call;
use crate::sigio::Sigio;
use crate::sys::callback::Callback;
use crate::sys::poll;
use crate::{library, run};

/// `cm_fd`: the control descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn cm_fd() -> c_int {
    call(|| Ok(library::get()?.control().as_raw_fd()))
}

/// `cm_dispatch`: calls back for all pending events.
#[unsafe(no_mangle)]
pub extern "C" fn cm_dispatch() -> c_int {
    call(|| Ok(library::get()?.dispatch()))
}

/// `cm_timeout`: milliseconds until `cm_dispatch` is due without an event, for `poll(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn cm_timeout() -> c_int {
    // -1 says "none", as poll() has it: an error cannot be told apart, and concerns a library that is not open.
    call(|| library::get().map(|library| poll::millis(library.until_overdue())))
}

/// `cm_set_sigio`: switches `SIGIO` for pending events on or off.
#[unsafe(no_mangle)]
pub extern "C" fn cm_set_sigio(on: c_int) -> c_int {
    call(|| {
        let library = library::get()?;
        let mut sigio = library.sigio.lock();
        match (on, sigio.is_some()) {
            (0, _) => *sigio = None,
            (1, true) => {}
            (1, false) => *sigio = Some(Sigio::start(library.control())?),
            (other, _) => return Err(Failure::new(libc::EINVAL, format!("cm_set_sigio({other}): give 1 or 0"))),
        }
        Ok(0)
    })
}

/// `cm_loop`: runs the library's own loop.
#[unsafe(no_mangle)]
pub extern "C" fn cm_loop() -> c_int {
    call(|| {
        let library = library::get()?;
        let dispatch = || {
            library.dispatch();
        };
        library.run.run(library.control().as_raw_fd(), || library.until_overdue(), dispatch).map(|()| 0)
    })
}

/// `cm_stop`: ends the loop. A signal handler may call it, so it must not lock, allocate or panic.
#[unsafe(no_mangle)]
pub extern "C" fn cm_stop() {
    run::stop();
}

/// `cm_watch`: adds a descriptor of the application to the library's loop.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_watch(fd: c_int, events: c_short, function: Option<ReadyFn>, data: *mut c_void) -> c_int {
    call(|| {
        let run = &library::get()?.run;
        if fd < 0 {
            return Err(Failure::new(libc::EINVAL, format!("{fd} is no descriptor")));
        }
        match function {
            // SAFETY: cm(3) says from which thread it is called, until it is forgotten.
            Some(function) => run.watch(fd, events, unsafe { Callback::new(function, data) }),
            None => run.forget(fd),
        }
        Ok(0)
    })
}
