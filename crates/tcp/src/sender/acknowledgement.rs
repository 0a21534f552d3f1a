//! An acknowledgement, and the send side's conclusions from it.

use std::ops::Range;

use timeous_cm::{Loss, Observed};
use timeous_core::{Duration, Instant};

use super::spurious::millis;

/// A valid acknowledgement, in stream offsets.
#[derive(Clone, Debug)]
pub(crate) struct Acknowledgement<'a> {
    /// Cumulative acknowledgement, at most SND.NXT.
    pub(crate) ack: u64,
    /// SACKed ranges beyond it.
    pub(crate) sacked: &'a [Range<u64>],
    /// Duplicate range reported by the first block (RFC 2883), as far back as sequence numbers are unambiguous.
    pub(crate) dsack: Option<Range<u64>>,
    /// It carries no data, SYN or FIN, and does not change the window (RFC 5681 §2).
    pub(crate) is_bare: bool,
    /// ECE is set.
    pub(crate) ece: bool,
    /// RTT by its timestamp (RFC 7323 §4), to the clock's granularity.
    pub(crate) echoed: Option<Duration>,
}

impl Acknowledgement<'_> {
    /// Returns the echoed time, to the millisecond: the send time of the segment that advanced the peer's
    /// acknowledgement.
    pub(super) fn echo(&self, now: Instant) -> Option<Duration> {
        self.echoed.map(|ago| millis(now).saturating_sub(ago))
    }
}

/// RTTs of the path, for loss detection by time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoundTrip {
    /// Smoothed RTT; zero before there is a sample.
    pub(crate) smoothed: Duration,
    /// Minimum RTT.
    pub(crate) least: Duration,
}

/// Conclusions from an acknowledgement or a timer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Verdict {
    /// Data bytes that arrived.
    pub(crate) acked: u64,
    /// Data bytes that were lost.
    pub(crate) lost: u64,
    /// SND.UNA has advanced.
    pub(crate) advanced: bool,
    /// First partial acknowledgement of a recovery (RFC 6582 §3.2).
    pub(crate) first_partial: bool,
    /// Congestion event, with the send time of the newest packet that shows it.
    pub(crate) loss: Option<(Loss, Instant)>,
    /// Data in flight before (`FlightSize`, RFC 5681 §2), less the pipe.
    pub(crate) beyond_gap: u64,
    /// RTT sample.
    pub(crate) rtt: Option<Duration>,
    /// RTT of the newest segment, without the delay of its acknowledgement.
    pub(crate) path_rtt: Option<Duration>,
    /// The newest segment that is known to have arrived, and how late its acknowledgement may be.
    pub(crate) observed: Option<Observed>,
    /// Fast recovery has begun.
    pub(crate) recovery_began: bool,
    /// The window must not grow: a loss, a mark or reordering is being handled.
    pub(crate) holds_window: bool,
    /// The window was reduced for ECN marks.
    pub(crate) ecn_reduced: bool,
    /// Bytes in flight again after a spurious timeout.
    pub(crate) restored: Option<u64>,
    /// Losses repaired by bundles.
    pub(crate) hidden: u64,
    /// Time of the next loss, if nothing arrives before (RFC 8985 §6.2, step 5): call `Sender::look_again` then.
    pub(crate) look_again: Option<Instant>,
}
