//! The library's streams and its Congestion Manager through a daemon: as without one, and a clear event when it goes.

mod flows;
mod streams;
mod support;
