//! C functions to register callbacks and set rate thresholds.

use std::ffi::{c_int, c_void};

use super::{ErrorFn, SendFn, UpdateFn};
use crate::guard::call;
use crate::library;
use crate::sys::callback::Callback;

/// `cm_register_send`: sets the callback for grants.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_register_send(flow: i64, function: Option<SendFn>, data: *mut c_void) -> c_int {
    call(|| {
        // SAFETY: cm(3) says from which threads it is called, until the flow is closed or another is registered.
        let callback = function.map(|function| unsafe { Callback::new(function, data) });
        library::get()?.flows.write().callbacks_mut(flow)?.send = callback;
        Ok(0)
    })
}

/// `cm_register_update`: sets the callback for rate changes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_register_update(flow: i64, function: Option<UpdateFn>, data: *mut c_void) -> c_int {
    call(|| {
        // SAFETY: as above.
        let callback = function.map(|function| unsafe { Callback::new(function, data) });
        library::get()?.flows.write().callbacks_mut(flow)?.update = callback;
        Ok(0)
    })
}

/// `cm_register_error`: sets the callback for errors outside of a call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_register_error(flow: i64, function: Option<ErrorFn>, data: *mut c_void) -> c_int {
    call(|| {
        // SAFETY: as above.
        let callback = function.map(|function| unsafe { Callback::new(function, data) });
        library::get()?.flows.write().callbacks_mut(flow)?.error = callback;
        Ok(0)
    })
}

/// `cm_thresh`: sets the thresholds for rate changes.
#[unsafe(no_mangle)]
pub extern "C" fn cm_thresh(flow: i64, down: f64, up: f64) -> c_int {
    call(|| library::get()?.thresh(flow, down, up).map(|()| 0))
}
