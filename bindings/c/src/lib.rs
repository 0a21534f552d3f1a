//! libcm: the Congestion Manager for C (Andersen et al. §2.1, §2.2), a thin shell over [`timeous::cm`].
//!
//! It also has datagrams over TCP (McQuistin §3), over [`timeous::Sender`] and [`timeous::Receiver`].
//!
//! The interface is `include/cm.h` and `include/utl.h`, the manuals are `man/cm.3` and `man/utl.3`. [`ffi`] has the
//! exported functions; no panic unwinds out of them. All `unsafe` code is there and in `sys`.

#![deny(unsafe_code)]

mod acknowledged;
mod buffer;
mod buffered;
mod datagrams;
mod dispatch;
mod failure;
pub mod ffi;
mod flows;
mod guard;
mod library;
mod run;
mod sigio;
mod sys;
