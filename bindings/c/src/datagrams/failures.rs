//! Errors of a stream as error numbers for C.

use std::ffi::c_int;

use timeous::{CloseReason, Culprit, Error, SendError};

use crate::failure::Failure;

impl Failure {
    pub(super) fn no_stream(fd: c_int) -> Self {
        let words = format!("{fd} is no stream: utl_open() one, and do not use it after utl_close()");
        Self::new(libc::EBADF, words)
    }

    pub(super) fn finished() -> Self {
        Self::new(libc::EPIPE, "the stream is finished: open another to send more")
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Uri(_) | Error::Security(_) | Error::Zone(_) => libc::EINVAL,
            Error::Sealing(_) => libc::EACCES,
            Error::UnknownHost { .. } | Error::NoneAnswers { .. } => libc::EHOSTUNREACH,
            Error::NobodyListens { .. } => libc::ECONNREFUSED,
            Error::Busy { .. } => libc::EBUSY,
            Error::NoAnswer { .. } | Error::Closed(CloseReason::Timeout) => libc::ETIMEDOUT,
            Error::NoDaemon(_) => libc::ECONNREFUSED,
            Error::Closed(CloseReason::Local) => libc::EPIPE,
            Error::Closed(_) => libc::ECONNRESET,
            other if other.culprit() == Culprit::Environment => libc::EIO,
            _ => libc::EPROTO,
        };
        Self::new(code, error.to_string())
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        let code = match &error {
            SendError::Full => libc::EAGAIN,
            SendError::TooLarge { .. } => libc::EMSGSIZE,
            SendError::ForeignZone => libc::EINVAL,
            SendError::Closed(_) => libc::EPIPE,
            _ => libc::EIO,
        };
        Self::new(code, error.to_string())
    }
}
