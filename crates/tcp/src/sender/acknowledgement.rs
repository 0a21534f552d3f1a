//! An acknowledgement, as the send side sees it, and what it concludes from it.

use std::ops::Range;

use timeous_cm::Loss;
use timeous_core::{Duration, Instant};

use super::spurious::millis;

/// An acknowledgement that passed the checks, in stream offsets.
#[derive(Clone, Debug)]
pub(crate) struct Acknowledgement<'a> {
    /// Everything below has arrived; not above what was sent.
    pub(crate) ack: u64,
    /// What the peer holds beyond that.
    pub(crate) sacked: &'a [Range<u64>],
    /// What came twice, says the first block (RFC 2883); as far back as this end remembers numbers.
    pub(crate) dsack: Option<Range<u64>>,
    /// It carries no data, no SYN, no FIN, and the window is the same as before (RFC 5681 §2).
    pub(crate) is_bare: bool,
    /// ECE is set.
    pub(crate) ece: bool,
    /// The round-trip time that its timestamp shows (RFC 7323 §4), to the clock's granularity.
    pub(crate) echoed: Option<Duration>,
}

impl Acknowledgement<'_> {
    /// The time that it echoes, to the millisecond: when that left which moved the peer's acknowledgement.
    pub(super) fn echo(&self, now: Instant) -> Option<Duration> {
        self.echoed.map(|ago| millis(now).saturating_sub(ago))
    }
}

/// What is known of the path, as the loss detection by time needs it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoundTrip {
    /// Smoothed; zero before there is a sample.
    pub(crate) smoothed: Duration,
    /// The least.
    pub(crate) least: Duration,
}

/// What an acknowledgement, or a timer, led to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Verdict {
    /// It acknowledged something new.
    pub(crate) advanced: bool,
    /// It is the first of a recovery to acknowledge a part of what was under way (RFC 6582 §3.2).
    pub(crate) first_partial: bool,
    /// A congestion event, and when the newest packet it is concluded from was sent.
    pub(crate) loss: Option<(Loss, Instant)>,
    /// What was in flight before (`FlightSize`, RFC 5681 §2), less the pipe.
    pub(crate) beyond_gap: u64,
    /// A sample.
    pub(crate) rtt: Option<Duration>,
    /// Fast recovery has begun.
    pub(crate) recovery_began: bool,
    /// The window is not to grow by it: there is a loss, a mark or reordering to sort out.
    pub(crate) holds_window: bool,
    /// The marks of a window were answered.
    pub(crate) ecn_reduced: bool,
    /// The timeout before was for nothing: so many bytes that it took for lost are under way.
    pub(crate) restored: Option<u64>,
    /// So many losses were repaired by what later segments carried besides their own.
    pub(crate) hidden: u64,
    /// When something will be lost, if nothing comes before (RFC 8985 §6.2, step 5): call `Sender::look_again` then.
    pub(crate) look_again: Option<Instant>,
}
