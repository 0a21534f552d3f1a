//! Shared parts of the Congestion Manager's experiments: its clients over UDP, at both ends.

use std::any::Any;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use timeous::cm::{Ack, Acks, Feedback};
use timeous::core::{Duration, Ecn, Instant, PathState};
use timeous_cm::{ClientEvent, ClientId, FlowId, FlowSpec, Manager, Update};
use timeous_host::Agent;
use timeous_net::sim::{self, Protocol};

/// Bytes of a packet's header: number, creation time, tag.
pub(crate) const HEADER: usize = 8 + 8 + 8;
/// Bytes of the IP and UDP headers that each packet has on a link.
pub(crate) const OVERHEAD: usize = 20 + 8;

/// Packet of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    /// Creation time of its content.
    pub(crate) made: Instant,
    /// Free tag of the application.
    pub(crate) tag: u64,
    /// Length in bytes, the header included.
    pub(crate) len: usize,
}

impl Packet {
    /// Encodes it as a datagram.
    pub(crate) fn encode(&self, number: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len.max(HEADER));
        for word in [number, self.made.as_nanos(), self.tag] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.resize(self.len.max(HEADER), 0);
        bytes
    }

    /// Decodes a datagram into its number and the packet.
    fn decode(bytes: &[u8]) -> Option<(u64, Self)> {
        let word = |n: usize| Some(u64::from_be_bytes(*bytes.get(8 * n..)?.first_chunk()?));
        Some((word(0)?, Self { made: Instant::from_nanos(word(1)?), tag: word(2)?, len: bytes.len() }))
    }
}

/// Endless packets of one length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Greedy {
    pub(crate) len: usize,
}

impl Application for Greedy {
    fn run(&mut self, _: Instant, flow: &mut Flow<'_>) {
        if !flow.is_waiting() {
            flow.request();
        }
    }

    fn granted(&mut self, now: Instant, _: &PathState) -> Option<Packet> {
        Some(Packet { made: now, tag: 0, len: self.len })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

/// Message for calls that the manager never refuses in an experiment.
const TRUE: &str = "the flow is open, and its feedback is true";

/// Application that uses a flow.
pub(crate) trait Application: Any + Send {
    /// Runs when the flow opens, at [`poll_timeout`](Self::poll_timeout), and after feedback.
    fn run(&mut self, now: Instant, flow: &mut Flow<'_>);

    /// Returns the packet to send with a grant (`cmapp_send`), or none.
    fn granted(&mut self, now: Instant, path: &PathState) -> Option<Packet>;

    /// Handles a rate that has crossed a threshold (`cmapp_update`).
    fn changed(&mut self, now: Instant, path: &PathState) {
        let _ = (now, path);
    }

    /// Returns when it wants to run next.
    fn poll_timeout(&self) -> Option<Instant>;
}

/// Flow, as its application sees it.
pub(crate) struct Flow<'a> {
    now: Instant,
    cm: &'a mut Manager,
    id: FlowId,
}

impl Flow<'_> {
    /// Requests the right to send a packet (`cm_request`).
    pub(crate) fn request(&mut self) {
        self.cm.request(self.now, self.id).expect(TRUE);
    }

    /// Returns whether a request is pending or a grant unused.
    pub(crate) fn is_waiting(&self) -> bool {
        self.cm.is_waiting(self.id) || self.cm.has_grant(self.id)
    }

    /// Returns the state of the path (`cm_query`).
    pub(crate) fn query(&self) -> PathState {
        self.cm.query(self.id).expect(TRUE)
    }

    /// Sets the thresholds for rate callbacks (`cm_thresh`).
    pub(crate) fn thresh(&mut self, down: f64, up: f64) {
        self.cm.thresh(self.id, down, up).expect(TRUE);
    }
}

/// Path state that the manager reported after an update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Report {
    pub(crate) at: Instant,
    /// Usable rate, in bit/s on the link.
    pub(crate) rate: f64,
    /// Smoothed round-trip time; zero before the first sample.
    pub(crate) rtt: Duration,
}

/// Sender with its flow and application.
pub(crate) struct Sender<A> {
    local: SocketAddr,
    remote: SocketAddr,
    mtu: usize,
    start: Instant,
    application: A,
    open: Option<(ClientId, FlowId)>,
    feedback: Feedback,
    /// With late feedback, number and departure of each unacknowledged packet: the control loop
    /// then includes the feedback's delay, not just the path's.
    loops: Option<VecDeque<(u64, Instant)>>,
    stirred: bool,
    reported: Vec<Report>,
}

impl<A: Application> Sender<A> {
    /// Creates a sender of packets of at most `mtu` bytes to `remote` from `start` on, whose
    /// feedback arrives at most `late` later than the path takes.
    pub(crate) fn new(remote: SocketAddr, mtu: usize, start: Instant, late: Duration, application: A) -> Self {
        Self {
            local: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            remote,
            mtu,
            start,
            application,
            open: None,
            feedback: Feedback::with_ack_delay(late),
            loops: (!late.is_zero()).then(VecDeque::new),
            stirred: true,
            reported: Vec::new(),
        }
    }

    pub(crate) fn application(&self) -> &A {
        &self.application
    }

    /// Returns the manager's reports after each update.
    pub(crate) fn reported(&self) -> &[Report] {
        &self.reported
    }

    fn open(&mut self, now: Instant, cm: &mut Manager) -> Option<(ClientId, FlowId)> {
        if self.open.is_none() && now >= self.start {
            let client = cm.join();
            let spec = FlowSpec::to(self.remote.ip().into(), self.mtu as u64);
            self.open =
                Some((client, cm.open_for(now, client, spec).expect("there is room for a client's first flow")));
        }
        self.open
    }

    fn report_feedback(&mut self, now: Instant, cm: &mut Manager, update: Option<Update>) {
        let (Some(update), Some((_, flow))) = (update, self.open) else { return };
        cm.update(now, flow, update).expect(TRUE);
        let on_link = (self.mtu + OVERHEAD) as f64 / self.mtu as f64;
        let path = cm.query(flow).expect(TRUE);
        let (rate, rtt) = (path.rate.as_bps() as f64 * on_link, path.srtt.unwrap_or(Duration::ZERO));
        self.reported.push(Report { at: now, rate, rtt });
        self.stirred = true;
    }

    fn send(&mut self, now: Instant, cm: &mut Manager, flow: FlowId) -> Option<sim::Packet> {
        let path = cm.query(flow).expect(TRUE);
        let packet = self.application.granted(now, &path);
        let len = packet.map_or(0, |packet| packet.len as u64);
        cm.notify(now, flow, len).expect(TRUE);
        self.stirred = true;
        let packet = packet?;
        let number = self.feedback.sent(now, len);
        if let Some(loops) = &mut self.loops {
            loops.push_back((number, now));
        }
        let bytes = packet.encode(number);
        Some(sim::Packet::new(Protocol::Udp, self.local, self.remote, Ecn::NotEct, bytes))
    }
}

impl<A: Application> Agent for Sender<A> {
    fn protocol(&self) -> Protocol {
        Protocol::Udp
    }

    fn settle(&mut self, local: SocketAddr) {
        self.local = local;
    }

    fn handle_packet(&mut self, now: Instant, cm: &mut Manager, packet: &sim::Packet) {
        let Ok(ack) = Ack::decode(&packet.payload) else { return };
        let mut update = self.feedback.acked(now, &ack).expect("the receiver has what was sent");
        if let (Some(update), Some(loops)) = (&mut update, &mut self.loops) {
            let told = loops.partition_point(|&(number, _)| number <= ack.newest);
            update.rtt = loops.drain(..told).next().map(|(_, sent)| now.saturating_since(sent));
        }
        self.report_feedback(now, cm, update);
    }

    fn handle_timeout(&mut self, now: Instant, cm: &mut Manager) {
        let update = self.feedback.handle_timeout(now);
        self.report_feedback(now, cm, update);
    }

    fn poll_transmit(&mut self, now: Instant, cm: &mut Manager) -> Option<sim::Packet> {
        let (client, id) = self.open(now, cm)?;
        loop {
            let due = self.application.poll_timeout().is_some_and(|at| at <= now);
            if due || std::mem::take(&mut self.stirred) {
                self.application.run(now, &mut Flow { now, cm, id });
            }
            match cm.poll_client(client) {
                Some(ClientEvent::Granted(flow)) => {
                    if let Some(packet) = self.send(now, cm, flow) {
                        return Some(packet);
                    }
                }
                Some(ClientEvent::Changed(_, path)) => {
                    self.application.changed(now, &path);
                    self.stirred = true;
                }
                None if self.stirred => {}
                None => return None,
            }
        }
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        if self.open.is_none() {
            return Some(self.start);
        }
        self.application.poll_timeout().into_iter().chain(self.feedback.poll_timeout()).min()
    }
}

/// Acknowledgement policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckPolicy {
    /// After every other packet or a short delay; at once on gaps.
    Soon,
    /// After this number of packets or this age of the oldest unacknowledged one, and never
    /// earlier.
    Late(u32, Duration),
}

/// Arrival of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) at: Instant,
    pub(crate) packet: Packet,
}

/// Receiver of a client's packets.
pub(crate) struct Receiver {
    local: SocketAddr,
    peer: Option<SocketAddr>,
    when: AckPolicy,
    acks: Acks,
    /// Number of unacknowledged packets, and the arrival time of the first of them.
    untold: u32,
    since: Instant,
    arrivals: Vec<Arrival>,
}

impl Receiver {
    pub(crate) fn new(when: AckPolicy) -> Self {
        Self {
            local: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            peer: None,
            when,
            acks: Acks::default(),
            untold: 0,
            since: Instant::ZERO,
            arrivals: Vec::new(),
        }
    }

    /// Returns the arrivals so far.
    pub(crate) fn arrivals(&self) -> &[Arrival] {
        &self.arrivals
    }

    fn due(&self) -> Option<Instant> {
        match self.when {
            AckPolicy::Soon => self.acks.poll_timeout(),
            AckPolicy::Late(packets, _) if self.untold >= packets => Some(Instant::ZERO),
            AckPolicy::Late(_, delay) => (self.untold > 0).then(|| self.since + delay),
        }
    }
}

impl Agent for Receiver {
    fn protocol(&self) -> Protocol {
        Protocol::Udp
    }

    fn settle(&mut self, local: SocketAddr) {
        self.local = local;
    }

    fn handle_packet(&mut self, now: Instant, _: &mut Manager, datagram: &sim::Packet) {
        let Some((number, packet)) = Packet::decode(&datagram.payload) else { return };
        self.peer = Some(datagram.source);
        if self.untold == 0 {
            self.since = now;
        }
        self.untold += 1;
        if self.acks.received(now, number) {
            self.arrivals.push(Arrival { at: now, packet });
        }
    }

    fn handle_timeout(&mut self, _: Instant, _: &mut Manager) {}

    fn poll_transmit(&mut self, now: Instant, _: &mut Manager) -> Option<sim::Packet> {
        if self.due()? > now {
            return None;
        }
        let ack = self.acks.acknowledge(now)?;
        self.untold = 0;
        Some(sim::Packet::new(Protocol::Udp, self.local, self.peer?, Ecn::NotEct, ack.encode()))
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        self.due()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_read_as_it_was_written() {
        let packet = Packet { made: Instant::from_nanos(7), tag: 3, len: 100 };
        assert_eq!(Packet::decode(&packet.encode(9)), Some((9, packet)));
        assert_eq!(Packet::decode(&[0; HEADER - 1]), None);
    }
}
