//! tl-middleboxes: effect of middleboxes on retransmissions with changed data (McQuistin §4.2).

mod judge;
mod real;

use timeous_net::link::Loss;

use super::tl::choices;
use super::tl::trial::{Offers, Protocol, Trial, link};
use crate::experiment::{About, Choice, Experiment, Findings, Forms, LabError, Run};
use judge::{BEHAVIOURS, Measured};

const PROTOCOLS: [Protocol; 3] = [Protocol::ToTcp, Protocol::ToTcpTimed, Protocol::BothTimed];
const COUNT: u64 = 15_000;
const LOSS: f64 = 0.08;
const TITLE: &str = "Streams of 15 000 datagrams at 8 % loss, the mean over the seeds";

pub(crate) struct TlMiddleboxes;

impl Experiment for TlMiddleboxes {
    fn about(&self) -> About {
        About {
            name: "tl-middleboxes",
            title: "Middleboxes and segments that are sent again with other data",
            source: "McQuistin §4.2; Honda et al. 2011",
            paper: "One path of one ISP let them pass; Honda et al. saw them pass, replaced by the original, swallowed, and answered with a \
                    reset",
            forms: Forms::BothBySeed,
            seeds: 5,
            takes: "30 s; real 5 min, as root",
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError> {
        if run.real {
            return real::run(run);
        }
        let mut trials = Vec::new();
        for behaviour in BEHAVIOURS {
            for protocol in PROTOCOLS {
                trials.extend(run.seeds().map(|seed| {
                    let way = link(Loss::Bernoulli { p: LOSS });
                    Trial { protocol, offers: Offers::Cadence(COUNT), way, behaviour, seed }
                }));
            }
        }
        judge::findings(&run.each("streams", &trials, measure), &PROTOCOLS, TITLE, setup())
    }
}

fn measure(trial: &Trial) -> Measured {
    let outcome = trial.run();
    let share = |came: &[Option<_>]| 100.0 * came.iter().flatten().count() as f64 / came.len().max(1) as f64;
    let last = &outcome.arrived[outcome.arrived.len() * 9 / 10..];
    Measured {
        behaviour: trial.behaviour,
        protocol: trial.protocol,
        in_time: 100.0 * outcome.in_time_share(),
        came: share(&outcome.arrived),
        last: share(last),
        changed: outcome.statistics.replaced + outcome.statistics.padded,
        refused: outcome.changes_refused,
        connections: outcome.connections,
        corrupt: outcome.corrupt,
    }
}

fn setup() -> Vec<Choice> {
    let mut all = choices();
    all.extend([
        Choice::paper("middleboxes", "pass, cached original, silence, reset", "§4.2"),
        Choice::ours("besides", "cutting, joining (5 ms), other sequence numbers", "Honda et al. saw those, too"),
        Choice::ours(
            "sent",
            "15 000 datagrams at 8 % loss",
            "more than a thousand retransmissions. Of 5000, as we had it, five segments were changed, too few to show anything, since \
             our TCP does not repeat any more what is merely under way, and repairs nearly all in time",
        ),
        Choice::ours(
            "after a reset",
            "the program calls again, and nothing is changed when it is sent again",
            "a connection cannot outlive a reset; a TCP of unchanged segments does not meet one",
        ),
        Choice::ours(
            "goes on where TCP would",
            "of the last tenth of the datagrams as many come as over the same path without changes, within 5 %",
            "what was lost until the path was found out is lost",
        ),
    ]);
    all
}
