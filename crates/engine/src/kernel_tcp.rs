//! Streams over the kernel's TCP: a packet ring in front of a plain socket, and late choice in the socket's send queue.

mod call;
mod company;
mod connection;
mod framing;
mod info;
mod late;
mod listener;
mod meter;
mod others;
mod path_evidence;
mod ports;
mod readiness;
mod receiving;
mod restraint;
mod sending;
#[allow(unsafe_code, reason = "the room that gives addresses to the kernel")]
mod socket;
mod tap;
mod under_way;
mod unidentified;
mod vacant;
#[allow(unsafe_code, reason = "memory that the kernel sends from while it is written")]
mod zone;

pub(crate) use call::Call;
pub(crate) use ports::KernelTcp;
