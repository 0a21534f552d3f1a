//! The C library's own functions, behind the hooks.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{RTLD_NEXT, dlsym, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec};

/// Returns the address of a function in the next library.
fn next(name: &CStr) -> *mut c_void {
    // SAFETY: the name ends with a zero.
    let found = unsafe { dlsym(RTLD_NEXT, name.as_ptr()) };
    if found.is_null() {
        // Only a C library without UDP sockets lacks one.
        std::process::abort();
    }
    found
}

macro_rules! real {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            /// The C library's function of this name. A cancelled thread unwinds through it.
            ///
            /// # Safety
            /// As the C library says.
            pub(super) unsafe fn $name($($argument: $type),*) -> $result {
                static FOUND: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
                let mut at = FOUND.load(Ordering::Relaxed);
                if at.is_null() {
                    const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => panic!("it ends with a zero"),
                    };
                    at = next(NAME);
                    FOUND.store(at, Ordering::Relaxed);
                }
                // SAFETY: the C library's function of this name has this type.
                let function: unsafe extern "C-unwind" fn($($type),*) -> $result = unsafe { transmute(at) };
                // SAFETY: the caller's promise.
                unsafe { function($($argument),*) }
            }
        )*

        /// Finds all functions, so that none has to be looked for in a signal handler.
        pub(super) fn find_all() {
            $(
                let _ = next(
                    CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()).unwrap_or_default(),
                );
            )*
        }
    };
}

real! {
    send(fd: c_int, bytes: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    sendto(fd: c_int, bytes: *const c_void, len: size_t, flags: c_int, to: *const sockaddr, to_len: socklen_t) -> ssize_t;
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    write(fd: c_int, bytes: *const c_void, len: size_t) -> ssize_t;
    writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    recv(fd: c_int, bytes: *mut c_void, len: size_t, flags: c_int) -> ssize_t;
    recvfrom(
        fd: c_int, bytes: *mut c_void, len: size_t, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t
    ) -> ssize_t;
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int;
    read(fd: c_int, bytes: *mut c_void, len: size_t) -> ssize_t;
    readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    __read_chk(fd: c_int, bytes: *mut c_void, len: size_t, room: size_t) -> ssize_t;
    __recv_chk(fd: c_int, bytes: *mut c_void, len: size_t, room: size_t, flags: c_int) -> ssize_t;
    __recvfrom_chk(
        fd: c_int, bytes: *mut c_void, len: size_t, room: size_t, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t
    ) -> ssize_t;
    socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    connect(fd: c_int, to: *const sockaddr, to_len: socklen_t) -> c_int;
    close(fd: c_int) -> c_int;
    close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    dup2(from: c_int, to: c_int) -> c_int;
    dup3(from: c_int, to: c_int, flags: c_int) -> c_int;
    execve(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    execv(path: *const c_char, arguments: *const *const c_char) -> c_int;
    execvp(file: *const c_char, arguments: *const *const c_char) -> c_int;
    execvpe(file: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
}
