//! Errors for C: an error number, and a message that says what to do.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};

use timeous::cm::{ClientError, CmError, Error, Refusal};

use crate::sys::errno;

/// Error of a failed call.
#[derive(Debug)]
pub(crate) struct Failure {
    code: c_int,
    words: Cow<'static, str>,
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(c"no call of this thread has failed".to_owned());
}

impl Failure {
    pub(crate) fn new(code: c_int, words: impl Into<Cow<'static, str>>) -> Self {
        Self { code, words: words.into() }
    }

    /// A pointer that must not be null is null.
    pub(crate) fn null(what: &str) -> Self {
        Self::new(libc::EFAULT, format!("{what} is null"))
    }

    /// No such flow.
    pub(crate) fn not_open(flow: i64) -> Self {
        Self::new(libc::EBADF, format!("flow {flow} is not open: open it first, and do not use it after cm_close()"))
    }

    /// The flow holds no grant.
    pub(crate) fn not_granted(flow: i64) -> Self {
        let words = format!("flow {flow} was granted nothing: cm_request() and wait, or tell by cm_notify_unasked()");
        Self::new(libc::EPERM, words)
    }

    /// The flow belonged to a daemon that is gone.
    pub(crate) fn gone(flow: i64) -> Self {
        Self::new(
            libc::ECONNRESET,
            format!("the daemon is gone, and what flow {flow} had there: wait for cmapp_error()"),
        )
    }

    /// Error number.
    pub(crate) fn code(&self) -> c_int {
        self.code
    }

    /// Sets `errno` and the message of `cm_error()`.
    pub(crate) fn tell(&self) {
        // Fails only while the thread is ending.
        let _ = LAST.try_with(|last| {
            let words = self.words.replace('\0', "?");
            *last.borrow_mut() = CString::new(words).unwrap_or_default();
        });
        errno::set(self.code);
    }
}

/// Message of this thread's last error; valid until the next one.
pub(crate) fn last() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"this thread is ending".as_ptr())
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Refused(refused) => of_manager(refused),
            Error::RefusedByDaemon(refusal) => of_daemon(*refusal),
            Error::NoDaemon(_) => libc::ECONNREFUSED,
            Error::Disconnected | Error::Daemon(ClientError::NoAnswer) => libc::ECONNRESET,
            Error::Daemon(ClientError::Full) | Error::Engine(_) => libc::EAGAIN,
            Error::Daemon(ClientError::Argument(_)) => libc::EINVAL,
            Error::Daemon(_) => libc::EPROTO,
            Error::Feedback(_) => libc::EBADMSG,
            Error::Io(error) => error.raw_os_error().unwrap_or(libc::EIO),
            _ => libc::EIO,
        };
        Self::new(code, error.to_string())
    }
}

fn of_manager(error: &CmError) -> c_int {
    match error {
        CmError::UnknownFlow(_) => libc::EBADF,
        CmError::UnknownClient(_) => libc::ECONNRESET,
        CmError::NotGranted(_) => libc::EPERM,
        CmError::TooLarge { .. } => libc::EMSGSIZE,
        CmError::TooManyRequests { .. } => libc::EDQUOT,
        CmError::Thresholds { .. } | CmError::BadWeight(_) | CmError::BadMtu(_) => libc::EINVAL,
        CmError::Untrusted { .. } => libc::EACCES,
        CmError::Implausible { .. } => libc::EBADMSG,
        _ => libc::EINVAL,
    }
}

/// Error number for a refusal by the daemon.
pub(crate) fn of_daemon(refusal: Refusal) -> c_int {
    match refusal {
        Refusal::UnknownFlow => libc::EBADF,
        Refusal::NotGranted => libc::EPERM,
        Refusal::MoreThanSent | Refusal::Implausible => libc::EBADMSG,
        Refusal::OverLimit => libc::EDQUOT,
    }
}

impl From<rustix::io::Errno> for Failure {
    fn from(error: rustix::io::Errno) -> Self {
        Self::new(error.raw_os_error(), error.to_string())
    }
}

/// Meaning of an error number in this library.
pub(crate) fn meaning(code: c_int) -> &'static CStr {
    match code {
        0 => c"no error",
        libc::EACCES => c"flows of different users cannot share a macroflow",
        libc::EAFNOSUPPORT => c"not an address of AF_INET or AF_INET6",
        libc::EAGAIN => c"no room just now: try again",
        libc::EBADF => c"the flow is not open",
        libc::EBADMSG => c"feedback that cannot be true",
        libc::EBUSY => c"busy: it is opened or run already",
        libc::ECHILD => c"libcm was used before fork()",
        libc::ECONNREFUSED => c"there is no daemon, or it does not answer",
        libc::ECONNRESET => c"the daemon is gone",
        libc::EDQUOT => c"more than the manager allows",
        libc::EFAULT => c"a pointer that must not be null is",
        libc::EINVAL => c"an argument that means nothing",
        libc::EMSGSIZE => c"too long for one packet of the flow",
        libc::ENOTCONN => c"the flow has no socket",
        libc::ENOTSOCK => c"not a connected socket",
        libc::ENOTRECOVERABLE => c"a defect of libcm: please report it",
        libc::EPERM => c"the flow holds no grant",
        libc::EPROTONOSUPPORT => c"not a socket of TCP",
        libc::EPROTO => c"the daemon refused",
        _ => c"an error of the system",
    }
}
