//! Retransmission timeout, and the number of timeouts that ends a connection (RFC 6298, RFC 9293 §3.8.3).

use timeous_core::Duration;

use super::timers::backed_off;

/// "If the timer expires awaiting the ACK of a SYN segment …, the RTO MUST be re-initialized to 3 seconds when data
/// transmission begins" (RFC 6298 §5.7).
const TIMEOUT_AFTER_LOST_SYN: Duration = Duration::from_secs(3);

/// Retransmission timer of data.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RetransmissionTimer {
    /// Consecutive timeouts.
    timeouts: u32,
    /// Timeout before the first RTT sample, if the handshake gave none.
    first_timeout: Option<Duration>,
}

impl RetransmissionTimer {
    /// Creates the timer of an established connection, with or without an RTT sample of its path.
    pub(super) fn new(has_rtt: bool) -> Self {
        Self { timeouts: 0, first_timeout: (!has_rtt).then_some(TIMEOUT_AFTER_LOST_SYN) }
    }

    /// Counts a timeout; returns `false` if it is one more than `limit`.
    pub(super) fn expired(&mut self, limit: u32) -> bool {
        let may_repeat = self.timeouts < limit;
        self.timeouts += u32::from(may_repeat);
        may_repeat
    }

    /// Notes that the peer has answered.
    pub(super) fn answered(&mut self) {
        self.timeouts = 0;
    }

    /// Notes an RTT sample.
    pub(super) fn sampled(&mut self) {
        self.first_timeout = None;
    }

    /// Returns the current timeout (RFC 6298 §2, §5.5) where `base` is the path's, doubled `backoff` times.
    pub(super) fn timeout(&self, base: Option<Duration>, backoff: u32) -> Duration {
        backed_off(self.first_timeout.or(base).unwrap_or_default(), backoff)
    }
}
