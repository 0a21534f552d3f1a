//! What a client process is told to do, and what it tells of it: as JSON, a line each.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::lie::Lie;

/// The command of a client. It is no experiment, and people need not know of it.
pub(crate) const COMMAND: &str = "cm-host-client";

/// What a client process is told.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ClientArgs {
    /// A [`Work`].
    pub(super) work: String,
}

/// What a client process does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Work {
    /// Where the daemon is; none: packets are sent without asking anybody.
    pub(super) daemon: Option<PathBuf>,
    /// Which user it becomes.
    pub(super) uid: Option<u32>,
    /// The number of its first flow; those of others are numbered from it on.
    pub(super) first: u32,
    /// Where each flow goes.
    pub(super) to: Vec<SocketAddr>,
    /// Bytes of a packet.
    pub(super) len: u64,
    /// A packet of each flow is made so often; none: there is always one.
    pub(super) every_micros: Option<u64>,
    pub(super) lie: Lie,
}

/// What a client says when it is connected, and again when its flows are open.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Ready {
    /// Bytes that it holds.
    pub(super) memory: u64,
}

/// What a client says in the end, of the time since it was told to go.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) cpu_nanos: u64,
    pub(super) sent: u64,
    pub(super) grants: u64,
    /// Feedback that the daemon refused.
    pub(super) refused: u64,
    /// Grants that had gone to others when they were used.
    pub(super) late: u64,
    pub(super) memory: u64,
}
