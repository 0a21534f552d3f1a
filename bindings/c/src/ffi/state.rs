//! C functions to open and close the library and its flows.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;

use libc::{sockaddr, socklen_t};
use timeous::cm::ManagerLocation;

use crate::failure::Failure;
use crate::guard::call;
use crate::library::{self, FlowOptions};
use crate::sys::address;

/// `struct cm_options`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CmOptions {
    /// The largest packet, in bytes of UDP payload.
    pub mtu: u32,
    /// Share among the flows of a macroflow, where it is scheduled by weight.
    pub weight: u32,
    /// Differentiated Services code point.
    pub dscp: u8,
    /// Zero.
    pub reserved: [u8; 7],
}

/// `cm_init`: where the manager is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_init(place: *const c_char) -> c_int {
    call(|| {
        if place.is_null() {
            return library::init(ManagerLocation::Auto).map(|()| 0);
        }
        // SAFETY: not null, so a string, as cm(3) says.
        let place = unsafe { CStr::from_ptr(place) };
        library::init(named(place)?).map(|()| 0)
    })
}

fn named(place: &CStr) -> Result<ManagerLocation, Failure> {
    match place.to_bytes() {
        b"process" => Ok(ManagerLocation::InProcess),
        b"daemon" => Ok(ManagerLocation::Daemon(None)),
        other => match other.strip_prefix(b"daemon:") {
            Some(path) => Ok(ManagerLocation::Daemon(Some(OsStr::from_bytes(path).into()))),
            None => {
                Err(Failure::new(libc::EINVAL, format!("{place:?}: give \"process\", \"daemon\" or \"daemon:PATH\"")))
            }
        },
    }
}

/// `cm_open`: a flow, by its two ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_open(
    src: *const sockaddr,
    srclen: socklen_t,
    dst: *const sockaddr,
    dstlen: socklen_t,
) -> i64 {
    // SAFETY: the caller's promises are the same.
    call(|| unsafe { open(src, srclen, dst, dstlen, FlowOptions::default()) })
}

/// `cm_open_with`: the same with options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_open_with(
    src: *const sockaddr,
    srclen: socklen_t,
    dst: *const sockaddr,
    dstlen: socklen_t,
    options: *const CmOptions,
) -> i64 {
    call(|| {
        // SAFETY: null or a `struct cm_options`.
        let options = unsafe { options.as_ref() }.map_or(Ok(FlowOptions::default()), understood)?;
        // SAFETY: the caller's promises are the same.
        unsafe { open(src, srclen, dst, dstlen, options) }
    })
}

fn understood(options: &CmOptions) -> Result<FlowOptions, Failure> {
    if options.reserved != [0; 7] {
        return Err(Failure::new(
            libc::EINVAL,
            "the reserved part of struct cm_options is not zero: memset() it first",
        ));
    }
    let CmOptions { mtu, weight, dscp, .. } = *options;
    Ok(FlowOptions { mtu, weight, dscp })
}

/// # Safety
/// As `address::read`, for both.
unsafe fn open(
    src: *const sockaddr,
    srclen: socklen_t,
    dst: *const sockaddr,
    dstlen: socklen_t,
    options: FlowOptions,
) -> Result<i64, Failure> {
    // SAFETY: the caller's promise.
    let local = unsafe { address::read(src, srclen) }?;
    // SAFETY: the caller's promise.
    let remote = unsafe { address::read(dst, dstlen) }?.ok_or_else(|| Failure::null("the destination"))?;
    library::get()?.open_flow(local, remote, options)
}

/// `cm_close`: the end of a flow.
#[unsafe(no_mangle)]
pub extern "C" fn cm_close(flow: i64) -> c_int {
    call(|| library::get()?.close(flow).map(|()| 0))
}

/// `cm_mtu`: a flow's largest packet.
#[unsafe(no_mangle)]
pub extern "C" fn cm_mtu(flow: i64) -> c_int {
    call(|| library::get()?.mtu(flow).map(|mtu| c_int::try_from(mtu).unwrap_or(c_int::MAX)))
}
