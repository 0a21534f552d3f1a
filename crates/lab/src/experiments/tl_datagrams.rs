//! tl-datagrams: effect of datagrams and out-of-order delivery over TCP (McQuistin §4.1, figures 8
//! to 11).

use serde_json::json;
use timeous_host::MiddleboxBehaviour;
use timeous_net::link::Loss;

use super::tl::measure::{mean, quantile};
use super::tl::trial::{Offers, Protocol, Trial, link};
use super::tl::{LOSSES, RTT, choices};
use crate::experiment::{About, Bound, Choice, Claim, Experiment, Figure, Findings, Forms, LabError, Run, Table};
use crate::report::plot::{Lines, Series};

const PROTOCOLS: [Protocol; 6] =
    [Protocol::Tcp, Protocol::Udp, Protocol::ToTcp, Protocol::Both, Protocol::BothByUse, Protocol::BothBundled];
const COUNT: u64 = 10_000;

pub(crate) struct TlDatagrams;

/// Results of one stream.
#[derive(Clone, Copy, Debug)]
struct Measured {
    protocol: Protocol,
    loss: f64,
    throughput: f64,
    goodput: f64,
    median: f64,
    p95: f64,
    jitter: f64,
    /// Bytes sent per byte written to the stream.
    sent: f64,
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
                    (
                        loss,
                        Trial {
                            protocol,
                            offers: Offers::Cadence(COUNT),
                            way,
                            behaviour: MiddleboxBehaviour::Pass,
                            seed,
                        },
                    )
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
        sent: outcome.sent_share(),
        corrupt: outcome.corrupt,
    }
}

/// Returns the mean over the seeds.
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
        "sent, for each byte",
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
                format!("{:.2}", of(measured, protocol, loss, |one| one.sent)),
            ]);
        }
    }
    let data: Vec<_> = measured
        .iter()
        .map(|one| {
            json!({ "protocol": one.protocol.name(), "loss": one.loss, "throughput": one.throughput, "goodput": one.goodput,
                    "median": one.median, "p95": one.p95, "jitter": one.jitter, "sent": one.sent })
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
             there sooner unless it is sent twice before anything is known."
                .to_owned(),
            "At 16 % loss the window is just enough for 50 segments a second: one datagram in five waits in the sender, most of them \
             after a timeout, and that is congestion control's part, the same for all. A makes full segments of the bytes that wait, C \
             and D put in one as many whole datagrams as fit, here two (McQuistin §3.1 calls that desirable)."
                .to_owned(),
            bundling(measured),
        ],
        data: json!({ "streams": data }),
    })
}

/// Returns a note on bundling, its benefit and its cost.
fn bundling(measured: &[Measured]) -> String {
    let [with, without] = [Protocol::BothBundled, Protocol::BothByUse];
    let lossy = || LOSSES.into_iter().filter(|&loss| loss > 0.0);
    let each = |show: &dyn Fn(f64) -> String| lossy().map(show).collect::<Vec<_>>().join(", ");
    let of = |protocol, loss, value: fn(&Measured) -> f64| of(measured, protocol, loss, value);
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
    let mut all = choices();
    all.push(Choice::paper("sent", "10 000 datagrams, ten times each", "§4.1"));
    all.push(Choice::ours(
        "throughput",
        "datagrams that came, without headers",
        "the same for a protocol with framing and one without",
    ));
    all.push(Choice::ours(
        "window by use, bundling",
        "D beside the paper's: with RFC 7661, as our own TCP over TUN has it, and with bundling besides, which is off unless asked for",
        "what a pair of them differs by is what bundling buys and costs; the claims with bounds are about the paper's D",
    ));
    all.push(Choice::ours(
        "sent, for each byte",
        "bytes of the stream that left, for each that was written to it: repeated and bundled ones count again",
        "headers are not in it, and throughput and goodput count each datagram once",
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
    for loss in LOSSES.into_iter().filter(|&loss| loss >= 0.04) {
        let [with, without, tcp] =
            [Protocol::BothBundled, Protocol::BothByUse, Protocol::Tcp].map(|one| p95(one, loss));
        let what =
            format!("p95 of the latency, D with a window by use and bundling over A, at {} % loss", loss * 100.0);
        let said = format!("{:.2}; without bundling {:.2}", with / tcp, without / tcp);
        claims.push(Claim::new(&what, "—", said, with / tcp));
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
    for loss in LOSSES.into_iter().filter(|&loss| loss > 0.0) {
        let jitter = |protocol| of(measured, protocol, loss, |one| one.jitter);
        let [with, without] = [Protocol::BothBundled, Protocol::BothByUse].map(jitter);
        let what = format!("Jitter with bundling, as a share of that without, at {} % loss", loss * 100.0);
        claims.push(Claim::new(&what, "—", format!("{:.2}", with / without), with / without));
    }
    let what = "Jitter at 16 % loss is lower with D than with A";
    claims.push(Claim::order(what, "lower", format!("{with:.1} and {without:.1} ms"), with < without));
    let corrupt: u64 = measured.iter().map(|one| one.corrupt).sum();
    let what = "Datagrams delivered that were not as they were offered, or twice";
    claims.push(Claim::new(what, "—", corrupt.to_string(), corrupt as f64).pass(Bound::AtMost(0.0)));
    claims
}
