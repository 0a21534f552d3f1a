//! tl-timelines: data withheld because it would be late (McQuistin §4.1, figures 13 to 16).

use timeous::core::{Duration, Instant, Rate};
use timeous_host::MiddleboxBehaviour;
use timeous_net::LinkConfig;
use timeous_net::link::{Limit, Loss};

use super::tl::measure::clairvoyant;
use super::tl::trial::{Broken, Offers, Protocol, Trial, link, standing_still};
use super::tl::{LOSSES, choices, no_corruption};
use crate::experiment::{
    Chart, Choice, Claim, Experiment, Extent, Findings, Forms, Grid, Metric, Rows, Run, RunError, Table, cross, metric,
    most, sabotages, setup,
};

const PROTOCOLS: [Protocol; 5] =
    [Protocol::Tcp, Protocol::ToTcp, Protocol::Both, Protocol::ToTcpTimed, Protocol::BothTimed];
const WITHOUT: [Protocol; 3] = [Protocol::Tcp, Protocol::ToTcp, Protocol::Both];
const COUNT: u64 = 10_000;
/// Duration and period of link outages, as at a handover.
const STILL: Duration = Duration::from_millis(400);
const PERIOD: Duration = Duration::from_secs(5);
/// Link rates in kbit/s; the narrow one is below the stream's rate with headers.
const NARROW: u64 = 200;
const WIDE: u64 = 2_000;
/// Bound of the late bytes among those received, in percent.
const MAX_LATE: f64 = 3.0;
/// Losses in bursts.
const BURSTS: Loss = Loss::GilbertElliott { p: 0.02, r: 0.5, bad_loss: 0.9, good_loss: 0.0 };

/// Path of a stream.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
enum Path {
    /// Independent losses of equal probability, as in the paper.
    Random(f64),
    /// Losses in bursts.
    Bursts,
    /// Periodic outages, after which queued data is late.
    Spikes,
    /// Periodic outages of this length in milliseconds.
    Still(u64),
    /// Rate below the stream's.
    Narrow,
}

impl Path {
    const ALL: [Self; 8] = [
        Self::Random(LOSSES[0]),
        Self::Random(LOSSES[1]),
        Self::Random(LOSSES[2]),
        Self::Random(LOSSES[3]),
        Self::Random(LOSSES[4]),
        Self::Bursts,
        Self::Spikes,
        Self::Narrow,
    ];
    /// Paths with longer outages, which cause timeouts.
    const STANDSTILLS: [Self; 4] = [Self::Still(600), Self::Still(700), Self::Still(1_000), Self::Still(1_500)];
    /// Paths that the paper suggests its evaluation lacks (§4.3).
    const HARD: [Self; 3] = [Self::Bursts, Self::Spikes, Self::Narrow];

    fn name(self) -> String {
        match self {
            Self::Random(loss) => format!("{} % loss", loss * 100.0),
            Self::Bursts => "bursts of loss".to_owned(),
            Self::Spikes => "delay spikes".to_owned(),
            Self::Still(millis) => format!("{millis} ms"),
            Self::Narrow => "narrow link".to_owned(),
        }
    }

    fn link(self) -> LinkConfig {
        match self {
            Self::Random(p) => link(Loss::Bernoulli { p }),
            Self::Bursts => link(BURSTS),
            Self::Spikes => standing_still(STILL, PERIOD),
            Self::Still(millis) => standing_still(Duration::from_millis(millis), PERIOD),
            Self::Narrow => link(Loss::None).with_rate(Rate::from_kbps(NARROW), Limit::Packets(20)),
        }
    }

    /// Returns the share that an omniscient sender could deliver in time.
    fn bound(self, offers: &[(Instant, usize)]) -> f64 {
        match self {
            Self::Random(_) | Self::Bursts => 1.0,
            Self::Spikes => clairvoyant(offers, WIDE as f64 * 1e3, STILL, PERIOD),
            Self::Still(millis) => clairvoyant(offers, WIDE as f64 * 1e3, Duration::from_millis(millis), PERIOD),
            Self::Narrow => clairvoyant(offers, NARROW as f64 * 1e3, Duration::ZERO, Duration::ZERO),
        }
    }
}

/// Results of one stream.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// Share of the sent bytes that were expired, in percent.
    expired: f64,
    /// Share of the offered bytes that arrived in time, in percent.
    in_time: f64,
    /// Share of the received bytes that arrived late, in percent.
    late: f64,
    /// Upper bound on `in_time`, in percent.
    bound: f64,
    throughput: f64,
    p95: f64,
    jitter: f64,
    replaced: u64,
    padded: u64,
    corrupt: u64,
    /// Datagrams that came.
    came: usize,
}

const METRICS: [Metric<Measured>; 9] = [
    metric("expired, % of what was sent", 2, |one| one.expired),
    metric("in time, % of what was offered", 1, |one| one.in_time),
    metric("late, % of what arrived", 1, |one| one.late),
    metric("at most, %", 1, |one| one.bound),
    metric("throughput, kbit/s", 1, |one| one.throughput),
    metric("latency, p95, ms", 1, |one| one.p95),
    metric("jitter, ms", 1, |one| one.jitter),
    metric("segments replaced", 1, |one| one.replaced as f64),
    metric("padded", 1, |one| one.padded as f64),
];

/// Results by path and protocol.
type Streams = Grid<(Path, Protocol), Measured>;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tl-timelines",
    title: "What is not sent because it would be late",
    source: "McQuistin §4.1 and §4.3, figures 13 to 16",
    paper: "\"Not significant\": with random loss and one constant delay few packets expired",
    forms: Forms::Virtual,
    seeds: 10,
    takes: "1 min",
    sabotages: &[NO_TIMELINES, GARBLED],
    run,
};

sabotages! {
    NO_TIMELINES = "no-timelines", "senders know no deadlines"
        => [
            "16 % loss: expired bytes", "bursts of loss: expired bytes", "narrow link: expired bytes",
            "bursts of loss: more is in time", "narrow link: more is in time",
        ];
    GARBLED = "garbled", "the receiver changes a byte of each hundredth datagram"
        => ["Datagrams delivered that were not as they were offered"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let is_least = run.extent == Extent::Least;
    let longer = if is_least { &[][..] } else { &Path::STANDSTILLS };
    let paths = if is_least { &[Path::Random(0.16), Path::Bursts, Path::Narrow][..] } else { &Path::ALL };
    let paths = paths.iter().chain(longer).copied();
    let count = if is_least { COUNT / 4 } else { COUNT };
    let broken = Broken { no_timelines: run.breaks(NO_TIMELINES), garbled: run.breaks(GARBLED), ..Broken::default() };
    let streams = run.grid("streams", cross(paths, PROTOCOLS), |&(path, protocol), seed| {
        let (offers, behaviour) = (Offers::Cadence(count), MiddleboxBehaviour::Pass);
        let outcome = Trial { protocol, offers, way: path.link(), behaviour, seed, secret: None, broken }.run();
        let offers: Vec<_> = outcome.journal.adus().iter().map(|adu| (adu.meta.enqueued, adu.len)).collect();
        Measured {
            expired: 100.0 * outcome.expired_share(),
            in_time: 100.0 * outcome.in_time_share(),
            late: 100.0 * outcome.late_share(),
            bound: 100.0 * path.bound(&offers),
            throughput: outcome.throughput(),
            p95: outcome.latency(95.0),
            jitter: outcome.jitter(),
            replaced: outcome.statistics.replaced,
            padded: outcome.statistics.padded,
            corrupt: outcome.corrupt,
            came: outcome.came(),
        }
    });
    let all = Rows::of(streams.points().into_iter().filter(|at| Path::ALL.contains(&at.point.0)));
    let all = all.axis("path", |at| at.0.name()).axis("protocol", |at| at.1.name()).means(&METRICS);
    let figure = |title, y, metric: Metric<Measured>| {
        let point = |&(protocol, loss): &_| (loss * 100.0, streams.mean(&(Path::Random(loss), protocol), metric.value));
        let chart = Chart { title, x: "loss, %", y, caption: "Random loss. The mean over the seeds." };
        chart.of(cross(PROTOCOLS, LOSSES), |(protocol, _)| protocol.name().to_owned(), point)
    };
    Ok(Findings {
        setup: setup(),
        tables: vec![all.table("Streams of 10 000 datagrams, the mean over the seeds"), standstills(&streams)],
        figures: vec![
            figure("Throughput (figure 13)", "kbit/s", METRICS[4])?,
            figure("In time (figure 14)", "% of what was offered", METRICS[1])?,
            figure("Latency (figure 15)", "95 of 100 are there within, ms", METRICS[5])?,
            figure("Jitter (figure 16)", "ms", METRICS[6])?,
            figure("Expired bytes on the wire", "% of what was sent", METRICS[0])?,
        ],
        claims: claims(&streams),
        notes: notes(&streams),
        data: streams.numbers(&METRICS),
    })
}

fn notes(streams: &Streams) -> Vec<String> {
    let in_time = |protocol| streams.mean(&(Path::Spikes, protocol), |one| one.in_time);
    vec![
        "On the narrow link the stream's own queue stands as long as the playout lets it. A datagram that may just be in time is given up there: \
         the link goes on serving the queue, and sending it would make each datagram behind it late by as much."
            .to_owned(),
        "At 16 % loss one datagram in forty is lost twice, and the playout leaves time for one repair: no choice helps those, \
         and a sender that knows everything loses nothing."
            .to_owned(),
        "After a standstill or a timeout the smoothed round trip is far above the path's for a while. The paper takes half of it, we a model of \
         the path."
            .to_owned(),
        format!(
            "On delay spikes it is a tie: {:.1} % are in time with timelines and {:.1} without, {:.1} for whoever knows when the link goes on. \
             Of what is offered while it stands still 16 datagrams are late, and 14 at the least. Nothing expires there, and nothing is \
             sent again: what is late was fresh when it left, and lies in the link, 16 packets of 2.6 ms that go ahead of the next. To bring \
             the datagram of 300 ms in time, too, no more than 11 could be ahead of it: four would have had to stay at home, each of which \
             would have been in time had the link gone on by 130 ms later. Who holds back all of them learns of the end a round trip of 43 ms \
             late, and has those from 320 on in time, as now: what is held back is better off by itself behind 16 others, and not before. \
             Where standstills last a second and more timelines gain (second table).",
            in_time(Protocol::BothTimed),
            most(WITHOUT.map(in_time)),
            streams.mean(&(Path::Spikes, Protocol::BothTimed), |one| one.bound),
        ),
    ]
}

/// Builds a table of the longer outages.
fn standstills(streams: &Streams) -> Table {
    Rows::of(Path::STANDSTILLS)
        .column("the link stands still for", |path| path.name())
        .each(
            PROTOCOLS,
            |protocol| protocol.name().to_owned(),
            |&path, &protocol| format!("{:.1}", streams.mean(&(path, protocol), |one| one.in_time)),
        )
        .number("at most", 1, |&path| streams.mean(&(path, Protocol::BothTimed), |one| one.bound))
        .table("In time where standstills are longer, % of what was offered, the mean over the seeds")
}

fn setup() -> Vec<Choice> {
    let mut all = choices();
    all.extend(setup! {
        paper "sent": "10 000 datagrams, ten times each" => "§4.1";
        ours "bursts": "Gilbert–Elliott: 2 % of the packets begin one, of two packets, 90 % of which are lost"
            => "§4.3 asks for bursts. We had bursts of five at first: the chain moves on by packets, so that they \
            swallow one timeout's retransmission after the other for minutes, over any TCP";
        ours "delay spikes": "the link stands still for 400 ms every 5 s" => "§4.3 asks for spikes; so do handovers";
        ours "narrow link": "200 kbit/s, 20 packets" => "256 kbit/s are sent, headers counted";
        ours "expired": "what leaves when it could not be in time, not even over an empty path"
            => "what the sender could have known";
        ours "at most": "what a sender could bring in time that knows everything; losses cost it nothing"
            => "each packet in its turn over the link, or not at all";
    });
    all
}

fn claims(streams: &Streams) -> Vec<Claim> {
    let mut claims = Vec::new();
    for path in Path::ALL {
        let expired = |protocol| streams.mean(&(path, protocol), |one| one.expired);
        for protocol in [Protocol::ToTcpTimed, Protocol::BothTimed] {
            let what = format!("{}: expired bytes, % of what {} sent", path.name(), protocol.name());
            let said = format!("{:.2}; A: {:.2}", expired(protocol), expired(Protocol::Tcp));
            claims.push(Claim::new(what, "not significant", said, expired(protocol)).pass(..=1.0));
        }
    }
    for path in Path::ALL {
        let late = streams.mean(&(path, Protocol::BothTimed), |one| one.late);
        let what = format!("{}: late bytes with D and timelines, % of what arrived", path.name());
        claims.push(Claim::number(what, "—", 2, late).aim(..=MAX_LATE));
    }
    for path in Path::HARD {
        let in_time = |protocol| streams.mean(&(path, protocol), |one| one.in_time);
        let (best, with) = (most(WITHOUT.map(in_time)), in_time(Protocol::BothTimed));
        let what = "more is in time with D and timelines than with the best without, % of what was offered";
        let limit = streams.mean(&(path, Protocol::BothTimed), |one| one.bound);
        let said = format!("{:.2}: {with:.1} and {best:.1}, at most {limit:.1}", with - best);
        claims.push(Claim::order(format!("{}: {what}", path.name()), "a small increase", said, with > best));
    }
    for path in Path::ALL {
        let with = streams.mean(&(path, Protocol::BothTimed), |one| one.in_time / one.bound);
        let what = format!("{}: in time with D and timelines, as a share of what could be", path.name());
        claims.push(Claim::number(what, "—", 3, with).aim(0.95..));
    }
    claims.push(no_corruption(streams.outcomes().map(|one| (one.corrupt, one.came))));
    claims
}
