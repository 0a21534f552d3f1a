//! Congestion control of the data that this end sends, with CCID 2, 3 or 4, and limits that the receiver asks for.

use timeous_cm::{CmError, Departure, Destination, FlowId, Loss, Manager, Observed, Update};
use timeous_core::{Arrived, Duration, Ecn, Instant, PathState, RateRange};

use super::config::Config;
use super::events::Event;
use super::incoming::Incoming;
use super::log::Log;
use super::negotiation::Negotiation;
use super::round_trip::RoundTrip;
use super::sequence::MAX_SEQUENCE_WINDOW;
use super::timers::{Timer, TimerTable, backed_off};
use crate::ack_vector::{PacketState, Report, Reports, vectors_of};
use crate::ccid::Ccid;
use crate::ccid2::{self, AckRatio, Feedback, Late, NewlyAcked, PeerGaps};
use crate::ccid3::{self, Acknowledged, Implausible, covered};
use crate::features::Feature;
use crate::options::{DropBlock, Opt, drop_blocks};
use crate::seq::Seq;

/// Minimum wait for feedback before a timeout, in round trips (RFC 4342 §5).
const FEEDBACK_ROUND_TRIPS: u64 = 4;
/// Consecutive timeouts without exponential backoff, once the path has a round-trip estimate, as Linux does for thin
/// streams (`tcp_thin_linear_timeouts`; docs/design/dccp.md). With a lower value, a burst of losses that takes the
/// probes one by one silences a stream for many times its deadline.
const STEADY_TIMEOUTS: u32 = 6;
/// Probe packets beyond the window when an acknowledgement is overdue (RFC 9002 §6.2.4, docs/decisions/probes.md). A
/// higher value ends bursts of losses sooner, and adds load.
const PROBES: u32 = 2;

/// Congestion control of one connection's data.
#[derive(Debug, Default)]
pub(super) struct Congestion {
    /// Flow in the Congestion Manager, from the end of the handshake to the end of the connection.
    flow: Option<FlowId>,
    /// Largest packet that the Congestion Manager knows of, in bytes.
    known_mtu: u64,
    in_flight: ccid2::Sender,
    /// Place of the last data packet in the path's model.
    departure: Departure,
    ack_ratio: AckRatio,
    gaps: PeerGaps,
    /// Rate-based sender (CCID 3 and 4); `None` with CCID 2.
    rate_sender: Option<Box<ccid3::Sender>>,
    /// Reason why the last implausible feedback was rejected.
    implausible: Option<Implausible>,
    /// Consecutive timeouts without feedback (RFC 4341 §5).
    silences: u32,
    /// Time of the last probe beyond the congestion window.
    probed_at: Option<Instant>,
    /// End of the period without growth, after a Slow Receiver option.
    level_until: Option<Instant>,
    /// Whether the peer's application no longer reads.
    is_peer_deaf: bool,
    /// Whether the peer refused data with partial checksum coverage: cover all from now on.
    covers_all: bool,
}

impl Congestion {
    /// Opens a flow in the Congestion Manager, with the configured controller.
    pub(super) fn open(&mut self, cm: &mut Manager, destination: Destination, config: &Config) {
        self.known_mtu = config.mps as u64;
        let flow = cm.open(destination, self.known_mtu);
        choose_controller(cm, flow, config);
        self.flow = Some(flow);
    }

    pub(super) fn close(&mut self, now: Instant, cm: &mut Manager) {
        if let Some(flow) = self.flow.take() {
            told(cm.close(now, flow));
        }
    }

    pub(super) fn redirect(&self, now: Instant, cm: &mut Manager, destination: Destination, config: &Config) {
        if let Some(flow) = self.flow {
            told(cm.redirect(now, flow, destination));
            choose_controller(cm, flow, config);
        }
    }

    pub(super) fn flow(&self) -> Option<FlowId> {
        self.flow
    }

    pub(super) fn path(&self, cm: &Manager) -> Option<PathState> {
        self.flow.and_then(|flow| told(cm.query(flow)))
    }

    /// Round-trip variation; zero while it is unknown.
    pub(super) fn rttvar(&self, cm: &Manager) -> Duration {
        self.path(cm).map_or(Duration::ZERO, |path| path.rttvar)
    }

    pub(super) fn ccid(&self) -> Ccid {
        self.rate_sender.as_ref().map_or(Ccid::Ccid2, |sender| sender.ccid())
    }

    /// Sets up the sender for the negotiated congestion control. `rtt`: the handshake's.
    pub(super) fn set_ccid(&mut self, now: Instant, ccid: Ccid, rtt: Option<Duration>, config: &Config) {
        self.rate_sender = ccid.is_rate_based().then(|| {
            let (payload, largest) = (config.max_payload() as u64, config.mps as u64);
            let mut sender = ccid3::Sender::new(ccid == Ccid::Ccid4, payload, largest);
            if let Some(rtt) = rtt {
                sender.on_handshake(now, rtt);
            }
            Box::new(sender)
        });
    }

    pub(super) fn tell(&self, now: Instant, cm: &mut Manager, update: Update) {
        if let Some(flow) = self.flow {
            told(cm.update(now, flow, update));
        }
    }

    pub(super) fn rate_sender(&self) -> Option<&ccid3::Sender> {
        self.rate_sender.as_deref()
    }

    pub(super) fn implausible(&self) -> Option<Implausible> {
        self.implausible
    }

    pub(super) fn in_flight(&self) -> &ccid2::Sender {
        &self.in_flight
    }

    pub(super) fn in_flight_mut(&mut self) -> &mut ccid2::Sender {
        &mut self.in_flight
    }

    pub(super) fn is_welcome(&self, timers: &TimerTable) -> bool {
        !self.is_peer_deaf && !timers.is_set(Timer::Constraint)
    }

    pub(super) fn covers_all(&self) -> bool {
        self.covers_all
    }

    pub(super) fn held_back(&mut self, now: Instant) {
        if let Some(sender) = &mut self.rate_sender {
            sender.held_back(now);
        }
    }

    /// Tells the Congestion Manager how many bytes left by its grant.
    pub(super) fn notify(&mut self, now: Instant, cm: &mut Manager, bytes: u64) {
        if let Some(flow) = self.flow {
            if bytes > self.known_mtu {
                self.known_mtu = bytes;
                told(cm.raise_mtu(flow, bytes));
            }
            told(cm.notify(now, flow, bytes));
            if bytes > 0 {
                self.departure = told(cm.departure(flow)).unwrap_or_default();
            }
        }
    }

    /// Notes a sent packet with data, an ADU or parity: bytes of data, and in all.
    pub(super) fn sent_data(&mut self, now: Instant, seq: Seq, token: Option<u64>, (len, bytes): (u64, u64)) {
        self.in_flight.sent_data(now, seq, token, (bytes, self.departure));
        if let Some(sender) = &mut self.rate_sender {
            sender.sent_data(now, seq, len, bytes);
        }
        self.ack_ratio.on_data_sent(seq);
    }

    pub(super) fn sent_other(&mut self, now: Instant, seq: Seq) {
        self.in_flight.sent_other(now, seq);
        if let Some(sender) = &mut self.rate_sender {
            sender.sent_other(now, seq);
        }
    }

    /// Notes a packet of the peer, to detect lost acknowledgements; `newest` is the greatest number known before it.
    pub(super) fn on_peer_packet(&mut self, incoming: &Incoming<'_>, newest: Seq) {
        let is_lost = self.gaps.on_packet(incoming.header.seq, newest);
        if is_lost || incoming.ecn == Ecn::Ce && !incoming.header.packet_type().carries_data() {
            self.ack_ratio.on_lost_ack();
        }
    }

    /// Determines the fates of packets from an acknowledgement. With a rate sender they follow from its feedback where
    /// there are no Ack Vectors, if it is believed. `None`: Ack Vectors that cover packets never sent are ignored, as
    /// RFC 4340 §11.4 allows.
    pub(super) fn on_ack(&mut self, iss: Seq, incoming: &Incoming<'_>, log: &mut Log) -> Option<Feedback> {
        let (packet, feedback) = (incoming.packet, &incoming.options.feedback);
        // What the round trip spent in the hosts, and not on the path.
        let elapsed = incoming.options.elapsed + incoming.waited;
        let (now, ack) = (incoming.at, incoming.header.ack()?);
        let drops = packet.options().flatten().filter_map(|item| match item.opt {
            Opt::DataDropped(blocks) => Some(blocks),
            _ => None,
        });
        let dropped: Vec<DropBlock> = drop_blocks(ack, drops).filter(|block| block.code.is_some()).collect();
        let mut reports = Reports::new(ack, iss, vectors_of(packet.options())).ok()?;
        let Some(sender) = &mut self.rate_sender else {
            // Without an Ack Vector only the Acknowledgement Number itself is acknowledged.
            let only = Report { newest: ack, oldest: ack, state: PacketState::Received };
            let first = reports.next().unwrap_or(only);
            return Some(self.in_flight.on_ack(now, ack, elapsed, &dropped, std::iter::once(first).chain(reports)));
        };
        let mut reports: Vec<Report> = reports.collect();
        let is_missing = |report: &&Report| report.state == PacketState::Missing;
        let missing: Vec<_> = reports.iter().filter(is_missing).map(|report| (report.newest, report.oldest)).collect();
        sender.on_ack(now, ack);
        if feedback.is_feedback() {
            let acknowledged = Acknowledged { ack, iss, elapsed, missing: &missing };
            match sender.on_feedback(now, &acknowledged, feedback) {
                Ok(true) if !reports.is_empty() => {}
                Ok(true) if feedback.has_intervals() => reports = covered(ack, feedback),
                Ok(true) => {
                    // Linux reports only the loss event rate: every packet up to its acknowledgement has arrived.
                    let oldest = ack - MAX_SEQUENCE_WINDOW;
                    reports.push(Report { newest: ack, oldest, state: PacketState::Received });
                }
                Ok(false) => {}
                Err(why) => {
                    log.statistics.implausible += 1;
                    self.implausible = Some(why);
                }
            }
            log.statistics.rates_capped = sender.capped();
        }
        Some(self.in_flight.on_ack(now, ack, elapsed, &dropped, reports.into_iter()))
    }

    /// Notes that the path has swallowed packets up to `last`, from `first` on or from the one after the newest that has arrived.
    pub(super) fn on_black_hole(&mut self, first: Option<Seq>, last: Seq) {
        if let (Some(sender), Some(newest)) = (&mut self.rate_sender, self.in_flight.newest_arrived()) {
            let behind = newest.next();
            sender.swallowed(first.filter(|first| first.is_before(behind)).unwrap_or(behind), last);
        }
    }

    /// Undoes a spurious timeout: the packets taken for lost were in flight. The source has had their fate already.
    pub(super) fn undo_timeout(&self, now: Instant, cm: &mut Manager, feedback: &mut Feedback) {
        let Late { bytes, is_spurious } = feedback.late;
        let Some(flow) = self.flow.filter(|_| is_spurious && self.rate_sender.is_none()) else { return };
        told(cm.undo_timeout(now, flow, bytes, bytes));
        feedback.acked += bytes;
    }

    /// Reports an acknowledgement's result to the Congestion Manager, and takes its round-trip time. Returns the arrival of the
    /// packet in the Acknowledgement Number, if it is newly acknowledged.
    pub(super) fn update(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        (feedback, lost_by): (&Feedback, Loss),
        grows_in_lossy_windows: bool,
        round_trip: &mut RoundTrip,
    ) -> Option<(Seq, Arrived)> {
        let flow = self.flow?;
        // A loss outweighs an ECN mark; both in one window are one congestion event (RFC 4341 §5).
        let loss = match (feedback.newest_lost, feedback.newest_marked) {
            (Some(lost), marked) => Some((lost_by, marked.map_or(lost, |marked| marked.max(lost)))),
            (None, Some(marked)) => Some((Loss::Ecn, marked)),
            (None, None) => None,
        };
        // After a timeout, slow start does the recovery (RFC 5681 §3.1).
        let congested = loss.is_some() && lost_by != Loss::Persistent;
        let recovering = self.in_flight.holds_window(congested) && !grows_in_lossy_windows;
        let update = Update {
            acked: feedback.acked,
            lost: feedback.lost,
            loss,
            rtt: feedback.rtt,
            path_rtt: feedback.path_rtt,
            overtaken_by: feedback.overtaken_by,
            recovering: recovering || self.level_until.is_some_and(|until| now < until),
            ..Update::default()
        };
        told(cm.update(now, flow, update));
        let arrived = feedback.observed.and_then(|NewlyAcked { seq, departure, answered }| {
            let arrived = told(cm.observe(flow, Observed { departure, answered, uncertain: Duration::ZERO }))??;
            Some((seq, arrived))
        });
        let srtt = told(cm.query(flow)).and_then(|path| path.srtt);
        round_trip.on_update(srtt, feedback.rtt.map(|_| now));
        arrived
    }

    /// "The HC-Sender SHOULD NOT increase its sending rate for approximately one round-trip time after seeing a packet
    /// with a Slow Receiver option" (RFC 4340 §11.6), and "MUST exit slow start" (RFC 4341 §5.2).
    pub(super) fn on_slow_receiver(&mut self, now: Instant, cm: &mut Manager, rtt: Duration) {
        self.level_until = Some(now + rtt);
        self.tell(now, cm, Update { slow_receiver: true, ..Update::default() });
    }

    /// Responds to Slow Receiver with CCID 3 and 4, and to `overflowed` packets dropped at the peer's receive buffer:
    /// limits the rate by the receive rate, after the feedback that came along (RFC 4342 §5.2).
    pub(super) fn limit_rate(&mut self, now: Instant, cm: &mut Manager, overflowed: u64, timers: &mut TimerTable) {
        if let Some(sender) = &mut self.rate_sender {
            sender.on_slow_receiver(now, overflowed);
            self.steer(now, cm, timers);
        }
    }

    /// Responds to feedback, and to the reasons for which the peer dropped data (RFC 4340 §11.7.2); `until`: a round
    /// trip from now.
    pub(super) fn on_feedback(&mut self, feedback: &Feedback, until: Instant, timers: &mut TimerTable, log: &mut Log) {
        self.silences = 0;
        if feedback.not_listening && !self.is_peer_deaf {
            // "it SHOULD NOT send more data".
            self.is_peer_deaf = true;
            log.push(Event::NotListening);
        }
        if feedback.constrained {
            // "SHOULD NOT send data until it believes the protocol constraint no longer applies": our checksum may have
            // covered too little, which is corrected, or data came too early, which a round trip resolves.
            self.covers_all = true;
            timers.set(Timer::Constraint, until);
        }
    }

    /// Adapts the Ack Ratio, once per window of data (RFC 4341 §6.1.2). Waits while another feature is being
    /// negotiated: a further Change would void the answer on its way.
    pub(super) fn adapt_ack_ratio(&mut self, ack: Seq, negotiation: &mut Negotiation) {
        let (ratio, features) = (self.ack_ratio.on_ack(ack), negotiation.features());
        if ratio != features.local(Feature::AckRatio) && !features.is_negotiating() {
            negotiation.announce(Feature::AckRatio, ratio);
        }
    }

    /// Lets probes leave beyond the window: an acknowledgement is overdue by `patience` and no later one has come.
    /// Their feedback reveals losses a round trip from now, if that is sooner than the timeout. At most once per
    /// `patience`, and not after a timeout, which has probes of its own.
    pub(super) fn probe(&mut self, now: Instant, cm: &mut Manager, patience: Duration, rtt: Duration) {
        let Some(flow) = self.flow.filter(|_| self.rate_sender.is_none() && self.silences == 0) else { return };
        let is_sooner = told(cm.timeout(flow)).is_some_and(|timeout| patience + rtt <= timeout);
        if is_sooner && self.probed_at.is_none_or(|at| now - at >= patience) {
            self.probed_at = Some(now);
            told(cm.probe(now, flow, PROBES));
        }
    }

    /// Handles a feedback timeout with data in flight: all of them are lost.
    pub(super) fn time_out(&mut self, now: Instant, patience: Duration) -> Feedback {
        self.ack_ratio.on_timeout(self.in_flight.outstanding());
        self.in_flight.time_out(now, patience)
    }

    /// Counts a feedback timeout. A rate sender reduces its rate itself; backoff would delay packets that may still
    /// leave.
    pub(super) fn count_silence(&mut self, had_data: bool) {
        if self.rate_sender.is_none() || !had_data {
            self.silences += 1;
        }
    }

    /// Restarts the feedback timer, with exponential backoff as in TCP except for the first few timeouts.
    pub(super) fn set_feedback_timer(&self, now: Instant, cm: &Manager, path: &RoundTrip, timers: &mut TimerTable) {
        let Some(timeout) = self.flow.and_then(|flow| told(cm.timeout(flow))) else { return };
        // Feedback to a rate sender comes once a round trip.
        let rtt = self.rate_sender.as_ref().map(|sender| sender.rtt().unwrap_or(path.rtt()));
        let timeout = path.feedback_timeout(timeout.max(rtt.map_or(Duration::ZERO, |rtt| rtt * FEEDBACK_ROUND_TRIPS)));
        let has_round_trips = self.path(cm).is_some_and(|path| path.srtt.is_some());
        let steady = if has_round_trips { STEADY_TIMEOUTS } else { 0 };
        timers.set(Timer::Feedback, now + backed_off(timeout, self.silences.saturating_sub(steady)));
    }

    pub(super) fn on_rate_timeout(&mut self, now: Instant, cm: &mut Manager, timers: &mut TimerTable) {
        if let Some(sender) = &mut self.rate_sender {
            sender.on_timeout(now);
            self.steer(now, cm, timers);
        }
    }

    /// Sets the Congestion Manager's rate from the rate sender.
    pub(super) fn steer(&self, now: Instant, cm: &mut Manager, timers: &mut TimerTable) {
        if let (Some(sender), Some(flow)) = (&self.rate_sender, self.flow) {
            told(cm.steer(now, flow, sender.steering()));
        }
        self.watch_rate(timers);
    }

    /// Keeps a rate sender within the range that the stream asks for.
    pub(super) fn set_range(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        range: Option<RateRange>,
        timers: &mut TimerTable,
    ) {
        if self.rate_sender.as_mut().is_some_and(|sender| sender.set_range(range)) {
            self.steer(now, cm, timers);
        }
    }

    /// Sets the nofeedback timer as the rate sender asks.
    pub(super) fn watch_rate(&self, timers: &mut TimerTable) {
        timers.update(Timer::NoFeedback, self.rate_sender.as_ref().and_then(|sender| sender.poll_timeout()));
    }
}

fn choose_controller(cm: &mut Manager, flow: FlowId, config: &Config) {
    if let Some(kind) = config.controller.filter(|kind| cm.controller_name(flow) != Ok(kind.name())) {
        told(cm.set_controller(flow, kind));
    }
}

/// Unwraps a result of the Congestion Manager: it fails only if the driver has swapped managers.
fn told<T>(result: Result<T, CmError>) -> Option<T> {
    debug_assert!(result.is_ok(), "{:?}", result.err());
    result.ok()
}
