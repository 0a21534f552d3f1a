//! Congestion control of the data that this end sends, with CCID 2, 3 or 4, and limits that the receiver asks for.

use timeous_cm::{CmError, Destination, FlowId, Loss, Manager, Update};
use timeous_core::{Duration, Ecn, Instant, PathState};

use super::config::Config;
use super::events::{Event, Statistics};
use super::log::Log;
use super::negotiation::Negotiation;
use super::options::ReceivedOptions;
use super::round_trip::RoundTrip;
use super::sequence::MAX_SEQUENCE_WINDOW;
use super::timers::{Timer, TimerTable, backed_off};
use crate::ack_vector::{PacketState, Report, Reports};
use crate::ccid::Ccid;
use crate::ccid2::{self, AckRatio, Feedback, Late, PeerGaps, UnreportedPacket};
use crate::ccid3::{self, Acknowledged, Implausible, covered};
use crate::features::Feature;
use crate::options::DropBlock;
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
#[derive(Debug)]
pub(super) struct Congestion {
    /// Flow in the Congestion Manager, from the end of the handshake to the end of the connection.
    flow: Option<FlowId>,
    /// Packets in flight.
    sender: ccid2::Sender,
    ack_ratio: AckRatio,
    gaps: PeerGaps,
    window: DataWindow,
    /// Rate-based sender (CCID 3 and 4); `None` with CCID 2.
    rate_sender: Option<Box<ccid3::Sender>>,
    /// Reason why the last implausible feedback was rejected.
    implausible: Option<Implausible>,
    /// Consecutive timeouts without feedback (RFC 4341 §5).
    silences: u32,
    /// End of the period without growth, after a Slow Receiver option.
    level_until: Option<Instant>,
    /// Whether the peer's application no longer reads.
    is_peer_deaf: bool,
    /// Whether the peer refused data with partial checksum coverage: cover all from now on.
    covers_all: bool,
}

impl Congestion {
    pub(super) fn new() -> Self {
        Self {
            flow: None,
            sender: ccid2::Sender::new(),
            ack_ratio: AckRatio::new(),
            gaps: PeerGaps::default(),
            window: DataWindow::default(),
            rate_sender: None,
            implausible: None,
            silences: 0,
            level_until: None,
            is_peer_deaf: false,
            covers_all: false,
        }
    }

    /// Opens a flow in the Congestion Manager, with the configured controller.
    pub(super) fn open(&mut self, cm: &mut Manager, destination: Destination, config: &Config) {
        let flow = cm.open(destination, config.mps as u64);
        choose_controller(cm, flow, config);
        self.flow = Some(flow);
    }

    /// Returns the flow to the Congestion Manager.
    pub(super) fn close(&mut self, now: Instant, cm: &mut Manager) {
        if let Some(flow) = self.flow.take() {
            told(cm.close(now, flow));
        }
    }

    /// Moves the flow to another host.
    pub(super) fn redirect(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        destination: Destination,
        config: &Config,
        timers: &mut TimerTable,
    ) {
        if let Some(flow) = self.flow {
            told(cm.redirect(now, flow, destination));
            choose_controller(cm, flow, config);
            self.steer(now, cm, timers);
        }
    }

    pub(super) fn flow(&self) -> Option<FlowId> {
        self.flow
    }

    /// State of the path, once the flow is open.
    pub(super) fn path(&self, cm: &Manager) -> Option<PathState> {
        self.flow.and_then(|flow| told(cm.query(flow)))
    }

    /// Round-trip variation; zero while it is unknown.
    pub(super) fn rttvar(&self, cm: &Manager) -> Duration {
        self.path(cm).map_or(Duration::ZERO, |path| path.rttvar)
    }

    /// Whether the rate follows from receiver reports (CCID 3 and 4).
    pub(super) fn is_rate_based(&self) -> bool {
        self.rate_sender.is_some()
    }

    /// Congestion control in use.
    pub(super) fn ccid(&self) -> Ccid {
        match &self.rate_sender {
            None => Ccid::Ccid2,
            Some(sender) if sender.is_for_small_packets() => Ccid::Ccid4,
            Some(_) => Ccid::Ccid3,
        }
    }

    /// Sets up the sender for the negotiated congestion control, once no packets are in flight. `rtt`: the handshake's.
    pub(super) fn set_ccid(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        (ccid, rtt): (Ccid, Option<Duration>),
        config: &Config,
        timers: &mut TimerTable,
    ) {
        self.rate_sender = ccid.is_rate_based().then(|| {
            let (payload, largest) = (config.max_payload() as u64, config.mps as u64);
            let mut sender = ccid3::Sender::new(ccid == Ccid::Ccid4, payload, largest);
            if let Some(rtt) = rtt {
                sender.on_handshake(now, rtt);
            }
            Box::new(sender)
        });
        self.steer(now, cm, timers);
        if let (Some(rtt), Some(flow), true) = (rtt, self.flow, self.is_rate_based()) {
            told(cm.update(now, flow, Update { rtt: Some(rtt), ..Update::default() }));
        }
    }

    /// Loss event rate that the peer reports, with CCID 3 or 4.
    pub(super) fn loss_event_rate(&self) -> Option<f64> {
        self.rate_sender.as_ref().map(|sender| sender.loss_event_rate())
    }

    pub(super) fn implausible(&self) -> Option<Implausible> {
        self.implausible
    }

    /// Number of packets with data in flight.
    pub(super) fn outstanding(&self) -> usize {
        self.sender.outstanding()
    }

    /// Distance from the oldest to the newest packet in flight, in sequence numbers.
    pub(super) fn span(&self) -> u64 {
        self.sender.span()
    }

    /// Whether the peer accepts data at the moment.
    pub(super) fn is_welcome(&self, timers: &TimerTable) -> bool {
        !self.is_peer_deaf && !timers.is_set(Timer::Constraint)
    }

    /// Whether checksums have to cover all data.
    pub(super) fn covers_all(&self) -> bool {
        self.covers_all
    }

    /// Time until which a rate sender spaces the next packet.
    pub(super) fn waits_until(&self, now: Instant) -> Option<Instant> {
        self.rate_sender.as_ref().and_then(|sender| sender.waits_until(now))
    }

    /// Notes that the Congestion Manager grants no packet.
    pub(super) fn held_back(&mut self, now: Instant) {
        if let Some(sender) = &mut self.rate_sender {
            sender.held_back(now);
        }
    }

    /// Tells the Congestion Manager how many bytes left by its grant.
    pub(super) fn notify(&self, now: Instant, cm: &mut Manager, bytes: u64) {
        if let Some(flow) = self.flow {
            told(cm.notify(now, flow, bytes));
        }
    }

    /// Returns a grant that is not used, if there is one.
    pub(super) fn return_grant(&self, now: Instant, cm: &mut Manager) {
        if let Some(flow) = self.flow.filter(|&flow| cm.has_grant(flow)) {
            told(cm.notify(now, flow, 0));
        }
    }

    /// Window counter of a data packet sent now (RFC 4342 §8.1).
    pub(super) fn window_counter(&self, now: Instant) -> Option<u8> {
        self.rate_sender.as_ref().map(|sender| sender.window_counter(now))
    }

    /// Notes a sent packet with data, an ADU or parity: `len` bytes of data, `bytes` in all.
    pub(super) fn sent_data(
        &mut self,
        now: Instant,
        seq: Seq,
        token: Option<u64>,
        (len, bytes): (u64, u64),
        timers: &mut TimerTable,
    ) {
        self.sender.sent_data(now, seq, token, bytes);
        if let Some(sender) = &mut self.rate_sender {
            sender.sent_data(now, seq, len, bytes);
            self.watch_rate(timers);
        }
        self.window.on_data_sent(seq);
    }

    /// Notes a sent packet without data.
    pub(super) fn sent_other(&mut self, now: Instant, seq: Seq) {
        self.sender.sent_other(now, seq);
        if let Some(sender) = &mut self.rate_sender {
            sender.sent_other(now, seq);
        }
    }

    /// Notes a packet of the peer, to detect lost acknowledgements; `newest` is the greatest number before it.
    pub(super) fn on_peer_packet(&mut self, seq: Seq, newest: Seq, carries_data: bool, ecn: Ecn) {
        let is_lost = self.gaps.on_packet(seq, newest);
        if is_lost || ecn == Ecn::Ce && !carries_data {
            self.ack_ratio.on_lost_ack();
        }
    }

    /// Determines the fates of packets from an acknowledgement with these Ack Vectors.
    pub(super) fn on_ack<'a>(
        &mut self,
        now: Instant,
        (ack, iss): (Seq, Seq),
        options: &ReceivedOptions,
        dropped: &[DropBlock],
        mut reports: Reports<'a, impl Iterator<Item = &'a [u8]> + Clone>,
        statistics: &mut Statistics,
    ) -> Feedback {
        let elapsed = options.elapsed;
        if self.rate_sender.is_some() {
            let reports = self.rate_reports(now, (ack, iss), options, reports.collect(), statistics);
            return self.sender.on_ack(now, ack, elapsed, dropped, reports.into_iter());
        }
        match reports.next() {
            // Without an Ack Vector only the Acknowledgement Number itself is acknowledged.
            None => {
                let only = Report { newest: ack, oldest: ack, state: PacketState::Received };
                self.sender.on_ack(now, ack, elapsed, dropped, std::iter::once(only))
            }
            Some(first) => self.sender.on_ack(now, ack, elapsed, dropped, std::iter::once(first).chain(reports)),
        }
    }

    /// Passes feedback to the rate sender; returns the received or missing packets it tells of, none if it is not
    /// believed.
    fn rate_reports(
        &mut self,
        now: Instant,
        (ack, iss): (Seq, Seq),
        options: &ReceivedOptions,
        vector: Vec<Report>,
        statistics: &mut Statistics,
    ) -> Vec<Report> {
        let Some(sender) = &mut self.rate_sender else { return vector };
        let is_missing = |report: &&Report| report.state == PacketState::Missing;
        let missing: Vec<_> = vector.iter().filter(is_missing).map(|report| (report.newest, report.oldest)).collect();
        let feedback = &options.feedback;
        sender.on_ack(now, ack);
        let mut is_believed = false;
        if feedback.is_feedback() {
            let acknowledged = Acknowledged { ack, iss, elapsed: options.elapsed, missing: &missing };
            match sender.on_feedback(now, &acknowledged, feedback) {
                Ok(is_new) => is_believed = is_new,
                Err(why) => {
                    statistics.implausible += 1;
                    self.implausible = Some(why);
                }
            }
            statistics.rates_capped = sender.capped();
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

    /// Undoes a spurious timeout: the packets taken for lost were in flight. The source has had their fate already.
    pub(super) fn undo_timeout(&self, now: Instant, cm: &mut Manager, feedback: &mut Feedback) {
        let Late { bytes, is_spurious } = feedback.late;
        let Some(flow) = self.flow.filter(|_| is_spurious && self.rate_sender.is_none()) else { return };
        told(cm.undo_timeout(now, flow, bytes, bytes));
        feedback.acked += bytes;
    }

    /// Reports an acknowledgement's result to the Congestion Manager, and takes its round-trip time.
    pub(super) fn update(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        (feedback, lost_by): (&Feedback, Loss),
        grows_in_lossy_windows: bool,
        round_trip: &mut RoundTrip,
    ) {
        let Some(flow) = self.flow else { return };
        // A loss outweighs an ECN mark; both in one window are one congestion event (RFC 4341 §5).
        let loss = match (feedback.newest_lost, feedback.newest_marked) {
            (Some(lost), marked) => Some((lost_by, marked.map_or(lost, |marked| marked.max(lost)))),
            (None, Some(marked)) => Some((Loss::Ecn, marked)),
            (None, None) => None,
        };
        // After a timeout, slow start does the recovery (RFC 5681 §3.1).
        let congested = loss.is_some() && lost_by != Loss::Persistent;
        let recovering = self.sender.holds_window(congested) && !grows_in_lossy_windows;
        let update = Update {
            acked: feedback.acked,
            lost: feedback.lost,
            loss,
            rtt: feedback.rtt,
            overtaken_by: feedback.overtaken_by,
            recovering: recovering || self.level_until.is_some_and(|until| now < until),
            ..Update::default()
        };
        told(cm.update(now, flow, update));
        if let Some(srtt) = told(cm.query(flow)).and_then(|path| path.srtt) {
            round_trip.set(srtt);
        }
        if feedback.rtt.is_some() {
            round_trip.on_measured(now);
        }
    }

    /// "The HC-Sender SHOULD NOT increase its sending rate for approximately one round-trip time after seeing a packet
    /// with a Slow Receiver option" (RFC 4340 §11.6), and "MUST exit slow start" (RFC 4341 §5.2).
    pub(super) fn on_slow_receiver(&mut self, now: Instant, cm: &mut Manager, rtt: Duration) {
        self.level_until = Some(now + rtt);
        if let Some(flow) = self.flow {
            told(cm.update(now, flow, Update { slow_receiver: true, ..Update::default() }));
        }
    }

    /// Responds to Slow Receiver with CCID 3 and 4, and to `overflowed` packets dropped at the peer's receive buffer:
    /// limits the rate by the receive rate, after the feedback that came along (RFC 4342 §5.2).
    pub(super) fn limit_rate(&mut self, now: Instant, cm: &mut Manager, overflowed: u64, timers: &mut TimerTable) {
        if let Some(sender) = &mut self.rate_sender {
            sender.on_slow_receiver(now, overflowed);
            self.steer(now, cm, timers);
        }
    }

    /// Responds to data dropped at the peer for reasons other than congestion (RFC 4340 §11.7.2).
    pub(super) fn on_drops(
        &mut self,
        now: Instant,
        feedback: &Feedback,
        rtt: Duration,
        timers: &mut TimerTable,
        log: &mut Log,
    ) {
        if feedback.not_listening && !self.is_peer_deaf {
            // "it SHOULD NOT send more data".
            self.is_peer_deaf = true;
            log.push(Event::NotListening);
        }
        if feedback.constrained {
            // "SHOULD NOT send data until it believes the protocol constraint no longer applies": our checksum may have
            // covered too little, which is corrected, or data came too early, which a round trip resolves.
            self.covers_all = true;
            timers.set(Timer::Constraint, now + rtt);
        }
    }

    /// Notes that feedback has come.
    pub(super) fn end_silence(&mut self) {
        self.silences = 0;
    }

    /// Adapts the Ack Ratio, once per window of data (RFC 4341 §6.1.2). Waits while another feature is being
    /// negotiated: a further Change would void the answer on its way.
    pub(super) fn adapt_ack_ratio(&mut self, ack: Seq, negotiation: &mut Negotiation) {
        if let Some(data) = self.window.end(ack) {
            self.ack_ratio.on_window(data);
        }
        let (ratio, features) = (self.ack_ratio.ratio(), negotiation.features());
        if ratio != features.local(Feature::AckRatio) && !features.is_negotiating() {
            negotiation.announce(Feature::AckRatio, ratio);
        }
    }

    /// Oldest packet in flight that was not reported as overdue.
    pub(super) fn first_untold(&mut self) -> Option<UnreportedPacket<'_>> {
        self.sender.first_untold()
    }

    /// Declares packets lost that later ones passed `patience` ago. With CCID 3 and 4 the receiver reports losses itself
    /// (RFC 4342 §6).
    pub(super) fn declare_passed(&mut self, now: Instant, patience: Duration) -> Feedback {
        self.sender.declare_passed(now, patience)
    }

    /// Time at which the oldest packet in flight was passed by a later one.
    pub(super) fn passed(&self) -> Option<Instant> {
        self.sender.passed()
    }

    /// Whether probes beyond the window, sent for an acknowledgement overdue by `patience`, reveal losses sooner than the
    /// timeout. Not after a timeout, which has probes of its own.
    pub(super) fn may_probe(&self, cm: &Manager, patience: Duration, rtt: Duration) -> bool {
        let flow = self.flow.filter(|_| self.rate_sender.is_none() && self.silences == 0);
        flow.and_then(|flow| told(cm.timeout(flow))).is_some_and(|timeout| patience + rtt <= timeout)
    }

    /// Lets probes leave beyond the window.
    pub(super) fn probe(&self, now: Instant, cm: &mut Manager) {
        if let Some(flow) = self.flow {
            told(cm.probe(now, flow, PROBES));
        }
    }

    /// Gives up the packets in flight.
    pub(super) fn give_up(&mut self) -> Feedback {
        self.sender.give_up()
    }

    /// Handles a feedback timeout with data in flight: all of them are lost.
    pub(super) fn time_out(&mut self, now: Instant, patience: Duration) -> Feedback {
        self.ack_ratio.on_timeout(self.sender.outstanding());
        self.sender.time_out(now, patience)
    }

    /// Counts a feedback timeout. A rate sender reduces its rate itself; backoff would delay packets that may still
    /// leave.
    pub(super) fn count_silence(&mut self, had_data: bool) {
        if self.rate_sender.is_none() || !had_data {
            self.silences += 1;
        }
    }

    /// Restarts the feedback timer, with exponential backoff as in TCP except for the first few timeouts.
    pub(super) fn set_feedback_timer(
        &self,
        now: Instant,
        cm: &Manager,
        round_trip: &RoundTrip,
        timers: &mut TimerTable,
    ) {
        let Some(timeout) = self.flow.and_then(|flow| told(cm.timeout(flow))) else { return };
        // Feedback to a rate sender comes once a round trip.
        let rtt = self.rate_sender.as_ref().map(|sender| sender.rtt().unwrap_or(round_trip.rtt()));
        let patience = rtt.map_or(Duration::ZERO, |rtt| rtt * FEEDBACK_ROUND_TRIPS);
        let timeout = timeout.max(patience).max(round_trip.least_timeout());
        let has_round_trips = self.path(cm).is_some_and(|path| path.srtt.is_some());
        let steady = if has_round_trips { STEADY_TIMEOUTS } else { 0 };
        let doubled = self.silences.saturating_sub(steady);
        // Round-trip samples exclude the acknowledgement delay that the peer reports, so it is added here.
        timers.set(Timer::Feedback, now + backed_off(timeout + round_trip.peer_delay(), doubled));
    }

    /// Handles the nofeedback timer's expiry.
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

    /// Sets the nofeedback timer as the rate sender asks.
    fn watch_rate(&self, timers: &mut TimerTable) {
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

/// A window of data, from its first packet until that is acknowledged (RFC 4341 §6.1.2).
#[derive(Clone, Copy, Debug, Default)]
struct DataWindow {
    /// First data packet of the window.
    start: Option<Seq>,
    /// Data packets sent in the window.
    data: u64,
}

impl DataWindow {
    fn on_data_sent(&mut self, seq: Seq) {
        self.start.get_or_insert(seq);
        self.data += 1;
    }

    /// Ends the window if `ack` reaches it: returns its number of data packets, and the next one begins.
    fn end(&mut self, ack: Seq) -> Option<u64> {
        self.start.filter(|&start| !ack.is_before(start))?;
        Some(std::mem::take(self).data)
    }
}
