//! Rank order of TCP, TFRC and TFRC with DBAT by one value, compared with the order in the paper.

use super::differences::SetupDifference;
use super::outcome::Outcome;
use super::runs::{TODAY, run_apart};
use super::setup::StreamTransport;
use super::spread::Spread;
use crate::experiment::{Claim, Run, Table};

/// Transports of the paper.
pub(crate) const PAPERS: [StreamTransport; 3] = [StreamTransport::Tcp, StreamTransport::Tfrc, StreamTransport::Dbat];

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
    /// Returns the spread of each transport at a round-trip time, all with the same TCP.
    pub(crate) fn spreads(&self, outcomes: &[Outcome], apart: SetupDifference, rtt: u64) -> [Spread; 3] {
        PAPERS.map(|way| {
            let of = outcomes.iter().filter(|outcome| (outcome.apart, outcome.way, outcome.rtt) == (apart, way, rtt));
            Spread::of(of.map(self.value))
        })
    }

    /// Returns whether the means are ordered as in the paper.
    pub(crate) fn is_the_papers(&self, spreads: &[Spread; 3]) -> bool {
        spreads.is_sorted_by(|a, b| if self.rises { a.mean < b.mean } else { a.mean > b.mean })
    }

    /// Returns the claim with the paper's TCP, or with another setup meant to match the paper's.
    pub(crate) fn claim(&self, paper: &str, spreads: &[Spread; 3]) -> Claim {
        Claim::order(&self.sentence(), paper, self.means(spreads), self.is_the_papers(spreads))
    }

    /// Returns the comparison with today's TCP, about which the paper says nothing.
    pub(crate) fn today(&self, spreads: &[Spread; 3]) -> Claim {
        let is_the_papers = self.is_the_papers(spreads);
        let says = if is_the_papers { "the paper's order" } else { "another order" };
        let what = format!("{}: {}", TODAY, self.sentence());
        Claim::new(&what, "", format!("{}: {says}", self.means(spreads)), f64::from(is_the_papers))
    }

    /// Returns a table of the order with each difference in turn, for the first seeds.
    pub(crate) fn with_aparts(&self, run: &Run<'_>, rtt: u64) -> Table {
        let outcomes = run_apart(run, &SetupDifference::OF_ORDER.map(|(_, apart)| apart), &[rtt], &PAPERS);
        let title = format!(
            "{}, with today's TCP, and something of it or of the setup taken away: mean of the first five seeds, least and most",
            self.what
        );
        let mut table = Table::new(&title, &["with", "TCP", "TFRC", "TFRC, DBAT", "the paper's order"]);
        for (name, apart) in SetupDifference::OF_ORDER {
            let spreads = self.spreads(&outcomes, apart, rtt);
            let order = if self.is_the_papers(&spreads) { "yes" } else { "no" };
            let cells = spreads.map(|spread| format!("{spread:.*}", self.digits));
            table.row([&[name.to_owned()], cells.as_slice(), &[order.to_owned()]].concat());
        }
        table
    }

    fn sentence(&self) -> String {
        let [first, last] = if self.rises { ["least", "most"] } else { ["most", "least"] };
        format!("{}: TCP {first}, then TFRC, DBAT {last}", self.what)
    }

    fn means(&self, spreads: &[Spread; 3]) -> String {
        spreads.map(|spread| format!("{:.*}", self.digits, spread.mean)).join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_holds_in_its_direction_only() {
        let of = |rises| Ranking { what: "kbit/s", digits: 0, rises, value: |_| 0.0 };
        let spreads = |means: [f64; 3]| means.map(|mean| Spread::of([mean]));
        let (up, tie) = (spreads([1.0, 2.0, 3.0]), spreads([2.0, 2.0, 1.0]));
        assert!(of(true).is_the_papers(&up) && !of(false).is_the_papers(&up));
        assert!(!of(true).is_the_papers(&tie) && !of(false).is_the_papers(&tie), "a tie is no order");
        assert_eq!(of(true).sentence(), "kbit/s: TCP least, then TFRC, DBAT most");
        assert_eq!(of(false).means(&up), "1, 2, 3");
    }
}
