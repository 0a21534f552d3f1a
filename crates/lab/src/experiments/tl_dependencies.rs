//! tl-dependencies: data withheld because its references are lost (McQuistin §3.3, §4.1, figures 17
//! to 20).

use timeous::core::{Duration, Rate};
use timeous_host::MiddleboxBehaviour;
use timeous_net::LinkConfig;
use timeous_net::link::{Limit, Loss};

use super::tl::trial::{Broken, Offers, Protocol, Trial, link};
use super::tl::{LOSSES, PLAYOUT, choices, no_corruption};
use crate::experiment::{
    Chart, Choice, Claim, Experiment, Extent, Findings, Forms, Grid, Metric, Run, RunError, cross, metric, sabotages,
    setup,
};

const PROTOCOLS: [Protocol; 6] = [
    Protocol::Udp,
    Protocol::Both,
    Protocol::BothTimed,
    Protocol::BothDependent,
    Protocol::BothTimedByUse,
    Protocol::BothPausing,
];
/// Protocols of the paper's own chains.
const CHAINED: [Protocol; 3] = [Protocol::Both, Protocol::BothTimed, Protocol::BothDependent];
/// Datagrams of the paper's own chains.
const COUNT: u64 = 10_000;
const LASTING: Duration = Duration::from_secs(120);
/// Link rate in kbit/s, about equal to the pictures' with headers.
const NARROW: u64 = 550;
/// Share shown that counts as equal, in points.
const TIE: f64 = 0.5;
/// Least reduction of the bytes sent in vain, in percent.
const PASS: f64 = 25.0;
/// The same as a goal, of what the window allows.
const AIM: f64 = 80.0;

/// Path of a stream.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
enum Path {
    /// Wide link with independent losses.
    Random(f64),
    /// Link too narrow for I-frames, with losses in bursts.
    Narrow,
}

impl Path {
    fn all() -> Vec<Self> {
        LOSSES.into_iter().map(Self::Random).chain([Self::Narrow]).collect()
    }

    fn name(self) -> String {
        match self {
            Self::Random(loss) => format!("{} % loss", loss * 100.0),
            Self::Narrow => "narrow link, bursts".to_owned(),
        }
    }

    fn link(self) -> LinkConfig {
        match self {
            Self::Random(p) => link(Loss::Bernoulli { p }),
            Self::Narrow => link(Loss::GilbertElliott { p: 0.02, r: 0.5, bad_loss: 0.9, good_loss: 0.0 })
                .with_rate(Rate::from_kbps(NARROW), Limit::Packets(20)),
        }
    }
}

/// Results of one stream.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// Sent data and undecodable data, in kilobytes.
    sent: f64,
    undecodable: f64,
    /// Share of the offered frame bytes in decodable frames, in percent.
    shown: f64,
    /// Data given up for a reference that was there, in kilobytes.
    wrong: f64,
    corrupt: u64,
    /// Datagrams that came.
    came: usize,
}

const METRICS: [Metric<Measured>; 4] = [
    metric("sent, kB", 0, |one| one.sent),
    metric("of frames that cannot be shown, kB", 0, |one| one.undecodable),
    metric("shown, % of what was offered", 1, |one| one.shown),
    metric("given up though of use, kB", 1, |one| one.wrong),
];

/// Results by path and protocol.
type Streams = Grid<(Path, Protocol), Measured>;

/// Results of one stream of the paper's chains.
#[derive(Clone, Copy, Debug)]
struct Chained {
    throughput: f64,
    in_time: f64,
    shown: f64,
    mean: f64,
    p95: f64,
    jitter: f64,
    sent: f64,
    undecodable: f64,
    changed: u64,
}

const CHAIN_METRICS: [Metric<Chained>; 9] = [
    metric("all that reached the host, kbit/s", 1, |one| one.throughput),
    metric("in time, % of what was offered", 1, |one| one.in_time),
    metric("of use, %", 1, |one| one.shown),
    metric("latency, mean, ms", 1, |one| one.mean),
    metric("p95, ms", 1, |one| one.p95),
    metric("jitter, ms", 1, |one| one.jitter),
    metric("sent, kB", 0, |one| one.sent),
    metric("of no use, kB", 0, |one| one.undecodable),
    metric("segments changed", 1, |one| one.changed as f64),
];

/// Results of the paper's chains by protocol and loss.
type Chains = Grid<(Protocol, f64), Chained>;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tl-dependencies",
    title: "What is not sent because what it refers to is missing",
    source: "McQuistin §3.3 and §4.1, figures 17 to 20",
    paper: "\"Not significant\", with chains of five datagrams",
    forms: Forms::Virtual,
    seeds: 10,
    takes: "20 s",
    sabotages: &[NO_DEPENDENCIES, HOPELESS, GARBLED],
    run,
};

sabotages! {
    NO_DEPENDENCIES = "no-dependencies", "the sender knows no dependencies"
        => ["4 % loss: bytes of frames", "narrow link, bursts: bytes of frames"];
    HOPELESS = "hopeless", "the sender that knows dependencies takes every datagram for too late"
        => ["4 % loss: shown with dependencies, % of what was offered"];
    GARBLED = "garbled", "the receiver changes a byte of each hundredth datagram"
        => ["Datagrams delivered that were not as they were offered"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let is_least = run.extent == Extent::Least;
    let paths = if is_least { vec![Path::Random(0.04), Path::Narrow] } else { Path::all() };
    let protocols = if is_least { &PROTOCOLS[2..4] } else { &PROTOCOLS[..] };
    let losses = if is_least { &LOSSES[3..4] } else { &LOSSES };
    let broken = Broken {
        no_dependencies: run.breaks(NO_DEPENDENCIES),
        hopeless: run.breaks(HOPELESS),
        garbled: run.breaks(GARBLED),
        ..Broken::default()
    };
    let streams = run.grid("streams", cross(paths, protocols.iter().copied()), |&(path, protocol), seed| {
        let (offers, behaviour) = (Offers::Pictures(LASTING), MiddleboxBehaviour::Pass);
        let (way, playout) = (path.link(), PLAYOUT);
        let outcome = Trial { protocol, offers, way, playout, behaviour, seed, secret: None, broken }.run();
        let (sent, undecodable) = outcome.undecodable();
        Measured {
            sent: sent as f64 / 1e3,
            undecodable: undecodable as f64 / 1e3,
            shown: 100.0 * outcome.shown_share(),
            wrong: outcome.given_up_wrongly() as f64 / 1e3,
            corrupt: outcome.corrupt,
            came: outcome.came(),
        }
    });
    let chains = run.grid("chains", cross(CHAINED, losses.iter().copied()), |&(protocol, loss), seed| {
        let (offers, behaviour) = (Offers::Chains(COUNT), MiddleboxBehaviour::Pass);
        let (way, playout) = (link(Loss::Bernoulli { p: loss }), PLAYOUT);
        let outcome = Trial { protocol, offers, way, playout, behaviour, seed, secret: None, broken }.run();
        let (sent, undecodable) = outcome.undecodable();
        Chained {
            throughput: outcome.carried_rate(),
            in_time: 100.0 * outcome.in_time_share(),
            shown: 100.0 * outcome.shown_share(),
            mean: outcome.mean_latency(),
            p95: outcome.latency(95.0),
            jitter: outcome.jitter(),
            sent: sent as f64 / 1e3,
            undecodable: undecodable as f64 / 1e3,
            changed: outcome.statistics.replaced + outcome.statistics.padded,
        }
    });
    let chained = chains.rows().axis("protocol", |at| at.0.name()).axis("loss, %", |at| at.1 * 100.0);
    let chain_figures = [
        ("Throughput, chains of five (figure 17)", "kbit/s, with headers, framing and repeats", CHAIN_METRICS[0]),
        ("Goodput (figure 18)", "in time, % of what was offered", CHAIN_METRICS[1]),
        ("Latency (figure 19)", "mean, ms", CHAIN_METRICS[3]),
        ("Jitter (figure 20)", "ms", CHAIN_METRICS[5]),
    ];
    let chain_figures = chain_figures.into_iter().map(|(title, y, metric)| {
        let chart = Chart { title, x: "loss, %", y, caption: "Random loss, chains of five. The mean over the seeds." };
        chart.of(chains.points(), |at| at.point.0.name().to_owned(), |at| (at.point.1 * 100.0, at.mean(metric.value)))
    });
    let rows = streams.rows().axis("path", |at| at.0.name()).axis("protocol", |at| at.1.name());
    let figure = |title, y, metric: Metric<Measured>| {
        let random = cross(PROTOCOLS, LOSSES);
        let point = |&(protocol, loss): &_| (loss * 100.0, streams.mean(&(Path::Random(loss), protocol), metric.value));
        let chart = Chart { title, x: "loss, %", y, caption: "Random loss. The mean over the seeds." };
        chart.of(random, |(protocol, _)| protocol.name().to_owned(), point)
    };
    Ok(Findings {
        setup: setup(),
        tables: vec![
            rows.means(&METRICS).table("Two minutes of video, the mean over the seeds"),
            chained.means(&CHAIN_METRICS).table("The paper's chains of five datagrams, the mean over the seeds"),
        ],
        figures: [
            figure("Sent in vain", "kB of frames that cannot be shown", METRICS[1]),
            figure("Frames shown", "% of what was offered", METRICS[2]),
        ]
        .into_iter()
        .chain(chain_figures)
        .collect::<Result<_, _>>()?,
        claims: [claims(&streams), chain_claims(&chains)].concat(),
        notes: vec![
            "What is still sent in vain left before its sender could know: the packets of a frame that had left when one of them turned \
             out to be too late to be repaired, and those of the frames of a round trip after it. A packet that came late is \
             acknowledged like any other; the sender concludes from the time of that."
                .to_owned(),
            "What dependencies can cost is the window: it grows only while it is full, and a stream that gives frames up does not fill it, so that \
             the next keyframe of ten packets finds room for two or three at a time. So frames that cannot be shown are sent while losses have the \
             window below the initial one and a few segments would fill it, and nothing else waits."
                .to_owned(),
            "On the narrow link no frame is ever shown: the first of a group takes 166 ms to pass. What is counted there is how soon the \
             sender finds out."
                .to_owned(),
        ],
        data: streams.numbers(&METRICS),
    })
}

fn setup() -> Vec<Choice> {
    let mut all: Vec<_> = choices().into_iter().filter(|choice| choice.what != "datagrams").collect();
    all.extend(setup! {
        ours "pictures": "25 a second in groups of 12 to 60; 10 packets of 1100 bytes for the first of a group, 2 for \
            the others, each of which refers to the one before it"
            => "the paper's chains of five were too short to show anything (§4.1)";
        ours "narrow link": "550 kbit/s, 20 packets, bursts of loss as in tl-timelines"
            => "about what the pictures take";
        ours "cannot be shown": "a packet of the frame, or of one it refers to, however far back, is not there in \
            time" => "the decoder's view, at the end of the run";
        paper "chains of five": "10 000 datagrams of 550 and 650 bytes in turn, every fifth independent, the others dependent on the one \
            before" => "§4.1, figures 17 to 20";
        ours "given up though of use": "packets given up for a lost reference, although all that they refer to was there in time"
            => "what dependencies may cost the viewer, apart from the window";
        ours "shown": "has the bound; bytes saved beside it" => "saving bytes is of no use to a viewer who sees less";
        ours "window by use": "a loss between two frames lowers the window as far as it was used of late, and not \
            what is under way then; while it is smaller than one to begin with, frames that cannot be shown keep it \
            in use" => "as our own TCP over TUN has it, and Linux and FreeBSD something like it; the bounds are about \
            RFC 5681's";
    });
    all
}

fn claims(streams: &Streams) -> Vec<Claim> {
    let mut claims = Vec::new();
    let paths = |protocol| Path::all().into_iter().filter(move |&path| streams.has_run(|at| *at == (path, protocol)));
    for path in paths(Protocol::BothDependent).filter(|&path| path != Path::Random(0.0)) {
        let useless = |protocol| streams.mean(&(path, protocol), |one| one.undecodable);
        let (with, without) = (useless(Protocol::BothDependent), useless(Protocol::BothTimed));
        let sent = streams.mean(&(path, Protocol::BothDependent), |one| one.sent);
        // A sender that sends nothing sends nothing in vain.
        let less = if sent > 0.0 { 100.0 * (1.0 - with / without) } else { f64::NAN };
        let what = format!("{}: bytes of frames that cannot be shown, less than with timelines alone, %", path.name());
        let said = format!("{less:.0}: {with:.0} of {without:.0} kB");
        claims.push(Claim::new(what, "not significant", said, less).pass(PASS..).aim(AIM..));
    }
    for path in paths(Protocol::BothDependent) {
        let shown = |protocol| streams.mean(&(path, protocol), |one| one.shown);
        let (with, without) = (shown(Protocol::BothDependent), shown(Protocol::BothTimed));
        let what = format!("{}: shown with dependencies, % of what was offered, beyond timelines alone", path.name());
        let (more, said) = (with - without, format!("{:.1}: {with:.1} and {without:.1}", with - without));
        let claim = Claim::new(what, "—", said, more);
        // Over the narrow link no frame can be shown, by any sender.
        claims.push(if path == Path::Narrow { claim } else { claim.pass(0.0..) });
    }
    let pauses = |path, protocol| streams.mean(&(path, protocol), |one| one.shown);
    for path in paths(Protocol::BothPausing) {
        let (with, without) = (pauses(path, Protocol::BothPausing), pauses(path, Protocol::BothTimedByUse));
        let what = format!("{}: shown with dependencies, window by use, beyond timelines alone", path.name());
        let said = format!("{:.1}: {with:.1} and {without:.1}", with - without);
        let claim = Claim::new(what, "—", said, with - without);
        claims.push(if path == Path::Narrow { claim } else { claim.pass(-TIE..) });
    }
    let wrong = streams.outcomes().map(|one| one.wrong).fold(0.0, f64::max);
    let what = "Data given up for a reference that was there, kB, the most of all streams";
    claims.push(Claim::number(what, "—", 1, wrong).pass(..=0.0));
    claims.push(no_corruption(streams.outcomes().map(|one| (one.corrupt, one.came))));
    claims
}

fn chain_claims(chains: &Chains) -> Vec<Claim> {
    let mut claims = Vec::new();
    let losses = || LOSSES.into_iter().filter(|&loss| chains.has_run(|at| at.1 == loss));
    for loss in losses() {
        let shown = |protocol| chains.mean(&(protocol, loss), |one| one.shown);
        let (with, without) = (shown(Protocol::BothDependent), shown(Protocol::BothTimed));
        let what =
            format!("chains of five, {} % loss: of use with dependencies beyond timelines alone, %", loss * 100.0);
        let said = format!("{:.2}: {with:.2} and {without:.2}", with - without);
        claims.push(Claim::new(what, "not significant", said, with - without).pass(0.0..));
    }
    for loss in losses().filter(|&loss| loss > 0.0) {
        let useless = |protocol| chains.mean(&(protocol, loss), |one| one.undecodable);
        let (with, without) = (useless(Protocol::BothDependent), useless(Protocol::BothTimed));
        let less = if without > 0.0 { 100.0 * (1.0 - with / without) } else { 0.0 };
        let what =
            format!("chains of five, {} % loss: bytes sent in vain, less than with timelines alone, %", loss * 100.0);
        claims.push(Claim::new(what, "not significant", format!("{less:.0}: {with:.1} of {without:.1} kB"), less));
    }
    claims
}
