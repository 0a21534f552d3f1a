//! tl-dependencies: data withheld because its references are lost (McQuistin §3.3, §4.1, figures 17
//! to 20).
//! to 20).

use serde_json::json;
use timeous::core::{Duration, Rate};
use timeous_host::MiddleboxBehaviour;
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit, Loss};

use super::tl::measure::mean;
use super::tl::trial::{Offers, Protocol, Trial, link};
use super::tl::{LOSSES, choices};
use crate::experiment::{About, Bound, Choice, Claim, Experiment, Figure, Findings, Forms, LabError, Run, Table};
use crate::report::plot::{Lines, Series};

const PROTOCOLS: [Protocol; 5] =
    [Protocol::Udp, Protocol::Both, Protocol::BothTimed, Protocol::BothDependent, Protocol::BothPausing];
const LASTING: Duration = Duration::from_secs(120);
/// Link rate in kbit/s, about equal to the pictures' with headers.
const NARROW: u64 = 550;
/// Least reduction of the bytes sent in vain, in percent.
const PASS: f64 = 80.0;

pub(crate) struct TlDependencies;

/// Path of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
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
            Self::Narrow => LinkConfig {
                capacity: Capacity::Fixed(Rate::from_kbps(NARROW)),
                queue: Limit::Packets(20),
                ..link(Loss::GilbertElliott { p: 0.02, r: 0.5, bad_loss: 0.9, good_loss: 0.0 })
            },
        }
    }
}

/// Results of one stream.
#[derive(Clone, Copy, Debug)]
struct Measured {
    path: Path,
    protocol: Protocol,
    /// Sent data and undecodable data, in kilobytes.
    sent: f64,
    undecodable: f64,
    /// Share of the offered frame bytes in decodable frames, in percent.
    shown: f64,
    corrupt: u64,
}

impl Experiment for TlDependencies {
    fn about(&self) -> About {
        About {
            name: "tl-dependencies",
            title: "What is not sent because what it refers to is missing",
            source: "McQuistin §3.3 and §4.1, figures 17 to 20",
            paper: "\"Not significant\", with chains of five datagrams",
            forms: Forms::Virtual,
            seeds: 10,
            takes: "20 s",
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError> {
        let mut trials = Vec::new();
        for path in Path::all() {
            for protocol in PROTOCOLS {
                trials.extend(run.seeds().map(|seed| {
                    let offers = Offers::Pictures(LASTING);
                    (path, Trial { protocol, offers, way: path.link(), behaviour: MiddleboxBehaviour::Pass, seed })
                }));
            }
        }
        let measured = run.each("streams", &trials, |(path, trial)| measure(*path, trial));
        findings(&measured)
    }
}

fn measure(path: Path, trial: &Trial) -> Measured {
    let outcome = trial.run();
    let (sent, undecodable) = outcome.undecodable();
    Measured {
        path,
        protocol: trial.protocol,
        sent: sent as f64 / 1e3,
        undecodable: undecodable as f64 / 1e3,
        shown: 100.0 * outcome.shown_share(),
        corrupt: outcome.corrupt,
    }
}

/// Returns the mean over the seeds.
fn of(measured: &[Measured], path: Path, protocol: Protocol, value: impl Fn(&Measured) -> f64) -> f64 {
    let these = measured.iter().filter(|one| one.path == path && one.protocol == protocol);
    mean(&these.map(value).collect::<Vec<_>>())
}

fn findings(measured: &[Measured]) -> Result<Findings, LabError> {
    let head = ["path", "protocol", "sent, kB", "of frames that cannot be shown, kB", "shown, % of what was offered"];
    let mut table = Table::new("Two minutes of video, the mean over the seeds", &head);
    for path in Path::all() {
        for protocol in PROTOCOLS {
            let cell = |value: fn(&Measured) -> f64| format!("{:.0}", of(measured, path, protocol, value));
            table.row([
                path.name(),
                protocol.name().to_owned(),
                cell(|one| one.sent),
                cell(|one| one.undecodable),
                format!("{:.1}", of(measured, path, protocol, |one| one.shown)),
            ]);
        }
    }
    let line = |protocol: Protocol, value: fn(&Measured) -> f64| {
        let point = |loss| (loss * 100.0, of(measured, Path::Random(loss), protocol, value));
        Series::new(protocol.name(), LOSSES.map(point).to_vec())
    };
    let figure = |title, y, value: fn(&Measured) -> f64| -> Result<Figure, LabError> {
        let series = PROTOCOLS.map(|protocol| line(protocol, value)).to_vec();
        Ok(Figure::new(Lines { title, x: "loss, %", y, series }.draw()?, "Random loss. The mean over the seeds."))
    };
    let data: Vec<_> = measured
        .iter()
        .map(|one| {
            json!({ "path": one.path.name(), "protocol": one.protocol.name(), "sent": one.sent,
                    "undecodable": one.undecodable, "shown": one.shown })
        })
        .collect();
    Ok(Findings {
        setup: setup(),
        tables: vec![table],
        figures: vec![
            figure("Sent in vain", "kB of frames that cannot be shown", |one| one.undecodable)?,
            figure("Frames shown", "% of what was offered", |one| one.shown)?,
        ],
        claims: claims(measured),
        notes: vec![
            "What is still sent in vain left before its sender could know: the packets of a frame that had left when one of them turned \
             out to be too late to be repaired, and those of the frames of a round trip after it. A packet that came late is \
             acknowledged like any other; the sender concludes from the time of that."
                .to_owned(),
            "On the narrow link no frame is ever shown: the first of a group takes 166 ms to pass. What is counted there is how soon the \
             sender finds out."
                .to_owned(),
        ],
        data: json!({ "streams": data }),
    })
}

fn setup() -> Vec<Choice> {
    let mut all: Vec<_> = choices().into_iter().filter(|choice| choice.what != "datagrams").collect();
    all.extend([
        Choice::ours(
            "pictures",
            "25 a second in groups of 12 to 60; 10 packets of 1100 bytes for the first of a group, 2 for the others, each of which \
             refers to the one before it",
            "the paper's chains of five were too short to show anything (§4.1)",
        ),
        Choice::ours("narrow link", "550 kbit/s, 20 packets, bursts of loss as in tl-timelines", "about what the pictures take"),
        Choice::ours(
            "cannot be shown",
            "a packet of the frame, or of one it refers to, however far back, is not there in time",
            "the decoder's view, at the end of the run",
        ),
        Choice::ours(
            "window by use",
            "a loss between two frames lowers the window as far as it was used of late, and not what is under way then; while it is smaller \
             than one to begin with, frames that cannot be shown keep it in use",
            "as our own TCP over TUN has it, and Linux and FreeBSD something like it; the bounds are about RFC 5681's",
        ),
    ]);
    all
}

fn claims(measured: &[Measured]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for path in Path::all().into_iter().filter(|&path| path != Path::Random(0.0)) {
        let useless = |protocol| of(measured, path, protocol, |one| one.undecodable);
        let (with, without) = (useless(Protocol::BothDependent), useless(Protocol::BothTimed));
        let less = 100.0 * (1.0 - with / without);
        let what = format!("{}: bytes of frames that cannot be shown, less than with timelines alone, %", path.name());
        let said = format!("{less:.0}: {with:.0} of {without:.0} kB");
        claims.push(Claim::new(&what, "not significant", said, less).pass(Bound::AtLeast(PASS)));
    }
    for path in Path::all() {
        let shown = |protocol| of(measured, path, protocol, |one| one.shown);
        let (with, without) = (shown(Protocol::BothDependent), shown(Protocol::BothTimed));
        let what = format!("{}: shown with dependencies, % of what was offered, beyond timelines alone", path.name());
        claims.push(Claim::new(
            &what,
            "—",
            format!("{:.1}: {with:.1} and {without:.1}", with - without),
            with - without,
        ));
    }
    let corrupt: u64 = measured.iter().map(|one| one.corrupt).sum();
    let what = "Datagrams delivered that were not as they were offered, or twice";
    claims.push(Claim::new(what, "—", corrupt.to_string(), corrupt as f64).pass(Bound::AtMost(0.0)));
    claims
}
