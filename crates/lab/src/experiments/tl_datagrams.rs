//! tl-datagrams: what datagrams and out-of-order delivery change over TCP (McQuistin §4.1, figures 8 to 11).

use serde_json::json;
use timeous_host::Meddling;
use timeous_net::link::Loss;

use super::tl::measure::{mean, quantile};
use super::tl::trial::{Offers, Protocol, Trial, link};
use super::tl::{LOSSES, RTT, choices};
use crate::experiment::{About, Bound, Choice, Claim, Experiment, Figure, Findings, Forms, LabError, Run, Table};
use crate::report::plot::{Lines, Series};

const PROTOCOLS: [Protocol; 4] = [Protocol::Tcp, Protocol::Udp, Protocol::ToTcp, Protocol::Both];
const COUNT: u64 = 10_000;

pub(crate) struct TlDatagrams;

/// What one stream showed.
#[derive(Clone, Copy, Debug)]
struct Measured {
    protocol: Protocol,
    loss: f64,
    throughput: f64,
    goodput: f64,
    median: f64,
    p95: f64,
    jitter: f64,
    corrupt: u64,
}

impl Experiment for TlDatagrams {
    fn about(&self) -> About {
        About {
            name: "tl-datagrams",
            title: "Datagrams over TCP, delivered as they come",
            source: "McQuistin §4.1, figures 8 to 11",
            paper: "TCP and both forms of uTLTCP have one throughput; where datagrams are delivered as they come, latency and jitter grow \
                    much less with loss",
            forms: Forms::Virtual,
            seeds: 10,
            takes: "30 s",
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError> {
        let mut trials = Vec::new();
        for protocol in PROTOCOLS {
            for loss in LOSSES {
                trials.extend(run.seeds().map(|seed| {
                    let way = link(Loss::Bernoulli { p: loss });
                    (loss, Trial { protocol, offers: Offers::Cadence(COUNT), way, meddling: Meddling::Pass, seed })
                }));
            }
        }
        let measured = run.each("streams", &trials, |(loss, trial)| measure(*loss, trial));
        findings(&measured)
    }
}

fn measure(loss: f64, trial: &Trial) -> Measured {
    let outcome = trial.run();
    let latencies = outcome.latencies();
    Measured {
        protocol: trial.protocol,
        loss,
        throughput: outcome.throughput(),
        goodput: outcome.goodput(),
        median: quantile(&latencies, 0.5),
        p95: quantile(&latencies, 0.95),
        jitter: outcome.jitter(),
        corrupt: outcome.corrupt,
    }
}

/// The mean over the seeds.
fn of(measured: &[Measured], protocol: Protocol, loss: f64, value: impl Fn(&Measured) -> f64) -> f64 {
    let these = measured.iter().filter(|one| one.protocol == protocol && one.loss == loss);
    mean(&these.map(value).collect::<Vec<_>>())
}

fn findings(measured: &[Measured]) -> Result<Findings, LabError> {
    let head = [
        "protocol",
        "loss, %",
        "throughput, kbit/s",
        "in time, kbit/s",
        "latency, median, ms",
        "latency, p95, ms",
        "jitter, ms",
    ];
    let mut table = Table::new("Streams of 10 000 datagrams, the mean over the seeds", &head);
    for protocol in PROTOCOLS {
        for loss in LOSSES {
            let cell = |value: fn(&Measured) -> f64| format!("{:.1}", of(measured, protocol, loss, value));
            table.row([
                protocol.name().to_owned(),
                format!("{}", loss * 100.0),
                cell(|one| one.throughput),
                cell(|one| one.goodput),
                cell(|one| one.median),
                cell(|one| one.p95),
                cell(|one| one.jitter),
            ]);
        }
    }
    let data: Vec<_> = measured
        .iter()
        .map(|one| {
            json!({ "protocol": one.protocol.name(), "loss": one.loss, "throughput": one.throughput, "goodput": one.goodput,
                    "median": one.median, "p95": one.p95, "jitter": one.jitter })
        })
        .collect();
    Ok(Findings {
        setup: setup(),
        tables: vec![table],
        figures: vec![
            figure(measured, "Throughput (figure 8)", "kbit/s", |one| one.throughput)?,
            figure(measured, "Goodput (figure 9)", "kbit/s in time", |one| one.goodput)?,
            figure(measured, "Latency (figure 10)", "95 of 100 are there within, ms", |one| one.p95)?,
            figure(measured, "Jitter (figure 11)", "ms", |one| one.jitter)?,
        ],
        claims: claims(measured),
        notes: vec![
            "A datagram comes each 20 ms and a round trip takes 43: one that is missing holds up three others with A. With more than 5 % \
             loss, five in a hundred datagrams are themselves repaired ones, with D and with A, so that the p95 of both is the time of \
             a repair: the next datagram's acknowledgement tells of the loss after 20 + 43 ms, and 23 ms later it is there. Nothing is \
             there sooner unless it is sent twice before anything is known: half of A's is out of reach, and so are 1.5 round trips."
                .to_owned(),
            "At 16 % loss the window is just enough for 50 segments a second: one datagram in five waits in the sender, most of them \
             after a timeout, and that is congestion control's part, the same for all. A makes full segments of the bytes that wait, C \
             and D put in one as many whole datagrams as fit, here two (McQuistin §3.1 calls that desirable). With a datagram in each \
             segment whatever waited, as we had it, D's p95 was twice A's."
                .to_owned(),
            "What was mended in the sender, A's and D's alike: in a recovery it repeated the last segment although that was merely under \
             way (RFC 6675 §4, rule 4, which RACK has no use for), came to know by the duplicate, and waited ever longer before it \
             repaired; and a segment smaller than the largest had to wait for room for the largest. D's p95 at 4 % was 52 ms and is 24."
                .to_owned(),
            "To send twice before anything is known was tried (redundant data bundling, Opstad et al. 2015: each segment carries the one before \
             once more where it and the window have room), with the losses that it hides answered by the window as others are. At 4, 8 and 16 % \
             D's p95 was 45, 88 and 524 ms then, of 67, 86 and 224 of A's, for 1.8, 1.6 and 1.2 times the bytes: these fill, it seems, the window \
             that such losses leave, and fresh datagrams wait. Jitter was less at 2 to 8 % (1.6, 3.9 and 9.2 ms for 3.0, 5.5 and 10.4). It is not \
             in."
                .to_owned(),
        ],
        data: json!({ "streams": data }),
    })
}

fn setup() -> Vec<Choice> {
    let mut all = choices();
    all.push(Choice::paper("sent", "10 000 datagrams, ten times each", "§4.1"));
    all.push(Choice::ours(
        "throughput",
        "datagrams that came, without headers",
        "the same for a protocol with framing and one without",
    ));
    all
}

fn figure(measured: &[Measured], title: &str, y: &str, value: fn(&Measured) -> f64) -> Result<Figure, LabError> {
    let line = |protocol| LOSSES.map(|loss| (loss * 100.0, of(measured, protocol, loss, value))).to_vec();
    let series = PROTOCOLS.map(|protocol| Series::new(protocol.name(), line(protocol))).to_vec();
    Ok(Figure::new(Lines { title, x: "loss, %", y, series }.draw()?, "The mean over the seeds."))
}

fn claims(measured: &[Measured]) -> Vec<Claim> {
    let mut claims = Vec::new();
    let p95 = |protocol, loss| of(measured, protocol, loss, |one| one.p95);
    for loss in LOSSES.into_iter().filter(|&loss| loss >= 0.04) {
        let (with, without) = (p95(Protocol::Both, loss), p95(Protocol::Tcp, loss));
        let what = format!("p95 of the latency, D over A, at {} % loss", loss * 100.0);
        let said = format!("{:.2}: {with:.0} of {without:.0} ms", with / without);
        claims.push(Claim::new(&what, "much lower", said, with / without).pass(Bound::AtMost(0.5)));
    }
    for loss in LOSSES {
        let more = (p95(Protocol::Both, loss) - p95(Protocol::Udp, loss)) / (RTT.as_secs_f64() * 1e3);
        let what = format!("p95 of the latency, D beyond UDP's, in round trips, at {} % loss", loss * 100.0);
        claims.push(Claim::new(&what, "—", format!("{more:.2}"), more).aim(Bound::AtMost(1.5)));
    }
    let mut greatest = 0.0_f64;
    for loss in LOSSES {
        let throughput = |protocol| of(measured, protocol, loss, |one| one.throughput);
        for protocol in [Protocol::ToTcp, Protocol::Both] {
            greatest = greatest.max((throughput(protocol) / throughput(Protocol::Tcp) - 1.0).abs());
        }
    }
    let what = "Throughput: greatest distance of C and D from A, as a share";
    claims.push(Claim::new(what, "no significant variation", format!("{greatest:.3}"), greatest));
    let jitter = |protocol| of(measured, protocol, 0.16, |one| one.jitter);
    let (with, without) = (jitter(Protocol::Both), jitter(Protocol::Tcp));
    let what = "Jitter at 16 % loss is lower with D than with A";
    claims.push(Claim::order(what, "lower", format!("{with:.1} and {without:.1} ms"), with < without));
    let corrupt: u64 = measured.iter().map(|one| one.corrupt).sum();
    let what = "Datagrams delivered that were not as they were offered, or twice";
    claims.push(Claim::new(what, "—", corrupt.to_string(), corrupt as f64).pass(Bound::AtMost(0.0)));
    claims
}
