//! H.264: its byte stream, its access units, what slice headers tell, and its RTP payloads (RFC 6184).

pub(crate) mod access_unit;
pub mod annexb;
pub(crate) mod depacketize;
pub(crate) mod parameters;
pub(crate) mod payload;
pub(crate) mod poc;
pub(crate) mod reader;
pub(crate) mod slice;
