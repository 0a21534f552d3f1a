//! C functions that return error messages.

use std::ffi::{c_char, c_int};

use crate::failure;

/// `cm_error`: message of this thread's last error.
#[unsafe(no_mangle)]
pub extern "C" fn cm_error() -> *const c_char {
    failure::last()
}

/// `cm_strerror`: meaning of an error number.
#[unsafe(no_mangle)]
pub extern "C" fn cm_strerror(error: c_int) -> *const c_char {
    failure::meaning(error).as_ptr()
}
