//! One stream over a link, and its packets' delays and losses.

use std::net::SocketAddr;

use timeous::core::{AduMeta, Duration, FrameId, Instant, Rate, Rng};
use timeous_choice::{Chain, Deadlines, Dependencies, Frames, QueueLimit};
use timeous_cm::Kind;
use timeous_host::sources::{Cbr, OnFull};
use timeous_host::{Dccp, DccpSettings, Machine, Sink, Stream};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit, Loss, RateTrace};
use timeous_net::sim::Network;

/// Time from the hand-over of a packet to its deadline.
pub(super) const DEADLINE: Duration = Duration::from_millis(400);
/// Bytes of a packet.
const PAYLOAD: usize = 1_000;
/// Rate of the stream, relative to the link's.
const OFFERED: f64 = 1.5;
/// Start of the measurement, drop of the link's rate, its return, and the end.
const MEASURED_FROM: Duration = Duration::from_secs(5);
const SLOWER: Duration = Duration::from_secs(20);
const BACK: Duration = Duration::from_secs(25);
const END: Duration = Duration::from_secs(30);
/// Share of the link's rate, and the time for which the link must carry it to count as full again.
const FILLED: f64 = 0.85;
const FILLED_FOR: Duration = Duration::from_millis(500);

/// Parameters of a trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    pub(super) kind: Kind,
    pub(super) rate: Rate,
    pub(super) rtt: Duration,
    pub(super) queue: Duration,
    pub(super) loss: f64,
    pub(super) seed: u64,
}

/// Results of a trial.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct Measured {
    pub(super) controller: &'static str,
    pub(super) kbps: u64,
    pub(super) rtt_ms: u64,
    pub(super) queue_ms: u64,
    pub(super) loss: f64,
    pub(super) seed: u64,
    /// Share of the link's capacity used by packets that it did not lose.
    pub(super) used: f64,
    /// Queueing delay in ms: median, 95th and 99th percentile.
    pub(super) queued: [f64; 3],
    /// Share of packets dropped by the full queue.
    pub(super) dropped: f64,
    /// Time until the link was full again, in s.
    pub(super) back: f64,
}

fn at(time: Duration) -> Instant {
    Instant::ZERO + time
}

/// Returns a percentile; NaN without values.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((sorted.len() * percent / 100).min(last)).copied().unwrap_or(f64::NAN)
}

/// Runs a trial.
pub(super) fn run(trial: &Trial) -> Measured {
    let &Trial { kind, rate, rtt, queue, loss, seed } = trial;
    let mut rng =
        Rng::from_seed(seed ^ rate.as_bps() << 20 ^ rtt.as_nanos() ^ queue.as_nanos() << 8 ^ (loss * 1e3) as u64);
    let mut network = Network::new(rng.next_u64());
    let (here, there): (SocketAddr, SocketAddr) = (([10, 0, 0, 1], 5_004).into(), ([10, 0, 0, 2], 5_004).into());
    let (from, to) =
        (network.add_host(here.ip(), Machine::new(here.ip())), network.add_host(there.ip(), Machine::new(there.ip())));
    let quarter = Rate::from_bps(rate.as_bps() / 4);
    let trace = RateTrace::new(vec![(Duration::ZERO, rate), (SLOWER, quarter), (BACK, rate)]);
    let forward = LinkConfig {
        capacity: Capacity::Trace(trace.expect("times increase")),
        queue: Limit::Bytes(rate.bytes_in(queue)),
        delay: rtt / 2,
        loss: if loss > 0.0 { Loss::Bernoulli { p: loss } } else { Loss::None },
        ..LinkConfig::default()
    };
    let (way, _) = network.connect(from, to, forward, LinkConfig { delay: rtt / 2, ..LinkConfig::default() });

    let interval = Duration::from_secs_f64(rate.time_for(PAYLOAD as u64).as_secs_f64() / OFFERED);
    let source = Cbr::new(interval, PAYLOAD, OnFull::Skip)
        .with_latency(DEADLINE)
        .describing(|n| AduMeta { frame: FrameId(n as u32 + 1), ..AduMeta::default() });
    let chain = Chain::default().then(Deadlines).then(Dependencies::default()).then(Frames::new(QueueLimit::Deadlines));
    let stream = Stream::new(source).choice(Box::new(chain));
    let caller = Dccp::caller(there, stream, DccpSettings::default(), rng.fork());
    let listener = Dccp::listener(|| Stream::new(Sink), DccpSettings::default(), rng.fork());
    let mut add = |node, agent: Dccp| {
        network.with_host(node, |_, machine: &mut Machine| {
            let own = machine.add_manager(kind);
            machine.add(5_004, own, agent)
        })
    };
    let (sender, receiver) = (add(from, caller), add(to, listener));
    network.run_until(at(MEASURED_FROM));
    let before = *network.link(way).counters();
    network.run_until(at(SLOWER));
    let after = *network.link(way).counters();
    network.run_until(at(END));

    let opened = "a connection over a link that loses one packet in twenty opens";
    let journal = network.host(from).agent(sender).session().expect(opened).journal();
    let arrivals = network.host(to).agent(receiver).session().map(|session| session.arrivals());
    let came = arrivals.map(|arrivals| arrivals.first_by_seq(journal.adus().len())).unwrap_or_default();
    let capacity = rate.bytes_in(SLOWER - MEASURED_FROM) as f64;
    let packets = (after.packets_out - before.packets_out).max(1);
    let wire = (after.bytes_out - before.bytes_out) / packets;
    let own_time = rtt / 2 + rate.time_for(wire);
    let mut queued = Vec::new();
    let mut filled = Vec::new();
    for (adu, came) in journal.adus().iter().zip(came) {
        let (Some(left), Some(came)) = (adu.left.first(), came) else { continue };
        if (at(MEASURED_FROM)..at(SLOWER)).contains(left) {
            queued.push(came.saturating_since(*left).saturating_sub(own_time).as_secs_f64() * 1e3);
        }
        if came >= at(BACK) {
            filled.push(came);
        }
    }
    queued.sort_by(f64::total_cmp);
    let share = |bytes: u64| bytes as f64 / capacity;
    Measured {
        controller: kind.name(),
        kbps: rate.as_bps() / 1_000,
        rtt_ms: rtt.as_millis(),
        queue_ms: queue.as_millis(),
        loss,
        seed,
        used: share(after.bytes_out - before.bytes_out),
        queued: [50, 95, 99].map(|percent| percentile(&queued, percent)),
        dropped: (after.queue_drops - before.queue_drops) as f64 / (after.packets_in - before.packets_in).max(1) as f64,
        back: until_filled(&filled, rate, wire),
    }
}

/// Returns the time from the link's return until it is full again; the rest of the run if never.
fn until_filled(came: &[Instant], rate: Rate, wire: u64) -> f64 {
    let wanted = (FILLED * rate.bytes_in(FILLED_FOR) as f64 / wire as f64) as usize;
    let full = came.windows(wanted.max(1)).find(|window| window[window.len() - 1] - window[0] <= FILLED_FOR);
    let until = full.map_or(at(END), |window| window[0]);
    until.saturating_since(at(BACK)).as_secs_f64()
}
