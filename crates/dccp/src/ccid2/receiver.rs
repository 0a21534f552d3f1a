//! When to acknowledge (RFC 4340 §11.3, RFC 4341 §6).

use timeous_core::{Duration, Instant};

/// What of the peer's data has not been acknowledged yet, and how long that may stay so.
#[derive(Clone, Debug, Default)]
pub(crate) struct Receiver {
    /// Data packets that arrived since an acknowledgement was sent.
    unacknowledged: u64,
    due: bool,
    /// When the last acknowledgement was sent ahead of time because of a mark.
    hurried: Option<Instant>,
    /// When the newest acknowledgeable packet arrived, for Elapsed Time (RFC 4340 §13.2).
    newest_at: Instant,
}

/// What there is to know about a data packet that arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DataArrival {
    /// It came out of order, or after a gap: the sender should hear of it now.
    pub(crate) out_of_order: bool,
    /// It came with a congestion mark.
    pub(crate) marked: bool,
    /// How many data packets one acknowledgement covers.
    pub(crate) ack_ratio: u64,
    /// The round-trip time, as far as it is known.
    pub(crate) rtt: Duration,
}

impl Receiver {
    /// Data have arrived.
    pub(crate) fn on_data(&mut self, now: Instant, arrival: DataArrival) {
        self.unacknowledged += 1;
        // "there is no need to send such immediate acknowledgements for marked packets more than once per round-trip
        // time" (§11.3).
        let hurry = arrival.marked && self.hurried.is_none_or(|at| now - at >= arrival.rtt);
        if hurry {
            self.hurried = Some(now);
        }
        // A ratio of zero says that the sender leaves it to us (§11.3).
        let ratio = if arrival.ack_ratio == 0 { 2 } else { arrival.ack_ratio };
        self.due |= hurry || arrival.out_of_order || self.unacknowledged >= ratio;
    }

    /// A packet that may be acknowledged has arrived, and none came after it in the peer's order.
    pub(crate) fn on_newest(&mut self, now: Instant) {
        self.newest_at = now;
    }

    /// The acknowledgement has waited long enough.
    pub(crate) fn on_delay_over(&mut self) {
        self.due = self.unacknowledged > 0;
    }

    /// An acknowledgement was sent, alone or with data.
    pub(crate) fn on_acknowledged(&mut self) {
        self.unacknowledged = 0;
        self.due = false;
    }

    /// Whether an acknowledgement must leave now.
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    /// Whether there is data to acknowledge.
    pub(crate) fn has_unacknowledged(&self) -> bool {
        self.unacknowledged > 0
    }

    /// How long ago the packet arrived that an acknowledgement sent now acknowledges.
    pub(crate) fn elapsed(&self, now: Instant) -> Duration {
        now - self.newest_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(ack_ratio: u64) -> DataArrival {
        DataArrival { out_of_order: false, marked: false, ack_ratio, rtt: Duration::from_millis(100) }
    }

    #[test]
    fn every_ratio_th_packet_is_acknowledged() {
        let mut receiver = Receiver::default();
        receiver.on_data(Instant::ZERO, plain(3));
        receiver.on_data(Instant::ZERO, plain(3));
        assert!(!receiver.is_due());
        receiver.on_data(Instant::ZERO, plain(3));
        assert!(receiver.is_due());
        receiver.on_acknowledged();
        assert!(!receiver.is_due() && !receiver.has_unacknowledged());
    }

    #[test]
    fn a_gap_is_acknowledged_at_once_and_a_mark_once_a_round_trip() {
        let mut receiver = Receiver::default();
        receiver.on_data(Instant::ZERO, DataArrival { out_of_order: true, ..plain(9) });
        assert!(receiver.is_due());
        receiver.on_acknowledged();
        let marked = DataArrival { marked: true, ..plain(9) };
        receiver.on_data(Instant::ZERO, marked);
        assert!(receiver.is_due());
        receiver.on_acknowledged();
        let soon = Instant::ZERO + Duration::from_millis(50);
        receiver.on_data(soon, marked);
        assert!(!receiver.is_due());
        receiver.on_data(soon + Duration::from_millis(50), marked);
        assert!(receiver.is_due());
    }

    #[test]
    fn a_delay_that_ends_with_nothing_to_say_is_silent() {
        let mut receiver = Receiver::default();
        receiver.on_delay_over();
        assert!(!receiver.is_due());
    }
}
