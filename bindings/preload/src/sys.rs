//! Hooks before the C library's calls, and system calls: the only place with `unsafe` code.

#![allow(unsafe_code, reason = "C's pointers, symbols and system calls")]

mod address;
pub(crate) mod current;
pub(crate) mod ending;
mod guard;
#[cfg(not(test))]
mod hooks;
pub(crate) mod messages;
mod real;
pub(crate) mod sockets;
pub(crate) mod thread;
