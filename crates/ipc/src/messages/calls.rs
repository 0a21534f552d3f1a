//! Calls and answers: what a client asks of the daemon rarely.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use timeous_core::{Duration, PathState, Rate};

use super::codec::{Malformed, sensible, text};
use super::streams::StreamSpec;
use crate::handle::Handle;

/// The longest name of a controller or a scheduler, in bytes.
const NAME_MAX: usize = 32;

/// Something that a client asks of the daemon, and waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Call {
    /// `cm_open`. Answered by [`Answer::Opened`].
    Open(OpenFlow),
    /// `cm_close`. From now on the handle names nothing.
    Close(Handle),
    /// What is known of a flow's path. Answered by [`Answer::Path`]; the table in shared memory has it without a call.
    Query(Handle),
    /// `cm_thresh`: callbacks when the rate falls below the last one told times `down`, or rises above it times `up`.
    Thresh {
        /// The flow.
        flow: Handle,
        /// From 0 to 1.
        down: f64,
        /// At least 1.
        up: f64,
    },
    /// The flow leaves its macroflow and makes one of its own.
    Split(Handle),
    /// The flow joins the macroflow of another of the client's.
    Merge {
        /// The flow.
        flow: Handle,
        /// Whose macroflow it joins.
        with: Handle,
    },
    /// The flow's weight in its macroflow's scheduler.
    SetWeight {
        /// The flow.
        flow: Handle,
        /// At least 1.
        weight: u32,
    },
    /// The scheduler of the flow's macroflow, by name.
    SetScheduler {
        /// The flow.
        flow: Handle,
        /// Its name.
        name: String,
    },
    /// The congestion controller of the flow's macroflow, by name.
    SetController {
        /// The flow.
        flow: Handle,
        /// Its name.
        name: String,
    },
    /// A description of something, as JSON. Answered by [`Answer::Document`] or [`Answer::LongDocument`].
    Describe(Document),
    /// What is remembered of paths is forgotten: to one address, or all of the user's. Answered by [`Answer::Count`].
    ForgetPaths {
        /// The address, or all of them.
        addr: Option<IpAddr>,
    },
    /// Opens a stream to a UDP port. Answered by [`Answer::Stream`].
    Connect {
        /// Whom to call.
        remote: SocketAddr,
        /// How it is treated.
        spec: StreamSpec,
    },
    /// Waits to be called at a UDP port, port 0 for any. Answered by [`Answer::Listening`].
    Listen {
        /// Where.
        local: SocketAddr,
        /// How streams that come in are treated.
        spec: StreamSpec,
        /// Callers that are taken; the others are told that the listener is busy. `None`: any number.
        room: Option<u32>,
    },
    /// Is not at home any more.
    StopListening(u32),
}

/// What can be described.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Document {
    /// Macroflows, flows and clients as they are now.
    Snapshot,
    /// What is remembered of paths.
    Paths,
}

/// A flow to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFlow {
    /// The host that it goes to.
    pub addr: IpAddr,
    /// The Differentiated Services code point of its packets, 0 to 63.
    pub dscp: u8,
    /// Its largest packet in bytes, from 1 to 65 535.
    pub mtu: u32,
    /// Its weight beside others of its macroflow, at least 1.
    pub weight: u32,
    /// Its local address and port, for people.
    pub local: Option<SocketAddr>,
    /// Its remote address and port, for people.
    pub remote: Option<SocketAddr>,
}

impl OpenFlow {
    /// A flow to a host.
    #[must_use]
    pub const fn to(addr: IpAddr, mtu: u32) -> Self {
        Self { addr, dscp: 0, mtu, weight: 1, local: None, remote: None }
    }
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// It is done.
    Done,
    /// A flow is open.
    Opened {
        /// Its name from now on.
        flow: Handle,
        /// Its largest packet in bytes.
        mtu: u32,
    },
    /// What is known of a path.
    Path(Path),
    /// How many it were.
    Count(u64),
    /// A document that fits into a packet.
    Document(Vec<u8>),
    /// A document that comes as a sealed memfd.
    LongDocument {
        /// Its length in bytes.
        len: u64,
    },
    /// A stream is being opened; with it come its packet ring and its socket, in this order.
    Stream,
    /// It is listened for streams, and each that comes in is told by
    /// [`FromDaemon::Incoming`](super::FromDaemon::Incoming).
    Listening {
        /// Which listener.
        listener: u32,
        /// Where it listens in truth.
        local: SocketAddr,
    },
}

/// [`PathState`] as it is written; times in nanoseconds, rates in bits a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Path {
    rate: u64,
    srtt: Option<u64>,
    rttvar: u64,
    min_rtt: Option<u64>,
    window: u64,
    outstanding: u64,
    loss_ppm: u32,
    delivered: Option<u64>,
    contended: bool,
    latest_rtt: Option<u64>,
}

impl From<PathState> for Path {
    fn from(state: PathState) -> Self {
        let PathState { rate, srtt, rttvar, min_rtt, window, outstanding, loss_ppm, delivered, contended, latest_rtt } =
            state;
        Self {
            rate: rate.as_bps(),
            srtt: srtt.map(Duration::as_nanos),
            rttvar: rttvar.as_nanos(),
            min_rtt: min_rtt.map(Duration::as_nanos),
            window,
            outstanding,
            loss_ppm,
            delivered: delivered.map(Rate::as_bps),
            contended,
            latest_rtt: latest_rtt.map(Duration::as_nanos),
        }
    }
}

impl From<Path> for PathState {
    fn from(path: Path) -> Self {
        let Path { rate, srtt, rttvar, min_rtt, window, outstanding, loss_ppm, delivered, contended, latest_rtt } =
            path;
        Self {
            rate: Rate::from_bps(rate),
            srtt: srtt.map(Duration::from_nanos),
            rttvar: Duration::from_nanos(rttvar),
            min_rtt: min_rtt.map(Duration::from_nanos),
            window,
            outstanding,
            loss_ppm,
            delivered: delivered.map(Rate::from_bps),
            contended,
            latest_rtt: latest_rtt.map(Duration::from_nanos),
        }
    }
}

/// Something of which a client may have so much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resource {
    /// Open flows of the client, or of its user.
    Flows,
    /// Streams of the client, or of its user.
    Streams,
    /// Bytes of packet rings.
    RingBytes,
    /// Entries in what is remembered of paths.
    Paths,
}

/// Why a call failed. Nothing has changed, and the connection goes on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Failure {
    /// The flow is not open.
    #[error("flow {0} is not open: open it first, and do not use it after close")]
    UnknownFlow(Handle),
    /// There is no such listener.
    #[error("listener {0} is not there")]
    UnknownListener(u32),
    /// The client may not have more of it.
    #[error("the daemon grants {limit} of these and not one more: {resource:?}")]
    OverLimit {
        /// Of what.
        resource: Resource,
        /// How much.
        limit: u64,
    },
    /// It is not the client's to change.
    #[error("that may be changed by its own user only")]
    NotPermitted,
    /// No such controller or scheduler, or a value that cannot be.
    #[error("{0}")]
    Invalid(String),
    /// The daemon has no such part: built without, or switched off.
    #[error("the daemon was started without it: {0}")]
    Absent(String),
    /// The daemon's environment refused.
    #[error("the daemon could not do it: {0}")]
    Environment(String),
}

impl Answer {
    /// How many descriptors come with it.
    #[must_use]
    pub const fn descriptors(&self) -> usize {
        match self {
            Self::Stream => 2,
            Self::LongDocument { .. } => 1,
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
            Self::Close(_)
            | Self::Query(_)
            | Self::Split(_)
            | Self::Merge { .. }
            | Self::Describe(_)
            | Self::ForgetPaths { .. }
            | Self::StopListening(_) => Ok(()),
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
