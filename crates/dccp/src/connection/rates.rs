//! Glue between a connection and rate-based congestion control, CCID 3 and 4.

use timeous_cm::{Manager, Update};
use timeous_core::{Duration, Ecn, Instant};

use super::options::Heard;
use super::sequence::MAX_SEQUENCE_WINDOW;
use super::{Connection, Timer, told};
use crate::ack_vector::{PacketState, Report};
use crate::ccid::Ccid;
use crate::ccid3::{self, Acknowledged, Arrived, Receiver, covered};
use crate::features::{Feature, Location};
use crate::packet::{Header, Packet, PacketType};
use crate::seq::Seq;

/// Minimum wait for feedback before a timeout, in round trips (RFC 4342 §5).
const FEEDBACK_ROUND_TRIPS: u64 = 4;

impl Connection {
    /// Asks the peer for Ack Vectors as our CCID needs them, unless it has offered them.
    pub(super) fn ask_for_acks(&mut self) {
        let settled = |feature, at| self.features.is_settled(feature, at);
        if !settled(Feature::Ccid, Location::Local) || !settled(Feature::SendAckVector, Location::Remote) {
            return;
        }
        let is_rate_based = self.ccid().is_rate_based();
        if self.features.remote(Feature::SendAckVector) == 0 && !(is_rate_based && self.asked_for_vectors) {
            self.asked_for_vectors = true;
            let values: &[u64] = if is_rate_based { &[1, 0] } else { &[1] };
            self.features
                .propose(Feature::SendAckVector, Location::Remote, values, !is_rate_based)
                .expect("a legal value of a negotiable feature");
        }
    }

    /// Sets up the receiver for the negotiated congestion control of the peer's data.
    pub(super) fn mind_peer_ccid(&mut self, origin: Seq) {
        let has = match &self.rate_receiver {
            None => Ccid::Ccid2,
            Some(receiver) if receiver.is_for_small_packets() => Ccid::Ccid4,
            Some(_) => Ccid::Ccid3,
        };
        let ccid = self.peer_ccid();
        if has != ccid {
            let receiver = Receiver::new(ccid == Ccid::Ccid4, origin).telling(self.config.reports);
            self.rate_receiver = ccid.is_rate_based().then(|| Box::new(receiver));
            self.timers.stop(Timer::AckDelay);
        }
    }

    /// Sets up the sender for the negotiated congestion control of our data, once data may flow.
    pub(super) fn mind_ccid(&mut self, now: Instant, cm: &mut Manager) {
        let has = match &self.rate_sender {
            None => Ccid::Ccid2,
            Some(sender) if sender.is_for_small_packets() => Ccid::Ccid4,
            Some(_) => Ccid::Ccid3,
        };
        let ccid = self.ccid();
        if has == ccid || self.flow.is_none() || !self.features.is_settled(Feature::Ccid, Location::Local) {
            return;
        }
        self.begin_anew(now, cm);
        self.rate_sender = None;
        self.timers.stop(Timer::NoFeedback);
        if !ccid.is_rate_based() {
            return;
        }
        let (payload, largest) = (self.config.max_payload() as u64, self.config.mps as u64);
        let mut sender = ccid3::Sender::new(ccid == Ccid::Ccid4, payload, largest);
        let handshake = self.handshake_rtt();
        if let Some(rtt) = handshake {
            sender.on_handshake(now, rtt);
        }
        self.rate_sender = Some(Box::new(sender));
        self.steer(now, cm);
        if let (Some(rtt), Some(flow)) = (handshake, self.flow) {
            told(cm.update(now, flow, Update { rtt: Some(rtt), ..Update::default() }));
            self.rtt = rtt;
        }
    }

    /// Gives up the packets in flight: they were sent under another congestion control.
    fn begin_anew(&mut self, now: Instant, cm: &mut Manager) {
        let feedback = self.sender.give_up();
        self.report_fates(&feedback.fates);
        let verdicts = self.protection.covered.give_up();
        self.report_verdicts(&verdicts);
        if (self.rate_sender.is_some() || !feedback.fates.is_empty())
            && let Some(flow) = self.flow
        {
            told(cm.close(now, flow));
            self.flow = Some(self.open_flow(cm));
        }
    }

    /// Sets the Congestion Manager's rate from the sender.
    pub(super) fn steer(&mut self, now: Instant, cm: &mut Manager) {
        if let (Some(sender), Some(flow)) = (&self.rate_sender, self.flow) {
            told(cm.steer(now, flow, sender.steering()));
        }
        self.watch_rate();
    }

    /// Sets the nofeedback timer as the rate sender asks.
    pub(super) fn watch_rate(&mut self) {
        match self.rate_sender.as_ref().and_then(|sender| sender.poll_timeout()) {
            Some(at) => self.timers.set(Timer::NoFeedback, at),
            None => self.timers.stop(Timer::NoFeedback),
        }
    }

    /// Handles the nofeedback timer's expiry.
    pub(super) fn rate_timeout(&mut self, now: Instant, cm: &mut Manager) {
        if let Some(sender) = &mut self.rate_sender {
            sender.on_timeout(now);
            self.steer(now, cm);
        }
    }

    /// Minimum feedback timeout with a rate sender, whose feedback comes once a round trip; else zero.
    pub(super) fn feedback_patience(&self) -> Duration {
        let rtt = self.rate_sender.as_ref().map(|sender| sender.rtt().unwrap_or(self.rtt));
        rtt.map_or(Duration::ZERO, |rtt| rtt * FEEDBACK_ROUND_TRIPS)
    }

    /// Passes feedback to the rate sender; returns the received or missing packets it tells of, none if it is not
    /// believed.
    pub(super) fn heed_feedback(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        ack: Seq,
        heard: &Heard,
        vector: Vec<Report>,
    ) -> Vec<Report> {
        let Some(sender) = &mut self.rate_sender else { return vector };
        let is_missing = |report: &&Report| report.state == PacketState::Missing;
        let missing: Vec<_> = vector.iter().filter(is_missing).map(|report| (report.newest, report.oldest)).collect();
        let feedback = &heard.feedback;
        sender.on_ack(now, ack);
        let mut is_believed = false;
        if feedback.is_feedback() {
            let acknowledged =
                Acknowledged { ack, iss: self.sequence.iss(), elapsed: heard.elapsed, missing: &missing };
            match sender.on_feedback(now, &acknowledged, feedback) {
                Ok(is_new) => is_believed = is_new,
                Err(why) => {
                    self.statistics.implausible += 1;
                    self.implausible = Some(why);
                }
            }
            self.statistics.rates_capped = sender.capped();
            self.steer(now, cm);
        }
        if !vector.is_empty() {
            vector
        } else if is_believed && feedback.has_intervals() {
            covered(ack, feedback)
        } else if is_believed {
            // Linux reports only the loss event rate: every packet up to its acknowledgement counts as received.
            vec![Report { newest: ack, oldest: ack - MAX_SEQUENCE_WINDOW, state: PacketState::Received }]
        } else {
            Vec::new()
        }
    }

    /// Passes a received packet to the rate receiver.
    pub(super) fn note_arrival(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        header: &Header,
        ecn: Ecn,
        ndp_count: Option<u64>,
    ) {
        let Some(receiver) = &mut self.rate_receiver else { return };
        let carries_data = matches!(header.packet_type(), PacketType::Data | PacketType::DataAck);
        let arrived = Arrived {
            seq: header.seq,
            data: carries_data.then_some((header.ccval, packet.payload.len() as u64)),
            marked: ecn == Ecn::Ce,
            ndp_count: ndp_count.unwrap_or(0),
            rtt: self.rtt,
        };
        receiver.on_packet(now, arrived);
        self.watch_feedback();
    }

    /// Sets the feedback timer as the rate receiver asks.
    pub(super) fn watch_feedback(&mut self) {
        let Some(receiver) = &self.rate_receiver else { return };
        match receiver.poll_timeout() {
            Some(at) => self.timers.set(Timer::AckDelay, at),
            None => self.timers.stop(Timer::AckDelay),
        }
    }

    /// Whether an acknowledgement is due now.
    pub(super) fn owes_acknowledgement(&self) -> bool {
        self.receiver.is_due() || self.owes_feedback()
    }

    /// Whether CCID 3 or 4 feedback is due now.
    pub(super) fn owes_feedback(&self) -> bool {
        self.rate_receiver.as_ref().is_some_and(|receiver| receiver.is_due())
    }
}
