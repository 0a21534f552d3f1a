//! Streams that the daemon's engine runs for a client.
//!
//! The daemon creates a stream's packet ring, and a socket pair for this stream alone; the client gets both with the
//! answer. Nothing of a stream goes through the client's queues.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use timeous_cm::Kind;
use timeous_core::Duration;

use super::codec::{Malformed, sensible};

/// Settings of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamSpec {
    /// The DCCP service code (RFC 4340 §8.1.2).
    pub service: [u8; 4],
    /// The DCCP port: behind the UDP port, or the only one.
    pub dccp_port: u16,
    /// Congestion control of both directions: CCID 2, 3 or 4 (RFC 4340 §10).
    pub ccid: u8,
    /// Congestion controller with CCID 2; `None`: the daemon's controller for that host.
    pub controller: Option<Controller>,
    /// Address of this host to call from; `None`: the route's own.
    pub local: Option<IpAddr>,
    /// Whether packets are sent in plain IP (RFC 4340), not in UDP (RFC 6773).
    pub native: bool,
    /// Slots of the packet ring, a power of two.
    pub slots: u32,
    /// Maximum UDP payload in bytes, from 1 to 65 535.
    pub mps: u32,
    /// Timeout of the handshake.
    pub connect_timeout: Nanos,
    /// Idle time after which a silent peer is probed.
    pub keep_alive: Option<Nanos>,
    /// Maximum silence of a probed peer.
    pub silence: Nanos,
    /// Maximum segment lifetime: half of the time for which a closed connection is remembered.
    pub msl: Nanos,
    /// Whether the listening end holds TIME-WAIT.
    pub server_holds_timewait: bool,
    /// Late-choice policy: the datagrams dropped when the path is too slow.
    pub policy: Policy,
    /// Minimum priority for retransmission of lost ADUs; `None`: no retransmission.
    pub repair: Option<u8>,
}

/// Congestion controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Controller {
    /// [`Kind::Copa`].
    Copa,
    /// [`Kind::Scream`].
    Scream,
    /// [`Kind::Aimd`].
    Aimd,
    /// [`Kind::NewReno`].
    NewReno,
    /// [`Kind::Cubic`].
    Cubic,
    /// [`Kind::Tfrc`].
    Tfrc,
    /// [`Kind::Bbr`].
    Bbr,
    /// [`Kind::Live`].
    Live,
}

impl From<Kind> for Controller {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Copa => Self::Copa,
            Kind::Scream => Self::Scream,
            Kind::Aimd => Self::Aimd,
            Kind::NewReno => Self::NewReno,
            Kind::Cubic => Self::Cubic,
            Kind::Tfrc => Self::Tfrc,
            Kind::Bbr => Self::Bbr,
            Kind::Live => Self::Live,
        }
    }
}

impl From<Controller> for Kind {
    fn from(controller: Controller) -> Self {
        match controller {
            Controller::Copa => Self::Copa,
            Controller::Scream => Self::Scream,
            Controller::Aimd => Self::Aimd,
            Controller::NewReno => Self::NewReno,
            Controller::Cubic => Self::Cubic,
            Controller::Tfrc => Self::Tfrc,
            Controller::Bbr => Self::Bbr,
            Controller::Live => Self::Live,
        }
    }
}

/// Duration in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nanos(pub u64);

impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Self {
        Self(duration.as_nanos())
    }
}

impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Self {
        Self::from_nanos(nanos.0)
    }
}

/// Late-choice policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Policy {
    /// Drops nothing.
    Fifo,
    /// Drops datagrams that cannot arrive in time.
    Deadline,
    /// Drops datagrams that have waited longer than this.
    Age(Nanos),
    /// Drops the least valuable frames first, as a whole, beyond a limit of the queue.
    Frames(QueueLimit),
    /// DBAT: beyond the data handed over within twice the path's delay only marked packets are sent, and the source is
    /// warned before.
    Dbat(Dbat),
    /// Keeps the set of frames of which most can be decoded in time. A frame of these sub-streams counts as this many
    /// others.
    Plan([Option<(u8, u32)>; 4]),
    /// Drops datagrams that cannot arrive in time, from the top sub-stream down.
    Layers,
    /// Drops datagrams that may not arrive in time, by a pessimistic estimate.
    Punctual,
    /// Drops datagrams that refer to a frame that was lost or dropped.
    Dependencies,
}

/// Settings of DBAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dbat {
    /// Datagrams that are sent even while the queue is overfull.
    pub marked: Marked,
    /// Whether only marked datagrams are sent then; else as many others as fit below `Max_Th`, too.
    pub only_marked: bool,
    /// Lower bound of the path's delay from which the thresholds follow.
    pub least_delay: Nanos,
    /// Upper bound of `Max_Th` in bytes.
    pub max_threshold: Option<u64>,
}

/// Datagrams that DBAT sends even while the queue is overfull.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Marked {
    /// Those of at least this priority.
    Priority(u8),
    /// Those of the sub-streams up to this one.
    Layers(u8),
}

/// Limit of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueueLimit {
    /// Datagrams that can arrive before their deadline.
    Deadlines,
    /// Data that is sent within this time at the current rate.
    Time(Nanos),
    /// Number of packets.
    Packets(u32),
}

impl StreamSpec {
    pub(super) fn check(&self) -> Result<(), Malformed> {
        sensible(self.slots.is_power_of_two() && (2..=1 << 20).contains(&self.slots), "number of slots")?;
        sensible((2..=4).contains(&self.ccid), "CCID")?;
        sensible((1..=65_535).contains(&self.mps), "packet size")
    }
}
