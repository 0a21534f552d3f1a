//! Acknowledgement of the peer's packets: Ack Vector, delay, and feedback to a CCID 3 or 4 sender.

use timeous_core::{Duration, Ecn, Instant};

use super::timers::{Timer, TimerTable};
use crate::ack_vector::{AckVector, Arrival, PacketState};
use crate::ccid::Ccid;
use crate::ccid2::{self, DataArrival};
use crate::ccid3::{self, Arrived};
use crate::features::{Feature, Features};
use crate::options::{Opt, OptionList, Ticks};
use crate::packet::{Header, Packet, PacketType};
use crate::seq::Seq;

/// Maximum size of our Ack Vector in an acknowledgement, in bytes: one option, whose length of at most 255 includes
/// type and length (RFC 4340 §5.8, §11.4).
const MAX_ACK_VECTOR: usize = 253;
/// Packets below the Ack Vector's start that are still remembered, to tell late packets from duplicates. Chosen by us:
/// a higher value makes Ack Vectors longer.
const LATE_WINDOW: u32 = 64;

/// Position of a packet relative to those received before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    /// GSR before this packet.
    pub(super) after: Seq,
    pub(super) arrival: Arrival,
}

/// Acknowledgements owed to the peer.
#[derive(Debug)]
pub(super) struct Acknowledgement {
    vector: AckVector,
    receiver: ccid2::Receiver,
    /// Rate-based receiver (CCID 3 and 4); `None` with CCID 2.
    rate_receiver: Option<Box<ccid3::Receiver>>,
    pace: PeerPace,
    /// Whether acknowledgeable packets have arrived since the last acknowledgement was sent, and when that was sent.
    is_owed: bool,
    sent_at: Instant,
    /// Timestamp to be echoed, and its arrival time (RFC 4340 §13.3).
    timestamp: Option<(Ticks, Instant)>,
}

impl Acknowledgement {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            vector: AckVector::new(MAX_ACK_VECTOR, LATE_WINDOW),
            receiver: ccid2::Receiver::default(),
            rate_receiver: None,
            pace: PeerPace::default(),
            is_owed: false,
            sent_at: now,
            timestamp: None,
        }
    }

    /// Records a packet in the Ack Vector; `gsr` is the greatest number before it.
    pub(super) fn record(&mut self, gsr: Seq, seq: Seq, ecn: Ecn) -> Order {
        let state = if ecn == Ecn::Ce { PacketState::Marked } else { PacketState::Received };
        Order { after: gsr, arrival: self.vector.record(seq, state) }
    }

    /// Notes that the peer has our packet `ack`.
    pub(super) fn on_ack(&mut self, ack: Seq) {
        self.vector.on_ack(ack);
    }

    /// Sets up the receiver for the negotiated congestion control of the peer's data, which sends `reports` per round
    /// trip with CCID 3 and 4.
    pub(super) fn set_ccid(&mut self, ccid: Ccid, origin: Seq, reports: u64, timers: &mut TimerTable) {
        let has = match &self.rate_receiver {
            None => Ccid::Ccid2,
            Some(receiver) if receiver.is_for_small_packets() => Ccid::Ccid4,
            Some(_) => Ccid::Ccid3,
        };
        if has != ccid {
            let receiver = ccid3::Receiver::new(ccid == Ccid::Ccid4, origin).telling(reports);
            self.rate_receiver = ccid.is_rate_based().then(|| Box::new(receiver));
            timers.stop(Timer::AckDelay);
        }
    }

    /// Notes a valid packet, with its NDP Count if the peer sends them.
    pub(super) fn on_packet(
        &mut self,
        now: Instant,
        (packet, header): (&Packet<'_>, &Header),
        (ecn, arrival, ndp_count): (Ecn, Arrival, Option<u64>),
        rtt: Duration,
        timers: &mut TimerTable,
    ) {
        self.is_owed = true;
        if arrival == Arrival::Newest {
            self.receiver.on_newest(now);
            self.pace.on_newest(now, header.seq, rtt);
        }
        let Some(receiver) = &mut self.rate_receiver else { return };
        let carries_data = matches!(header.packet_type(), PacketType::Data | PacketType::DataAck);
        let arrived = Arrived {
            seq: header.seq,
            data: carries_data.then_some((header.ccval, packet.payload.len() as u64)),
            marked: ecn == Ecn::Ce,
            ndp_count: ndp_count.unwrap_or(0),
            rtt,
        };
        receiver.on_packet(now, arrived);
        timers.update(Timer::AckDelay, receiver.poll_timeout());
    }

    /// Notes a packet with data: an acknowledgement is due now, or after `delay`.
    pub(super) fn on_data(
        &mut self,
        now: Instant,
        (seq, order, ecn): (Seq, Order, Ecn),
        (ack_ratio, delay, rtt): (u64, Duration, Duration),
        timers: &mut TimerTable,
    ) {
        let by_rate = self.rate_receiver.is_some();
        let arrival = DataArrival {
            out_of_order: !by_rate && (order.arrival != Arrival::Newest || seq != order.after.next()),
            marked: !by_rate && ecn == Ecn::Ce,
            ack_ratio: if by_rate { u64::MAX } else { ack_ratio },
            rtt,
        };
        self.receiver.on_data(now, arrival);
        if !by_rate && !self.receiver.is_due() && !timers.is_set(Timer::AckDelay) {
            timers.set(Timer::AckDelay, now + delay);
        }
    }

    /// Handles the expiry of the acknowledgement delay.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        match &mut self.rate_receiver {
            Some(receiver) => receiver.on_timeout(now),
            None => self.receiver.on_delay_over(),
        }
    }

    /// Notes that an acknowledgement leaves, alone or with data.
    pub(super) fn on_sent(&mut self, now: Instant, timers: &mut TimerTable) {
        self.receiver.on_acknowledged();
        timers.stop(Timer::AckDelay);
        (self.is_owed, self.sent_at) = (false, now);
    }

    /// Whether an acknowledgement is due now.
    pub(super) fn is_due(&self) -> bool {
        self.receiver.is_due() || self.is_feedback_due()
    }

    /// Whether CCID 3 or 4 feedback is due now.
    fn is_feedback_due(&self) -> bool {
        self.rate_receiver.as_ref().is_some_and(|receiver| receiver.is_due())
    }

    /// Whether a data packet should carry an acknowledgement: always for received data, and for received
    /// acknowledgements "at least once per congestion window" (RFC 4341 §6.2).
    pub(super) fn should_ride_along(&self, now: Instant, rtt: Duration) -> bool {
        self.receiver.has_unacknowledged() || self.is_old_owed(now, rtt)
    }

    /// Whether the peer has had no acknowledgement for a round trip although its packets arrive.
    pub(super) fn is_old_owed(&self, now: Instant, rtt: Duration) -> bool {
        self.is_owed && now - self.sent_at >= rtt
    }

    /// Sequence numbers that the peer uses per round trip, of which `gsr` is the newest.
    pub(super) fn peer_pace(&self, gsr: Seq) -> u64 {
        self.pace.numbers(gsr)
    }

    /// Timestamp to be echoed in the next packet, and its arrival time.
    pub(super) fn timestamp(&self) -> Option<(Ticks, Instant)> {
        self.timestamp
    }

    pub(super) fn set_timestamp(&mut self, timestamp: Option<(Ticks, Instant)>) {
        self.timestamp = timestamp;
    }

    /// Upper bound of the size of an acknowledgement's options, in bytes.
    pub(super) fn options_len(&self) -> usize {
        // Timestamp Echo (10), Elapsed Time (6).
        let small = usize::from(self.timestamp.is_some()) * 10 + 6;
        let feedback = self.rate_receiver.as_ref().filter(|receiver| receiver.is_due());
        small + feedback.map_or(0, |receiver| receiver.options_len()) + self.vector.vector_len() + 2
    }

    /// Writes the echo of the peer's timestamp, if one waits and fits.
    pub(super) fn write_echo(&mut self, now: Instant, out: &mut OptionList) {
        if let Some((echo, at)) = self.timestamp
            && out.push(&Opt::TimestampEcho { echo, elapsed: Ticks::elapsed(now - at) }).is_ok()
        {
            self.timestamp = None;
        }
    }

    /// Writes the options of an acknowledgement of `ack` into our packet `seq`.
    pub(super) fn write_options(
        &mut self,
        now: Instant,
        (seq, ack): (Seq, Seq),
        features: &Features,
        out: &mut OptionList,
        timers: &mut TimerTable,
    ) {
        let elapsed = Ticks::elapsed(self.receiver.elapsed(now));
        // Feedback must carry Elapsed Time (RFC 4342 §8.2).
        if elapsed != Ticks::ZERO || self.is_feedback_due() {
            let _ = out.push(&Opt::ElapsedTime(elapsed));
        }
        let wants_rate = features.local(Feature::SendLossEventRate) == 1;
        if let Some(receiver) = self.rate_receiver.as_mut().filter(|receiver| receiver.is_due()) {
            receiver.push_options(now, wants_rate, out);
            timers.update(Timer::AckDelay, receiver.poll_timeout());
        }
        let agreed = features.local(Feature::SendAckVector) == 1;
        if agreed && self.vector.ack_number() == Some(ack) {
            self.vector.push_options(seq, out);
        }
    }
}

/// Sequence numbers that the peer uses per round trip.
#[derive(Clone, Copy, Debug, Default)]
struct PeerPace {
    /// Start of the current round trip: time and sequence number.
    began: Option<(Instant, Seq)>,
    /// Numbers used in the last complete round trip.
    last: u64,
}

impl PeerPace {
    /// Notes `newest`, the greatest number received so far.
    fn on_newest(&mut self, now: Instant, newest: Seq, rtt: Duration) {
        match self.began {
            Some((at, _)) if now - at < rtt => {}
            began => {
                self.last = began.map_or(0, |(_, first)| newest.distance_from(first));
                self.began = Some((now, newest));
            }
        }
    }

    /// Numbers used in the last round trip or in the current one up to `newest`, whichever is greater.
    fn numbers(&self, newest: Seq) -> u64 {
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
