//! What an experiment found.

use super::claim::Claim;

/// Everything that an experiment found. Text, JSON and the section of a page are made from it.
///
/// In virtual time nothing in it may depend on the machine: no date, no duration of the run, no path.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Findings {
    /// What was chosen to run it.
    pub(crate) setup: Vec<Choice>,
    /// Figures in numbers.
    pub(crate) tables: Vec<Table>,
    /// Figures as drawings.
    pub(crate) figures: Vec<Figure>,
    /// What it shows.
    pub(crate) claims: Vec<Claim>,
    /// What a reader should know besides.
    pub(crate) notes: Vec<String>,
    /// The measurements themselves, for programs.
    pub(crate) data: serde_json::Value,
}

/// A choice that was made to run it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Choice {
    /// What was to be chosen.
    pub(crate) what: String,
    /// What was chosen.
    pub(crate) value: String,
    /// Who chose it.
    pub(crate) source: Source,
    /// Why, or where it stands.
    pub(crate) why: String,
}

/// Who made a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Source {
    /// The paper says so.
    Paper,
    /// The paper leaves it open, or it cannot be done here as there.
    Ours,
}

impl Source {
    /// In a word.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Ours => "ours",
        }
    }
}

impl Choice {
    /// The paper's choice; `place` is where it stands.
    pub(crate) fn paper(what: &str, value: impl Into<String>, place: &str) -> Self {
        Self { what: what.to_owned(), value: value.into(), source: Source::Paper, why: place.to_owned() }
    }

    /// Our choice, and why.
    pub(crate) fn ours(what: &str, value: impl Into<String>, why: &str) -> Self {
        Self { what: what.to_owned(), value: value.into(), source: Source::Ours, why: why.to_owned() }
    }
}

/// A table; its first column names the rows.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Table {
    /// Above it.
    pub(crate) title: String,
    /// The heads of its columns, with units.
    pub(crate) head: Vec<String>,
    /// Its rows, each as long as the head.
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(title: &str, head: &[&str]) -> Self {
        Self { title: title.to_owned(), head: head.iter().map(|&cell| cell.to_owned()).collect(), rows: Vec::new() }
    }

    /// A row more.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let row: Vec<String> = cells.into_iter().collect();
        assert_eq!(row.len(), self.head.len(), "a row of {:?} has a cell for each column", self.title);
        self.rows.push(row);
    }
}

/// A drawing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Figure {
    /// The SVG element, as [`crate::report::plot`] draws it.
    pub(crate) svg: String,
    /// Below it.
    pub(crate) caption: String,
}

impl Figure {
    /// A drawing with its caption.
    pub(crate) fn new(svg: String, caption: &str) -> Self {
        Self { svg, caption: caption.to_owned() }
    }
}
