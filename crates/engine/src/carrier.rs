//! Carrier of a stream: DCCP over UDP or IP, or TCP.

/// Carrier of a stream: the encapsulation of its DCCP packets, or TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Carrier {
    /// UDP encapsulation (RFC 6773), which passes NATs and needs no privilege.
    #[default]
    Udp,
    /// Plain IP, protocol 33 (RFC 4340); needs the privilege to open raw sockets.
    Ip,
    /// The kernel's TCP.
    Tcp,
    /// DCCP in UDP, with a fallback to TCP where UDP is blocked, at the beginning or later.
    Auto,
}
