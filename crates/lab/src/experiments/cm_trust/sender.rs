//! Sender that gives false feedback about its packets.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use timeous::cm::{Ack, Feedback};
use timeous::core::{Duration, Ecn, Instant, Rate};
use timeous_cm::{ClientEvent, ClientId, FlowId, FlowSpec, Manager, Update, User};
use timeous_host::Agent;
use timeous_net::sim::{self, Protocol};

use super::super::cm::packet::Packet;

/// Kind of false feedback. After a refusal the sender tells the truth, as far as that is still
/// possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FalseFeedback {
    /// True feedback.
    None,
    /// Arrival of all bytes in flight, reported after each packet.
    Early,
    /// Arrival of more bytes than were sent, reported with each acknowledgement.
    More,
    /// Arrival of bytes that it reported as lost before, reported with each acknowledgement.
    Again,
    /// Half of the round-trip time.
    Halved,
    /// Arrival of each packet half a round trip after it left, with that as the round-trip time.
    Swift,
    /// Arrival of lost packets.
    Deaf,
    /// Sending without the manager.
    Outside,
}

impl FalseFeedback {
    pub(super) const ALL: [Self; 8] =
        [Self::None, Self::Early, Self::More, Self::Again, Self::Halved, Self::Swift, Self::Deaf, Self::Outside];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "is honest",
            Self::Early => "acknowledges what has just left",
            Self::More => "acknowledges more than he sent",
            Self::Again => "acknowledges what he told to be lost",
            Self::Halved => "halves his round trips",
            Self::Swift => "says that all arrives, in half a round trip",
            Self::Deaf => "hides his losses",
            Self::Outside => "sends without the manager",
        }
    }
}

/// Message for calls that the manager refuses only for closed flows.
const OPEN: &str = "the flow is open";

/// Port without a listener.
const NOBODY: u16 = 9;
/// Delay before refused feedback is repeated.
const AGAIN: Duration = Duration::from_millis(1);

/// Parameters of a sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct SenderConfig {
    pub(super) len: usize,
    /// Highest rate of its data.
    pub(super) most: Rate,
    pub(super) start: Instant,
    pub(super) user: Option<User>,
    pub(super) lie: FalseFeedback,
    /// Time after departure at which [`FalseFeedback::Swift`] reports an arrival.
    pub(super) half: Duration,
    /// Every n-th of its packets is lost behind the shared path; 0: none.
    pub(super) lost_each: u64,
}

/// Sender with one flow.
pub(super) struct Sender {
    local: SocketAddr,
    remote: SocketAddr,
    manner: SenderConfig,
    open: Option<(ClientId, FlowId)>,
    feedback: Feedback,
    /// Time of its next packet.
    next: Instant,
    /// Times at which packets will be reported as arrived.
    claims: VecDeque<Instant>,
    /// Bytes not yet reported to the manager.
    unreported: u64,
    /// Bytes reported as lost and not reported as arrived since.
    reported_lost: u64,
    /// Whether a request is outstanding.
    asked: bool,
    refused: u64,
    window: u64,
}

impl Sender {
    pub(super) fn new(remote: SocketAddr, manner: SenderConfig) -> Self {
        Self {
            local: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            remote,
            manner,
            open: None,
            feedback: Feedback::with_ack_delay(Duration::ZERO),
            next: manner.start,
            claims: VecDeque::new(),
            unreported: 0,
            reported_lost: 0,
            asked: false,
            refused: 0,
            window: 0,
        }
    }

    /// Returns the number of refused updates.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns the largest window that the manager gave.
    pub(super) fn window(&self) -> u64 {
        self.window
    }

    fn open(&mut self, now: Instant, cm: &mut Manager) -> Option<(ClientId, FlowId)> {
        if self.open.is_none() && now >= self.manner.start {
            let client = cm.join();
            let mut spec = FlowSpec::to(self.remote.ip().into(), self.manner.len as u64);
            spec.destination.user = self.manner.user;
            self.open = Some((client, cm.open_for(now, client, spec).expect("a client that has joined")));
        }
        self.open
    }

    /// Gives feedback; returns whether it was accepted.
    fn give_feedback(&mut self, now: Instant, cm: &mut Manager, flow: FlowId, update: Update) -> bool {
        let believed = cm.update(now, flow, update).is_ok();
        if believed {
            self.unreported -= update.acked + update.lost;
        }
        self.refused += u64::from(!believed);
        self.window = self.window.max(cm.query(flow).expect(OPEN).window);
        believed
    }

    /// Reports true feedback, or the lie in its place.
    fn report_feedback(&mut self, now: Instant, cm: &mut Manager, update: Option<Update>) {
        let (Some(truth), Some((_, flow))) = (update, self.open) else { return };
        let acked = truth.acked.min(self.unreported);
        let lost = truth.lost.min(self.unreported - acked);
        let truth = Update { acked, lost, ..truth };
        let again = self.reported_lost.min(self.unreported - acked - lost);
        let lie = match self.manner.lie {
            FalseFeedback::None | FalseFeedback::Early => None,
            FalseFeedback::More => Some(Update { acked: self.unreported + 1, ..truth }),
            FalseFeedback::Again => Some(Update { acked: acked + again, ..truth }).filter(|_| again > 0),
            FalseFeedback::Deaf => Some(Update { acked: acked + lost, lost: 0, loss: None, ..truth }),
            FalseFeedback::Halved => Some(Update { rtt: truth.rtt.map(|rtt| rtt / 2), ..truth }),
            FalseFeedback::Swift | FalseFeedback::Outside => return,
        };
        if lie.is_some_and(|lie| self.give_feedback(now, cm, flow, lie)) {
            self.reported_lost += lost;
            self.reported_lost -= again.min(self.reported_lost);
        } else if self.give_feedback(now, cm, flow, truth) {
            self.reported_lost += lost;
        }
    }

    /// Reports packets as arrived at the times of the lie.
    fn claim(&mut self, now: Instant, cm: &mut Manager) {
        let Some((_, flow)) = self.open else { return };
        while self.claims.front().is_some_and(|&at| at <= now) {
            let arrived = Update {
                acked: self.unreported.min(self.manner.len as u64),
                rtt: Some(self.manner.half),
                ..Update::default()
            };
            let believed = self.give_feedback(now, cm, flow, arrived);
            self.claims.pop_front();
            if !believed {
                self.claims.push_front(now + AGAIN);
            }
        }
    }

    fn send(&mut self, now: Instant) -> sim::Packet {
        let number = self.feedback.sent(now, self.manner.len as u64);
        self.next = now + self.manner.most.time_for(self.manner.len as u64);
        let bytes = Packet { made: now, tag: 0, len: self.manner.len }.encode(number);
        let mut remote = self.remote;
        if number.checked_rem(self.manner.lost_each) == Some(0) && number > 0 {
            remote.set_port(NOBODY);
        }
        sim::Packet::new(Protocol::Udp, self.local, remote, Ecn::NotEct, bytes)
    }

    fn send_granted(&mut self, now: Instant, cm: &mut Manager, flow: FlowId) -> sim::Packet {
        self.asked = false;
        let len = self.manner.len as u64;
        cm.notify(now, flow, len).expect("it was granted");
        self.unreported += len;
        match self.manner.lie {
            FalseFeedback::Early => {
                let all = Update { acked: self.unreported, ..Update::default() };
                self.give_feedback(now, cm, flow, all);
            }
            FalseFeedback::Swift => self.claims.push_back(now + self.manner.half),
            _ => {}
        }
        self.send(now)
    }
}

impl Agent for Sender {
    fn protocol(&self) -> Protocol {
        Protocol::Udp
    }

    fn settle(&mut self, local: SocketAddr) {
        self.local = local;
    }

    fn handle_packet(&mut self, now: Instant, cm: &mut Manager, packet: &sim::Packet) {
        let Ok(ack) = Ack::decode(&packet.payload) else { return };
        let update = self.feedback.acked(now, &ack).expect("the receiver has what was sent");
        self.report_feedback(now, cm, update);
    }

    fn handle_timeout(&mut self, now: Instant, cm: &mut Manager) {
        self.claim(now, cm);
        let update = self.feedback.handle_timeout(now);
        self.report_feedback(now, cm, update);
    }

    fn granted(&mut self, _: FlowId) -> bool {
        false
    }

    fn poll_transmit(&mut self, now: Instant, cm: &mut Manager) -> Option<sim::Packet> {
        let ready = now >= self.next;
        if self.manner.lie == FalseFeedback::Outside {
            return ready.then(|| self.send(now));
        }
        let (client, flow) = self.open(now, cm)?;
        if ready && !self.asked {
            cm.request(now, flow).expect(OPEN);
            self.asked = true;
        }
        let granted = std::iter::from_fn(|| cm.poll_client(client)).any(|event| event == ClientEvent::Granted(flow));
        granted.then(|| self.send_granted(now, cm, flow))
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        let next = (!self.asked).then_some(self.next);
        next.into_iter().chain(self.feedback.poll_timeout()).chain(self.claims.front().copied()).min()
    }
}
