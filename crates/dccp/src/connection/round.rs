//! Windows of data (RFC 4341 §6.1.2), and the peer's packets per round trip.

use timeous_core::{Duration, Instant};

use crate::seq::Seq;

/// One window of data, from its first packet until that is acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    /// First data packet of the window.
    start: Option<Seq>,
    /// Data packets sent in the window.
    data: u64,
}

impl Round {
    pub(super) fn on_data_sent(&mut self, seq: Seq) {
        self.start.get_or_insert(seq);
        self.data += 1;
    }

    /// Ends the window if `ack` reaches it: returns its number of data packets, and the next one begins.
    pub(super) fn end(&mut self, ack: Seq) -> Option<u64> {
        self.start.filter(|&start| !ack.is_before(start))?;
        Some(std::mem::take(self).data)
    }
}

/// Sequence numbers that the peer uses per round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PeerPace {
    /// Start of the current round trip: time and sequence number.
    began: Option<(Instant, Seq)>,
    /// Numbers used in the last complete round trip.
    last: u64,
}

impl PeerPace {
    /// Notes `newest`, the greatest number received so far.
    pub(super) fn on_newest(&mut self, now: Instant, newest: Seq, rtt: Duration) {
        match self.began {
            Some((at, _)) if now - at < rtt => {}
            began => {
                self.last = began.map_or(0, |(_, first)| newest.distance_from(first));
                self.began = Some((now, newest));
            }
        }
    }

    /// Numbers used in the last round trip or in the current one up to `newest`, whichever is greater.
    pub(super) fn numbers(&self, newest: Seq) -> u64 {
        self.last.max(self.began.map_or(0, |(_, first)| newest.distance_from(first)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peers_pace_is_that_of_the_last_round_trip_or_of_this_one() {
        let (rtt, seq) = (Duration::from_millis(10), |n: u64| Seq::new(1_000 + n));
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let mut pace = PeerPace::default();
        pace.on_newest(at(10), seq(0), rtt);
        assert_eq!(pace.numbers(seq(0)), 0);
        pace.on_newest(at(15), seq(30), rtt);
        assert_eq!(pace.numbers(seq(30)), 30, "in half of a round trip");
        pace.on_newest(at(20), seq(50), rtt);
        assert_eq!(pace.numbers(seq(50)), 50);
        pace.on_newest(at(40), seq(51), rtt);
        assert_eq!(pace.numbers(seq(51)), 1, "it has become quiet");
    }
}
