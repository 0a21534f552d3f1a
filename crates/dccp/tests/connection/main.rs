//! Integration tests of DCCP connections, driven in virtual time.

mod ccids;
#[path = "../../../transport/tests/support/clock.rs"]
mod clock;
mod cookies;
mod endpoint;
mod hostile;
#[path = "../../../transport/tests/support/link.rs"]
mod link;
mod moved;
mod pair;
mod parity;
mod path_mtu;
mod rates;
mod reception;
mod repeats;
mod script;
mod source;
mod timeline;
mod transfer;
mod world;

/// Headers below DCCP, in bytes: IP and UDP.
const LOWER_HEADERS: u64 = 28;
