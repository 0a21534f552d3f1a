//! Panic guard: each exported function does its work within `call`, so that no panic unwinds into C.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::failure::Failure;

/// Returns the result of `work`, or -1 with `errno` set. A panic, which is a bug of ours, becomes an error; no data are
/// left half changed, since no lock is held around code that may panic.
pub(crate) fn call<T: From<i8>>(work: impl FnOnce() -> Result<T, Failure>) -> T {
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(answer)) => return answer,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::new(libc::ENOTRECOVERABLE, format!("a defect of libcm: {}", words(&*panic))),
    };
    failure.tell();
    T::from(-1)
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked")
}

#[cfg(test)]
mod tests {
    use std::ffi::{CStr, c_int};

    use super::*;
    use crate::{failure, sys::errno};

    #[test]
    fn a_panic_becomes_an_error() {
        let number = 7;
        assert_eq!(call::<c_int>(|| panic!("slot {number} is taken twice")), -1);
        assert_eq!(errno::get(), libc::ENOTRECOVERABLE);
        #[allow(unsafe_code, reason = "the words as C reads them")]
        // SAFETY: they stay until this thread's next failure.
        let words = unsafe { CStr::from_ptr(failure::last()) };
        assert_eq!(words.to_str(), Ok("a defect of libcm: slot 7 is taken twice"));
    }

    #[test]
    fn a_success_leaves_errno_alone() {
        errno::set(libc::ENOENT);
        assert_eq!(call::<i64>(|| Ok(3)), 3);
        assert_eq!(errno::get(), libc::ENOENT);
    }
}
