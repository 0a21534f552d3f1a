//! C functions for flows with a send queue (buffered sending).

use std::ffi::{c_int, c_void};
use std::slice;

use crate::failure::Failure;
use crate::guard::call;
use crate::library;

/// `cm_send`: queues a datagram.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_send(flow: i64, data: *const c_void, len: usize) -> isize {
    call(|| {
        let library = library::get()?;
        library.id(flow)?;
        if data.is_null() && len > 0 {
            return Err(Failure::null("the datagram"));
        }
        // Longer than any datagram or memory can be.
        if isize::try_from(len).is_err() {
            return Err(Failure::new(libc::EMSGSIZE, format!("{len} bytes are no datagram")));
        }
        // SAFETY: `len` bytes are there, as cm(3) says; not null, and not too many.
        let datagram = if len == 0 { &[] } else { unsafe { slice::from_raw_parts(data.cast(), len) } };
        library.send(flow, datagram)?;
        Ok(len as isize)
    })
}

/// `cm_queued`: number of datagrams queued.
#[unsafe(no_mangle)]
pub extern "C" fn cm_queued(flow: i64) -> c_int {
    call(|| {
        let library = library::get()?;
        library.id(flow)?;
        Ok(c_int::try_from(library.buffers.queued(flow)?).unwrap_or(c_int::MAX))
    })
}

/// `cm_departure`: send time of the next one.
#[unsafe(no_mangle)]
pub extern "C" fn cm_departure(flow: i64) -> i64 {
    call(|| {
        let library = library::get()?;
        library.id(flow)?;
        Ok(i64::try_from(library.buffers.departure(flow)?.as_nanos()).unwrap_or(i64::MAX))
    })
}
