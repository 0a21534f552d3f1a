//! One Congestion Manager and one engine for all processes of a host.
