//! Parameters of a stream: offered datagrams, sender, and link.

use std::sync::Arc;

use timeous::core::{AduMeta, AduSeq, Duration, Instant};
use timeous_engine::{NewChoice, Reach};
use timeous_host::MiddleboxBehaviour;
use timeous_testbed::network::Links;

use crate::experiment::values;

values! {
    /// Sender of a stream.
    pub(crate) enum SenderKind {
        /// Program that writes into the kernel's socket.
        Plain = "plain TCP",
        /// Packet ring before the kernel's socket, whose unsent queue is limited to one packet.
        Ring = "ring, NOTSENT_LOWAT",
        /// `Ring`, with late choice that reaches into the kernel's queue and its retransmissions.
        Late = "ring, into retransmissions",
        /// Packet ring with our own TCP, on a TUN device.
        Own = "own TCP",
    }
}

values! {
    /// Congestion control of the sender.
    pub(crate) enum Control {
            Reno = "reno",
            Cubic = "cubic",
    }
}

/// Offered datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Time from the stream's start.
    pub(crate) at: Duration,
    pub(crate) len: usize,
    /// Useful life after it was offered.
    pub(crate) latency: Duration,
    /// Further metadata.
    pub(crate) meta: AduMeta,
}

impl Offer {
    /// Returns its deadline in a stream that began at `begin`.
    pub(crate) fn deadline(&self, begin: Instant) -> Instant {
        begin + self.at + self.latency
    }

    /// Returns the metadata for the sender.
    pub(super) fn metadata(&self, begin: Instant, seq: u64) -> AduMeta {
        let deadline = Some(self.deadline(begin));
        AduMeta { seq: AduSeq(seq), deadline, enqueued: begin + self.at, ..self.meta }
    }
}

/// Stream over a link of its own.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) way: SenderKind,
    /// Whether its records are encrypted: not those of plain TCP.
    pub(crate) encrypted: bool,
    pub(crate) control: Control,
    pub(crate) links: Links,
    /// MTU of the link, if not Ethernet's.
    pub(crate) mtu: Option<u16>,
    /// Middlebox before the kernel's sender, if any.
    pub(crate) behaviour: Option<MiddleboxBehaviour>,
    pub(crate) seed: u64,
    /// Offered datagrams in order of time.
    pub(crate) offers: Arc<[Offer]>,
    /// Slots of the ring, a power of two.
    pub(crate) slots: u32,
    /// Late-choice policy of the ring.
    pub(crate) choice: NewChoice,
    /// Duration of the measurement, from the stream's start.
    pub(crate) lasting: Duration,
}

impl Plan {
    /// Returns the length of the longest datagram.
    pub(super) fn longest(&self) -> usize {
        self.offers.iter().map(|offer| offer.len).max().unwrap_or(0)
    }
}

/// Address of the receiver.
pub(super) const RIGHT: &str = "10.77.0.2:5000";
/// Port of the receiver.
pub(super) const PORT: u16 = 5_000;
/// Longest wait for a connection.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Time from the opening of the connection to the stream's start.
pub(super) const LEAD: Duration = Duration::from_millis(200);
/// Socket timeout, after which a thread checks whether to stop.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// Counters and state of the sender.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SenderStatus {
    /// Final reach of late choice.
    pub(crate) reach: Option<Reach>,
    /// Datagrams behind the ring replaced by a fresh one, and datagrams replaced by padding.
    pub(crate) replaced: u64,
    pub(crate) padded: u64,
    /// Whether the path was found not to support late choice.
    pub(crate) refused: bool,
    /// Whether the connection ended early.
    pub(crate) ended: bool,
}
