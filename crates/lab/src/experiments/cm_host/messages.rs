//! Messages with a client process: its work and its reports, as one line of JSON each.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::false_feedback::FalseFeedback;

/// Hidden command that runs a client; it is no experiment.
pub(crate) const COMMAND: &str = "cm-host-client";

/// Arguments of a client process.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ClientArgs {
    /// A [`Work`], as JSON.
    pub(super) work: String,
}

/// Work of a client process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Work {
    /// Socket of the daemon; none: packets are sent without grants.
    pub(super) daemon: Option<PathBuf>,
    /// User that it becomes.
    pub(super) uid: Option<u32>,
    /// Number of its first flow; the others are numbered consecutively.
    pub(super) first: u32,
    /// Destination of each flow.
    pub(super) to: Vec<SocketAddr>,
    /// Packet size in bytes.
    pub(super) len: u64,
    /// Packet interval of each flow; none: flows are greedy.
    pub(super) every_micros: Option<u64>,
    pub(super) lie: FalseFeedback,
}

/// Report of a client after it has connected, and again after its flows are open.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct ProgressReport {
    /// Its memory in bytes.
    pub(super) memory: u64,
}

/// Final report of a client, over the time since it began to send.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct FinalReport {
    pub(super) cpu_nanos: u64,
    pub(super) sent: u64,
    pub(super) grants: u64,
    /// Feedback that the daemon refused.
    pub(super) refused: u64,
    /// Grants that had lapsed when they were used.
    pub(super) late: u64,
    pub(super) memory: u64,
}
