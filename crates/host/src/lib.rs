//! Hosts for a simulated network: the very transports, rings and policies that run on sockets, in virtual time.

#![forbid(unsafe_code)]
