//! System calls and C types: the lower of the two places with `unsafe` code.

#![allow(unsafe_code, reason = "C's addresses, callbacks and system calls")]

pub(crate) mod address;
pub(crate) mod callback;
pub(crate) mod default;
pub(crate) mod descriptor;
pub(crate) mod errno;
pub(crate) mod fork;
pub(crate) mod poll;
pub(crate) mod route;
pub(crate) mod signal;
