//! encryption: late choice with encrypted packets, over DCCP and over our own TCP, beside plain packets and beside encryption
//! before the send queue.

use serde::{Serialize, Serializer};
use timeous::core::{Duration, Rate};
use timeous_host::MiddleboxBehaviour;
use timeous_net::LinkConfig;
use timeous_net::link::{Limit, Loss};

use super::bloat::setup::{Cell, Part, cells};
use super::bloat::stream::SenderKind;
use super::bloat::trial::{self, Encryption};
use super::tl::trial::{Broken, Offers, Protocol, Trial, link, standing_still};
use super::tl::{PLAYOUT, no_corruption};
use crate::experiment::{
    Choice, Claim, Experiment, Extent, Findings, Forms, Grid, Metric, Run, RunError, cross, mean, metric, sabotages,
    setup, values,
};

/// Length of a stream over TCP.
const LASTING: Duration = Duration::from_secs(60);
/// Least share of the frames in time, relative to plain packets, in the mean over all paths. Encryption takes 25 of about 1150
/// bytes: where the stream exceeds the link, 2.2 % fewer packets fit.
const LEAST: f64 = 0.97;

values! {
    /// Path over our own TCP.
    enum TcpPath {
        Random = "4 % loss",
        Spikes = "delay spikes",
        Narrow = "narrow link, bursts",
    }
}

impl TcpPath {
    fn link(self) -> LinkConfig {
        match self {
            Self::Random => link(Loss::Bernoulli { p: 0.04 }),
            Self::Spikes => standing_still(Duration::from_millis(400), Duration::from_secs(5)),
            Self::Narrow => link(Loss::GilbertElliott { p: 0.02, r: 0.5, bad_loss: 0.9, good_loss: 0.0 })
                .with_rate(Rate::from_kbps(550), Limit::Packets(20)),
        }
    }
}

/// Carrier and path of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Dccp(Cell),
    Tcp(TcpPath),
}

impl Way {
    fn carrier(&self) -> &'static str {
        match self {
            Self::Dccp(_) => "DCCP",
            Self::Tcp(_) => "TCP",
        }
    }

    fn path(&self) -> String {
        match self {
            Self::Dccp(cell) => cell.name(),
            Self::Tcp(path) => path.name().to_owned(),
        }
    }
}

impl Serialize for Way {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&format!("{}: {}", self.carrier(), self.path()))
    }
}

/// Results of one stream.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// Packets that left, and those among them that left after their deadline, retransmissions included.
    sent: u64,
    late: u64,
    /// Share in time: over DCCP of the decodable frames, over TCP of the offered bytes, in percent.
    in_time: f64,
    /// Datagrams that arrived altered or twice.
    corrupt: u64,
    /// Datagrams that came over TCP.
    came: usize,
}

const METRICS: [Metric<Measured>; 2] =
    [metric("packets after their deadline", 1, |one| one.late as f64), metric("in time, %", 1, |one| one.in_time)];

/// Results by path and encryption.
type Streams = Grid<(Way, Encryption), Measured>;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "encryption",
    title: "Late choice with encrypted packets, over DCCP and over TCP",
    source: "ours",
    paper: "none: QUIC, DTLS and TLS encrypt before their send queue or within it",
    forms: Forms::Virtual,
    seeds: 10,
    takes: "1 min",
    sabotages: &[BEFORE_QUEUE, CHOOSING, GARBLED],
    run,
};

sabotages! {
    BEFORE_QUEUE = "before-queue", "packets are encrypted before the queue in place of the instant of sending"
        => ["DCCP: encrypted packets that left after", "TCP: encrypted packets that left after"];
    CHOOSING = "choosing", "what is encrypted before the queue is sent with late choice all the same"
        => [
            "DCCP: packets after their deadline, encrypted before",
            "TCP: packets after their deadline, encrypted before",
        ];
    GARBLED = "garbled", "the receiver over TCP changes a byte of each hundredth datagram"
        => ["Datagrams delivered that were not as they were offered"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let part = if run.extent == Extent::Full { Part::Pairs } else { Part::Handful };
    let every = if run.extent == Extent::Least { 4 } else { 1 };
    let ways = cells(part).into_iter().step_by(every).map(Way::Dccp).chain(TcpPath::ALL.map(Way::Tcp));
    let streams = run.grid("streams", cross(ways, Encryption::ALL), |&(way, encryption), seed| {
        let encryption = match (run.sabotage, encryption) {
            (Some(BEFORE_QUEUE), Encryption::AtSending) => Encryption::BeforeQueue,
            (Some(CHOOSING), Encryption::BeforeQueue) => Encryption::AtSending,
            (_, encryption) => encryption,
        };
        match way {
            Way::Dccp(cell) => over_dccp(cell, encryption, seed),
            Way::Tcp(path) => over_tcp(path.link(), encryption, seed, run.breaks(GARBLED)),
        }
    });
    let rows = streams.rows().axis("carrier", |at| at.0.carrier()).axis("path", |at| at.0.path());
    Ok(Findings {
        setup: setup(),
        tables: vec![
            rows.axis("packets", |at| at.1.name()).means(&METRICS).table("By encryption, the mean over the seeds"),
        ],
        claims: claims(&streams),
        data: streams.numbers(&METRICS),
        ..Findings::default()
    })
}

fn over_dccp(cell: Cell, encryption: Encryption, seed: u64) -> Measured {
    let outcome = trial::run(&trial::Trial { cell, seed, way: SenderKind::Timeous, encryption, is_patient: false });
    let in_time = 100.0 * outcome.decodable as f64 / outcome.frames as f64;
    Measured { sent: outcome.sent, late: outcome.late, in_time, corrupt: 0, came: 0 }
}

fn over_tcp(way: LinkConfig, encryption: Encryption, seed: u64, garbled: bool) -> Measured {
    let protocol = match encryption {
        // A stream of bytes, whether TLS has encrypted them or not: 21 bytes a write at most are not counted.
        Encryption::BeforeQueue => Protocol::Tcp,
        Encryption::Plain | Encryption::AtSending => Protocol::BothDependent,
    };
    let (offers, behaviour) = (Offers::Pictures(LASTING), MiddleboxBehaviour::Pass);
    let broken = Broken { garbled, ..Broken::default() };
    let outcome =
        Trial { protocol, offers, way, playout: PLAYOUT, behaviour, seed, secret: encryption.secret(), broken }.run();
    let adus = outcome.journal.adus().iter();
    let late = adus.flat_map(|adu| adu.left.iter().filter(|&&left| left > adu.meta.enqueued + PLAYOUT)).count();
    Measured {
        sent: outcome.journal.copies() as u64,
        late: late as u64,
        in_time: 100.0 * outcome.in_time_share(),
        corrupt: outcome.corrupt,
        came: outcome.came(),
    }
}

fn setup() -> Vec<Choice> {
    setup! {
        ours "DCCP": "streams and links of `bloat`, Timeous with all of its parts; frames decodable in time"
            => "the stream exceeds the link, so that late choice decides";
        ours "TCP": "pictures and paths of `tl-dependencies` and `tl-timelines`, our own TCP with late choice in \
            retransmissions; bytes in time" => "each version of a place in the stream is encrypted anew";
        ours "keys": "from a secret that both ends were given" => "a handshake has randomness of its own";
        ours "before the queue": "DCCP from a queue without deadlines and late choice; TCP from a send buffer"
            => "what TLS, DTLS or QUIC has encrypted is sent as it is: a count of late packets has to find it";
        ours "bound": "{LEAST} of what is in time with plain packets" => "25 bytes a packet are 2.2 %";
    }
}

fn claims(streams: &Streams) -> Vec<Claim> {
    let mut claims = Vec::new();
    for carrier in ["DCCP", "TCP"] {
        let of = |encryption| streams.of(move |at| at.0.carrier() == carrier && at.1 == encryption);
        let late = |encryption| of(encryption).map(|one| one.late).sum();
        let sent = of(Encryption::AtSending).map(|one| one.sent).sum::<u64>();
        let in_time = |encryption| mean(of(encryption).map(|one| one.in_time));
        let what = format!("{carrier}: encrypted packets that left after their deadline");
        claims.push(Claim::count(what, "—", late(Encryption::AtSending)).among(sent as usize).pass(..=0.0));
        let what = format!("{carrier}: packets after their deadline, encrypted before the queue");
        claims.push(Claim::count(what, "—", late(Encryption::BeforeQueue)).pass(1.0..));
        let (plain, encrypted) = (in_time(Encryption::Plain), in_time(Encryption::AtSending));
        let what = format!("{carrier}: in time with encrypted packets, as a share of plain ones");
        let said = format!("{:.3}: {encrypted:.1} and {plain:.1} %", encrypted / plain);
        claims.push(Claim::new(what, "—", said, encrypted / plain).pass(LEAST..));
    }
    claims.push(no_corruption(streams.outcomes().map(|one| (one.corrupt, one.came))));
    claims
}
