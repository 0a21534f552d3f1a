//! Calls of a client, its infrequent requests, and their answers.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use timeous_core::{Duration, PathState, Rate};

use super::codec::{Malformed, sensible, text};
use super::credential::{Protection, Secret};
use super::streams::StreamSpec;
use crate::handle::Handle;
use crate::layout::SLOT;
use crate::state::{path_state, state_words};

/// Maximum name of a controller or a scheduler, in bytes.
const NAME_MAX: usize = 32;

/// Request of a client that waits for an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Call {
    /// `cm_open`. Answered by [`Answer::Opened`].
    Open(OpenFlow),
    /// `cm_close`. The handle is invalid from now on.
    Close(Handle),
    /// `cm_query`: the state of a flow's path. Answered by [`Answer::Path`]; the table in shared memory has it without
    /// a call.
    Query(Handle),
    /// `cm_thresh`: callbacks when the rate falls below `down` times the rate last reported, or rises above `up` times
    /// it.
    Thresh {
        /// The flow.
        flow: Handle,
        /// Factor from 0 to 1.
        down: f64,
        /// Factor of at least 1.
        up: f64,
    },
    /// Moves the flow out of its macroflow, into one of its own.
    Split(Handle),
    /// Moves the flow into the macroflow of another flow of the client.
    Merge {
        /// The flow.
        flow: Handle,
        /// Flow whose macroflow it joins.
        with: Handle,
    },
    /// Sets the flow's weight in its macroflow's scheduler.
    SetWeight {
        /// The flow.
        flow: Handle,
        /// At least 1.
        weight: u32,
    },
    /// Sets the scheduler of the flow's macroflow, by name.
    SetScheduler {
        /// The flow.
        flow: Handle,
        /// Name of the scheduler.
        name: String,
    },
    /// Sets the congestion controller of the flow's macroflow, by name.
    SetController {
        /// The flow.
        flow: Handle,
        /// Name of the controller.
        name: String,
    },
    /// Requests a JSON document. Answered by [`Answer::Document`] or [`Answer::LongDocument`].
    Describe(Document),
    /// Removes remembered path states: of one address, or all of the user's. Answered by [`Answer::Count`].
    ForgetPaths {
        /// The address, or all of them.
        addr: Option<IpAddr>,
    },
    /// Opens a stream to a UDP port. Answered by [`Answer::Stream`].
    Connect {
        /// Address of the listener.
        remote: SocketAddr,
        /// Settings of the stream.
        spec: StreamSpec,
        /// Protection of its packets.
        protection: Protection,
    },
    /// Listens at a UDP port, port 0 for any. Answered by [`Answer::Listening`].
    Listen {
        /// Local address.
        local: SocketAddr,
        /// Settings of incoming streams.
        spec: StreamSpec,
        /// Maximum number of streams accepted; others are refused as busy. `None`: any number.
        room: Option<u32>,
        /// Protection of their packets.
        protection: Protection,
    },
    /// Stops listening.
    StopListening(u32),
    /// Makes a packet zone, which lives as long as the client, or a ring that it is attached to. Answered by
    /// [`Answer::Zone`].
    MakeZone {
        /// Size of a buffer in bytes, a multiple of the ring's page.
        buffer_size: u32,
        /// Number of buffers.
        buffers: u32,
    },
    /// Hands over a part of the [`Credential`](super::Credential) for the client's next stream or listener, which takes it.
    Credential {
        /// Whether it is the first part: earlier ones are forgotten.
        is_first: bool,
        /// The part, at most [`PART_MAX`](super::PART_MAX) bytes.
        part: Secret,
    },
}

/// Kind of JSON document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Document {
    /// Current macroflows, flows and clients.
    Snapshot,
    /// Remembered path states.
    Paths,
}

/// Parameters of a new flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFlow {
    /// Destination host.
    pub addr: IpAddr,
    /// DSCP of its packets, 0 to 63.
    pub dscp: u8,
    /// Maximum packet size in bytes, from 1 to 65 535.
    pub mtu: u32,
    /// Weight within its macroflow, at least 1.
    pub weight: u32,
    /// Source address of its packets, if it is not the route's own (see `timeous_cm::Destination`).
    pub source: Option<IpAddr>,
    /// Local address and port, for display.
    pub local: Option<SocketAddr>,
    /// Remote address and port, for display.
    pub remote: Option<SocketAddr>,
}

impl OpenFlow {
    /// Returns the parameters of a flow to a host.
    #[must_use]
    pub const fn to(addr: IpAddr, mtu: u32) -> Self {
        Self { addr, dscp: 0, mtu, weight: 1, source: None, local: None, remote: None }
    }
}

/// Result of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// Done, without a value.
    Done,
    /// The flow is open.
    Opened {
        /// Its handle.
        flow: Handle,
        /// Its maximum packet size in bytes.
        mtu: u32,
    },
    /// State of a path.
    Path(Path),
    /// A number, such as of removed entries.
    Count(u64),
    /// A document that fits into a packet.
    Document(Vec<u8>),
    /// A document that comes as a sealed memfd.
    LongDocument {
        /// Length in bytes.
        len: u64,
    },
    /// The stream is being opened; with its packet ring and its socket, in this order.
    Stream,
    /// Listening; incoming streams are reported by [`FromDaemon::Incoming`](super::FromDaemon::Incoming).
    Listening {
        /// Identifier of the listener.
        listener: u32,
        /// Actual local address.
        local: SocketAddr,
    },
    /// The zone was made; with its memory, a sealed memfd.
    Zone {
        /// Secret by which it is attached to the user's streams.
        key: u128,
    },
}

/// Path state, with what has no room in the table; times in nanoseconds, rates in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Path {
    words: [u64; SLOT],
    delivered: Option<u64>,
    latest_rtt: Option<u64>,
}

impl From<PathState> for Path {
    fn from(state: PathState) -> Self {
        Self {
            words: state_words(&state),
            delivered: state.delivered.map(Rate::as_bps),
            latest_rtt: state.latest_rtt.map(Duration::as_nanos),
        }
    }
}

impl Path {
    /// Decodes the state; `None` if it is inconsistent.
    #[must_use]
    pub fn state(self) -> Option<PathState> {
        let Self { words: [loss, flags, rest @ ..], delivered, latest_rtt } = self;
        Some(PathState {
            delivered: delivered.map(Rate::from_bps),
            latest_rtt: latest_rtt.map(Duration::from_nanos),
            ..path_state(loss, flags, rest)?
        })
    }
}

/// A limited resource of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resource {
    /// Open flows of the client, or of its user.
    Flows,
    /// Streams of the client, or of its user.
    Streams,
    /// Bytes of packet rings.
    RingBytes,
    /// Entries of the path memory.
    Paths,
    /// Packet zones of the user.
    Zones,
}

/// Reason why a call failed. Nothing has changed, and the connection stays open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Failure {
    /// The flow is not open.
    #[error("flow {0} is not open: open it first, and do not use it after close")]
    UnknownFlow(Handle),
    /// Unknown listener.
    #[error("listener {0} is not there")]
    UnknownListener(u32),
    /// A limit is reached.
    #[error("the daemon grants {limit} of these and not one more: {resource:?}")]
    OverLimit {
        /// Kind of resource.
        resource: Resource,
        /// The limit.
        limit: u64,
    },
    /// The object belongs to another user.
    #[error("that may be changed by its own user only")]
    NotPermitted,
    /// Unknown controller or scheduler, or an invalid value.
    #[error("{0}")]
    Invalid(String),
    /// The daemon lacks this part: not built in, or switched off.
    #[error("the daemon was started without it: {0}")]
    Absent(String),
    /// An error of the daemon's environment.
    #[error("the daemon could not do it: {0}")]
    Environment(String),
}

impl Answer {
    /// Returns the number of descriptors of the answer.
    #[must_use]
    pub const fn descriptors(&self) -> usize {
        match self {
            Self::Stream => 2,
            Self::LongDocument { .. } | Self::Zone { .. } => 1,
            _ => 0,
        }
    }
}

impl Call {
    pub(crate) fn check(&self) -> Result<(), Malformed> {
        match self {
            Self::Open(open) => open.check(),
            Self::Thresh { down, up, .. } => {
                sensible((0.0..=1.0).contains(down), "lower threshold")?;
                sensible(up.is_finite() && *up >= 1.0, "upper threshold")
            }
            Self::SetWeight { weight, .. } => sensible(*weight > 0, "weight"),
            Self::SetScheduler { name, .. } | Self::SetController { name, .. } => text(name, NAME_MAX),
            Self::Connect { spec, .. } | Self::Listen { spec, .. } => spec.check(),
            Self::Credential { part, .. } => part.check_part(),
            Self::Close(_)
            | Self::Query(_)
            | Self::Split(_)
            | Self::Merge { .. }
            | Self::Describe(_)
            | Self::ForgetPaths { .. }
            | Self::StopListening(_)
            | Self::MakeZone { .. } => Ok(()),
        }
    }
}

impl OpenFlow {
    fn check(&self) -> Result<(), Malformed> {
        sensible(self.dscp < 64, "code point")?;
        sensible((1..=65_535).contains(&self.mtu), "packet size")?;
        sensible(self.weight > 0, "weight")
    }
}
