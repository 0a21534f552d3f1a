//! Messages with a client process: its work and its reports, as one line of JSON each.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::false_feedback::FalseFeedback;

/// Hidden command that runs a client; it is no experiment.
pub(crate) const COMMAND: &str = "daemon-client";

/// Arguments of a client process.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ClientArgs {
    /// A [`Work`], as JSON.
    pub(crate) work: String,
}

/// Work of a client process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Work {
    /// Socket of the daemon; none: packets are sent without grants.
    pub(crate) daemon: Option<PathBuf>,
    /// User that it becomes.
    pub(crate) uid: Option<u32>,
    /// Number of its first flow; the others are numbered consecutively.
    pub(crate) first: u32,
    /// Destination of each flow.
    pub(crate) to: Vec<SocketAddr>,
    /// Packet size in bytes.
    pub(crate) len: u64,
    /// Packet interval of each flow; none: flows are greedy.
    pub(crate) every_micros: Option<u64>,
    pub(crate) lie: FalseFeedback,
}

/// Report of a client after it has connected, and again after its flows are open.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct ProgressReport {
    /// Its memory in bytes.
    pub(crate) memory: u64,
}

/// Final report of a client, over the time since it began to send.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FinalReport {
    pub(crate) cpu_nanos: u64,
    pub(crate) sent: u64,
    pub(crate) grants: u64,
    /// Feedback that the daemon refused.
    pub(crate) refused: u64,
    /// Grants that had lapsed when they were used.
    pub(crate) late: u64,
    pub(crate) memory: u64,
}

const FLOW: usize = 4;
const HEADER: usize = FLOW + 8;

/// Encodes a packet of `len` bytes.
pub(crate) fn packet(flow: u32, number: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len.max(HEADER));
    bytes.extend(flow.to_be_bytes());
    bytes.extend(number.to_be_bytes());
    bytes.resize(len.max(HEADER), 0);
    bytes
}

/// Encodes an acknowledgement for a flow.
pub(crate) fn back(flow: u32, ack: &[u8]) -> Vec<u8> {
    [&flow.to_be_bytes(), ack].concat()
}

/// Splits off the flow number.
pub(crate) fn split(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (flow, rest) = bytes.split_first_chunk::<FLOW>()?;
    Some((u32::from_be_bytes(*flow), rest))
}

/// Reads flow number and packet number.
pub(crate) fn read(bytes: &[u8]) -> Option<(u32, u64)> {
    let (flow, rest) = split(bytes)?;
    Some((flow, u64::from_be_bytes(*rest.first_chunk()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let bytes = packet(7, 1 << 40, 100);
        assert_eq!((bytes.len(), read(&bytes)), (100, Some((7, 1 << 40))));
        assert_eq!(split(&back(7, b"ack")), Some((7, &b"ack"[..])));
        assert_eq!((read(&bytes[..11]), split(&bytes[..3])), (None, None));
    }
}
