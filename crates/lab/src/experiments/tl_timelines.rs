//! tl-timelines: data withheld because it would be late (McQuistin §4.1, figures 13 to 16).

use timeous::core::{Duration, Instant, Rate};
use timeous_host::MiddleboxBehaviour;
use timeous_net::LinkConfig;
use timeous_net::link::{Limit, Loss};

use super::tl::measure::clairvoyant;
use super::tl::sweep::{PLAYOUTS, ROUND_TRIPS, playout_name, playouts};
use super::tl::trial::{Broken, Offers, Outcome, Protocol, Trial, link, link_over, standing_still};
use super::tl::{LOSSES, PLAYOUT, choices, no_corruption};
use crate::experiment::{
    Chart, Choice, Claim, Experiment, Extent, Figure, Findings, Forms, Grid, Metric, Rows, Run, RunError, Table, cross,
    least, metric, most, sabotages, setup,
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
const NEAR: u64 = 300;
const WIDE: u64 = 2_000;
/// Bound of the late bytes among those received, in percent.
const MAX_LATE: f64 = 3.0;
/// Expired bytes that count as none, in percent: five datagrams of 10 000.
const LEAST_EXPIRED: f64 = 0.05;
/// Share in time that counts as equal, in points.
const TIE: f64 = 0.1;
/// Losses over the link near the stream's rate.
const NEAR_LOSS: f64 = 0.02;
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
    /// Rate just above the stream's, with losses.
    Near,
}

impl Path {
    const ALL: [Self; 9] = [
        Self::Random(LOSSES[0]),
        Self::Random(LOSSES[1]),
        Self::Random(LOSSES[2]),
        Self::Random(LOSSES[3]),
        Self::Random(LOSSES[4]),
        Self::Bursts,
        Self::Spikes,
        Self::Narrow,
        Self::Near,
    ];
    /// Paths with longer outages, which cause timeouts.
    const STANDSTILLS: [Self; 4] = [Self::Still(600), Self::Still(700), Self::Still(1_000), Self::Still(1_500)];
    /// Paths that the paper suggests its evaluation lacks (§4.3).
    const HARD: [Self; 4] = [Self::Bursts, Self::Spikes, Self::Narrow, Self::Near];

    fn name(self) -> String {
        match self {
            Self::Random(loss) => format!("{} % loss", loss * 100.0),
            Self::Bursts => "bursts of loss".to_owned(),
            Self::Spikes => "delay spikes".to_owned(),
            Self::Still(millis) => format!("{millis} ms"),
            Self::Narrow => "narrow link".to_owned(),
            Self::Near => "link near the stream's rate".to_owned(),
        }
    }

    fn link(self) -> LinkConfig {
        match self {
            Self::Random(p) => link(Loss::Bernoulli { p }),
            Self::Bursts => link(BURSTS),
            Self::Spikes => standing_still(STILL, PERIOD),
            Self::Still(millis) => standing_still(Duration::from_millis(millis), PERIOD),
            Self::Near => link(Loss::Bernoulli { p: NEAR_LOSS }).with_rate(Rate::from_kbps(NEAR), Limit::Packets(20)),
            Self::Narrow => link(Loss::None).with_rate(Rate::from_kbps(NARROW), Limit::Packets(20)),
        }
    }

    /// Returns the share that an omniscient sender could deliver in time.
    fn bound(self, offers: &[(Instant, usize)]) -> f64 {
        match self {
            Self::Random(_) | Self::Bursts | Self::Near => 1.0,
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
    mean: f64,
    p95: f64,
    jitter: f64,
    replaced: u64,
    padded: u64,
    corrupt: u64,
    /// Datagrams that came.
    came: usize,
}

const METRICS: [Metric<Measured>; 10] = [
    metric("expired, % of what was sent", 2, |one| one.expired),
    metric("in time, % of what was offered", 1, |one| one.in_time),
    metric("late, % of what arrived", 1, |one| one.late),
    metric("at most, %", 1, |one| one.bound),
    metric("all that reached the host, kbit/s", 1, |one| one.throughput),
    metric("latency, mean, ms", 1, |one| one.mean),
    metric("p95, ms", 1, |one| one.p95),
    metric("jitter, ms", 1, |one| one.jitter),
    metric("segments replaced", 1, |one| one.replaced as f64),
    metric("padded", 1, |one| one.padded as f64),
];

/// Results by path and protocol.
type Streams = Grid<(Path, Protocol), Measured>;

/// Protocols, round trips and loss rates of the sweep.
const SWEPT_PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Both, Protocol::BothTimed];
const SWEPT: [Duration; 4] = [ROUND_TRIPS[0], ROUND_TRIPS[1], FAR, ROUND_TRIPS[4]];
const SWEPT_LOSSES: [f64; 3] = [0.02, 0.08, 0.16];
/// Round trip at which TCP's window is too small for the stream from 8 % loss on.
const FAR: Duration = ROUND_TRIPS[3];

/// Results of one stream by one playout.
#[derive(Clone, Copy, Debug)]
struct Judged {
    in_time: f64,
    late: f64,
    mean: f64,
    p95: f64,
    jitter: f64,
}

/// Results by protocol and path, one for each playout.
type Sweep = Grid<(Protocol, (Duration, f64)), Vec<Judged>>;

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
            "narrow link: more is in time",
            "round trip 100 ms, 8 % loss, playout 1.1 one-way delays: in time", "round trip 100 ms, 16 % loss, playout 150 ms: in time",
        ];
    GARBLED = "garbled", "the receiver changes a byte of each hundredth datagram"
        => ["Datagrams delivered that were not as they were offered"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let is_least = run.extent == Extent::Least;
    let longer = if is_least { &[][..] } else { &Path::STANDSTILLS };
    let paths = if is_least { &[Path::Random(0.16), Path::Bursts, Path::Narrow][..] } else { &Path::ALL };
    let paths = paths.iter().chain(longer).copied();
    // Bursts are rare: in a quarter of the datagrams with some seeds nothing expires, with or without timelines.
    let count = |path| if is_least && path != Path::Bursts { COUNT / 4 } else { COUNT };
    let broken = Broken { no_timelines: run.breaks(NO_TIMELINES), garbled: run.breaks(GARBLED), ..Broken::default() };
    let streams = run.grid("streams", cross(paths, PROTOCOLS), |&(path, protocol), seed| {
        let (offers, behaviour) = (Offers::Cadence(count(path)), MiddleboxBehaviour::Pass);
        let (way, playout) = (path.link(), PLAYOUT);
        let outcome = Trial { protocol, offers, way, playout, behaviour, seed, secret: None, broken }.run();
        let offers: Vec<_> = outcome.journal.adus().iter().map(|adu| (adu.meta.enqueued, adu.len)).collect();
        Measured {
            expired: 100.0 * outcome.expired_share(),
            in_time: 100.0 * outcome.in_time_share(),
            late: 100.0 * outcome.late_share(),
            bound: 100.0 * path.bound(&offers),
            throughput: outcome.carried_rate(),
            mean: outcome.mean_latency(),
            p95: outcome.latency(95.0),
            jitter: outcome.jitter(),
            replaced: outcome.statistics.replaced,
            padded: outcome.statistics.padded,
            corrupt: outcome.corrupt,
            came: outcome.came(),
        }
    });
    let round_trips = if is_least { &SWEPT[2..3] } else { &SWEPT };
    let lossy = if is_least { &SWEPT_LOSSES[1..] } else { &SWEPT_LOSSES };
    let paths = cross(round_trips.iter().copied(), lossy.iter().copied()).collect::<Vec<_>>();
    let sweep =
        run.grid("paths", cross(SWEPT_PROTOCOLS, paths), |&(protocol, path), seed| swept(protocol, path, seed, broken));
    let all = Rows::of(streams.points().into_iter().filter(|at| Path::ALL.contains(&at.point.0)));
    let all = all.axis("path", |at| at.0.name()).axis("protocol", |at| at.1.name()).means(&METRICS);
    let figure = |title, y, metric: Metric<Measured>| {
        let point = |&(protocol, loss): &_| (loss * 100.0, streams.mean(&(Path::Random(loss), protocol), metric.value));
        let chart = Chart { title, x: "loss, %", y, caption: "Random loss. The mean over the seeds." };
        chart.of(cross(PROTOCOLS, LOSSES), |(protocol, _)| protocol.name().to_owned(), point)
    };
    Ok(Findings {
        setup: setup(),
        tables: vec![
            all.table("Streams of 10 000 datagrams, the mean over the seeds"),
            standstills(&streams),
            sweep_table(&sweep),
        ],
        figures: vec![
            figure("Throughput (figure 13)", "kbit/s", METRICS[4])?,
            figure("In time (figure 14)", "% of what was offered", METRICS[1])?,
            figure("Latency (figure 15)", "mean, ms", METRICS[5])?,
            figure("Latency, 95th percentile", "ms", METRICS[6])?,
            figure("Jitter (figure 16)", "ms", METRICS[7])?,
            figure("Late (badput)", "% of what arrived", METRICS[2])?,
            figure("Expired bytes on the wire", "% of what was sent", METRICS[0])?,
            far_figure(&sweep)?,
        ],
        claims: [claims(&streams), sweep_claims(&sweep)].concat(),
        notes: notes(&streams),
        data: streams.numbers(&METRICS),
    })
}

/// Runs one stream over a path of the sweep for each playout. A sender without timelines does the same for each.
fn swept(protocol: Protocol, (round_trip, loss): (Duration, f64), seed: u64, broken: Broken) -> Vec<Judged> {
    let run = |playout| {
        let (way, behaviour) = (link_over(round_trip, Loss::Bernoulli { p: loss }), MiddleboxBehaviour::Pass);
        let offers = Offers::Cadence(COUNT / 2);
        Trial { protocol, offers, way, playout, behaviour, seed, secret: None, broken }.run()
    };
    let judge = |outcome: &Outcome| Judged {
        in_time: 100.0 * outcome.in_time_share(),
        late: 100.0 * outcome.late_share(),
        mean: outcome.mean_latency(),
        p95: outcome.latency(95.0),
        jitter: outcome.jitter(),
    };
    let mut playouts = playouts(round_trip).into_iter();
    if protocol == Protocol::BothTimed {
        return playouts.map(|playout| judge(&run(playout))).collect();
    }
    let mut outcome = run(playouts.next().expect("there is a playout"));
    let first = judge(&outcome);
    let others = playouts.map(|playout| {
        outcome.playout = playout;
        judge(&outcome)
    });
    [first].into_iter().chain(others).collect()
}

fn sweep_table(sweep: &Sweep) -> Table {
    let points = sweep.points();
    let rows = cross(points.iter(), 0..=PLAYOUTS.len());
    let rows = Rows::of(rows).column("protocol", |(at, _)| at.point.0.name());
    let rows = rows.column("round trip, ms", |(at, _)| at.point.1.0.as_millis());
    let rows = rows.column("loss, %", |(at, _)| at.point.1.1 * 100.0);
    let rows = rows.column("playout", |(_, place)| playout_name(*place));
    let rows = rows.number("in time, % of what was offered", 1, |(at, place)| at.mean(|all| all[*place].in_time));
    let rows = rows.number("late, % of what arrived", 1, |(at, place)| at.mean(|all| all[*place].late));
    let rows = rows.number("latency, mean, ms", 1, |(at, place)| at.mean(|all| all[*place].mean));
    let rows = rows.number("p95, ms", 1, |(at, place)| at.mean(|all| all[*place].p95));
    let rows = rows.number("jitter, ms", 1, |(at, place)| at.mean(|all| all[*place].jitter));
    rows.table("Round trips and playouts: streams of 5000 datagrams, the mean over the seeds")
}

fn far_figure(sweep: &Sweep) -> Result<Figure, RunError> {
    let (title, x, y) = ("In time after 150 ms, 8 % loss", "round trip, ms", "% of what was offered");
    let chart = Chart { title, x, y, caption: "The mean over the seeds." };
    let at_8 = sweep.points().into_iter().filter(|at| at.point.1.1 == SWEPT_LOSSES[1]);
    chart.of(
        at_8,
        |at| at.point.0.name().to_owned(),
        |at| (at.point.1.0.as_secs_f64() * 1e3, at.mean(|all| all[PLAYOUTS.len()].in_time)),
    )
}

fn sweep_claims(sweep: &Sweep) -> Vec<Claim> {
    let mut claims = Vec::new();
    let of = |protocol, path, value: &dyn Fn(&Vec<Judged>) -> f64| sweep.mean(&(protocol, path), value);
    for round_trip in SWEPT.into_iter().filter(|&round_trip| sweep.has_run(|at| at.1.0 == round_trip)) {
        let paths = SWEPT_LOSSES.into_iter().map(|loss| (round_trip, loss));
        let paths: Vec<_> = paths.filter(|path| sweep.has_run(|at| at.1 == *path)).collect();
        for place in 0..=PLAYOUTS.len() {
            let at = format!("round trip {} ms, playout {}", round_trip.as_millis(), playout_name(place));
            let late = |path| of(Protocol::BothTimed, path, &|all| all[place].late);
            let what = format!("{at}: late bytes with D and timelines, % of what arrived, the most of losses");
            let most_late = most(paths.iter().map(|&path| late(path)));
            claims.push(Claim::number(what, "—", 2, most_late).pass(..=MAX_LATE).aim(..=1.0));
            let in_time = |protocol, path| of(protocol, path, &|all| all[place].in_time);
            let more = |path| {
                let without = [Protocol::Tcp, Protocol::Both].map(|protocol| in_time(protocol, path));
                in_time(Protocol::BothTimed, path) - most(without)
            };
            let each: Vec<_> = paths.iter().map(|&path| more(path)).collect();
            let said = each.iter().map(|more| format!("{more:.2}")).collect::<Vec<_>>().join(", ");
            let what = format!(
                "{at}: in time with timelines beyond the best without, % of what was offered, the least of losses"
            );
            claims.push(Claim::new(what, "a small increase", said, least(each)).pass(-TIE..));
        }
    }
    let far = SWEPT_LOSSES.into_iter().skip(1).filter(|&loss| sweep.has_run(|at| at.1 == (FAR, loss)));
    for (loss, place) in cross(far, 0..=PLAYOUTS.len()) {
        let in_time = |protocol| of(protocol, (FAR, loss), &|all| all[place].in_time);
        let [with, datagrams, tcp] = [Protocol::BothTimed, Protocol::Both, Protocol::Tcp].map(in_time);
        let (far, playout) = (FAR.as_millis(), playout_name(place));
        let what =
            format!("round trip {far} ms, {} % loss, playout {playout}: in time, timelines over TCP", loss * 100.0);
        let said = format!("{:.1}: {with:.1}, without timelines {datagrams:.1}, TCP {tcp:.1} %", with / tcp);
        claims.push(Claim::new(what, "—", said, with / tcp).pass(2.0..).aim(3.0..));
    }
    claims
}

fn notes(streams: &Streams) -> Vec<String> {
    let in_time = |protocol| streams.mean(&(Path::Spikes, protocol), |one| one.in_time);
    let mut notes = vec![
        "On the narrow link the stream's own queue stands as long as the playout lets it. A datagram that may just be in time is given up there: \
         the link goes on serving the queue, and sending it would make each datagram behind it late by as much."
            .to_owned(),
        "At 16 % loss one datagram in forty is lost twice, and the playout leaves time for one repair: no choice helps those, \
         and a sender that knows everything loses nothing."
            .to_owned(),
        "After a standstill or a timeout the smoothed round trip is far above the path's for a while. The paper takes half of it, we a model of \
         the path."
            .to_owned(),
    ];
    if streams.has_run(|at| at.0 == Path::Spikes) {
        notes.push(format!(
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
        ));
    }
    notes
}

/// Builds a table of the longer outages.
fn standstills(streams: &Streams) -> Table {
    Rows::of(Path::STANDSTILLS.into_iter().filter(|path| streams.has_run(|at| at.0 == *path)))
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
        ours "link near the stream's rate": "{NEAR} kbit/s, 20 packets, 2 % loss" => "256 to 266 kbit/s are sent, headers and records \
            counted";
        ours "round trips and playouts": "10 to 200 ms; 1.1 to 4 times the delay of a datagram over the idle path, and 150 ms; \
            5000 datagrams" => "a stream without timelines does the same for each playout and is run once";
        ours "late": "what arrived after its playout: badput" => "§4.1; the bound of what leaves expired says what the sender could \
            have known";
        ours "expired": "what leaves when it could not be in time, not even over an empty path"
            => "what the sender could have known";
        ours "at most": "what a sender could bring in time that knows everything; losses cost it nothing"
            => "each packet in its turn over the link, or not at all";
    });
    all
}

/// Bound of the expired bytes, in percent of what was sent, beside those of TCP: where few expire with TCP, too, less than 1 % is
/// no result.
fn most_expired(tcps: f64) -> f64 {
    (tcps / 2.0).clamp(LEAST_EXPIRED, 1.0)
}

fn claims(streams: &Streams) -> Vec<Claim> {
    let mut claims = Vec::new();
    let has_run = |path: &Path| streams.has_run(|at| at.0 == *path);
    for path in Path::ALL.into_iter().filter(has_run) {
        let expired = |protocol| streams.mean(&(path, protocol), |one| one.expired);
        for protocol in [Protocol::ToTcpTimed, Protocol::BothTimed] {
            let what = format!("{}: expired bytes, % of what {} sent", path.name(), protocol.name());
            let tcps = expired(Protocol::Tcp);
            let said = format!("{:.2}; A: {tcps:.2}", expired(protocol));
            claims.push(Claim::new(what, "not significant", said, expired(protocol)).pass(..=most_expired(tcps)));
        }
    }
    for path in Path::ALL.into_iter().filter(has_run) {
        let late = streams.mean(&(path, Protocol::BothTimed), |one| one.late);
        let what = format!("{}: late bytes with D and timelines, % of what arrived", path.name());
        claims.push(Claim::number(what, "—", 2, late).aim(..=MAX_LATE));
    }
    for path in Path::HARD.into_iter().filter(has_run) {
        let in_time = |protocol| streams.mean(&(path, protocol), |one| one.in_time);
        let (best, with) = (most(WITHOUT.map(in_time)), in_time(Protocol::BothTimed));
        let what = "more is in time with D and timelines than with the best without, % of what was offered";
        let limit = streams.mean(&(path, Protocol::BothTimed), |one| one.bound);
        let said = format!("{:.2}: {with:.1} and {best:.1}, at most {limit:.1}", with - best);
        claims.push(Claim::order(format!("{}: {what}", path.name()), "a small increase", said, with > best));
    }
    for path in Path::ALL.into_iter().filter(has_run) {
        let with = streams.mean(&(path, Protocol::BothTimed), |one| one.in_time / one.bound);
        let what = format!("{}: in time with D and timelines, as a share of what could be", path.name());
        claims.push(Claim::number(what, "—", 3, with).aim(0.95..));
    }
    claims.push(no_corruption(streams.outcomes().map(|one| (one.corrupt, one.came))));
    claims
}
