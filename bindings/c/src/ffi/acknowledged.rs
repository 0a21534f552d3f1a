//! C functions for feedback by the library's own acknowledgements: the sender's half of a flow, and the receiver's.

use std::ffi::{c_int, c_uint, c_void};
use std::{ptr, slice};

use parking_lot::Mutex;
use timeous::clock;
use timeous::cm::{Ack, Acks};
use timeous::core::Duration;

use crate::failure::Failure;
use crate::guard::call;
use crate::library;
use crate::sys::poll;

/// `struct cm_receiver`: the receiver's half, for the packets of one flow.
#[derive(Debug)]
pub struct CmReceiver(Mutex<Acks>);

/// `cm_sent`: the number for a packet that leaves.
#[unsafe(no_mangle)]
pub extern "C" fn cm_sent(flow: i64, nsent: u64) -> i64 {
    call(|| library::get()?.sent(flow, nsent).map(|number| i64::try_from(number).unwrap_or(i64::MAX)))
}

/// `cm_unacked`: the bytes whose fate is not known.
#[unsafe(no_mangle)]
pub extern "C" fn cm_unacked(flow: i64) -> i64 {
    call(|| library::get()?.unacked(flow).map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX)))
}

/// `cm_acked`: takes an acknowledgement.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_acked(flow: i64, ack: *const c_void, len: usize) -> i64 {
    call(|| {
        if ack.is_null() {
            return Err(Failure::null("the acknowledgement"));
        }
        // SAFETY: `len` bytes, as cm(3) says.
        let datagram = unsafe { slice::from_raw_parts(ack.cast::<u8>(), len) };
        library::get()?.acked(flow, datagram).map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX))
    })
}

/// `cm_receiver_open`: creates a receiver's half; null with `errno` set if the arguments are none.
#[unsafe(no_mangle)]
pub extern "C" fn cm_receiver_open(every: c_uint, delay_ns: i64) -> *mut CmReceiver {
    let made = || {
        let acks = match (every, u64::try_from(delay_ns)) {
            (0, Ok(0)) => Acks::default(),
            (0, _) => return Err(Failure::new(libc::EINVAL, "a delay for no packets: give 0 and 0, or both")),
            (every, Ok(delay)) => Acks::every(every, Duration::from_nanos(delay)),
            (_, Err(_)) => return Err(Failure::new(libc::EINVAL, format!("a delay of {delay_ns} ns: give 0 or more"))),
        };
        Ok(Box::into_raw(Box::new(CmReceiver(Mutex::new(acks)))))
    };
    made().unwrap_or_else(|failure| {
        failure.tell();
        ptr::null_mut()
    })
}

/// `cm_receiver_close`: frees it; null is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_receiver_close(receiver: *mut CmReceiver) {
    if !receiver.is_null() {
        // SAFETY: from `cm_receiver_open`, and not used after this, as cm(3) says.
        drop(unsafe { Box::from_raw(receiver) });
    }
}

/// `cm_receiver_packet`: notes a packet; 1 if it is new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_receiver_packet(receiver: *mut CmReceiver, number: u64, marked: c_int) -> c_int {
    call(|| {
        // SAFETY: the caller's promise is the same.
        let mut acks = unsafe { borrow(receiver) }?.0.lock();
        let now = clock::now();
        let is_new = if marked == 0 { acks.received(now, number) } else { acks.received_marked(now, number) };
        Ok(is_new.into())
    })
}

/// `cm_receiver_ack`: writes the acknowledgement that is due.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_receiver_ack(receiver: *mut CmReceiver, buffer: *mut c_void, len: usize) -> isize {
    call(|| {
        // SAFETY: the caller's promise is the same.
        let mut acks = unsafe { borrow(receiver) }?.0.lock();
        if buffer.is_null() {
            return Err(Failure::null("the buffer"));
        }
        if len < Ack::MAX_LEN {
            let words = format!("a buffer of {len} bytes: give CM_ACK_MAX, which is {}", Ack::MAX_LEN);
            return Err(Failure::new(libc::EMSGSIZE, words));
        }
        let Some(ack) = acks.poll_ack(clock::now()) else { return Ok(0) };
        let datagram = ack.encode();
        // SAFETY: `len` bytes that may be written, as cm(3) says; an acknowledgement has no more than `MAX_LEN`.
        unsafe { ptr::copy_nonoverlapping(datagram.as_ptr(), buffer.cast(), datagram.len()) };
        Ok(datagram.len() as isize)
    })
}

/// `cm_receiver_timeout`: milliseconds until an acknowledgement is due, for `poll(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_receiver_timeout(receiver: *mut CmReceiver) -> c_int {
    call(|| {
        // SAFETY: the caller's promise is the same.
        let acks = unsafe { borrow(receiver) }?.0.lock();
        Ok(poll::millis(acks.poll_timeout().map(|at| at.saturating_since(clock::now()))))
    })
}

/// # Safety
/// Null, or from `cm_receiver_open` and not closed.
unsafe fn borrow<'a>(receiver: *mut CmReceiver) -> Result<&'a CmReceiver, Failure> {
    // SAFETY: the caller's promise.
    unsafe { receiver.as_ref() }.ok_or_else(|| Failure::null("the receiver"))
}
