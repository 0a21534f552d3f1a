//! H.264: byte stream, access units, slice headers, reference buffer, and RTP payloads (RFC 6184).

pub(crate) mod access_unit;
pub mod annexb;
pub(crate) mod bits;
pub(crate) mod depacketize;
pub(crate) mod describe;
pub(crate) mod entry;
pub(crate) mod left_out;
pub(crate) mod parameters;
pub(crate) mod payload;
pub(crate) mod picture;
pub(crate) mod poc;
pub(crate) mod reader;
pub(crate) mod references;
pub(crate) mod sei;
pub(crate) mod slice;
pub(crate) mod svc;
#[cfg(test)]
pub(crate) mod testing;
mod timeline;
