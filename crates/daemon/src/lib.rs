//! One Congestion Manager and one engine for all processes of a host.

pub mod metrics;
pub mod qlog;
pub mod store;
pub mod view;
pub mod wall;
