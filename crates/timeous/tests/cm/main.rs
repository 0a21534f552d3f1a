//! Integration tests of the Congestion Manager's library: the examples over links, the buffered socket, the daemon.

mod buffered;
mod changes;
mod clients;
mod examples;
mod support;
