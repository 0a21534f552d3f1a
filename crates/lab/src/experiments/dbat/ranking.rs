//! Rank order of TCP, TFRC and TFRC with DBAT by one value, compared with the order in the paper.

use timeous_testbed::report::plot::Series;

use super::differences::SetupDifference;
use super::outcome::Outcome;
use super::setup::{RTT, StreamTransport, choices, notes};
use super::trial::{self, Cell, NS2, Streams, TODAY, broken, run_cell};
use crate::experiment::{Chart, Claim, Extent, Findings, Metric, Rows, Run, RunError, Stats, Table};

/// Transports of the paper.
pub(crate) const PAPERS: [StreamTransport; 3] = [StreamTransport::Tcp, StreamTransport::Tfrc, StreamTransport::Dbat];

/// Number of seeds for runs with single differences.
const FEW_SEEDS: usize = 5;

/// Runs the paper's transports with each of these differences, for the first seeds.
pub(crate) fn run_apart(run: &Run<'_>, aparts: &[(&str, SetupDifference)], rtts: &[u64]) -> Streams {
    let seeds: Vec<u64> = run.seeds().take(FEW_SEEDS).collect();
    let aparts = if run.extent == Extent::Least { &[][..] } else { aparts };
    let aparts: Vec<_> = aparts.iter().map(|&(_, apart)| apart).collect();
    let cells = Cell::all(&aparts, rtts, &PAPERS);
    run.grid_of("streams, something otherwise", cells, &seeds, |cell, seed| run_cell(cell, seed, broken(run)))
}

/// Order of the paper's transports by one value.
#[derive(Clone, Copy)]
pub(crate) struct Ranking {
    /// Name of the value for output, with its unit.
    pub(crate) what: &'static str,
    pub(crate) digits: usize,
    /// Whether the value rises from TCP over TFRC to DBAT; otherwise it falls.
    pub(crate) rises: bool,
    pub(crate) value: fn(&Outcome) -> f64,
}

impl Ranking {
    /// Returns the statistics of each transport at a round-trip time, all with the same TCP.
    pub(crate) fn spreads(&self, streams: &Streams, apart: SetupDifference, rtt: u64) -> [Stats; 3] {
        PAPERS.map(|way| streams.stats(&Cell { apart, way, rtt }, self.value))
    }

    /// Returns whether the means are ordered as in the paper, each apart from the next by more than the standard error of
    /// their difference: means that are closer change places from seed to seed.
    pub(crate) fn is_the_papers(&self, spreads: &[Stats; 3]) -> bool {
        spreads.is_sorted_by(|a, b| {
            let rise = if self.rises { b.mean - a.mean } else { a.mean - b.mean };
            // One seed has no error.
            rise > a.error.hypot(b.error).max(0.0)
        })
    }

    /// Returns the claim with the paper's TCP, or with another setup meant to match the paper's.
    pub(crate) fn claim(&self, paper: &str, spreads: &[Stats; 3]) -> Claim {
        Claim::order(self.sentence(), paper, self.means(spreads), self.is_the_papers(spreads))
    }

    /// Returns the claim that a transport's mean is over that of others.
    pub(crate) fn over(&self, (over, others): (&str, &str), paper: &str, [most, rest]: [&[Stats]; 2]) -> Claim {
        let measured = most.iter().chain(rest).map(|spread| format!("{:.*}", self.digits, spread.mean));
        let measured = measured.collect::<Vec<_>>().join(", ");
        let least = most.iter().map(|spread| spread.mean).fold(f64::INFINITY, f64::min);
        let holds = rest.iter().all(|spread| least > spread.mean);
        Claim::order(format!("{}: {over} over {others}", self.what), paper, measured, holds)
    }

    /// Returns the claim of DBAT to the letter, with the paper's TCP.
    pub(crate) fn letter(&self, paper: &str, streams: &Streams, apart: SetupDifference, rtt: u64) -> Claim {
        let ways = [StreamTransport::Tcp, StreamTransport::Tfrc, StreamTransport::PaperDbat];
        let spreads = ways.map(|way| streams.stats(&Cell { apart, way, rtt }, self.value));
        let claim = self.claim(paper, &spreads);
        Claim { what: format!("to the letter: {}", claim.what), ..claim }
    }

    /// Returns the comparison with today's TCP, about which the paper says nothing, if that was run.
    pub(crate) fn today(&self, today: &Streams, rtt: u64) -> Option<Claim> {
        if !today.has_run(|cell| cell.rtt == rtt) {
            return None;
        }
        let spreads = self.spreads(today, SetupDifference::TODAY, rtt);
        let is_the_papers = self.is_the_papers(&spreads);
        let says = if is_the_papers { "the paper's order" } else { "another order" };
        let measured = format!("{}: {says}", self.means(&spreads));
        Some(Claim::new(format!("{TODAY}: {}", self.sentence()), "", measured, f64::from(is_the_papers)))
    }

    /// Returns the cells of a row about the order with one difference.
    pub(crate) fn cells(&self, spreads: &[Stats; 3]) -> [String; 4] {
        let [tcp, tfrc, dbat] = spreads.map(|spread| format!("{spread:.*}", self.digits));
        [tcp, tfrc, dbat, if self.is_the_papers(spreads) { "yes" } else { "no" }.to_owned()]
    }

    /// Returns a table of the order with each difference in turn, for the first seeds.
    pub(crate) fn with_aparts(&self, run: &Run<'_>, rtt: u64) -> Table {
        let streams = run_apart(run, &SetupDifference::OF_ORDER, &[rtt]);
        let title = format!(
            "{}, with today's TCP, and something of it or of the setup taken away: mean of the first five seeds, least and most",
            self.what
        );
        let cells = |(name, apart): (&'static str, _)| (name, self.cells(&self.spreads(&streams, apart, rtt)));
        let heads = ["TCP", "TFRC", "TFRC, DBAT", "the paper's order"].into_iter().enumerate();
        let aparts =
            SetupDifference::OF_ORDER.into_iter().filter(|(_, apart)| streams.has_run(|cell| cell.apart == *apart));
        let rows = Rows::of(aparts.map(cells)).column("with", |row| row.0);
        rows.each(heads, |(_, head)| (*head).to_owned(), |row, (at, _)| row.1[*at].clone()).table(&title)
    }

    /// Runs all streams with the paper's round trip, and returns an experiment's findings: `metrics` by transport, this order, and
    /// a chart with one line of the first seed for each of the paper's transports.
    pub(crate) fn findings(
        &self,
        run: &Run<'_>,
        (title, metrics): (&str, &[Metric<Outcome>]),
        (chart, line): (Chart<'_>, impl Fn(&Outcome) -> Vec<(f64, f64)>),
        claims: impl Fn(&Streams, &Streams) -> Vec<Claim>,
    ) -> Result<Findings, RunError> {
        let (streams, today) = trial::run(run, SetupDifference::PAPER, &[RTT]);
        let table = |streams: &Streams, with| {
            let title = format!("{title}, {with}: mean of the seeds, least and most");
            streams.rows().axis("way", |cell| cell.way.name()).spreads(metrics).table(&title)
        };
        let line = |way: StreamTransport| {
            Series::new(way.name(), streams.first(|cell| cell.way == way).map(&line).unwrap_or_default())
        };
        Ok(Findings {
            setup: choices(&[RTT]),
            tables: vec![table(&streams, NS2), table(&today, TODAY), self.with_aparts(run, RTT)],
            figures: vec![chart.draw(PAPERS.map(line))?],
            claims: claims(&streams, &today),
            notes: notes(),
            data: streams.numbers(metrics),
        })
    }

    fn sentence(&self) -> String {
        let [first, last] = if self.rises { ["least", "most"] } else { ["most", "least"] };
        format!("{}: TCP {first}, then TFRC, DBAT {last}", self.what)
    }

    fn means(&self, spreads: &[Stats; 3]) -> String {
        spreads.map(|spread| format!("{:.*}", self.digits, spread.mean)).join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_holds_in_its_direction_only() {
        let of = |rises| Ranking { what: "kbit/s", digits: 0, rises, value: |_| 0.0 };
        let spreads = |means: [f64; 3]| means.map(|mean| Stats::of([mean]));
        let (up, tie) = (spreads([1.0, 2.0, 3.0]), spreads([2.0, 2.0, 1.0]));
        assert!(of(true).is_the_papers(&up) && !of(false).is_the_papers(&up));
        assert!(!of(true).is_the_papers(&tie) && !of(false).is_the_papers(&tie), "a tie is no order");
        let near = [[1.0, 3.0], [2.0, 6.0], [3.0, 6.0]].map(Stats::of);
        assert!(!of(true).is_the_papers(&near), "means closer than chance are a tie");
        let apart = [[1.0, 1.2], [4.0, 4.2], [6.0, 6.2]].map(Stats::of);
        assert!(of(true).is_the_papers(&apart));
        assert_eq!(of(true).sentence(), "kbit/s: TCP least, then TFRC, DBAT most");
        assert_eq!(of(false).means(&up), "1, 2, 3");
    }
}
