//! tl-datagrams: effect of datagrams and out-of-order delivery over TCP (McQuistin §4.1, figures 8
//! to 11).

use timeous_host::MiddleboxBehaviour;
use timeous_net::link::Loss;

use super::tl::trial::{Broken, Offers, Protocol, Trial, link};
use super::tl::{LOSSES, RTT, choices, no_corruption};
use crate::experiment::{
    Chart, Choice, Claim, Experiment, Extent, Findings, Forms, Grid, Metric, Run, RunError, cross, metric, most,
    sabotages, setup,
};

const PROTOCOLS: [Protocol; 6] =
    [Protocol::Tcp, Protocol::Udp, Protocol::ToTcp, Protocol::Both, Protocol::BothByUse, Protocol::BothBundled];
const COUNT: u64 = 10_000;

/// Results of one stream.
#[derive(Clone, Copy, Debug)]
struct Measured {
    throughput: f64,
    goodput: f64,
    median: f64,
    p95: f64,
    jitter: f64,
    /// Bytes sent per byte written to the stream.
    sent: f64,
    corrupt: u64,
    /// Datagrams that came.
    came: usize,
}

const METRICS: [Metric<Measured>; 6] = [
    metric("throughput, kbit/s", 1, |one| one.throughput),
    metric("in time, kbit/s", 1, |one| one.goodput),
    metric("latency, median, ms", 1, |one| one.median),
    metric("latency, p95, ms", 1, |one| one.p95),
    metric("jitter, ms", 1, |one| one.jitter),
    metric("sent, for each byte", 2, |one| one.sent),
];

/// Results by protocol and loss.
type Streams = Grid<(Protocol, f64), Measured>;

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
    IN_ORDER = "in-order", "the receiver of D delivers in order" => ["p95 of the latency, D over A, at 4 % loss"];
    GARBLED = "garbled", "the receiver changes a byte of each hundredth datagram"
        => ["Datagrams delivered that were not as they were offered"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let losses = if run.extent == Extent::Least { &[0.04][..] } else { &LOSSES };
    let count = if run.extent == Extent::Least { COUNT / 4 } else { COUNT };
    let broken = Broken { in_order: run.breaks(IN_ORDER), garbled: run.breaks(GARBLED), ..Broken::default() };
    let streams = run.grid("streams", cross(PROTOCOLS, losses.iter().copied()), |&(protocol, loss), seed| {
        let (way, behaviour) = (link(Loss::Bernoulli { p: loss }), MiddleboxBehaviour::Pass);
        let outcome =
            Trial { protocol, offers: Offers::Cadence(count), way, behaviour, seed, secret: None, broken }.run();
        Measured {
            throughput: outcome.throughput(),
            goodput: outcome.goodput(),
            median: outcome.latency(50.0),
            p95: outcome.latency(95.0),
            jitter: outcome.jitter(),
            sent: outcome.sent_share(),
            corrupt: outcome.corrupt,
            came: outcome.came(),
        }
    });
    let rows = streams.rows().axis("protocol", |at| at.0.name()).axis("loss, %", |at| at.1 * 100.0);
    let figures = [
        ("Throughput (figure 8)", "kbit/s", METRICS[0]),
        ("Goodput (figure 9)", "kbit/s in time", METRICS[1]),
        ("Latency (figure 10)", "95 of 100 are there within, ms", METRICS[3]),
        ("Jitter (figure 11)", "ms", METRICS[4]),
    ];
    let figures = figures.into_iter().map(|(title, y, metric)| {
        let chart = Chart { title, x: "loss, %", y, caption: "The mean over the seeds." };
        chart.of(streams.points(), |at| at.point.0.name().to_owned(), |at| (at.point.1 * 100.0, at.mean(metric.value)))
    });
    Ok(Findings {
        setup: setup(),
        tables: vec![rows.means(&METRICS).table("Streams of 10 000 datagrams, the mean over the seeds")],
        figures: figures.collect::<Result<_, _>>()?,
        claims: claims(&streams),
        notes: vec![
            "A datagram comes each 20 ms and a round trip takes 43: one that is missing holds up three others with A. With more than 5 % \
             loss, five in a hundred datagrams are themselves repaired ones, with D and with A, so that the p95 of both is the time of \
             a repair: the next datagram's acknowledgement tells of the loss after 20 + 43 ms, and 23 ms later it is there. Nothing is \
             there sooner unless it is sent twice before anything is known."
                .to_owned(),
            "At 16 % loss the window is just enough for 50 segments a second: one datagram in five waits in the sender, most of them \
             after a timeout, and that is congestion control's part, the same for all. A makes full segments of the bytes that wait, C \
             and D put in one as many whole datagrams as fit, here two (McQuistin §3.1 calls that desirable)."
                .to_owned(),
            bundling(&streams),
        ],
        data: streams.numbers(&METRICS),
    })
}

/// Returns a note on bundling, its benefit and its cost.
fn bundling(streams: &Streams) -> String {
    let [with, without] = [Protocol::BothBundled, Protocol::BothByUse];
    let lossy = || LOSSES.into_iter().filter(|&loss| loss > 0.0);
    let each = |show: &dyn Fn(f64) -> String| lossy().map(show).collect::<Vec<_>>().join(", ");
    let of = |protocol, loss, value: fn(&Measured) -> f64| streams.mean(&(protocol, loss), value);
    let jitter = each(&|loss| format!("{:.2}", of(with, loss, |one| one.jitter) / of(without, loss, |one| one.jitter)));
    let p95 = |protocol| each(&|loss| format!("{:.0}", of(protocol, loss, |one| one.p95)));
    format!(
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
    )
}

fn setup() -> Vec<Choice> {
    let own = setup! {
        paper "sent": "10 000 datagrams, ten times each" => "§4.1";
        ours "throughput": "datagrams that came, without headers"
            => "the same for a protocol with framing and one without";
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
    let from = |least: f64| LOSSES.into_iter().filter(move |&loss| loss >= least);
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
    for loss in LOSSES {
        let more = (p95(Protocol::Both, loss) - p95(Protocol::Udp, loss)) / (RTT.as_secs_f64() * 1e3);
        let what = format!("p95 of the latency, D beyond UDP's, in round trips, at {} % loss", loss * 100.0);
        claims.push(Claim::number(what, "—", 2, more).aim(..=1.5));
    }
    let throughput = |protocol, loss| streams.mean(&(protocol, loss), |one| one.throughput);
    let distances = cross(LOSSES, [Protocol::ToTcp, Protocol::Both])
        .map(|(loss, protocol)| (throughput(protocol, loss) / throughput(Protocol::Tcp, loss) - 1.0).abs());
    let greatest = most(distances);
    let what = "Throughput: greatest distance of C and D from A, as a share";
    claims.push(Claim::number(what, "no significant variation", 3, greatest));
    for loss in from(f64::MIN_POSITIVE) {
        let share = jitter(Protocol::BothBundled, loss) / jitter(Protocol::BothByUse, loss);
        let what = format!("Jitter with bundling, as a share of that without, at {} % loss", loss * 100.0);
        claims.push(Claim::number(what, "—", 2, share));
    }
    let (with, without) = (jitter(Protocol::Both, 0.16), jitter(Protocol::Tcp, 0.16));
    let what = "Jitter at 16 % loss is lower with D than with A";
    claims.push(Claim::order(what, "lower", format!("{with:.1} and {without:.1} ms"), with < without));
    claims.push(no_corruption(streams.outcomes().map(|one| (one.corrupt, one.came))));
    claims
}
