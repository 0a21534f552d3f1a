//! Streams that the daemon's engine runs for a client.
//!
//! The daemon makes a stream's packet ring, and a pair of sockets for what is said of this stream alone; the client gets
//! both with the answer. Nothing of a stream goes through the client's queues.

use serde::{Deserialize, Serialize};
use timeous_cm::Kind;
use timeous_core::Duration;

use super::codec::{Malformed, sensible};

/// How a stream is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamSpec {
    /// The DCCP service code (RFC 4340 §8.1.2).
    pub service: [u8; 4],
    /// The DCCP port: behind the UDP port, or the only one.
    pub dccp_port: u16,
    /// The congestion control of both directions: CCID 2, 3 or 4 (RFC 4340 §10).
    pub ccid: u8,
    /// What decides how fast it sends with CCID 2; `None`: what the daemon has for that host.
    pub controller: Option<Controller>,
    /// Whether its packets travel in IP itself (RFC 4340), and not in UDP (RFC 6773).
    pub native: bool,
    /// Places in the packet ring, a power of two.
    pub slots: u32,
    /// The largest UDP payload in bytes, from 1 to 65 535.
    pub mps: u32,
    /// How long an answer to the handshake is waited for.
    pub connect_timeout: Nanos,
    /// How long a peer may have nothing to say before it is asked.
    pub keep_alive: Option<Nanos>,
    /// How long a peer that was asked may be silent.
    pub silence: Nanos,
    /// The longest life of a packet on its way: half of how long a closed connection is remembered.
    pub msl: Nanos,
    /// Whether the listening end remembers the closed connection.
    pub server_holds_timewait: bool,
    /// What is given up when the path is too slow.
    pub policy: Policy,
    /// Lost ADUs of at least this priority are sent again; `None`: nothing is.
    pub repair: Option<u8>,
}

/// A congestion controller by name.
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
        }
    }
}

/// A duration in nanoseconds.
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

/// A late-choice policy by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Policy {
    /// Nothing is given up.
    Fifo,
    /// What cannot arrive in time is given up.
    Deadline,
    /// What has waited longer is given up.
    Age(Nanos),
    /// What is worth least is given up first, by whole frames, beyond a limit of the queue.
    Frames(QueueLimit),
    /// Beyond what the stream hands over within two delays of the path only marked packets go, and the source is told
    /// before.
    Dbat,
    /// What is kept is the set of frames of which most can be decoded in time. A frame of these sub-streams is worth so
    /// many others.
    Plan([Option<(u8, u32)>; 4]),
}

/// How much may wait in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueueLimit {
    /// What can arrive before its deadline.
    Deadlines,
    /// What leaves within this time at the present rate.
    Time(Nanos),
    /// So many packets.
    Packets(u32),
}

impl StreamSpec {
    pub(super) fn check(&self) -> Result<(), Malformed> {
        sensible(self.slots.is_power_of_two() && (2..=1 << 20).contains(&self.slots), "number of slots")?;
        sensible((2..=4).contains(&self.ccid), "CCID")?;
        sensible((1..=65_535).contains(&self.mps), "packet size")
    }
}
