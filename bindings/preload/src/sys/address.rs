//! Conversion of C's socket addresses (`sockaddr`).

use std::mem::{self, MaybeUninit};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ptr;

use libc::{AF_INET, AF_INET6, sa_family_t, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t};

/// The address of `len` bytes at `at`; `None` if there is none, or of another family.
///
/// # Safety
/// `at` is null, or there are `len` bytes to read.
pub(super) unsafe fn read(at: *const sockaddr, len: socklen_t) -> Option<SocketAddr> {
    if at.is_null() || (len as usize) < mem::size_of::<sa_family_t>() {
        return None;
    }
    // SAFETY: `len` covers the family, which comes first. It need not be aligned.
    match i32::from(unsafe { ptr::addr_of!((*at).sa_family).read_unaligned() }) {
        // SAFETY: the caller's promise.
        AF_INET => unsafe { copy(at, len) }.map(|address: sockaddr_in| {
            let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
            SocketAddrV4::new(ip, u16::from_be(address.sin_port)).into()
        }),
        // SAFETY: the caller's promise.
        AF_INET6 => unsafe { copy(at, len) }.map(|address: sockaddr_in6| {
            let (ip, port) = (Ipv6Addr::from(address.sin6_addr.s6_addr), u16::from_be(address.sin6_port));
            SocketAddrV6::new(ip, port, address.sin6_flowinfo, address.sin6_scope_id).into()
        }),
        _ => None,
    }
}

/// A copy of the `T` at `at`, if `len` bytes are enough for one. C's callers do not always align it.
///
/// # Safety
/// There are `len` bytes to read at `at`, and any bytes make a `T`.
unsafe fn copy<T: Copy>(at: *const sockaddr, len: socklen_t) -> Option<T> {
    let mut address = MaybeUninit::<T>::uninit();
    (len as usize >= mem::size_of::<T>()).then(|| {
        // SAFETY: both sides have the size of a `T`, and what was copied makes one.
        unsafe {
            ptr::copy_nonoverlapping(at.cast::<u8>(), address.as_mut_ptr().cast::<u8>(), mem::size_of::<T>());
            address.assume_init()
        }
    })
}

/// The address as C has it, and its length.
pub(super) fn write(address: SocketAddr) -> (sockaddr_storage, socklen_t) {
    let mut storage = MaybeUninit::<sockaddr_storage>::zeroed();
    let len = match address {
        SocketAddr::V4(v4) => {
            let address = sockaddr_in {
                sin_family: AF_INET as sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage is large enough for any address, and aligned.
            unsafe { storage.as_mut_ptr().cast::<sockaddr_in>().write(address) };
            mem::size_of::<sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            let address = sockaddr_in6 {
                sin6_family: AF_INET6 as sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: as above.
            unsafe { storage.as_mut_ptr().cast::<sockaddr_in6>().write(address) };
            mem::size_of::<sockaddr_in6>()
        }
    };
    // SAFETY: zeroes and an address make a storage.
    (unsafe { storage.assume_init() }, len as socklen_t)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_c() {
        for text in ["192.0.2.1:5004", "[2001:db8::1]:9", "[::ffff:192.0.2.1]:1"] {
            let address: SocketAddr = text.parse().unwrap();
            let (storage, len) = write(address);
            // SAFETY: the storage is there.
            assert_eq!(unsafe { read((&raw const storage).cast(), len) }, Some(address));
            // SAFETY: as above.
            assert_eq!(unsafe { read((&raw const storage).cast(), len - 1) }, None);
        }
        // SAFETY: null is allowed.
        assert_eq!(unsafe { read(ptr::null(), 16) }, None);
    }
}
