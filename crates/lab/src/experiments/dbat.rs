//! Hasan et al. §4: what their experiments share. One stream beside FTP and web traffic over a narrow link, by each
//! transport.

pub(crate) mod apart;
pub(crate) mod outcome;
pub(crate) mod setup;
pub(crate) mod spread;
mod trial;

pub(crate) use apart::Apart;
pub(crate) use outcome::Outcome;
pub(crate) use setup::Way;
pub(crate) use spread::Spread;
use trial::Trial;

use crate::experiment::{Claim, Run, Table};

/// For titles: every TCP is the paper's, or today's.
pub(crate) const NS2: &str = "with ns-2's TCP";
pub(crate) const TODAY: &str = "with today's TCP";

/// What is otherwise is looked at with so many of the seeds.
const FEW_SEEDS: usize = 5;

/// Runs every way at each of these round trips, in milliseconds, for each seed, with every TCP like that.
pub(crate) fn run(run: &Run<'_>, apart: Apart, rtts: &[u64]) -> Vec<Outcome> {
    let seeds: Vec<u64> = run.seeds().collect();
    let trials = trials(&[apart], rtts, &Way::ALL, &seeds);
    let what = if apart == Apart::PAPER { "streams" } else { "streams beside today's TCP" };
    run.each(what, &trials, Trial::run)
}

/// Runs these ways with each of these things otherwise, for the first seeds.
pub(crate) fn run_apart(run: &Run<'_>, aparts: &[Apart], rtts: &[u64], ways: &[Way]) -> Vec<Outcome> {
    let seeds: Vec<u64> = run.seeds().take(FEW_SEEDS).collect();
    run.each("streams, something otherwise", &trials(aparts, rtts, ways, &seeds), Trial::run)
}

/// The paper's ways.
pub(crate) const PAPERS: [Way; 3] = [Way::Tcp, Way::Tfrc, Way::Dbat];

/// A value of each of the paper's ways at a round trip with each of these things otherwise, and whether the order is as in
/// the paper: `rises` from TCP by TFRC to DBAT, or falls.
pub(crate) fn table_of_aparts(
    run: &Run<'_>,
    (what, digits, rises): (&str, usize, bool),
    rtt: u64,
    value: fn(&Outcome) -> f64,
) -> Table {
    let aparts = Apart::OF_ORDER.map(|(_, apart)| apart);
    let outcomes = run_apart(run, &aparts, &[rtt], &PAPERS);
    let title = format!(
        "{what}, with today's TCP, and something of it or of the setup taken away: mean of the first five seeds, least and most"
    );
    let mut table = Table::new(&title, &["with", "TCP", "TFRC", "TFRC, DBAT", "the paper's order"]);
    for (name, apart) in Apart::OF_ORDER {
        let spreads = PAPERS.map(|way| {
            let of = outcomes.iter().filter(|outcome| (outcome.apart, outcome.way) == (apart, way));
            Spread::of(of.map(value))
        });
        let [tcp, tfrc, dbat] = spreads.map(|spread| if rises { spread.mean } else { -spread.mean });
        let order = if tcp < tfrc && tfrc < dbat { "yes" } else { "no" };
        let cells = spreads.map(|spread| format!("{spread:.digits$}"));
        table.row([&[name.to_owned()], cells.as_slice(), &[order.to_owned()]].concat());
    }
    table
}

/// The order where every TCP is today's, for comparison: the paper says nothing of that.
pub(crate) fn order_today(what: &str, measured: &str, is_the_papers: bool) -> Claim {
    let says = if is_the_papers { "the paper's order" } else { "another order" };
    Claim::new(&format!("{TODAY}: {what}"), "", format!("{measured}: {says}"), f64::from(is_the_papers))
}

fn trials(aparts: &[Apart], rtts: &[u64], ways: &[Way], seeds: &[u64]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for &apart in aparts {
        for &rtt in rtts {
            for &way in ways {
                trials.extend(seeds.iter().map(|&seed| Trial { way, rtt, seed, apart }));
            }
        }
    }
    trials
}
