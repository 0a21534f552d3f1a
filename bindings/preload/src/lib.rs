//! Congestion control for the UDP sockets of unmodified programs: the library that `timeous run` preloads (Andersen et al. §3.3).
//!
//! Hooks (`sys`) stand before the C library's calls. Datagrams wait in a queue of their destination, and a thread of this
//! library (`worker`) sends them as the Congestion Manager grants them. At the receiving program the library reports which
//! datagrams arrived (`reporter`); the design is in docs/design/programs.md.

#![deny(unsafe_code)]
#![cfg_attr(test, allow(dead_code, reason = "the hooks, which use it all, would stand before the tests' own calls"))]

mod control;
mod datagram;
mod flow;
mod life;
mod outlet;
mod process;
mod queue;
mod rare;
mod reporter;
mod settings;
mod statistics;
mod subscriber;
mod sys;
mod tracker;
mod wire;
mod worker;
