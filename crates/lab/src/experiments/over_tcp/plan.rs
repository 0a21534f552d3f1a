//! What is to be streamed, by whom, over what.

use std::sync::Arc;

use timeous::core::{AduMeta, AduSeq, Duration, Instant};
use timeous_engine::NewChoice;
use timeous_host::Meddling;

use super::super::tcp_kernel::bed::Links;

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    /// A program that writes into the kernel's socket.
    Plain,
    /// The packet ring before the kernel's socket, whose unsent queue is kept at one packet.
    Ring,
    /// The same, with late choice into the kernel's queue and its retransmissions.
    Late,
    /// The packet ring and our own TCP, on a TUN device.
    Own,
}

impl Way {
    pub(crate) const ALL: [Self; 4] = [Self::Plain, Self::Ring, Self::Late, Self::Own];

    /// For people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain TCP",
            Self::Ring => "ring, NOTSENT_LOWAT",
            Self::Late => "ring, into retransmissions",
            Self::Own => "own TCP",
        }
    }
}

/// The sender's congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Control {
    Reno,
    Cubic,
}

impl Control {
    pub(crate) const ALL: [Self; 2] = [Self::Reno, Self::Cubic];

    /// As the kernel calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
        }
    }
}

/// A datagram that is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// From the stream's beginning.
    pub(crate) at: Duration,
    pub(crate) len: usize,
    /// It is of use so long after it was offered.
    pub(crate) latency: Duration,
    /// What is said of it besides.
    pub(crate) meta: AduMeta,
}

impl Offer {
    /// When it goes stale, in a stream that began at `begin`.
    pub(crate) fn deadline(&self, begin: Instant) -> Instant {
        begin + self.at + self.latency
    }

    /// What the sender is told of it.
    pub(super) fn told(&self, begin: Instant, seq: u64) -> AduMeta {
        let deadline = Some(self.deadline(begin));
        AduMeta { seq: AduSeq(seq), deadline, enqueued: begin + self.at, ..self.meta }
    }
}

/// A stream over a link of its own.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) way: Way,
    pub(crate) control: Control,
    pub(crate) links: Links,
    /// Of the link, if not Ethernet's.
    pub(crate) mtu: Option<u16>,
    /// What stands before the kernel's sender, if anything.
    pub(crate) meddling: Option<Meddling>,
    pub(crate) seed: u64,
    /// In the order of their times.
    pub(crate) offers: Arc<[Offer]>,
    /// Places in the ring, a power of two.
    pub(crate) slots: u32,
    /// What the ring gives up.
    pub(crate) choice: NewChoice,
    /// How long it is looked at, from its beginning.
    pub(crate) lasting: Duration,
}

impl Plan {
    /// The longest datagram.
    pub(super) fn longest(&self) -> usize {
        self.offers.iter().map(|offer| offer.len).max().unwrap_or(0)
    }
}
