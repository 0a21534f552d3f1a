//! C functions of `utl.h`: datagrams over TCP.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::slice;

use crate::datagrams::{self, Kind, counts::UtlCounts, open};
use crate::failure::{self, Failure};
use crate::guard::call;

/// `utl_open`: opens a stream by its URI.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utl_open(uri: *const c_char) -> c_int {
    call(|| {
        if uri.is_null() {
            return Err(Failure::null("the URI"));
        }
        // SAFETY: not null, so a string, as utl(3) says.
        let uri = unsafe { CStr::from_ptr(uri) };
        open::open(uri.to_str().map_err(|_| Failure::new(libc::EINVAL, "the URI is not UTF-8"))?)
    })
}

/// `utl_adopt`: runs a stream over a connected TCP socket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utl_adopt(socket: c_int, keys: *const c_char) -> c_int {
    call(|| {
        // SAFETY: null, or a string, as utl(3) says.
        let keys = if keys.is_null() { c"" } else { unsafe { CStr::from_ptr(keys) } };
        open::adopt(socket, keys.to_str().map_err(|_| Failure::new(libc::EINVAL, "the keys are not UTF-8"))?)
    })
}

/// `utl_finish`: waits until every datagram has its fate, then ends the stream.
#[unsafe(no_mangle)]
pub extern "C" fn utl_finish(fd: c_int) -> c_int {
    call(|| datagrams::get(fd)?.finish().map(|()| 0))
}

/// `utl_close`: closes the stream.
#[unsafe(no_mangle)]
pub extern "C" fn utl_close(fd: c_int) -> c_int {
    call(|| datagrams::close(fd).map(|()| 0))
}

/// `utl_set_timeout`: sets the receive timeout.
#[unsafe(no_mangle)]
pub extern "C" fn utl_set_timeout(fd: c_int, milliseconds: c_int) -> c_int {
    call(|| {
        datagrams::get(fd)?.set_timeout(milliseconds);
        Ok(0)
    })
}

/// `utl_set_clockrate`: sets the clock rate of playout times.
#[unsafe(no_mangle)]
pub extern "C" fn utl_set_clockrate(fd: c_int, hz: u32) -> c_int {
    call(|| datagrams::get(fd)?.set_clock_rate(hz).map(|()| 0))
}

/// `utl_get_pmtu`: maximum size of a datagram.
#[unsafe(no_mangle)]
pub extern "C" fn utl_get_pmtu(fd: c_int) -> isize {
    call(|| datagrams::get(fd)?.longest().map(|longest| longest as isize))
}

/// `utl_send_dgram`: sends a datagram that never expires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utl_send_dgram(fd: c_int, buf: *const c_void, len: usize) -> isize {
    // SAFETY: the caller's promise is the same.
    unsafe { send(fd, buf, len, Kind::default()) }
}

/// `utl_send_dgram_on`: sends on a sub-stream of the application's choice.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utl_send_dgram_on(fd: c_int, buf: *const c_void, len: usize, substream: u8) -> isize {
    // SAFETY: as above.
    unsafe { send(fd, buf, len, Kind { substream: Some(substream), ..Kind::default() }) }
}

/// `utl_send_dgram_timed`: sends with a playout time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utl_send_dgram_timed(fd: c_int, buf: *const c_void, len: usize, playout: u32) -> isize {
    // SAFETY: as above.
    unsafe { send(fd, buf, len, Kind { playout: Some(playout), ..Kind::default() }) }
}

/// `utl_send_dgram_seq`: sends with a number that others can depend on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utl_send_dgram_seq(fd: c_int, buf: *const c_void, len: usize, seq: u16) -> isize {
    // SAFETY: as above.
    unsafe { send(fd, buf, len, Kind { depends: Some((seq, seq)), ..Kind::default() }) }
}

/// `utl_send_dgram_dep`: sends with a dependency on another datagram.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utl_send_dgram_dep(fd: c_int, buf: *const c_void, len: usize, seq: u16, dep: u16) -> isize {
    // SAFETY: as above.
    unsafe { send(fd, buf, len, Kind { depends: Some((seq, dep)), ..Kind::default() }) }
}

/// `utl_send_dgram_timed_dep`: sends with a playout time and a dependency.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utl_send_dgram_timed_dep(
    fd: c_int,
    buf: *const c_void,
    len: usize,
    playout: u32,
    seq: u16,
    dep: u16,
) -> isize {
    // SAFETY: as above.
    unsafe { send(fd, buf, len, Kind { playout: Some(playout), depends: Some((seq, dep)), ..Kind::default() }) }
}

/// # Safety
/// `buf` is null, or `len` bytes are there.
unsafe fn send(fd: c_int, buf: *const c_void, len: usize, kind: Kind) -> isize {
    call(|| {
        let stream = datagrams::get(fd)?;
        if buf.is_null() {
            return Err(Failure::null("the datagram"));
        }
        if len == 0 || isize::try_from(len).is_err() {
            let code = if len == 0 { libc::EINVAL } else { libc::EMSGSIZE };
            return Err(Failure::new(code, format!("{len} bytes are no datagram")));
        }
        // SAFETY: `len` bytes are there, as utl(3) says; not null, and not too many.
        let datagram = unsafe { slice::from_raw_parts(buf.cast(), len) };
        stream.send(datagram, kind)?;
        Ok(len as isize)
    })
}

/// `utl_recv_dgram`: receives the next datagram.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utl_recv_dgram(fd: c_int, buf: *mut c_void, len: usize) -> isize {
    // SAFETY: the caller's promise is the same.
    call(|| unsafe { receive(fd, buf, len) }.map(|(len, _)| len))
}

/// `utl_recv_dgram_on`: receives the next datagram and its sub-stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utl_recv_dgram_on(fd: c_int, buf: *mut c_void, len: usize, substream: *mut u8) -> isize {
    call(|| {
        if substream.is_null() {
            return Err(Failure::null("the address of the sub-stream"));
        }
        // SAFETY: the caller's promise is the same.
        let (len, on) = unsafe { receive(fd, buf, len) }?;
        // SAFETY: not null, so there is room for a byte, as utl(3) says.
        unsafe { substream.write(on) };
        Ok(len)
    })
}

/// # Safety
/// `buf` is null, or there is room for `len` bytes that nobody else touches until the call returns.
unsafe fn receive(fd: c_int, buf: *mut c_void, len: usize) -> Result<(isize, u8), Failure> {
    let stream = datagrams::get(fd)?;
    if buf.is_null() {
        return Err(Failure::null("the buffer"));
    }
    let Some(received) = stream.receive(len)? else { return Ok((0, 0)) };
    let bytes = &received.bytes;
    // SAFETY: there is room for `len` bytes, and a longer datagram was refused; the library's memory does not overlap it.
    unsafe { buf.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok((bytes.len() as isize, received.substream.0))
}

/// `utl_query`: counters of the fates of sent datagrams.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utl_query(fd: c_int, counts: *mut UtlCounts) -> c_int {
    call(|| {
        let stream = datagrams::get(fd)?;
        if counts.is_null() {
            return Err(Failure::null("the address of the counts"));
        }
        // SAFETY: not null, so there is room for them, as utl(3) says.
        unsafe { counts.write(stream.counts()) };
        Ok(0)
    })
}

/// `utl_error`: message of this thread's last error.
#[unsafe(no_mangle)]
pub extern "C" fn utl_error() -> *const c_char {
    failure::last()
}
