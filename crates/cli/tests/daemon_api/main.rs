//! Integration tests of the library through a daemon: same results as without, and a clear event when the daemon stops.

#[cfg(feature = "bpf")]
mod datagrams;
mod flows;
mod sealed;
mod streams;
mod support;
