//! Connections in virtual time: RFC rules as timelines, transfers over bad links, many connections of one host.

#[path = "../../../transport/tests/support/clock.rs"]
mod clock;
mod endpoint;
mod hostile;
#[allow(dead_code, reason = "the tests of DCCP use more of it")]
#[path = "../../../transport/tests/support/link.rs"]
mod link;
mod pair;
mod script;
mod timeline;
mod transfer;
mod world;

/// Headers below TCP, in bytes: IP.
const LOWER_HEADERS: u64 = 20;
