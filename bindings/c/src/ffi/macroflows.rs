//! C functions for macroflows and options of flows.

use std::ffi::{c_int, c_void};
use std::{mem, ptr, slice};

use libc::socklen_t;
use timeous::cm::{Kind, Scheduling};

use crate::failure::Failure;
use crate::guard::call;
use crate::library;
use crate::sys::descriptor::connected_socket;

const BUF: c_int = 1;
const WEIGHT: c_int = 2;
const SCHEDULER: c_int = 3;
const CONTROLLER: c_int = 4;
const BUFSIZE: c_int = 5;

/// `cm_split`: moves a flow into a macroflow of its own.
#[unsafe(no_mangle)]
pub extern "C" fn cm_split(flow: i64) -> c_int {
    call(|| {
        let library = library::get()?;
        library.manager.split(library.id(flow)?)?;
        Ok(0)
    })
}

/// `cm_merge`: moves a flow into the macroflow of another.
#[unsafe(no_mangle)]
pub extern "C" fn cm_merge(flow: i64, with: i64) -> c_int {
    call(|| {
        let library = library::get()?;
        library.manager.merge(library.id(flow)?, library.id(with)?)?;
        Ok(0)
    })
}

/// `cm_setopt`: sets an option of a flow or its macroflow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_setopt(flow: i64, option: c_int, value: *const c_void, len: socklen_t) -> c_int {
    call(|| {
        let library = library::get()?;
        let id = library.id(flow)?;
        if value.is_null() {
            return Err(Failure::null("the option's value"));
        }
        match option {
            // SAFETY: `len` bytes are there, as cm(3) says; so in the others.
            BUF => library.buffer(flow, connected_socket(unsafe { number(value, len) }?)?)?,
            // SAFETY: as above.
            BUFSIZE => library.buffers.set_capacity(flow, unsafe { number::<u32>(value, len) }? as usize)?,
            // SAFETY: as above.
            WEIGHT => library.manager.set_weight(id, unsafe { number(value, len) }?)?,
            // SAFETY: as above.
            SCHEDULER => library.manager.set_scheduler(id, scheduler(unsafe { number(value, len) }?)?)?,
            // SAFETY: as above.
            CONTROLLER => library.manager.set_controller(id, controller(unsafe { bytes(value, len) })?)?,
            other => return Err(Failure::new(libc::EINVAL, format!("option {other}: there is none such"))),
        }
        Ok(0)
    })
}

/// Reads a C number, which may be unaligned.
///
/// # Safety
/// There are `len` bytes to read at `value`, and any bytes make a `T`.
unsafe fn number<T: Copy>(value: *const c_void, len: socklen_t) -> Result<T, Failure> {
    if len as usize != mem::size_of::<T>() {
        let size = mem::size_of::<T>();
        return Err(Failure::new(libc::EINVAL, format!("the option's value has {size} bytes, not {len}")));
    }
    // SAFETY: the caller's promise, and it is as long.
    Ok(unsafe { ptr::read_unaligned(value.cast()) })
}

/// # Safety
/// There are `len` bytes to read at `value` until the call returns.
unsafe fn bytes<'a>(value: *const c_void, len: socklen_t) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(value.cast(), len as usize) }
}

fn scheduler(number: c_int) -> Result<Scheduling, Failure> {
    match number {
        0 => Ok(Scheduling::RoundRobin),
        1 => Ok(Scheduling::Weighted),
        2 => Ok(Scheduling::Deadline),
        other => {
            Err(Failure::new(libc::EINVAL, format!("scheduler {other}: give CM_ROUND_ROBIN, _WEIGHTED or _DEADLINE")))
        }
    }
}

/// Parses a name, with or without C's terminating zero.
fn controller(name: &[u8]) -> Result<Kind, Failure> {
    let name = String::from_utf8_lossy(name.split(|&byte| byte == 0).next().unwrap_or_default());
    name.parse::<Kind>().map_err(|error| Failure::new(libc::EINVAL, error.to_string()))
}
