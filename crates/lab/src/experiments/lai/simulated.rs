//! Both experiments in virtual time: the measured flow and the competing one, each between hosts of
//! its own, over one link.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use timeous::core::{AduMeta, Duration, FrameId, Instant, LateChoice, Priority, Rng};
use timeous_choice::{Age, Chain, Frames, QueueLimit};
use timeous_cm::Kind;
use timeous_dccp::Config as DccpConfig;
use timeous_host::sources::{Bulk, Cbr, OnFull};
use timeous_host::{
    Arrivals, Dccp, DccpSettings, Feed, Handle, Journal, Machine, SendBuffer, Sink, Socket, Stream, Tcp, Udp,
};
use timeous_net::LinkConfig;
use timeous_net::sim::{Dumbbell, Network, Passage};
use timeous_tcp::{Config as TcpConfig, EcnMode};

use super::super::machines::{self, Machines};
use super::ages::{Flow, LinkPackets, PacketTimestamps};
use super::own_choice::{Deciding, OwnChoice};
use super::setup::{self, Transport, WARM_UP};
use super::shares::Share;
use crate::experiment::{Choice, Run, setup};

/// Duration of a flow of §4.2, the warm-up included: its queue oscillates over tens of seconds.
const AGES_LAST: Duration = Duration::from_secs(190);
/// Duration of a flow of §4.3, the warm-up included.
const SHARES_LAST: Duration = Duration::from_secs(70);
/// Time for which it continues afterwards, so that the last counted packets meet the same
/// conditions as those before.
const AFTER: Duration = Duration::from_secs(20);
/// Head start of the competing flow; the seed adds up to as much again.
const ALONE: Duration = Duration::from_secs(1);
/// Send buffer of TCP, as Linux tunes it (`tcp_wmem` of the paper's kernel).
const BUFFER: SendBuffer = SendBuffer::Tuned { least: 16 << 10, most: 128 << 10 };
/// Source and destination ports of a flow.
const FROM: u16 = 9_000;
const TO: u16 = 6_000;

/// Returns the choices of §4.2 in virtual time.
pub(crate) fn ages_choices() -> Vec<Choice> {
    [setup::shared_choices(), choices(AGES_LAST)].concat()
}

/// Returns the choices of §4.3 in virtual time.
pub(crate) fn shares_choices() -> Vec<Choice> {
    choices(SHARES_LAST)
}

fn choices(lasting: Duration) -> Vec<Choice> {
    setup! {
        paper "congestion control": "NewReno, the same code for TCP and Timeous"
            => "§4.2: DCCP uses exactly the same algorithm as TCP";
        ours "Congestion Managers": "one for each flow"
            => "the paper's flows know nothing of each other; sharing is another paper's point";
        ours "send buffer of TCP": "twice the congestion window, 16 to 128 KiB"
            => "as the paper's kernel, Linux 2.4, tuned it; its writer blocks, and a packet counts as sent when it is \
            written";
        ours "options of TCP": "SACK; no timestamps, no ECN"
            => "without timestamps a packet of 1460 bytes is a segment; ECN was off in the paper's kernel, and is off \
            in DCCP here";
        ours "way back": "not narrow" => "acknowledgements are not what is looked at";
        ours "lasting": "{} s after the warm-up, for each seed", (lasting - WARM_UP).as_secs_f64()
            => "thousands of packets, and dozens of losses";
        ours "by seed": "when the flow begins within a second, and which packet is its first I-frame"
            => "the rest is not random, and seeds differ as much as such chances matter";
    }
}

/// Parts that are broken on purpose.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Broken {
    /// Timeous drops nothing but when its ring is full.
    pub(crate) no_choice: bool,
    /// TCP gets a tenth of the packets.
    pub(crate) unhurried: bool,
    /// Timeous's packets leave at once.
    pub(crate) uncontrolled: bool,
}

/// Runs the flows of §4.2 for each seed: each transport beside one long TCP flow.
pub(crate) fn ages(run: &Run<'_>, broken: Broken) -> Vec<Vec<Flow>> {
    let trial = |seed, transport| Trial {
        seed,
        transport,
        interval: setup::INTERVAL,
        lasting: AGES_LAST,
        beside_tcp: true,
        choice: if broken.no_choice { || Box::<Chain>::default() } else { || Box::new(Age::new(setup::AGE)) },
        own: match transport {
            _ if broken.no_choice => OwnChoice::None,
            Transport::Overwritten => OwnChoice::Overwritten(setup::AGE),
            _ => OwnChoice::Stale(setup::AGE),
        },
        broken,
    };
    by_seed(
        run,
        trials(run, &Transport::ALL, &[setup::INTERVAL], |seed, transport, _| trial(seed, transport)),
        Trial::flow,
    )
}

/// Runs the flows of §4.3 for each seed: each transport alone, at each interval.
pub(crate) fn shares(run: &Run<'_>, broken: Broken) -> Vec<Vec<Share>> {
    let trial = |seed, transport, interval| Trial {
        seed,
        transport,
        interval,
        lasting: SHARES_LAST,
        beside_tcp: false,
        choice: if broken.no_choice {
            || Box::<Chain>::default()
        } else {
            || Box::new(Frames::new(QueueLimit::Packets(setup::KEPT)))
        },
        own: if broken.no_choice { OwnChoice::None } else { OwnChoice::Frames(setup::KEPT) },
        broken,
    };
    by_seed(run, trials(run, &setup::OF_FRAMES, &setup::FRAME_INTERVALS, trial), Trial::share)
}

fn trials(
    run: &Run<'_>,
    transports: &[Transport],
    intervals: &[Duration],
    trial: impl Fn(u64, Transport, Duration) -> Trial,
) -> Vec<Trial> {
    let of_seed = |seed| {
        let trial = &trial;
        intervals.iter().flat_map(move |&interval| transports.iter().map(move |&of| trial(seed, of, interval)))
    };
    run.seeds().flat_map(of_seed).collect()
}

fn by_seed<T: Send>(run: &Run<'_>, trials: Vec<Trial>, work: impl Fn(&Trial) -> T + Sync) -> Vec<Vec<T>> {
    let each = trials.len() / (run.seeds as usize).max(1);
    let mut results = run.each("flows in virtual time", &trials, work).into_iter();
    (0..run.seeds).map(|_| results.by_ref().take(each).collect()).collect()
}

/// Parameters of a trial: one flow over the link.
#[derive(Clone, Debug)]
struct Trial {
    seed: u64,
    transport: Transport,
    interval: Duration,
    lasting: Duration,
    beside_tcp: bool,
    choice: fn() -> Box<dyn LateChoice>,
    own: OwnChoice,
    broken: Broken,
}

/// Agents of a flow, at both ends.
enum FlowAgents {
    Udp(Handle<Udp>, Handle<Udp>),
    Tcp(Handle<Tcp>, Handle<Tcp>),
    Timeous(Handle<Dccp>, Handle<Dccp>),
}

/// Outcome of a trial.
struct Outcome {
    begin: Instant,
    journal: Journal,
    arrived: Vec<Option<Instant>>,
    link: LinkPackets,
}

impl Trial {
    fn flow(&self) -> Flow {
        let Outcome { begin, journal, arrived, link } = self.run();
        let since = |at: Instant| Instant::ZERO + at.saturating_since(begin);
        let counted = journal.adus().iter().zip(arrived).filter(|(adu, _)| adu.meta.enqueued < begin + self.lasting);
        let journeys = counted.map(|(adu, arrived)| PacketTimestamps {
            sent: since(adu.meta.enqueued),
            on_wire: adu.left.first().copied().map(since),
            arrived: arrived.map(since),
        });
        Flow { transport: self.transport, journeys: journeys.collect(), link }
    }

    fn share(&self) -> Share {
        let Outcome { begin, journal, arrived, link } = self.run();
        let counted = begin + WARM_UP..begin + self.lasting;
        let received = || {
            let came = journal.adus().iter().zip(&arrived);
            came.filter(|(_, at)| at.is_some_and(|at| counted.contains(&at)))
        };
        let i_received = received().filter(|(adu, _)| adu.meta.priority == Priority::HIGHEST).count() as u64;
        let (transport, interval) = (self.transport, self.interval);
        Share { transport, interval, received: received().count() as u64, i_received, link }
    }

    fn run(&self) -> Outcome {
        let mut rng = Rng::from_seed(self.seed);
        let begin = Instant::ZERO + ALONE + Duration::from_nanos(rng.below(ALONE.as_nanos()));
        let end = begin + self.lasting;
        let mut network = Network::new(self.seed);
        let access = if self.beside_tcp { setup::access() } else { LinkConfig::default() };
        let net = lay_out(&mut network, &access);
        network.record_journeys();
        if self.beside_tcp {
            let source = Socket::new(Bulk::endless(setup::SIZE)).buffer(BUFFER);
            connect_tcp(&mut network, &net, 1, Instant::ZERO, source.into(), &mut rng);
        }
        let ends = self.connect(&mut network, &net, begin, &mut rng);
        network.run_until(end + AFTER);
        let (journal, arrived) = logs(&network, &net, &ends);
        let link = passed(&network, &net, begin + WARM_UP..end);
        Outcome { begin, journal, arrived, link }
    }

    /// Returns the application that makes the stream.
    fn source(&self, begin: Instant, on_full: OnFull, rng: &mut Rng) -> Cbr {
        let first = rng.below(setup::I_FRAME_EVERY);
        let describe = move |n: u64| AduMeta {
            frame: FrameId(n as u32 + 1),
            priority: if n % setup::I_FRAME_EVERY == first { Priority::HIGHEST } else { Priority::LOWEST },
            ..AduMeta::default()
        };
        let slowly = self.broken.unhurried && self.transport == Transport::Tcp;
        let interval = if slowly { self.interval * 10 } else { self.interval };
        Cbr::new(interval, setup::SIZE, on_full).starting_at(begin).describing(describe)
    }

    /// Opens both ends of the stream early, so that the stream begins in time.
    fn connect(&self, network: &mut Network<Machine>, net: &Dumbbell, begin: Instant, rng: &mut Rng) -> FlowAgents {
        let transport = match self.transport {
            Transport::Timeous | Transport::Own | Transport::Overwritten if self.broken.uncontrolled => Transport::Udp,
            other => other,
        };
        match transport {
            Transport::Udp => {
                let source = self.source(begin, OnFull::Skip, rng);
                let receiver = network.place(net.right[0], TO, Kind::NewReno, Udp::sink());
                let sender = network.place(net.left[0], FROM, Kind::NewReno, Udp::sender(address(0), source));
                FlowAgents::Udp(sender, receiver)
            }
            Transport::Tcp => {
                let source = self.source(begin, OnFull::Wait, rng);
                let feed = Socket::new(source).buffer(BUFFER).into();
                let (sender, receiver) = connect_tcp(network, net, 0, begin, feed, rng);
                FlowAgents::Tcp(sender, receiver)
            }
            Transport::Timeous | Transport::Own | Transport::Overwritten => {
                let source = self.source(begin, OnFull::Skip, rng);
                let stream = match transport {
                    Transport::Own | Transport::Overwritten => Stream::new(Deciding { source, choice: self.own }),
                    _ => Stream::new(source).choice((self.choice)()),
                }
                .slots(256);
                let connection = DccpConfig {
                    mps: setup::SIZE + DccpConfig::HEADER_ROOM,
                    ecn: false,
                    grows_in_lossy_windows: false,
                    ..DccpConfig::default()
                };
                let settings = DccpSettings { connection, start: begin, ..DccpSettings::default() };
                let listener = Dccp::listener(|| Stream::new(Sink), settings.clone(), rng.fork());
                let receiver = network.place(net.right[0], TO, Kind::NewReno, listener);
                let caller = Dccp::caller(address(0), stream, settings, rng.fork());
                FlowAgents::Timeous(network.place(net.left[0], FROM, Kind::NewReno, caller), receiver)
            }
        }
    }
}

/// Builds two pairs of hosts around the link: for the measured flow and the competing one. `access`
/// is the link between each sender and the shared link.
fn lay_out(network: &mut Network<Machine>, access: &LinkConfig) -> Dumbbell {
    let (forward, back) = setup::links();
    let routers = (network.add_router(), network.add_router());
    let bottleneck = network.connect(routers.0, routers.1, forward, back);
    let mut links = Vec::new();
    let mut side = |n: u8, router, access: &LinkConfig| {
        let place = |host| {
            let node = network.machine(machines::address(n, host));
            links.push(network.connect(node, router, access.clone(), access.clone()));
            node
        };
        [1, 2].map(place).to_vec()
    };
    let (left, right) = (side(1, routers.0, access), side(2, routers.1, &LinkConfig::default()));
    Dumbbell { left, right, routers, bottleneck, access: links }
}

/// Returns the address of the right host of a pair.
fn address(pair: u8) -> SocketAddr {
    SocketAddr::new(machines::address(2, pair + 1), TO)
}

/// Opens a TCP connection between a pair of hosts.
fn connect_tcp(
    network: &mut Network<Machine>,
    net: &Dumbbell,
    pair: u8,
    start: Instant,
    feed: Feed,
    rng: &mut Rng,
) -> (Handle<Tcp>, Handle<Tcp>) {
    let config = TcpConfig { mss: setup::SIZE as u16, timestamps: false, ecn: EcnMode::Off, ..TcpConfig::default() };
    let listener = Tcp::listener(Feed::none, config.clone(), rng.fork());
    let listener = network.place(net.right[usize::from(pair)], TO, Kind::NewReno, listener);
    let caller = Tcp::caller(address(pair), start, feed, config, rng.fork());
    (network.place(net.left[usize::from(pair)], FROM, Kind::NewReno, caller), listener)
}

/// Returns the sender's journal, and the arrival time of each of its packets.
fn logs(network: &Network<Machine>, net: &Dumbbell, ends: &FlowAgents) -> (Journal, Vec<Option<Instant>>) {
    let (left, right) = (network.host(net.left[0]), network.host(net.right[0]));
    let datagrams =
        |journal: &Journal, arrivals: &Arrivals| (journal.clone(), arrivals.first_by_seq(journal.adus().len()));
    let opened = "both ends of a link without loss are open";
    match *ends {
        FlowAgents::Udp(sender, receiver) => datagrams(left.agent(sender).journal(), right.agent(receiver).arrivals()),
        FlowAgents::Timeous(sender, receiver) => {
            let sender = left.agent(sender).session().expect(opened);
            datagrams(sender.journal(), right.agent(receiver).session().expect(opened).arrivals())
        }
        FlowAgents::Tcp(sender, receiver) => {
            let journal = left.agent(sender).session().expect(opened).journal();
            let arrivals = right.agent(receiver).session().expect(opened).arrivals();
            (journal.clone(), arrivals.of_stream(journal))
        }
    }
}

/// Counts the flow's packets that arrived at the link within a time, and those that it dropped.
fn passed(network: &Network<Machine>, net: &Dumbbell, within: std::ops::Range<Instant>) -> LinkPackets {
    let mut passed = LinkPackets::default();
    let mut own = BTreeSet::new();
    for step in network.journeys() {
        match step.what {
            Passage::Sent(node) if node == net.left[0] => drop(own.insert(step.packet)),
            _ if !within.contains(&step.at) || !own.contains(&step.packet) => {}
            Passage::Entered(link) if link == net.bottleneck.0 => passed.packets += 1,
            Passage::Dropped(link, _) if link == net.bottleneck.0 => passed.dropped += 1,
            _ => {}
        }
    }
    passed
}
