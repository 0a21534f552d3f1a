//! Shared parts of the Congestion Manager's experiments: its clients over UDP, at both ends.

pub(crate) mod greedy;
pub(crate) mod packet;
pub(crate) mod receiver;
pub(crate) mod sender;
