//! Shared parts of the experiments with layered video over TCP (Birkedal et al. §6): the stream,
//! the link, and the arrivals.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use serde_json::json;
use timeous::core::{
    AduMeta, DropReason, Duration, FrameId, Instant, LateChoice, PathState, Queue, Rate, Rng, SubStream,
};
use timeous_choice::{Chain, Layers};
use timeous_cm::Kind;
use timeous_host::{Application, Arrivals, Feed, Journal, Outlet, Refused, Socket, Stream, Tcp};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit, Loss};
use timeous_net::sim::Network;
use timeous_tcp::{Config, EcnMode, record};
use timeous_testbed::network::Links;

use super::machines::Machines;
use super::over_tcp::{self, Control, Log, Offer, Plan, SenderKind};
use crate::experiment::{Choice, Claim, Figure, Findings, Grid, Run, RunError, Table, cross, setup, values};

/// Runs the streams with these start-up times in virtual time, and over the kernel's TCP with the first `real` of them.
pub(crate) fn run(
    run: &Run<'_>,
    start_ups: &[Duration],
    real: usize,
    findings: impl Fn(&Views) -> Result<Findings, RunError>,
) -> Result<Findings, RunError> {
    if run.real {
        return run_real(run, &start_ups[..real], findings);
    }
    let broken = Broken::of(run);
    findings(&run.grid("streams", Cell::all(start_ups), |cell, seed| trial(cell, seed, LAYERS, broken)))
}

/// Runs each sender over a link without limit and losses (figure 4).
pub(crate) fn without_limit(run: &Run<'_>) -> Views {
    let broken = Broken::of(run);
    let cells = Sender::ALL.map(|sender| Cell { start_up: START_UPS[0], rate: NO_LIMIT, sender });
    run.grid("streams without limit", cells.to_vec(), |cell, seed| trial(cell, seed, LAYERS, broken))
}

/// Runs streams of the base layer alone over plain TCP.
pub(crate) fn base_alone(run: &Run<'_>) -> Views {
    let broken = Broken::of(run);
    let cells = RATES.map(|rate| Cell { start_up: START_UPS[0], rate, sender: Sender::Plain });
    run.grid("streams of the base layer", cells.to_vec(), |cell, seed| trial(cell, seed, 1, broken))
}

/// Names and descriptions of the sabotages of these experiments.
pub(crate) const NO_CHOICE: [&str; 2] = ["no-choice", "the ring sends everything in order, and knows no deadlines"];
pub(crate) const EARLY: [&str; 2] = ["early", "the sender is told of deadlines after half of the start-up time"];
pub(crate) const UNMEASURED: [&str; 2] = ["unmeasured", "deadlines are taken without the first packet's way"];
pub(crate) const CHOSEN: [&str; 2] = ["chosen", "plain TCP chooses, too"];

/// Parts of a trial that are broken on purpose.
#[derive(Clone, Copy, Debug)]
struct Broken {
    no_choice: bool,
    early: bool,
    unmeasured: bool,
    chosen: bool,
}

impl Broken {
    fn of(run: &Run<'_>) -> Self {
        let is = |[name, _]: [&str; 2]| run.sabotage.is_some_and(|sabotage| sabotage.name == name);
        Self { no_choice: is(NO_CHOICE), early: is(EARLY), unmeasured: is(UNMEASURED), chosen: is(CHOSEN) }
    }
}

/// Rates of the link.
pub(crate) const RATES: [Rate; 3] = [Rate::from_kbps(1_024), Rate::from_kbps(512), Rate::from_kbps(256)];
pub(crate) const LOSS: f64 = 0.05;
/// Rate of a link without limit, which loses nothing either.
const NO_LIMIT: Rate = Rate::from_bps(u64::MAX);
pub(crate) const LAYERS: usize = 8;
/// Length of the stream in seconds.
pub(crate) const SECONDS: u64 = 60;
/// Packets of a layer per second, and bytes of each: 128 kbit.
pub(crate) const PACKETS: usize = 12;
pub(crate) const SIZE: usize = 1_333;
/// Bytes of one second of a layer.
pub(crate) const BYTES: u64 = (PACKETS * SIZE) as u64;
/// One-way delay.
pub(crate) const DELAY: Duration = Duration::from_millis(10);
/// Queue of the link, in packets.
pub(crate) const QUEUE: usize = 20;
/// Time from the arrival of the first packet to its playout.
pub(crate) const START_UPS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(10), Duration::from_secs(20)];

/// Returns the links to the viewer and back.
fn links(rate: Rate) -> [LinkConfig; 2] {
    let back = LinkConfig::with_delay(DELAY);
    if rate == NO_LIMIT {
        return [back.clone(), back];
    }
    let (capacity, queue, loss) = (Capacity::Fixed(rate), Limit::Packets(QUEUE), Loss::Bernoulli { p: LOSS });
    [LinkConfig { capacity, queue, loss, ..back.clone() }, back]
}

/// Returns all choices.
pub(crate) fn choices() -> Vec<Choice> {
    setup! {
        paper "stream": "8 layers of 128 kbit/s, a second of each at once, lowest first, for 60 s" => "§6";
        paper "link": "1024, 512 and 256 kbit/s, 5 % loss" => "§6";
        paper "plain TCP": "New Reno, everything is sent in order" => "§6; with SACK, as its Linux had";
        ours "ADU": "a layer's second is 12 packets of 1333 bytes"
            => "the paper's ADU is all of it; here a choice is between packets, since an ADU is a segment";
        ours "link's delay and queue": "10 ms each way, 20 packets"
            => "not in the paper; with longer ways New Reno cannot fill 1024 kbit/s at 5 % loss, as the paper's did \
            to 84 %";
        ours "playout": "a second's data play 1 s (or 10, 20) after the first packet came, plus their place in the \
            stream" => "the paper's time reference is the first packet; before a second has passed no second of all \
            layers is whole";
        ours "deadline": "the start-up time after the data were made; the sender knows nothing of the link"
            => "the paper's sender keeps to playout speed \"with the first packet as the time reference\"";
        ours "late choice": "`Layers`: too late, or from the top layer down what the rate of the last 4 s leaves no \
            time for; what is not of the lowest layer waits while too much is under way for that one. It adds to \
            deadlines the first packet's way over the idle link, by the round trip and the rate that it has measured"
            => "the playout begins when that packet has come, and a sender that gives up what is in time loses some of \
            each second";
        ours "to the letter": "a layer's second is left out whole if none of it has left when the start-up time is \
            over, and nothing else is" => "the paper's application drops from the highest layer until it can send at \
            playout speed; its ADU is a layer's second, and what is in the kernel's queue stays there";
        ours "send buffer of plain TCP": "as Linux tunes it; its writer waits" => "the paper's regular send()";
        ours "transport": "our own TCP in virtual time; late choice at the instant of sending" => "the paper's patch";
    }
}

/// Live video source: packets that cannot be handed over wait here, as in a program blocked in a
/// write.
struct LayeredSource {
    begin: Instant,
    /// Useful life of each second's data after it was made, if the sender is told of it.
    latency: Option<Duration>,
    layers: usize,
    next: u64,
    waiting: VecDeque<AduMeta>,
}

impl LayeredSource {
    fn new(begin: Instant, latency: Option<Duration>, layers: usize) -> Self {
        Self { begin, latency, layers, next: 0, waiting: VecDeque::new() }
    }

    fn due(&self) -> Option<Instant> {
        (self.next < SECONDS).then(|| self.begin + Duration::from_secs(self.next))
    }
}

impl Application for LayeredSource {
    fn run(&mut self, now: Instant, outlet: &mut dyn Outlet) {
        while let Some(at) = self.due().filter(|at| *at <= now) {
            for layer in 0..self.layers {
                let meta = AduMeta {
                    deadline: self.latency.map(|latency| at + latency),
                    enqueued: at,
                    substream: SubStream(layer as u8),
                    frame: FrameId((self.next as usize * LAYERS + layer) as u32 + 1),
                    ..AduMeta::default()
                };
                self.waiting.extend([meta; PACKETS]);
            }
            self.next += 1;
        }
        while let Some(meta) = self.waiting.front() {
            match outlet.send(*meta, &[0; SIZE]) {
                Ok(_) => drop(self.waiting.pop_front()),
                Err(Refused::Full) => return,
                Err(_) => return self.waiting.clear(),
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.due()
    }
}

values! {
    /// Sender of the stream.
    pub(crate) enum Sender {
        /// Send buffer of a socket.
        Plain = "plain",
        /// Packet ring with late choice.
        LateChoice = "late choice",
        /// Packet ring with the paper's choice, by whole seconds of a layer.
        Letter = "to the letter",
    }
}

impl Sender {
    /// Beginning of a claim about this sender.
    pub(crate) fn prefix(self) -> &'static str {
        if self == Self::Letter { "to the letter: " } else { "" }
    }
}

/// The paper's choice (§6): a second of a layer is one ADU. It is dropped whole if none of it has left when its time is
/// over.
#[derive(Debug)]
struct WholeSeconds {
    /// Time for which data are worth sending, from when they were made.
    lasts: Duration,
    /// Second of a layer of which a packet has left.
    begun: FrameId,
}

impl LateChoice for WholeSeconds {
    fn choose(&mut self, now: Instant, _: &PathState, queue: &mut dyn Queue) {
        for index in 0..queue.len() {
            let Some((meta, _)) = queue.get(index) else { continue };
            if meta.frame != self.begun && now >= meta.enqueued + self.lasts {
                queue.drop_at(index, DropReason::Expired);
            }
        }
        let first = (0..queue.len()).find_map(|index| queue.get(index));
        self.begun = first.map_or(self.begun, |(meta, _)| meta.frame);
    }
}

/// Parameters of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cell {
    /// Time from the arrival of the first packet to its playout.
    pub(crate) start_up: Duration,
    pub(crate) rate: Rate,
    pub(crate) sender: Sender,
}

impl Cell {
    /// Returns all combinations with these start-up times.
    pub(crate) fn all(start_ups: &[Duration]) -> Vec<Self> {
        let cell = |start_up, (rate, sender)| Self { start_up, rate, sender };
        let of = |&start_up: &Duration| cross(RATES, Sender::ALL).map(move |of| cell(start_up, of));
        start_ups.iter().flat_map(of).collect()
    }

    /// Rate of the link, in kbit/s.
    pub(crate) fn kbps(&self) -> u64 {
        self.rate.as_bps() / 1_000
    }

    /// Start-up time in seconds.
    pub(crate) fn seconds(&self) -> u64 {
        self.start_up.as_millis() / 1_000
    }
}

impl serde::Serialize for Cell {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        json!({ "start_up": self.seconds(), "kbps": self.kbps(), "sender": self.sender }).serialize(out)
    }
}

/// Outcomes by start-up time, rate and sender.
pub(crate) type Views = Grid<Cell, ViewerOutcome>;

/// Outcome of a trial, within the 60 s and until the last playout.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct ViewerOutcome {
    /// Bytes that arrived in the 60 s, and those of each layer's whole packets among them.
    pub(crate) received: u64,
    pub(crate) received_layers: [u64; LAYERS],
    /// Bytes that arrived until the last playout, of each layer, and bytes among them that were in time.
    pub(crate) arrived: u64,
    pub(crate) arrived_layers: [u64; LAYERS],
    pub(crate) in_time: u64,
    /// Share of each layer's bytes that were in time.
    pub(crate) layers: [f64; LAYERS],
    /// For each packet, its second of the stream, and its lateness for playout in seconds; negative
    /// if early.
    #[serde(skip)]
    pub(crate) lateness: Vec<(u64, f64)>,
}

impl ViewerOutcome {
    /// Returns an outcome with these bytes in the 60 s, and nothing else yet.
    fn of(received: u64) -> Self {
        Self {
            received,
            received_layers: [0; LAYERS],
            arrived: 0,
            arrived_layers: [0; LAYERS],
            in_time: 0,
            layers: [0.0; LAYERS],
            lateness: Vec::new(),
        }
    }

    /// Counts a packet that arrived.
    fn count(&mut self, (second, layer): (u64, usize), at: Instant, end: Instant, playout: Instant) {
        self.arrived += SIZE as u64;
        self.arrived_layers[layer] += SIZE as u64;
        self.received_layers[layer] += if at < end { SIZE as u64 } else { 0 };
        if at <= playout {
            self.in_time += SIZE as u64;
            self.layers[layer] += SIZE as f64 / (SECONDS * BYTES) as f64;
        }
        let late = at.saturating_since(playout).as_secs_f64() - playout.saturating_since(at).as_secs_f64();
        self.lateness.push((second, late));
    }
}

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const PORT: u16 = 6_000;
/// Start of the stream: its connection is open by then.
const BEGIN: Duration = Duration::from_secs(5);

/// Runs a trial with the lowest `layers`.
fn trial(trial: &Cell, seed: u64, layers: usize, broken: Broken) -> ViewerOutcome {
    let mut rng = Rng::from_seed(seed ^ trial.rate.as_bps() << 20);
    let mut network = Network::new(rng.next_u64());
    let (from, to) = (network.machine(HERE), network.machine(THERE));
    let [way, back] = links(trial.rate);
    network.connect(from, to, way, back);

    let begin = Instant::ZERO + BEGIN;
    let start_up = if broken.early { trial.start_up / 2 } else { trial.start_up };
    let sender = if broken.chosen { Sender::LateChoice } else { trial.sender };
    let told = !broken.no_choice && sender == Sender::LateChoice;
    let source = LayeredSource::new(begin, told.then_some(start_up), layers);
    let choice: Box<dyn LateChoice> = match sender {
        _ if broken.no_choice => Box::<Chain>::default(),
        Sender::Letter => Box::new(WholeSeconds { lasts: start_up, begun: FrameId::NONE }),
        _ if broken.unmeasured => Box::<Layers>::default(),
        Sender::Plain | Sender::LateChoice => Box::new(Layers::counting_from_first()),
    };
    let feed: Feed = match sender {
        Sender::Plain => Socket::new(source).into(),
        Sender::LateChoice | Sender::Letter => Stream::new(source).slots(4_096).choice(choice).into(),
    };
    let config = Config { mss: SIZE as u16, timestamps: false, ecn: EcnMode::Off, ..Config::default() };
    let listener = Tcp::listener(Feed::none, config.clone(), rng.fork());
    let caller = Tcp::caller(SocketAddr::new(THERE, PORT), Instant::ZERO, feed, config, rng.fork());
    let receiver = network.place(to, PORT, Kind::NewReno, listener);
    let sender = network.place(from, 9_000, Kind::NewReno, caller);
    network.run_until(begin + Duration::from_secs(SECONDS) + trial.start_up);

    let opened = "a connection over a link that loses one packet in twenty is open after five seconds";
    let journal = network.host(from).agent(sender).session().expect(opened).journal();
    let arrivals = network.host(to).agent(receiver).session().expect(opened).arrivals();
    view(trial, begin, journal, arrivals)
}

fn view(trial: &Cell, begin: Instant, journal: &Journal, arrivals: &Arrivals) -> ViewerOutcome {
    let arrived = of_those_that_left(journal, arrivals);
    let first = arrived.first().map_or(begin, |(_, at)| *at);
    let end = begin + Duration::from_secs(SECONDS);
    let mut viewed = ViewerOutcome::of(arrivals.bytes_between(begin, end));
    for (seq, at) in arrived {
        let meta = journal.adus()[seq].meta;
        let second = meta.enqueued.saturating_since(begin);
        let playout = first + trial.start_up + second;
        viewed.count((second.as_millis() / 1_000, usize::from(meta.substream.0)), at, end, playout);
    }
    viewed
}

/// Returns number and complete arrival of each ADU that left: the byte stream holds them in the
/// order of their numbers.
fn of_those_that_left(journal: &Journal, arrivals: &Arrivals) -> Vec<(usize, Instant)> {
    let left = journal.adus().iter().enumerate().filter(|(_, adu)| !adu.left.is_empty());
    let mut pieces = arrivals.list().iter();
    let (mut come, mut end, mut at) = (0, 0, Instant::ZERO);
    let mut arrived = Vec::new();
    for (seq, adu) in left {
        end += adu.len as u64;
        while come < end {
            let Some(piece) = pieces.next() else { return arrived };
            come += piece.len as u64;
            at = piece.at;
        }
        arrived.push((seq, at));
    }
    arrived
}

/// Senders compared with plain TCP.
const LATE: [SenderKind; 2] = [SenderKind::Ring, SenderKind::Late];
/// Slots of the ring, for a stream of twenty seconds.
const SLOTS: u32 = 4_096;
/// Bytes of a packet on the link, with IP's and TCP's headers and timestamps.
const PACKET: usize = record::numbered_len(SIZE) + 52;

/// Runs all streams; returns findings for each congestion control and kind of late choice, beside
/// plain TCP.
///
/// # Errors
/// Missing features of the machine.
fn run_real(
    run: &Run<'_>,
    start_ups: &[Duration],
    findings: impl Fn(&Views) -> Result<Findings, RunError>,
) -> Result<Findings, RunError> {
    let ways = [
        (SenderKind::Plain, Sender::Plain),
        (SenderKind::Ring, Sender::LateChoice),
        (SenderKind::Late, Sender::LateChoice),
    ];
    let paths: Vec<_> =
        cross(start_ups.to_vec(), cross(RATES, cross(Control::ALL, ways).collect::<Vec<_>>()).collect::<Vec<_>>())
            .collect();
    let wish = |(seed, (start_up, (rate, (control, (way, sender)))))| Wish {
        control,
        way,
        cell: Cell { start_up, rate, sender },
        seed,
    };
    let wishes: Vec<Wish> = cross(run.seeds(), paths).map(wish).collect();
    let logs = over_tcp::all(run, &wishes.iter().map(plan).collect::<Vec<_>>())?;
    let mut all = Findings { setup: setup(), ..Findings::default() };
    let mut data = Vec::new();
    for (control, late) in cross(Control::ALL, LATE) {
        let these = wishes
            .iter()
            .zip(&logs)
            .filter(|(wish, _)| wish.control == control && (wish.way == late || wish.way == SenderKind::Plain));
        let these = these.map(|(wish, log)| (wish.cell, wish.seed, view_real(&wish.cell, log)));
        let name = format!("{}, {}", control.name(), late.name());
        merge(&mut all, &name, findings(&Grid::from_runs(these.collect()))?, &mut data);
    }
    all.notes.push(reached(&wishes, &logs));
    all.data = data.into();
    Ok(all)
}

/// Stream to measure.
struct Wish {
    control: Control,
    way: SenderKind,
    cell: Cell,
    seed: u64,
}

fn merge(all: &mut Findings, name: &str, found: Findings, data: &mut Vec<serde_json::Value>) {
    all.tables
        .extend(found.tables.into_iter().map(|table| Table { title: format!("{name}: {}", table.title), ..table }));
    all.claims.extend(found.claims.into_iter().map(|claim| Claim { what: format!("{name}: {}", claim.what), ..claim }));
    let figures = found.figures.into_iter();
    all.figures.extend(figures.map(|figure| Figure { caption: format!("{name}. {}", figure.caption), ..figure }));
    data.push(serde_json::json!({ "sender": name, "found": found.data }));
}

fn reached(wishes: &[Wish], logs: &[Log]) -> String {
    let of = |counts: &dyn Fn(&Log) -> u64| -> u64 {
        let late = wishes.iter().zip(logs).filter(|(wish, _)| wish.way == SenderKind::Late);
        late.map(|(_, log)| counts(log)).sum()
    };
    format!(
        "With late choice into retransmissions, {} records gave their place to a fresh datagram and {} made way for padding, in \
         all {} streams. What of them was lost is not received: it would have come late. Datagrams that came and were not as they \
         were offered, or came twice, of all streams: {}.",
        of(&|log| log.status.replaced),
        of(&|log| log.status.padded),
        of(&|_| 1),
        logs.iter().map(|log| log.corrupt).sum::<u64>()
    )
}

fn plan(&Wish { control, way, cell: ref trial, seed }: &Wish) -> Plan {
    let [forward, back] = links(trial.rate);
    Plan {
        way,
        control,
        links: Links { forward, back },
        mtu: Some(PACKET as u16),
        encrypted: false,
        behaviour: None,
        seed: seed ^ trial.rate.as_bps() << 20,
        offers: offers(trial.start_up),
        slots: SLOTS,
        choice: Arc::new(|| -> Box<dyn LateChoice> { Box::new(Layers::counting_from_first()) }),
        lasting: Duration::from_secs(SECONDS) + trial.start_up,
    }
}

/// Returns the offered packets: each second a second of all layers at once, lowest first.
fn offers(latency: Duration) -> Arc<[Offer]> {
    let of_second = |second: u64| {
        (0..LAYERS).flat_map(move |layer| {
            let frame = FrameId((second as usize * LAYERS + layer) as u32 + 1);
            let meta = AduMeta { substream: SubStream(layer as u8), frame, ..AduMeta::default() };
            [Offer { at: Duration::from_secs(second), len: SIZE, latency, meta }; PACKETS]
        })
    };
    (0..SECONDS).flat_map(of_second).collect()
}

fn view_real(trial: &Cell, log: &Log) -> ViewerOutcome {
    let first = log.arrived.iter().flatten().min().copied().unwrap_or(log.begin);
    let end = log.begin + Duration::from_secs(SECONDS);
    let received = log.arrived.iter().flatten().filter(|at| **at < end).count() as u64 * SIZE as u64;
    let mut viewed = ViewerOutcome::of(received);
    for (index, at) in log.arrived.iter().enumerate().filter_map(|(index, at)| Some((index, (*at)?))) {
        let (second, layer) = ((index / (LAYERS * PACKETS)) as u64, index / PACKETS % LAYERS);
        viewed.count((second, layer), at, end, first + trial.start_up + Duration::from_secs(second));
    }
    viewed
}

fn setup() -> Vec<Choice> {
    let kept =
        choices().into_iter().filter(|choice| !["transport", "send buffer of plain TCP"].contains(&&*choice.what));
    let own = setup! {
        ours "late choice, real": "the packet ring before the kernel's socket with `TCP_NOTSENT_LOWAT`; and that with \
            late choice into retransmissions"
            => "the first is what the paper's patch does, the second what it leaves open";
        ours "congestion control": "the kernel's Reno and CUBIC, with SACK" => "the paper has New Reno with DSACK";
        ours "a packet": "a record in a segment of its own, by the link's MTU" => "as in virtual time";
        ours "received": "payload of datagrams, without records' framing" => "the same for both";
    };
    kept.chain(own).chain(over_tcp::choices()).collect()
}
