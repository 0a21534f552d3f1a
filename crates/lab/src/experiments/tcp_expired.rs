//! tcp-expired: expired bytes on the wire, counted in the link's capture, with plain TCP, the ring,
//! and late choice.

use std::sync::Arc;

use timeous::core::{AduMeta, Duration, FrameId, LateChoice, Rate};
use timeous_choice::{Chain, Deadlines, Dependencies};
use timeous_engine::Reach;
use timeous_net::LinkConfig;
use timeous_net::link::{Limit, Loss};
use timeous_testbed::bound::{Job, Rates, bound};
use timeous_testbed::network::Links;

use super::over_tcp::{self, CarriedBytes, Control, Log, Offer, Plan, SenderKind, StreamContent};
use super::tl::measure::whole_frames;
use super::tl::offers::{PACKET, pictures};
use super::tl::trial::{link, standing_still};
use super::tl::{PLAYOUT, RTT, no_corruption};
use crate::experiment::{
    Chart, Choice, Claim, Experiment, Findings, Forms, Grid, Run, RunError, Stats, cross, sabotages, setup, values,
};

/// Length of each stream.
const LASTING: Duration = Duration::from_secs(60);
/// Time after the stream for its last data to arrive.
const REST: Duration = Duration::from_secs(2);
/// Slots of the ring: more than the packets in 150 ms of the stream, which is all that is useful at
/// once.
const SLOTS: u32 = 256;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tcp-expired",
    title: "Expired bytes on the wire, and frames in time, over the kernel's TCP and our own",
    source: "McQuistin §4.3 (what a packet trace should show); Birkedal et al. §7 (late retransmissions)",
    paper: "nothing was counted on the wire; retransmissions that come too late are both papers' open end",
    forms: Forms::Real,
    seeds: 3,
    takes: "real 10 min, as root",
    sabotages: &[NO_CHOICE],
    run,
};

sabotages! {
    NO_CHOICE = "no-choice", "all senders are plain TCP"
        => ["Percent of the bytes on the wire that had expired: 4 % loss"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let senders = cross(Path::ALL, cross(Control::ALL, Sender::ALL).collect::<Vec<_>>());
    let used = |sender| if run.breaks(NO_CHOICE) { Sender::Plain } else { sender };
    let plans = cross(senders, run.seeds().collect::<Vec<_>>());
    let plans: Vec<_> = plans
        .map(|((path, (control, sender)), seed)| (path, sender, plan(path, control, used(sender), seed)))
        .collect();
    let logs = over_tcp::all(run, &plans.iter().map(|(.., plan)| plan.clone()).collect::<Vec<_>>())?;
    let measured = plans
        .iter()
        .zip(&logs)
        .map(|((path, sender, plan), log)| ((*path, plan.control, *sender), plan.seed, Measured::of(*path, plan, log)));
    findings(&Grid::from_runs(measured.collect()), setup())
}

fn plan(path: Path, control: Control, sender: Sender, seed: u64) -> Plan {
    Plan {
        way: sender.kind(),
        encrypted: sender.is_encrypted(),
        control,
        links: path.links(),
        mtu: None,
        behaviour: None,
        seed,
        offers: offers(seed),
        slots: SLOTS,
        choice: Arc::new(|| -> Box<dyn LateChoice> {
            Box::new(Chain::default().then(Deadlines).then(Dependencies::default()))
        }),
        lasting: LASTING + REST,
    }
}

/// Returns groups of pictures, as several packets per frame.
fn offers(seed: u64) -> Arc<[Offer]> {
    let frames = pictures(seed, LASTING);
    let packets = frames.iter().zip(1..).flat_map(|(frame, number)| {
        let meta = AduMeta { frame: FrameId(number), ..frame.meta };
        let offer = Offer { at: frame.at, len: PACKET, latency: PLAYOUT, meta };
        std::iter::repeat_n(offer, frame.bytes / PACKET)
    });
    packets.collect()
}

fn setup() -> Vec<Choice> {
    let mut all = setup! {
        ours "stream": "groups of 12 to 60 pictures, 25 a second; an I-frame has 10 packets, a P-frame 2, of 1100 \
            bytes; 60 s" => "that of tl-dependencies: frames that refer to others, and come in bursts";
        ours "playout": "150 ms after a frame was handed over" => "a conversation's, as in all tl experiments";
        ours "ring": "gives up what is too late or refers to what is lost" => "`Deadlines`, `Dependencies`";
        ours "expired": "a byte comes to the link so late that it would miss its playout if nothing waited there"
            => "the least that can be said against sending it; what the link's queue adds is not counted";
        ours "at most": "what a sender could have had shown that knows every rate in advance; losses cost it nothing"
            => "the clairvoyant bound of `bloat`, frames in full segments; of the places that standstills may have in \
            the stream, 100 ms apart, the best";
        ours "encrypted": "records with a counter and a tag; the capture is read with the receiver's keys"
            => "plain TCP and the ring before it have no place to change";
        ours "bound": "1 % expired, with late choice into retransmissions and with our own TCP"
            => "tl-timelines'; set before the first run";
    };
    all.extend(Path::ALL.map(|path| Choice::ours(path.name(), path.what(), "as in tl-timelines and tl-dependencies")));
    all.extend(over_tcp::choices());
    all
}

/// Largest accepted share of expired bytes on the wire, in percent.
const EXPIRED: f64 = 1.0;

/// Results of one stream.
#[derive(Clone, Debug, serde::Serialize)]
struct Measured {
    /// Stream data on the link in kilobytes, retransmissions included.
    wire: f64,
    /// Shares of those in percent: expired; expired and retransmitted; padding; invalid records.
    expired: f64,
    expired_again: f64,
    padding: f64,
    torn: f64,
    /// Shares of the offered bytes in percent: in time, and in decodable frames.
    in_time: f64,
    shown: f64,
    /// Upper bound on the share in decodable frames.
    bound: f64,
    replaced: u64,
    padded: u64,
    corrupt: u64,
    /// Datagrams that came.
    came: usize,
    /// Whether late choice still reached retransmissions at the end.
    reaches: bool,
    ended: bool,
}

impl Measured {
    fn of(path: Path, plan: &Plan, log: &Log) -> Self {
        let is_expired = |one: &CarriedBytes| match one.what {
            StreamContent::Datagram(seq) => {
                plan.offers.get(seq as usize).is_some_and(|offer| one.at + RTT / 2 > offer.deadline(log.begin))
            }
            StreamContent::Padding | StreamContent::Torn => false,
        };
        let all = sum(log, |_| true);
        let share = |counts: &dyn Fn(&CarriedBytes) -> bool| 100.0 * sum(log, counts) / all.max(1.0);
        let offered: usize = plan.offers.iter().map(|offer| offer.len).sum();
        let of_offered = |counts: &dyn Fn(usize) -> bool| {
            let counted = plan.offers.iter().enumerate().filter(|(index, _)| counts(*index));
            100.0 * counted.map(|(_, offer)| offer.len).sum::<usize>() as f64 / offered as f64
        };
        let there = |index: usize| log.arrived[index].is_some_and(|at| at <= plan.offers[index].deadline(log.begin));
        let datagrams: Vec<(AduMeta, bool)> =
            plan.offers.iter().enumerate().map(|(index, offer)| (offer.meta, there(index))).collect();
        let whole = whole_frames(&datagrams);
        Self {
            wire: all / 1e3,
            expired: share(&is_expired),
            expired_again: share(&|one| one.again && is_expired(one)),
            padding: share(&|one| one.what == StreamContent::Padding),
            torn: share(&|one| one.what == StreamContent::Torn),
            in_time: of_offered(&there),
            shown: of_offered(&|index| whole[plan.offers[index].meta.frame.0 as usize]),
            bound: path.bound(&plan.offers),
            replaced: log.status.replaced,
            padded: log.status.padded,
            corrupt: log.corrupt,
            came: log.arrived.iter().flatten().count(),
            reaches: log.status.reach == Some(Reach::Retransmissions),
            ended: log.status.ended,
        }
    }
}

fn sum(log: &Log, counts: impl Fn(&CarriedBytes) -> bool) -> f64 {
    log.wire.iter().filter(|one| counts(one)).map(|one| one.bytes).sum::<u64>() as f64
}

/// Measurements by path, congestion control and sender.
type Streams = Grid<(Path, Control, Sender), Measured>;

fn findings(streams: &Streams, setup: Vec<Choice>) -> Result<Findings, RunError> {
    let range = |stats: Stats| format!("{:.2} to {:.2}", stats.least, stats.most);
    let table = streams
        .rows()
        .axis("path", |at| at.0.name())
        .axis("control", |at| at.1.name())
        .axis("sender", |at| at.2.name())
        .mean("on the wire, kB", 0, |one| one.wire)
        .mean("expired, %", 2, |one| one.expired)
        .column("least to most", |at| range(at.stats(|one| one.expired)))
        .mean("of it sent again, %", 2, |one| one.expired_again)
        .mean("padding, %", 2, |one| one.padding)
        .mean("in time, % of what was offered", 2, |one| one.in_time)
        .mean("frames shown, %", 2, |one| one.shown)
        .column("least to most", |at| range(at.stats(|one| one.shown)))
        .mean("at most, %", 2, |one| one.bound)
        .mean("changed", 0, |one| (one.replaced + one.padded) as f64)
        .table("On the wire, and in time (means over the seeds)");
    let draw = |title, y, value: fn(&Measured) -> f64| {
        let chart = Chart { title, x: "path, in the order of the table", y, caption: "Reno. The mean over the seeds." };
        let points = cross(Sender::ALL, Path::ALL.into_iter().zip(1..).collect::<Vec<_>>());
        let point = |&(way, (path, at)): &_| (f64::from(at), streams.mean(&(path, Control::Reno, way), value));
        chart.of(points, |(way, _)| way.name().to_owned(), point)
    };
    Ok(Findings {
        setup,
        tables: vec![table],
        figures: vec![
            draw("Expired bytes on the wire", "% of the bytes on the wire", |one| one.expired)?,
            draw("Frames that could be shown", "% of the bytes offered", |one| one.shown)?,
        ],
        claims: claims(streams),
        notes: notes(streams),
        data: streams.data(),
    })
}

fn claims(streams: &Streams) -> Vec<Claim> {
    let mut claims = Vec::new();
    for at in streams.points().iter().filter(|at| !matches!(at.point.2, Sender::Plain | Sender::Ring)) {
        let (path, control, way) = *at.point;
        let of = |way, value: fn(&Measured) -> f64| streams.mean(&(path, control, way), value);
        let name = format!("{}, {}, {}", path.name(), control.name(), way.name());
        let [plain, ring, expired] = [Sender::Plain, Sender::Ring, way].map(|way| of(way, |one| one.expired));
        let what = format!("Percent of the bytes on the wire that had expired: {name}");
        let said = format!("{expired:.2} (plain {plain:.2}, ring {ring:.2})");
        claims.push(Claim::new(what, "—", said, expired).pass(..=EXPIRED));
        let [plain, ring, shown] = [Sender::Plain, Sender::Ring, way].map(|way| of(way, |one| one.shown));
        let most = of(way, |one| one.bound);
        let said = format!("{shown:.1} against {plain:.1} % (ring {ring:.1}, at most {most:.1})");
        claims.push(Claim::order(format!("More frames shown than with plain TCP: {name}"), "—", said, shown > plain));
    }
    claims.push(no_corruption(streams.outcomes().map(|one| (one.corrupt, one.came))));
    claims
}

fn notes(streams: &Streams) -> Vec<String> {
    let mut notes = Vec::new();
    let late = || streams.of(|at| matches!(at.2, Sender::Late | Sender::LateEncrypted));
    let reached = late().filter(|one| one.reaches).count();
    notes.push(format!("Late choice reached retransmissions at the end of {reached} of {} streams.", late().count()));
    let torn = streams.outcomes().map(|one| one.torn).fold(0.0, f64::max);
    notes.push(format!("Bytes of no record, the most of any stream: {torn:.3} % of the bytes on the wire."));
    notes.push(
        "Over the narrow link nobody shows a frame, and the bound, which asks for more than plain TCP, cannot hold, whatever is chosen: the ten \
         packets of an I-frame take longer there (0.17 s) than the playout waits (0.15 s), and all others refer to one."
            .to_owned(),
    );
    let ended = streams.outcomes().filter(|one| one.ended).count();
    if ended > 0 {
        notes.push(format!("{ended} connections ended before their time."));
    }
    notes
}

/// Duration and period of link outages, as at a handover.
const STILL: Duration = Duration::from_millis(400);
const PERIOD: Duration = Duration::from_secs(5);
const WIDE: Rate = Rate::from_kbps(2_000);
/// Link rate about equal to the pictures' with headers.
const NARROW: Rate = Rate::from_kbps(550);
/// Losses in bursts.
const BURSTS: Loss = Loss::GilbertElliott { p: 0.02, r: 0.5, bad_loss: 0.9, good_loss: 0.0 };
/// Queue of the narrow link, in packets.
const QUEUE: usize = 20;
/// Bytes of IP's and TCP's headers with timestamps, and of the data in a full segment.
const HEADERS: usize = 52;
const SEGMENT: usize = 1_448;
/// Step between tested outage positions in a period: a stream may start at any.
const PHASE: Duration = Duration::from_millis(100);

values! {
    /// Sender of a stream, with its encryption.
    enum Sender {
        Plain = "plain TCP",
        Ring = "ring, NOTSENT_LOWAT",
        Late = "ring, into retransmissions",
        LateEncrypted = "the same, encrypted",
        Own = "own TCP",
        OwnEncrypted = "own TCP, encrypted",
    }
}

impl Sender {
    fn kind(self) -> SenderKind {
        match self {
            Self::Plain => SenderKind::Plain,
            Self::Ring => SenderKind::Ring,
            Self::Late | Self::LateEncrypted => SenderKind::Late,
            Self::Own | Self::OwnEncrypted => SenderKind::Own,
        }
    }

    fn is_encrypted(self) -> bool {
        matches!(self, Self::LateEncrypted | Self::OwnEncrypted)
    }
}

values! {
    /// Path of a stream.
    enum Path {
            Random = "4 % loss",
            Bursts = "bursts of loss",
            Spikes = "delay spikes",
            Narrow = "narrow link, bursts",
    }
}

impl Path {
    fn what(self) -> &'static str {
        match self {
            Self::Random => "2 Mbit/s, 40 ms there and back, 50 packets; each packet is lost with 4 %",
            Self::Bursts => "the same; bursts begin with 2 %, last two packets, and lose nine of ten in them",
            Self::Spikes => "the same without loss; it stands still for the first 400 ms of each 5 s",
            Self::Narrow => "550 kbit/s, 20 packets, losses in bursts",
        }
    }

    /// Returns the share of the offered bytes, in percent, in frames that an omniscient sender
    /// could have had decoded; losses cost it nothing.
    fn bound(self, offers: &[Offer]) -> f64 {
        let jobs = jobs(offers);
        let all: u64 = jobs.iter().map(|job| job.value).sum();
        let lasting = offers.last().map_or(Duration::ZERO, |offer| offer.at + offer.latency);
        let rates: Vec<Rates> = match self {
            Self::Random | Self::Bursts => vec![Rates::fixed(WIDE)],
            Self::Narrow => vec![Rates::fixed(NARROW)],
            Self::Spikes => {
                (0..PERIOD.as_millis() / PHASE.as_millis()).map(|step| standstills(PHASE * step, lasting)).collect()
            }
        };
        let most = rates.iter().map(|rates| bound(&jobs, rates).value).max().unwrap_or(0);
        100.0 * most as f64 / all.max(1) as f64
    }

    fn links(self) -> Links {
        let forward = match self {
            Self::Random => link(Loss::Bernoulli { p: 0.04 }),
            Self::Bursts => link(BURSTS),
            Self::Spikes => standing_still(STILL, PERIOD),
            Self::Narrow => link(BURSTS).with_rate(NARROW, Limit::Packets(QUEUE)),
        };
        Links { forward, back: LinkConfig::with_delay(RTT / 2) }
    }
}

/// Returns the frames as jobs, in full segments.
fn jobs(offers: &[Offer]) -> Vec<Job> {
    let mut jobs: Vec<(AduMeta, Job)> = Vec::new();
    for offer in offers {
        if jobs.last().is_none_or(|(meta, _)| meta.frame != offer.meta.frame) {
            let needs = jobs
                .iter()
                .enumerate()
                .filter(|(_, (meta, _))| offer.meta.references.iter().any(|frame| frame == meta.frame));
            let needs = needs.map(|(place, _)| place).collect();
            let deadline = (offer.at + offer.latency).saturating_sub(RTT / 2).as_nanos();
            jobs.push((offer.meta, Job { release: offer.at.as_nanos(), deadline, bytes: 0, needs, value: 0 }));
        }
        if let Some((_, job)) = jobs.last_mut() {
            job.value += offer.len as u64;
        }
    }
    let whole = |(_, job): (AduMeta, Job)| Job {
        bytes: job.value + job.value.div_ceil(SEGMENT as u64) * HEADERS as u64,
        ..job
    };
    jobs.into_iter().map(whole).collect()
}

/// Returns the link's rates with outages, the first of which begins at `phase`.
fn standstills(phase: Duration, lasting: Duration) -> Rates {
    let mut steps = vec![(Duration::ZERO, WIDE)];
    let mut at = phase;
    while at < lasting {
        steps.extend([(at, Rate::ZERO), (at + STILL, WIDE)]);
        at += PERIOD;
    }
    Rates::steps(&steps)
}

#[cfg(test)]
mod tests {
    use super::{offers, *};

    #[test]
    fn over_the_narrow_link_no_intra_frame_fits_into_the_playout_and_over_the_wide_one_all_do() {
        let offers = offers(1);
        assert_eq!([Path::Random, Path::Narrow].map(|path| path.bound(&offers)), [100.0, 0.0]);
    }
}
