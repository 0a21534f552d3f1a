//! Conversion of C's socket addresses (`sockaddr`).

use std::ffi::c_int;
use std::mem::{self, MaybeUninit};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ptr;

use libc::{AF_INET, AF_INET6, sa_family_t, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

use crate::failure::Failure;

/// The address of `len` bytes at `at`; `None` if `at` is null.
///
/// # Safety
/// `at` is null, or there are `len` bytes to read.
pub(crate) unsafe fn read(at: *const sockaddr, len: socklen_t) -> Result<Option<SocketAddr>, Failure> {
    if at.is_null() {
        return Ok(None);
    }
    let short = || Failure::new(libc::EINVAL, format!("{len} bytes are too few for a socket address"));
    if (len as usize) < mem::size_of::<sa_family_t>() {
        return Err(short());
    }
    // SAFETY: `len` covers the family, which comes first. It need not be aligned.
    let family = c_int::from(unsafe { ptr::addr_of!((*at).sa_family).read_unaligned() });
    match family {
        // SAFETY: the caller's promise.
        AF_INET => Ok(Some(v4(&unsafe { copy(at, len) }.ok_or_else(short)?))),
        // SAFETY: the caller's promise.
        AF_INET6 => Ok(Some(v6(&unsafe { copy(at, len) }.ok_or_else(short)?))),
        other => Err(Failure::new(
            libc::EAFNOSUPPORT,
            format!("address family {other}: give AF_INET ({AF_INET}) or AF_INET6 ({AF_INET6})"),
        )),
    }
}

/// A copy of the `T` at `at`, if `len` bytes are enough for one. C's callers do not always align it.
///
/// # Safety
/// There are `len` bytes to read at `at`, and any bytes make a `T`.
unsafe fn copy<T: Copy>(at: *const sockaddr, len: socklen_t) -> Option<T> {
    let mut address = MaybeUninit::<T>::uninit();
    let enough = len as usize >= mem::size_of::<T>();
    enough.then(|| {
        // SAFETY: both sides have the size of a `T`, and what was copied makes one.
        unsafe {
            ptr::copy_nonoverlapping(at.cast::<u8>(), address.as_mut_ptr().cast::<u8>(), mem::size_of::<T>());
            address.assume_init()
        }
    })
}

fn v4(address: &sockaddr_in) -> SocketAddr {
    let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
    SocketAddrV4::new(ip, u16::from_be(address.sin_port)).into()
}

fn v6(address: &sockaddr_in6) -> SocketAddr {
    let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
    SocketAddrV6::new(ip, u16::from_be(address.sin6_port), address.sin6_flowinfo, address.sin6_scope_id).into()
}
