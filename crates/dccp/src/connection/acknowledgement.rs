//! Acknowledgement of the peer's packets: Ack Vector, delayed acknowledgements (RFC 4340 §11.3, RFC 4341 §6), and
//! feedback to a CCID 3 or 4 sender.

use timeous_core::{Duration, Ecn, Instant};

use super::incoming::Incoming;
use super::timers::{Timer, TimerTable};
use crate::ack_vector::{AckVector, Arrival, PacketState};
use crate::ccid::Ccid;
use crate::ccid3::{self, Arrived};
use crate::features::{Feature, Features};
use crate::options::{Opt, OptionList, Ticks};
use crate::packet::PacketType;
use crate::seq::Seq;

/// Maximum size of our Ack Vector in an acknowledgement, in bytes: one option, whose length of at most 255 includes
/// type and length (RFC 4340 §5.8, §11.4).
const MAX_ACK_VECTOR: usize = 253;
/// Packets below the Ack Vector's start that are still remembered, to tell late packets from duplicates. Chosen by us:
/// a higher value makes Ack Vectors longer.
const LATE_WINDOW: u32 = 64;

/// Times that an acknowledgement is sent again while the peer seems not to hear of its data, since each single one may be the one that ends
/// its wait. Chosen by us (docs/design/dccp.md): more add load.
const ECHOES: u32 = 3;
/// Their interval: that of a delayed acknowledgement between ends that repair, since both share a timer, and data must not wait longer.
const ECHO_INTERVAL: Duration = Duration::from_millis(5);
/// Time without an answer to acknowledgements after which the peer seems not to hear them, beyond three round trips: it answers one a round
/// trip (RFC 4341 §6.2). Chosen by us: a busy host's delay; a higher value leaves a sender with a full window for longer.
const UNHEARD_MARGIN: Duration = Duration::from_millis(20);

/// Acknowledgements owed to the peer.
#[derive(Debug)]
pub(super) struct Acknowledgement {
    vector: AckVector,
    /// Rate-based receiver (CCID 3 and 4); `None` with CCID 2.
    rate_receiver: Option<Box<ccid3::Receiver>>,
    pace: PeerPace,
    /// Data packets received since the last acknowledgement.
    unacknowledged: u64,
    /// Whether an acknowledgement must leave now, with CCID 2.
    is_due: bool,
    /// Times that the next acknowledgement is sent again.
    echoes: u32,
    /// Newest of our packets that the peer has acknowledged, and when the first acknowledgement after that left.
    heard: Option<Seq>,
    unheard_since: Option<Instant>,
    /// Time of the last immediate acknowledgement for an ECN mark.
    hurried_at: Option<Instant>,
    /// Arrival time of the newest acknowledgeable packet, for Elapsed Time (RFC 4340 §13.2).
    newest_at: Instant,
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
            rate_receiver: None,
            pace: PeerPace::default(),
            unacknowledged: 0,
            is_due: false,
            echoes: 0,
            heard: None,
            unheard_since: None,
            hurried_at: None,
            newest_at: Instant::ZERO,
            is_owed: false,
            sent_at: now,
            timestamp: None,
        }
    }

    pub(super) fn record(&mut self, seq: Seq, ecn: Ecn) -> Arrival {
        self.vector.record(seq, if ecn == Ecn::Ce { PacketState::Marked } else { PacketState::Received })
    }

    pub(super) fn on_ack(&mut self, ack: Seq) {
        self.vector.on_ack(ack);
        if self.heard.is_none_or(|heard| ack.is_after(heard)) {
            (self.heard, self.unheard_since) = (Some(ack), None);
        }
    }

    /// Sets up the receiver for the negotiated congestion control of the peer's data, which sends `reports` per round
    /// trip with CCID 3 and 4.
    pub(super) fn set_ccid(&mut self, ccid: Ccid, origin: Seq, reports: u64, timers: &mut TimerTable) {
        let has = self.rate_receiver.as_ref().map_or(Ccid::Ccid2, |receiver| receiver.ccid());
        if has != ccid {
            let receiver = ccid3::Receiver::new(ccid == Ccid::Ccid4, origin).telling(reports);
            self.rate_receiver = ccid.is_rate_based().then(|| Box::new(receiver));
            timers.stop(Timer::AckDelay);
        }
    }

    pub(super) fn on_packet(&mut self, incoming: &Incoming<'_>, rtt: Duration, timers: &mut TimerTable) {
        let (now, header) = (incoming.at, incoming.header);
        self.is_owed = true;
        if incoming.arrival == Arrival::Newest {
            self.newest_at = incoming.arrived_at();
            self.pace.on_newest(now, header.seq, rtt);
        }
        let Some(receiver) = &mut self.rate_receiver else { return };
        let carries_data = matches!(header.packet_type(), PacketType::Data | PacketType::DataAck);
        let data = carries_data.then_some((header.ccval, incoming.packet.payload.len() as u64));
        let (marked, ndp_count) = (incoming.ecn == Ecn::Ce, incoming.options.ndp_count);
        receiver.on_packet(now, Arrived { seq: header.seq, data, marked, ndp_count, rtt });
        timers.update(Timer::AckDelay, receiver.poll_timeout());
    }

    /// Notes a packet with data; `repairs`: between ends that agreed to retransmit. Returns whether its acknowledgement may be delayed, with
    /// CCID 2.
    pub(super) fn on_data(&mut self, incoming: &Incoming<'_>, ack_ratio: u64, rtt: Duration, repairs: bool) -> bool {
        self.unacknowledged += 1;
        if self.rate_receiver.is_some() {
            return false;
        }
        let is_in_order = incoming.arrival == Arrival::Newest && incoming.header.seq == incoming.gsr.next();
        // "there is no need to send such immediate acknowledgements for marked packets more than once per round-trip
        // time" (§11.3).
        let hurries = incoming.ecn == Ecn::Ce && self.hurried_at.is_none_or(|at| incoming.at - at >= rtt);
        if hurries {
            self.hurried_at = Some(incoming.at);
        }
        // A ratio of zero leaves the choice to the receiver (§11.3).
        let ratio = if ack_ratio == 0 { 2 } else { ack_ratio };
        let patience = rtt * 3 + UNHEARD_MARGIN;
        if repairs && self.unheard_since.is_some_and(|since| incoming.at.saturating_since(since) > patience) {
            self.echoes = ECHOES;
        }
        self.is_due |= hurries || !is_in_order || self.unacknowledged >= ratio;
        !self.is_due
    }

    /// Notes data that came again. If the packet `first_sent`, which they were first sent in, had arrived, acknowledgements of it were
    /// lost; a second copy of lost data says nothing. Feedback of CCID 3 and 4 has a pace of its own.
    pub(super) fn on_repeat(&mut self, first_sent: Seq) {
        let has_arrived = self.vector.state_of(first_sent).is_some_and(PacketState::has_arrived);
        if has_arrived && self.rate_receiver.is_none() {
            (self.echoes, self.is_due) = (ECHOES, true);
        }
    }

    pub(super) fn on_timeout(&mut self, now: Instant) {
        match &mut self.rate_receiver {
            Some(receiver) => receiver.on_timeout(now),
            None => {
                self.is_due = self.unacknowledged > 0 || self.echoes > 0;
                self.echoes = self.echoes.saturating_sub(1);
            }
        }
    }

    /// Notes that an acknowledgement leaves, alone or with data.
    pub(super) fn on_sent(&mut self, now: Instant, timers: &mut TimerTable) {
        timers.stop(Timer::AckDelay);
        if self.echoes > 0 {
            timers.set(Timer::AckDelay, now + ECHO_INTERVAL);
        }
        self.unheard_since = self.unheard_since.or(Some(now));
        (self.unacknowledged, self.is_due, self.is_owed, self.sent_at) = (0, false, false, now);
    }

    pub(super) fn is_due(&self) -> bool {
        self.is_due || self.is_feedback_due()
    }

    fn is_feedback_due(&self) -> bool {
        self.rate_receiver.as_ref().is_some_and(|receiver| receiver.is_due())
    }

    /// Whether a data packet should carry an acknowledgement: always for received data, and for received
    /// acknowledgements "at least once per congestion window" (RFC 4341 §6.2).
    pub(super) fn should_ride_along(&self, now: Instant, rtt: Duration) -> bool {
        self.unacknowledged > 0 || self.is_old_owed(now, rtt)
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
        // Timestamp Echo (10), Elapsed Time (6), its own send time (6).
        let small = usize::from(self.timestamp.is_some()) * 10 + 6 + 6;
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
        let elapsed = Ticks::elapsed(now - self.newest_at);
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
        // Of use to a sender of data.
        let is_known = features.local(Feature::TakeRepeats) > 0 || features.local(Feature::TakeFragments) > 0;
        if is_known && self.unacknowledged > 0 {
            let _ = out.push(&Opt::SentAt(Ticks::timestamp(now)));
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
    use crate::connection::incoming::ReceivedOptions;
    use crate::connection::refusal::write_bare;
    use crate::packet::{Body, Encapsulation, Header, Packet};

    const RTT: Duration = Duration::from_millis(100);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// Notes a data packet `gap` numbers after the one before; returns whether an acknowledgement is due.
    fn arrive(owed: &mut Acknowledgement, at: Instant, gap: u64, ecn: Ecn, ratio: u64) -> bool {
        let header = Header::new(1, 2, Seq::new(10) + gap, Body::Data);
        let mut datagram = Vec::new();
        write_bare(&header, Encapsulation::Udp, &mut datagram);
        let packet = Packet::parse(&datagram, Encapsulation::Udp).unwrap();
        let (gsr, arrival, options) = (Seq::new(10), Arrival::Newest, ReceivedOptions::default());
        let incoming =
            Incoming { packet: &packet, header: &header, at, waited: Duration::ZERO, ecn, gsr, arrival, options };
        owed.on_data(&incoming, ratio, RTT, true);
        owed.is_due()
    }

    #[test]
    fn every_ratio_th_packet_is_acknowledged() {
        let (mut owed, mut timers) = (Acknowledgement::new(at(0)), TimerTable::default());
        let due = [(); 3].map(|()| arrive(&mut owed, at(0), 1, Ecn::NotEct, 3));
        assert_eq!(due, [false, false, true]);
        owed.on_sent(at(0), &mut timers);
        assert!(!owed.is_due() && !owed.should_ride_along(at(0), RTT));
    }

    #[test]
    fn a_gap_is_acknowledged_at_once_and_a_mark_once_a_round_trip() {
        let (mut owed, mut timers) = (Acknowledgement::new(at(0)), TimerTable::default());
        assert!(arrive(&mut owed, at(0), 2, Ecn::NotEct, 9));
        owed.on_sent(at(0), &mut timers);
        assert!(arrive(&mut owed, at(0), 1, Ecn::Ce, 9));
        owed.on_sent(at(0), &mut timers);
        assert!(!arrive(&mut owed, at(50), 1, Ecn::Ce, 9));
        assert!(arrive(&mut owed, at(100), 1, Ecn::Ce, 9));
    }

    #[test]
    fn acknowledgements_that_are_not_answered_are_sent_again() {
        let (mut owed, mut timers) = (Acknowledgement::new(at(0)), TimerTable::default());
        let echoes = |owed: &mut Acknowledgement, timers: &mut TimerTable, now: Instant| {
            arrive(owed, now, 1, Ecn::NotEct, 9);
            owed.on_sent(now, timers);
            let mut count = 0;
            while timers.is_set(Timer::AckDelay) {
                owed.on_timeout(now);
                assert!(owed.is_due());
                owed.on_sent(now, timers);
                count += 1;
            }
            count
        };
        assert_eq!([0, 300].map(|ms| echoes(&mut owed, &mut timers, at(ms))), [0, 0]);
        assert_eq!(echoes(&mut owed, &mut timers, at(321)), ECHOES, "three round trips and 20 ms");
        owed.on_ack(Seq::new(5));
        assert_eq!([400, 700].map(|ms| echoes(&mut owed, &mut timers, at(ms))), [0, 0], "it was answered");
        owed.on_ack(Seq::new(5));
        assert_eq!(echoes(&mut owed, &mut timers, at(721)), ECHOES, "an old answer says nothing");
    }

    #[test]
    fn a_delay_that_ends_with_nothing_to_say_is_silent() {
        let mut owed = Acknowledgement::new(at(0));
        owed.on_timeout(at(0));
        assert!(!owed.is_due());
    }

    #[test]
    fn the_peers_pace_is_that_of_the_last_round_trip_or_of_this_one() {
        let (rtt, seq) = (Duration::from_millis(10), |n: u64| Seq::new(1_000 + n));
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
