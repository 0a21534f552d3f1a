//! C functions to request sending and to report what was sent.

use std::ffi::c_int;

use timeous::core::Instant;

use super::entries;
use crate::failure::Failure;
use crate::guard::call;
use crate::library;

/// `struct cm_request_entry`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CmRequestEntry {
    /// The flow.
    pub flow: i64,
    /// Packets.
    pub count: u32,
    /// Written: 0 or an errno.
    pub error: c_int,
}

/// `struct cm_notify_entry`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CmNotifyEntry {
    /// The flow.
    pub flow: i64,
    /// Bytes sent for one grant.
    pub nsent: u64,
    /// Written: 0 or an errno.
    pub error: c_int,
}

/// `cm_request`: the right to send one packet.
#[unsafe(no_mangle)]
pub extern "C" fn cm_request(flow: i64) -> c_int {
    call(|| library::get()?.request(flow).map(|()| 0))
}

/// `cm_request_by`: the same, best before an instant.
#[unsafe(no_mangle)]
pub extern "C" fn cm_request_by(flow: i64, deadline_ns: i64) -> c_int {
    call(|| {
        let deadline = u64::try_from(deadline_ns).map_err(|_| {
            Failure::new(libc::EINVAL, format!("deadline {deadline_ns}: CLOCK_MONOTONIC is never negative"))
        })?;
        library::get()?.request_by(flow, Instant::from_nanos(deadline)).map(|()| 0)
    })
}

/// `cm_notify`: a grant was used.
#[unsafe(no_mangle)]
pub extern "C" fn cm_notify(flow: i64, nsent: u64) -> c_int {
    call(|| library::get()?.notify(flow, nsent).map(|()| 0))
}

/// `cm_notify_unasked`: a packet left without one.
#[unsafe(no_mangle)]
pub extern "C" fn cm_notify_unasked(flow: i64, nsent: u64) -> c_int {
    call(|| library::get()?.notify_unasked(flow, nsent).map(|()| 0))
}

/// `cm_bulk_request`: packets of several flows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_bulk_request(entries: *mut CmRequestEntry, n: usize) -> c_int {
    call(|| {
        // SAFETY: `n` entries, as cm(3) says.
        let entries = unsafe { entries::borrow(entries, n) }?;
        let asked: Vec<_> = entries.iter().map(|entry| (entry.flow, entry.count)).collect();
        let answers = library::get()?.bulk_request(&asked);
        entries::settle(entries, answers, |entry, error, _| entry.error = error)
    })
}

/// `cm_bulk_notify`: grants of several flows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_bulk_notify(entries: *mut CmNotifyEntry, n: usize) -> c_int {
    call(|| {
        // SAFETY: `n` entries, as cm(3) says.
        let entries = unsafe { entries::borrow(entries, n) }?;
        let sent: Vec<_> = entries.iter().map(|entry| (entry.flow, entry.nsent)).collect();
        let answers = library::get()?.bulk_notify(&sent);
        entries::settle(entries, answers, |entry, error, _| entry.error = error)
    })
}
