//! cm-trust: users who do not trust each other, one of whom gives false feedback (Andersen et al.
//! §5).

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use timeous::cm::{Ack, Feedback};
use timeous::core::{Duration, Ecn, Instant, Rate, Rng};
use timeous_cm::{ClientEvent, ClientId, FlowId, FlowSpec, Kind, Manager, Update, User};
use timeous_host::Agent;
use timeous_net::LinkConfig;
use timeous_net::link::Limit;
use timeous_net::sim::{self, Network, Protocol};

use super::cm::{AckPolicy, Packet, Receiver};
use super::machines::Machines;
use crate::experiment::{
    Choice, Claim, Experiment, Extent, Findings, Forms, Grid, Metric, Rows, Run, RunError, Sabotage, Table, cross,
    least, metric, most, sabotages, setup, values,
};

const METRICS: [Metric<Outcome>; 5] = [
    metric("his kbit/s", 0, |outcome| outcome.kbps[2]),
    metric("each other's", 0, Outcome::others),
    metric("his largest window, bytes", 0, |outcome| outcome.window[1] as f64),
    metric("the others'", 0, |outcome| outcome.window[0] as f64),
    metric("his refused updates", 0, |outcome| outcome.refused as f64),
];

/// Outcomes by setting and lie.
type Outcomes = Grid<(Setting, FalseFeedback), Outcome>;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "cm-trust",
    title: "A user who lies about his packets",
    source: "Andersen et al. §5, \"Trust issues\"",
    paper: "Applications feed back what they learnt of their packets, and could lie; it is left open what of it",
    forms: Forms::Virtual,
    seeds: 5,
    takes: "5 s",
    sabotages: &[UNMANAGED, SHARED, SILENT],
    run,
};

sabotages! {
    /// The manager's checks cannot be switched off from here: a liar who passes it by is one whom it does not check.
    UNMANAGED = "unmanaged", "every liar sends without the manager, so that nothing checks him"
        => [GAIN, OTHERS, BELIEVED];
    SHARED = "shared", "where the network has room, all users share one macroflow" => [MOVED];
    SILENT = "silent", "no user sends anything" => [GAIN, OTHERS, BELIEVED, MOVED];
}

const GAIN: &str = "rate of who acknowledges what has just left or more than he sent, over the honest";
const OTHERS: &str = "the others' beside him, over that beside the honest";
const MOVED: &str = "packets of the others granted at another time because of any lie, where the network has room";
const BELIEVED: &str = "the others' rate beside who ";

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    // The claims are about a macroflow for each user.
    let settings = if run.extent == Extent::Least { &[Setting::Apart, Setting::Room][..] } else { &Setting::ALL };
    let outcomes = run
        .grid("hosts", cross(settings.iter().copied(), FalseFeedback::ALL), |at, seed| trial(at, seed, run.sabotage));
    let bottleneck = |setting, title| {
        let rows = outcomes.points().into_iter().filter(|at| at.point.0 == setting);
        Rows::of(rows).axis("the third", |at| at.1.name()).means(&METRICS).table(title)
    };
    Ok(Findings {
        setup: choices(),
        tables: vec![
            bottleneck(Setting::Apart, "Over a bottleneck, a macroflow for each user (means of all seeds)"),
            bottleneck(Setting::Together, "The same, one macroflow for all, as in the paper"),
            room(&outcomes),
        ],
        figures: Vec::new(),
        claims: claims(&outcomes),
        notes: vec![
            "What can be true is believed, unless two others who go the same way meet congestion again and again and he tells \
             of none: then he is held to what arrives of theirs. Who tells of some of his losses only, or sends without the \
             manager, fills the network's queue as ever, and the others share what is left: the manager is no policeman of \
             the network. It keeps his lies out of what the others are granted."
                .to_owned(),
        ],
        data: outcomes.numbers(&METRICS),
    })
}

/// Counts packets of the others that leave at another time than beside an honest third user.
fn moved(outcomes: &Outcomes, setting: Setting, lie: FalseFeedback) -> usize {
    let of = |lie| outcomes.of(move |at| *at == (setting, lie));
    let users = of(lie).zip(of(FalseFeedback::None)).flat_map(|(lying, honest)| lying.left.iter().zip(&honest.left));
    let moved = users.map(|(lying, honest)| {
        let same = lying.iter().zip(honest).filter(|(lying, honest)| lying == honest).count();
        lying.len().max(honest.len()) - same
    });
    moved.sum()
}

fn room(outcomes: &Outcomes) -> Table {
    let cell = |setting, &lie: &FalseFeedback| {
        let honest = outcomes.of(|at| *at == (setting, FalseFeedback::None)).flat_map(|outcome| &outcome.left);
        let all: usize = honest.map(Vec::len).sum();
        format!("{} ({all} beside an honest third)", moved(outcomes, setting, lie))
    };
    Rows::of(FalseFeedback::ALL.into_iter().filter(|&lie| lie != FalseFeedback::None))
        .column("the third", |lie| lie.name())
        .column("a macroflow for each user", |lie| cell(Setting::Room, lie))
        .column("one for all", |lie| cell(Setting::RoomTogether, lie))
        .table("Packets of the others that left at another time because of him, where the path has room for all")
}

/// Least rate of the others beside a lie that can be true, over that beside an honest user.
const BESIDE_LIES: f64 = 0.9;

/// Returns the claims. Bounds were chosen before the first run: refused feedback gains no more than
/// chance, and no grant to another user may change its time because of a lie.
fn claims(outcomes: &Outcomes) -> Vec<Claim> {
    // Means relative to those with an honest third user, each with a macroflow of his own.
    let over_honest = |lie, metric: fn(&Outcome) -> f64| {
        let of = |lie| outcomes.mean(&(Setting::Apart, lie), metric);
        of(lie) / of(FalseFeedback::None)
    };
    let left = |lie| over_honest(lie, Outcome::others);
    let refused = [FalseFeedback::Early, FalseFeedback::More];
    let gain = most(refused.map(|lie| over_honest(lie, METRICS[0].value)));
    let others = least(refused.map(left));
    // Lies in which all users use the manager.
    let lies = FalseFeedback::ALL.into_iter();
    let lies = lies.filter(|lie| !matches!(lie, FalseFeedback::None | FalseFeedback::Outside));
    let moved: usize = lies.map(|lie| moved(outcomes, Setting::Room, lie)).sum();
    let sent = outcomes.of(|at| at.0 == Setting::Room).flat_map(|outcome| &outcome.left).map(Vec::len).sum();
    let believed = [FalseFeedback::Again, FalseFeedback::Halved, FalseFeedback::Swift, FalseFeedback::Deaf];
    let beside = |start: &str, lie: FalseFeedback| {
        let what = format!("{start}{}, over that beside the honest", lie.name());
        Claim::number(what, "", 2, left(lie))
    };
    let mut claims = vec![
        Claim::number(GAIN, "", 2, gain).pass(..=1.05),
        Claim::number(OTHERS, "", 2, others).pass(0.95..),
        Claim::count(MOVED, "", moved as u64).among(sent).pass(..=0.0),
    ];
    claims.extend(believed.map(|lie| beside(BELIEVED, lie).pass(BESIDE_LIES..)));
    claims.push(beside("the others' rate where one ", FalseFeedback::Outside));
    claims
}

fn choices() -> Vec<Choice> {
    let millis = |time: Duration| format!("{} ms", time.as_millis());
    setup! {
        ours "bottleneck": "{RATE}, {} there and back, {QUEUE} packets drop-tail", millis(RTT)
            => "a queue of about the path's length";
        ours "users": "three, with one flow each; the third is the liar" => "as few as tell something";
        ours "has to send": "at most {MOST} each"
            => "more than there is, and not without end where lies are believed";
        ours "not believed": "he tells the truth" => "else a refused lie would cost him all that it was about";
        ours "host": "no flow of its own to that host" => "what it had seen of the path would bind the liar further";
        ours "counted": "{} after {}; {} where there is room", millis(TIME), millis(WARM_UP), millis(SHORT)
            => "slow start is over by then, and counts where there is room";
        ours "room": "no bottleneck; each {LOST_EACH}th packet of the third is lost behind it"
            => "what the network does to the others is the same whatever he says";
        ours "by seed": "when each flow starts" => "the rest is not random";
    }
}

const RATE: Rate = Rate::from_bps(6_000_000);
/// Highest sending rate of each user.
const MOST: Rate = Rate::from_bps(9_000_000);
const RTT: Duration = Duration::from_millis(60);
const QUEUE: usize = 45;
const WARM_UP: Duration = Duration::from_secs(5);
const TIME: Duration = Duration::from_secs(15);
/// Duration where the path has room for all.
const SHORT: Duration = Duration::from_secs(2);
/// Every n-th of the third user's packets is lost there, behind the shared path.
const LOST_EACH: u64 = 40;
const LEN: usize = 1_000;

values! {
    /// Path, and sharing of macroflows.
    enum Setting {
        Apart = "bottleneck, a macroflow for each user",
        Together = "bottleneck, one for all, as in the paper",
        Room = "room for all, a macroflow for each user",
        RoomTogether = "room for all, one macroflow",
    }
}

impl Setting {
    fn is_narrow(self) -> bool {
        matches!(self, Self::Apart | Self::Together)
    }

    fn is_shared(self) -> bool {
        matches!(self, Self::Together | Self::RoomTogether)
    }
}

/// Outcome of a trial, by user; the third is the liar.
struct Outcome {
    kbps: [f64; 3],
    /// Largest window of the other users, and of the liar.
    window: [u64; 2],
    refused: u64,
    /// Departure times of the other users' packets, where all arrive.
    left: [Vec<Instant>; 2],
}

impl Outcome {
    /// Returns the mean rate of the other users.
    fn others(&self) -> f64 {
        (self.kbps[0] + self.kbps[1]) / 2.0
    }
}

/// Runs a trial.
fn trial(&(setting, lie): &(Setting, FalseFeedback), seed: u64, sabotage: Option<Sabotage>) -> Outcome {
    let lie = match sabotage {
        Some(UNMANAGED) if lie != FalseFeedback::None => FalseFeedback::Outside,
        _ => lie,
    };
    let setting = match (sabotage, setting) {
        (Some(SHARED), Setting::Room) => Setting::RoomTogether,
        _ => setting,
    };
    let narrow = setting.is_narrow();
    let mut rng = Rng::from_seed(seed);
    let mut network = Network::new(rng.next_u64());
    let (here, there): (SocketAddr, SocketAddr) = (([10, 0, 0, 1], 5_000).into(), ([10, 0, 0, 2], 6_000).into());
    let (from, to) = (network.machine(here.ip()), network.machine(there.ip()));
    let way = LinkConfig::with_delay(RTT / 2);
    let bottleneck = way.clone().with_rate(RATE, Limit::Packets(QUEUE));
    network.connect(from, to, if narrow { bottleneck } else { way.clone() }, way);
    let manager = network.with_host(from, |_, machine| machine.add_manager(Kind::Aimd));
    let users = [0u16, 1, 2].map(|n| {
        let remote = SocketAddr::new(there.ip(), there.port() + n);
        let within = if narrow { Duration::from_secs(1) } else { RTT };
        let third = n == 2;
        let start = Instant::ZERO + Duration::from_nanos(rng.below(within.as_nanos()));
        let manner = SenderConfig {
            len: LEN,
            most: MOST,
            start: if sabotage == Some(SILENT) { Instant::FAR_FUTURE } else { start },
            user: (!setting.is_shared()).then_some(User(1_000 + u32::from(n))),
            lie: if third { lie } else { FalseFeedback::None },
            half: RTT / 2,
            lost_each: if third && !narrow { LOST_EACH } else { 0 },
        };
        let sender = Sender::new(remote, manner);
        let sender = network.with_host(from, |_, machine| machine.add(here.port() + n, manager, sender));
        let receiver = Receiver::new(AckPolicy::Soon);
        (sender, network.place(to, remote.port(), Kind::Aimd, receiver))
    });
    let (begin, time) = if narrow { (WARM_UP, TIME) } else { (Duration::ZERO, SHORT) };
    network.run_until(Instant::ZERO + begin + time);
    let arrivals = users.map(|(_, receiver)| network.host(to).agent(receiver).arrivals());
    let counted = |at: Instant| at >= Instant::ZERO + begin;
    let kbps = arrivals.map(|all| {
        let bytes: usize = all.iter().filter(|arrival| counted(arrival.at)).map(|arrival| arrival.packet.len).sum();
        bytes as f64 * 8e-3 / time.as_secs_f64()
    });
    let left = |user: usize| arrivals[user].iter().filter(|_| !narrow).map(|arrival| arrival.packet.made).collect();
    let left = [left(0), left(1)];
    let [one, two, liar] = users.map(|(sender, _)| network.host(from).agent(sender));
    let window = [one.window().max(two.window()), liar.window()];
    Outcome { kbps, window, refused: liar.refused(), left }
}

values! {
    /// Kind of false feedback. After a refusal the sender tells the truth, as far as that is still
    /// possible.
    enum FalseFeedback {
        /// True feedback.
        None = "is honest",
        /// Arrival of all bytes in flight, reported after each packet.
        Early = "acknowledges what has just left",
        /// Arrival of more bytes than were sent, reported with each acknowledgement.
        More = "acknowledges more than he sent",
        /// Arrival of bytes that it reported as lost before, reported with each acknowledgement.
        Again = "acknowledges what he told to be lost",
        /// Half of the round-trip time.
        Halved = "halves his round trips",
        /// Arrival of each packet half a round trip after it left, with that as the round-trip time.
        Swift = "says that all arrives, in half a round trip",
        /// Arrival of lost packets.
        Deaf = "hides his losses",
        /// Sending without the manager.
        Outside = "sends without the manager",
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
struct SenderConfig {
    len: usize,
    /// Highest rate of its data.
    most: Rate,
    start: Instant,
    user: Option<User>,
    lie: FalseFeedback,
    /// Time after departure at which [`FalseFeedback::Swift`] reports an arrival.
    half: Duration,
    /// Every n-th of its packets is lost behind the shared path; 0: none.
    lost_each: u64,
}

/// Sender with one flow.
struct Sender {
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
    fn new(remote: SocketAddr, manner: SenderConfig) -> Self {
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
    fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns the largest window that the manager gave.
    fn window(&self) -> u64 {
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
