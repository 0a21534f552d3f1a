//! tl-datagrams: effect of datagrams and out-of-order delivery over TCP (McQuistin §4.1, figures 8
//! to 11).

use timeous::core::Duration;
use timeous_host::MiddleboxBehaviour;
use timeous_net::link::Loss;

use super::tl::sweep::{PLAYOUTS, ROUND_TRIPS, playout_name, playouts};
use super::tl::trial::{Broken, Offers, Protocol, Trial, link, link_over};
use super::tl::{LOSSES, PLAYOUT, RTT, choices, no_corruption};
use crate::experiment::{
    At, Chart, Choice, Claim, Experiment, Extent, Figure, Findings, Forms, Grid, Metric, Run, RunError, Table, cross,
    metric, most, sabotages, setup,
};

const PROTOCOLS: [Protocol; 6] =
    [Protocol::Tcp, Protocol::Udp, Protocol::ToTcp, Protocol::Both, Protocol::BothByUse, Protocol::BothBundled];
const COUNT: u64 = 10_000;

/// Results of one stream.
#[derive(Clone, Copy, Debug)]
struct Measured {
    throughput: f64,
    goodput: f64,
    /// Rate of all bytes that reached the receiving host.
    carried: f64,
    median: f64,
    mean: f64,
    p95: f64,
    jitter: f64,
    /// Bytes sent per byte written to the stream.
    sent: f64,
    corrupt: u64,
    /// Datagrams that came.
    came: usize,
}

const METRICS: [Metric<Measured>; 8] = [
    metric("throughput, kbit/s", 1, |one| one.throughput),
    metric("in time, kbit/s", 1, |one| one.goodput),
    metric("all that reached the host, kbit/s", 1, |one| one.carried),
    metric("latency, median, ms", 1, |one| one.median),
    metric("mean, ms", 1, |one| one.mean),
    metric("latency, p95, ms", 1, |one| one.p95),
    metric("jitter, ms", 1, |one| one.jitter),
    metric("sent, for each byte", 2, |one| one.sent),
];

/// Results by protocol and loss.
type Streams = Grid<(Protocol, f64), Measured>;

/// Excess of the mean latency, D over A. After a loss, one datagram is late by 63 ms with D, with A four by 63, 43, 23 and 3.
const EXCESS: f64 = 0.6;
/// Ratio of latencies that counts as equal: a record and its headers take 2 % longer over the link than a datagram and its.
const EQUAL: f64 = 1.02;
/// Protocols of the sweep over round trips and playouts.
const SWEPT: [Protocol; 4] = [Protocol::Tcp, Protocol::Udp, Protocol::ToTcp, Protocol::Both];

/// Path of the sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Path {
    round_trip: Duration,
    loss: f64,
}

/// Results of one stream over a path of the sweep.
#[derive(Clone, Debug)]
struct Swept {
    mean: f64,
    p95: f64,
    jitter: f64,
    /// Share of the offered bytes in time for each playout, in percent.
    in_time: Vec<f64>,
}

/// Results of the sweep by protocol and path.
type Sweep = Grid<(Protocol, Path), Swept>;

/// Value of a stream.
type Value = fn(&Swept) -> f64;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tl-datagrams",
    title: "Datagrams over TCP, delivered as they come",
    source: "McQuistin §4.1, figures 8 to 11",
    paper: "TCP and both forms of uTLTCP have one throughput; where datagrams are delivered as they come, latency and jitter grow \
            much less with loss",
    forms: Forms::Virtual,
    seeds: 10,
    takes: "30 s",
    sabotages: &[IN_ORDER, GARBLED],
    run,
};

sabotages! {
    IN_ORDER = "in-order", "the receiver of D delivers in order" => ["p95 of the latency, D over A, at 4 % loss", "Mean latency beyond UDP's, D over A, at 4 % loss"];
    GARBLED = "garbled", "the receiver changes a byte of each hundredth datagram"
        => ["Datagrams delivered that were not as they were offered"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let losses = if run.extent == Extent::Least { &[0.04][..] } else { &LOSSES };
    let count = if run.extent == Extent::Least { COUNT / 4 } else { COUNT };
    let broken = Broken { in_order: run.breaks(IN_ORDER), garbled: run.breaks(GARBLED), ..Broken::default() };
    let streams = run.grid("streams", cross(PROTOCOLS, losses.iter().copied()), |&(protocol, loss), seed| {
        let (way, behaviour) = (link(Loss::Bernoulli { p: loss }), MiddleboxBehaviour::Pass);
        let offers = Offers::Cadence(count);
        let outcome = Trial { protocol, offers, way, playout: PLAYOUT, behaviour, seed, secret: None, broken }.run();
        Measured {
            throughput: outcome.throughput(),
            goodput: outcome.goodput(),
            carried: outcome.carried_rate(),
            median: outcome.latency(50.0),
            mean: outcome.mean_latency(),
            p95: outcome.latency(95.0),
            jitter: outcome.jitter(),
            sent: outcome.sent_share(),
            corrupt: outcome.corrupt,
            came: outcome.came(),
        }
    });
    let round_trips = if run.extent == Extent::Least { &ROUND_TRIPS[3..4] } else { &ROUND_TRIPS };
    let lossy = if run.extent == Extent::Least { &LOSSES[3..4] } else { &LOSSES[1..] };
    let paths = cross(round_trips.iter().copied(), lossy.iter().copied());
    let paths: Vec<_> = paths.map(|(round_trip, loss)| Path { round_trip, loss }).collect();
    let sweep = run.grid("paths", cross(SWEPT, paths), |&(protocol, path), seed| swept(protocol, path, seed, broken));
    let rows = streams.rows().axis("protocol", |at| at.0.name()).axis("loss, %", |at| at.1 * 100.0);
    let figures = [
        ("Throughput (figure 8)", "kbit/s, with headers, framing and repeats", METRICS[2]),
        ("Goodput (figure 9)", "kbit/s in time", METRICS[1]),
        ("Latency (figure 10)", "mean, ms", METRICS[4]),
        ("Latency, 95th percentile", "ms", METRICS[5]),
        ("Jitter (figure 11)", "ms", METRICS[6]),
    ];
    let figures = figures.into_iter().map(|(title, y, metric)| {
        let chart = Chart { title, x: "loss, %", y, caption: "The mean over the seeds." };
        chart.of(streams.points(), |at| at.point.0.name().to_owned(), |at| (at.point.1 * 100.0, at.mean(metric.value)))
    });
    Ok(Findings {
        setup: setup(),
        tables: vec![
            rows.means(&METRICS).table("Streams of 10 000 datagrams, the mean over the seeds"),
            table(&sweep),
        ],
        figures: figures.chain(sweep_figures(&sweep)).collect::<Result<_, _>>()?,
        claims: [claims(&streams), sweep_claims(&sweep)].concat(),
        notes: [
            "A datagram comes each 20 ms and a round trip takes 43: one that is missing holds up three others with A. With more than 5 % \
             loss, five in a hundred datagrams are themselves repaired ones, with D and with A, so that the p95 of both is the time of \
             a repair: the next datagram's acknowledgement tells of the loss after 20 + 43 ms, and 23 ms later it is there. Nothing is \
             there sooner unless it is sent twice before anything is known."
                .to_owned(),
            "At 16 % loss the window is just enough for 50 segments a second: one datagram in five waits in the sender, most of them \
             after a timeout, and that is congestion control's part, the same for all. All make full segments of what waits: \
             a record of C and D may lie in two."
                .to_owned(),
            "Over 70 ms and more, the window is too small for the stream at 16 % loss, over 200 ms at each: what waits grows until the end, with \
             A and with D, and of the same bytes a second records take 0.8 % for themselves. Late datagrams pile up in either; timelines give \
             them up (tl-timelines)."
                .to_owned(),
        ]
        .into_iter()
        .chain(bundling(&streams))
        .collect(),
        data: streams.numbers(&METRICS),
    })
}

fn swept(protocol: Protocol, path: Path, seed: u64, broken: Broken) -> Swept {
    let (way, behaviour) = (link_over(path.round_trip, Loss::Bernoulli { p: path.loss }), MiddleboxBehaviour::Pass);
    let offers = Offers::Cadence(COUNT / 2);
    let trial = Trial { protocol, offers, way, playout: PLAYOUT, behaviour, seed, secret: None, broken };
    let mut outcome = trial.run();
    let (mean, p95, jitter) = (outcome.mean_latency(), outcome.latency(95.0), outcome.jitter());
    let in_time = playouts(path.round_trip).into_iter().map(|playout| {
        outcome.playout = playout;
        100.0 * outcome.in_time_share()
    });
    let in_time = in_time.collect();
    Swept { mean, p95, jitter, in_time }
}

fn table(sweep: &Sweep) -> Table {
    let rows = sweep.rows().axis("protocol", |at| at.0.name());
    let rows = rows.axis("round trip, ms", |at| at.1.round_trip.as_millis()).axis("loss, %", |at| at.1.loss * 100.0);
    let rows = rows.mean("mean, ms", 1, |one| one.mean).mean("p95, ms", 1, |one| one.p95);
    let rows = rows.mean("jitter, ms", 1, |one| one.jitter);
    let places: Vec<_> = (0..=PLAYOUTS.len()).collect();
    let rows = rows.each(
        places,
        |&place| format!("in time after {}, %", playout_name(place)),
        |at, &place| format!("{:.1}", at.mean(|one| one.in_time[place])),
    );
    rows.table("Round trips and playouts: streams of 5000 datagrams, the mean over the seeds")
}

fn sweep_figures(sweep: &Sweep) -> impl Iterator<Item = Result<Figure, RunError>> {
    let of = |loss: f64| sweep.points().into_iter().filter(move |at| at.point.1.loss == loss);
    let figures: [(&str, &str, f64, Value); 2] = [
        ("Latency by round trip, 8 % loss", "mean, ms", 0.08, |one| one.mean),
        ("In time after 150 ms by round trip, 8 % loss", "% of what was offered", 0.08, |one| {
            one.in_time[PLAYOUTS.len()]
        }),
    ];
    figures
        .map(|(title, y, loss, value)| {
            let chart = Chart { title, x: "round trip, ms", y, caption: "The mean over the seeds." };
            let x = |at: &At<'_, (Protocol, Path), Swept>| at.point.1.round_trip.as_secs_f64() * 1e3;
            chart.of(of(loss), |at| at.point.0.name().to_owned(), |at| (x(at), at.mean(value)))
        })
        .into_iter()
}

/// D beside plain TCP over each path: never below.
fn sweep_claims(sweep: &Sweep) -> Vec<Claim> {
    let mut claims = Vec::new();
    for round_trip in ROUND_TRIPS.into_iter().filter(|&round_trip| sweep.has_run(|at| at.1.round_trip == round_trip)) {
        let paths = LOSSES.into_iter().map(|loss| Path { round_trip, loss });
        let paths: Vec<_> = paths.filter(|&path| sweep.has_run(|at| at.1 == path)).collect();
        let of = |protocol, path, value: &dyn Fn(&Swept) -> f64| sweep.mean(&(protocol, path), value);
        let more = |path, place: usize| {
            let value = |one: &Swept| one.in_time[place];
            of(Protocol::Both, path, &value) - of(Protocol::Tcp, path, &value)
        };
        let worst = cross(paths.iter().copied(), 0..=PLAYOUTS.len());
        let worst = worst.map(|(path, place)| (more(path, place), path, place));
        let worst = worst.min_by(|one, other| one.0.total_cmp(&other.0));
        let at = format!("round trip {} ms", round_trip.as_millis());
        let what = format!("{at}: in time with D beyond A, % of what was offered, the least of losses and playouts");
        let (least, said) = worst.map_or((f64::NAN, String::new()), |(more, path, place)| {
            (more, format!("{more:.2}: {} % loss, {}", path.loss * 100.0, playout_name(place)))
        });
        claims.push(Claim::new(what, "substantially more", said, least).pass(0.0..));
        let measures: [(&str, Value); 2] = [("mean latency", |one| one.mean), ("p95 of the latency", |one| one.p95)];
        for (name, value) in measures {
            let ratio = |path| of(Protocol::Both, path, &value) / of(Protocol::Tcp, path, &value);
            let each: Vec<_> = paths.iter().map(|&path| ratio(path)).collect();
            let said = each.iter().map(|ratio| format!("{ratio:.2}")).collect::<Vec<_>>().join(", ");
            let what = format!("{at}: {name}, D over A, the greatest of losses");
            claims.push(Claim::new(what, "significantly lower", said, most(each)).pass(..=EQUAL));
        }
    }
    claims
}

/// Returns a note on bundling, its benefit and its cost, if streams of each loss were run.
fn bundling(streams: &Streams) -> Option<String> {
    if !LOSSES.into_iter().all(|loss| streams.has_run(|at| at.1 == loss)) {
        return None;
    }
    let [with, without] = [Protocol::BothBundled, Protocol::BothByUse];
    let lossy = || LOSSES.into_iter().filter(|&loss| loss > 0.0);
    let each = |show: &dyn Fn(f64) -> String| lossy().map(show).collect::<Vec<_>>().join(", ");
    let of = |protocol, loss, value: fn(&Measured) -> f64| streams.mean(&(protocol, loss), value);
    let jitter = each(&|loss| format!("{:.2}", of(with, loss, |one| one.jitter) / of(without, loss, |one| one.jitter)));
    let p95 = |protocol| each(&|loss| format!("{:.0}", of(protocol, loss, |one| one.p95)));
    Some(format!(
        "To send twice before anything is known is bundling (Evensen et al. 2008, Opstad et al. 2015): a segment carries the one before it once \
         more, where it and the window have room and fewer than four are under way. What is lost comes 20 ms later with the next one, and \
         not after a round trip more: at 45 ms, since a segment of two takes 5 ms, which is the least that p95 could be at 8 %. \
         Losses that it hides are found by the duplicates that do not come, and answered as others are; what is bundled is under way. So a \
         window of two segments, which a loss leaves, has no room for any. At 16 % a lost segment that carries two stays under way for longer. \
         At {} % loss jitter is {jitter} of what it is without, p95 {} ms for {}; {} bytes leave for one, and {:.2} without loss. It is off \
         unless asked for.",
        each(&|loss| format!("{}", loss * 100.0)),
        p95(with),
        p95(without),
        each(&|loss| format!("{:.2}", of(with, loss, |one| one.sent))),
        of(with, 0.0, |one| one.sent),
    ))
}

fn setup() -> Vec<Choice> {
    let own = setup! {
        paper "sent": "10 000 datagrams, ten times each" => "§4.1";
        paper "all that reached the host": "headers, framing and repeats included, by the time from the first datagram to the last" => "§4.1";
        ours "throughput": "datagrams that came, without headers"
            => "the same for a protocol with framing and one without";
        ours "round trips and playouts": "10 to 200 ms; 1.1 to 4 times the delay of a datagram over the idle path, and 150 ms; \
            5000 datagrams" => "with the least of them each variation of the delay counts";
        ours "mean and p95": "of all datagrams that came" => "figure 10 has the mean";
        ours "window by use, bundling": "D beside the paper's: with RFC 7661, as our own TCP over TUN has it, and with \
            bundling besides, which is off unless asked for"
            => "what a pair of them differs by is what bundling buys and costs; the claims with bounds are about the \
            paper's D";
        ours "sent, for each byte": "bytes of the stream that left, for each that was written to it: repeated and \
            bundled ones count again"
            => "headers are not in it, and throughput and goodput count each datagram once";
    };
    [choices(), own].concat()
}

fn claims(streams: &Streams) -> Vec<Claim> {
    let mut claims = Vec::new();
    let p95 = |protocol, loss| streams.mean(&(protocol, loss), |one| one.p95);
    let jitter = |protocol, loss| streams.mean(&(protocol, loss), |one| one.jitter);
    let losses = || LOSSES.into_iter().filter(|&loss| streams.has_run(|at| at.1 == loss));
    let from = |least: f64| losses().filter(move |&loss| loss >= least);
    for loss in from(0.04) {
        let (with, without) = (p95(Protocol::Both, loss), p95(Protocol::Tcp, loss));
        let what = format!("p95 of the latency, D over A, at {} % loss", loss * 100.0);
        let said = format!("{:.2}: {with:.0} of {without:.0} ms", with / without);
        claims.push(Claim::new(what, "much lower", said, with / without).pass(..=0.5));
    }
    for loss in from(0.04) {
        let [with, without, tcp] =
            [Protocol::BothBundled, Protocol::BothByUse, Protocol::Tcp].map(|one| p95(one, loss));
        let what = "p95 of the latency, D with a window by use and bundling over A, at";
        let said = format!("{:.2}; without bundling {:.2}", with / tcp, without / tcp);
        claims.push(Claim::new(format!("{what} {} % loss", loss * 100.0), "—", said, with / tcp));
    }
    for loss in losses() {
        let more = (p95(Protocol::Both, loss) - p95(Protocol::Udp, loss)) / (RTT.as_secs_f64() * 1e3);
        let what = format!("p95 of the latency, D beyond UDP's, in round trips, at {} % loss", loss * 100.0);
        claims.push(Claim::number(what, "—", 2, more).aim(..=1.5));
    }
    let mean = |protocol, loss| streams.mean(&(protocol, loss), |one| one.mean);
    for loss in from(f64::MIN_POSITIVE) {
        let [with, without, least] = [Protocol::Both, Protocol::Tcp, Protocol::Udp].map(|one| mean(one, loss));
        let what = format!("Mean latency beyond UDP's, D over A, at {} % loss", loss * 100.0);
        let share = (with - least) / (without - least);
        let said = format!("{share:.2}: {with:.1}, {without:.1} and UDP {least:.1} ms");
        claims.push(Claim::new(what, "significantly lower", said, share).pass(..=EXCESS));
    }
    let throughput = |protocol, loss| streams.mean(&(protocol, loss), |one| one.carried);
    let distances = cross(losses(), [Protocol::ToTcp, Protocol::Both])
        .map(|(loss, protocol)| (throughput(protocol, loss) / throughput(Protocol::Tcp, loss) - 1.0).abs());
    let greatest = most(distances);
    let what = "Throughput with headers, framing and repeats: greatest distance of C and D from A, as a share";
    claims.push(Claim::number(what, "no significant variation", 3, greatest).pass(..=0.05));
    for loss in from(f64::MIN_POSITIVE) {
        let share = jitter(Protocol::BothBundled, loss) / jitter(Protocol::BothByUse, loss);
        let what = format!("Jitter with bundling, as a share of that without, at {} % loss", loss * 100.0);
        claims.push(Claim::number(what, "—", 2, share));
    }
    for loss in from(0.16) {
        let [with, without] = [Protocol::Both, Protocol::Tcp].map(|one| jitter(one, loss));
        let what = format!("Jitter at {} % loss is lower with D than with A", loss * 100.0);
        claims.push(Claim::order(what, "lower", format!("{with:.1} and {without:.1} ms"), with < without));
    }
    claims.push(no_corruption(streams.outcomes().map(|one| (one.corrupt, one.came))));
    claims
}
