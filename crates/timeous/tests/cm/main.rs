//! The Congestion Manager as applications use it: the examples over links, the buffered socket, the daemon.

mod buffered;
mod changes;
mod clients;
mod examples;
mod support;
