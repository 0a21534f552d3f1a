//! Findings of an experiment.

use super::claim::Claim;

/// All findings of an experiment. Text, JSON and a section of the page are made from them.
///
/// In virtual time they must not depend on the machine: no date, no duration of the run, no path.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Findings {
    /// Choices made to run it.
    pub(crate) setup: Vec<Choice>,
    /// Results as tables.
    pub(crate) tables: Vec<Table>,
    /// Results as plots.
    pub(crate) figures: Vec<Figure>,
    /// Claims of the experiment.
    pub(crate) claims: Vec<Claim>,
    /// Notes for the reader.
    pub(crate) notes: Vec<String>,
    /// Raw measurements, for programs.
    pub(crate) data: serde_json::Value,
}

/// A choice made to run the experiment.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Choice {
    /// Parameter.
    pub(crate) what: String,
    /// Value.
    pub(crate) value: String,
    /// Origin of the choice.
    pub(crate) source: Source,
    /// Reason, or place in the paper.
    pub(crate) why: String,
}

/// Origin of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Source {
    /// From the paper.
    Paper,
    /// Ours, where the paper leaves it open or cannot be followed.
    Ours,
}

impl Source {
    /// Word for the origin.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Ours => "ours",
        }
    }
}

impl Choice {
    /// Creates a choice of the paper, found at `place`.
    pub(crate) fn paper(what: &str, value: impl Into<String>, place: &str) -> Self {
        Self { what: what.to_owned(), value: value.into(), source: Source::Paper, why: place.to_owned() }
    }

    /// Creates a choice of ours, with the reason.
    pub(crate) fn ours(what: &str, value: impl Into<String>, why: &str) -> Self {
        Self { what: what.to_owned(), value: value.into(), source: Source::Ours, why: why.to_owned() }
    }
}

/// A table; its first column names the rows.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Table {
    /// Title above the table.
    pub(crate) title: String,
    /// Column heads, with units.
    pub(crate) head: Vec<String>,
    /// Rows, each as long as the head.
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(title: &str, head: &[&str]) -> Self {
        Self { title: title.to_owned(), head: head.iter().map(|&cell| cell.to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let row: Vec<String> = cells.into_iter().collect();
        assert_eq!(row.len(), self.head.len(), "a row of {:?} has a cell for each column", self.title);
        self.rows.push(row);
    }
}

/// A plot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Figure {
    /// SVG element, as drawn by [`crate::report::plot`].
    pub(crate) svg: String,
    /// Caption below the plot.
    pub(crate) caption: String,
}

impl Figure {
    /// Creates a plot with its caption.
    pub(crate) fn new(svg: String, caption: &str) -> Self {
        Self { svg, caption: caption.to_owned() }
    }
}
