//! Acknowledgement scheduling of the receiver (RFC 4340 §11.3, RFC 4341 §6).

use timeous_core::{Duration, Instant};

/// Acknowledgement state for the peer's data.
#[derive(Clone, Debug, Default)]
pub(crate) struct Receiver {
    /// Data packets received since the last acknowledgement.
    unacknowledged: u64,
    due: bool,
    /// Time of the last immediate acknowledgement for an ECN mark.
    hurried: Option<Instant>,
    /// Arrival time of the newest acknowledgeable packet, for Elapsed Time (RFC 4340 §13.2).
    newest_at: Instant,
}

/// Properties of a received data packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DataArrival {
    /// Arrived out of order or after a gap: acknowledge at once.
    pub(crate) out_of_order: bool,
    /// Arrived with an ECN mark.
    pub(crate) marked: bool,
    /// Ack Ratio: data packets per acknowledgement.
    pub(crate) ack_ratio: u64,
    /// Round-trip time estimate.
    pub(crate) rtt: Duration,
}

impl Receiver {
    /// Notes a received data packet.
    pub(crate) fn on_data(&mut self, now: Instant, arrival: DataArrival) {
        self.unacknowledged += 1;
        // "there is no need to send such immediate acknowledgements for marked packets more than once per round-trip
        // time" (§11.3).
        let hurry = arrival.marked && self.hurried.is_none_or(|at| now - at >= arrival.rtt);
        if hurry {
            self.hurried = Some(now);
        }
        // A ratio of zero leaves the choice to the receiver (§11.3).
        let ratio = if arrival.ack_ratio == 0 { 2 } else { arrival.ack_ratio };
        self.due |= hurry || arrival.out_of_order || self.unacknowledged >= ratio;
    }

    /// Notes an acknowledgeable packet with the greatest sequence number so far.
    pub(crate) fn on_newest(&mut self, now: Instant) {
        self.newest_at = now;
    }

    /// Handles the expiry of the acknowledgement delay.
    pub(crate) fn on_delay_over(&mut self) {
        self.due = self.unacknowledged > 0;
    }

    /// Notes that an acknowledgement was sent, alone or with data.
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

    /// Time since the arrival of the packet that an acknowledgement sent now acknowledges.
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
