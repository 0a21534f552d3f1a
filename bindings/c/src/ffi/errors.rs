//! What went wrong, in words.

use std::ffi::{c_char, c_int};

use crate::failure;

/// `cm_error`: this thread's last failure.
#[unsafe(no_mangle)]
pub extern "C" fn cm_error() -> *const c_char {
    failure::last()
}

/// `cm_strerror`: what an error number means.
#[unsafe(no_mangle)]
pub extern "C" fn cm_strerror(error: c_int) -> *const c_char {
    failure::meaning(error).as_ptr()
}
