//! Findings of an experiment.

use timeous_testbed::RunError;
use timeous_testbed::report::plot::{Lines, Series};

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
    pub(crate) fn paper(what: &str, value: impl ToString, place: &str) -> Self {
        Self { what: what.to_owned(), value: value.to_string(), source: Source::Paper, why: place.to_owned() }
    }

    /// Creates a choice of ours, with the reason.
    pub(crate) fn ours(what: &str, value: impl ToString, why: &str) -> Self {
        Self { what: what.to_owned(), value: value.to_string(), source: Source::Ours, why: why.to_owned() }
    }
}

/// Lists choices: `paper "what": "value" => "place";`, or `ours` with the reason. Values are format strings.
macro_rules! setup {
    ($($origin:ident $what:literal: $value:literal $(, $arg:expr)* => $why:expr;)*) => {
        vec![$($crate::experiment::Choice::$origin($what, format_args!($value $(, $arg)*), $why)),*]
    };
}
pub(crate) use setup;

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

/// Rows from which a table is derived, column by column.
#[derive(Clone, Debug)]
pub(crate) struct Rows<R> {
    rows: Vec<R>,
    head: Vec<String>,
    cells: Vec<Vec<String>>,
}

impl<R> Rows<R> {
    /// Creates a table without columns.
    pub(crate) fn of(rows: impl IntoIterator<Item = R>) -> Self {
        let rows: Vec<R> = rows.into_iter().collect();
        Self { cells: vec![Vec::new(); rows.len()], head: Vec::new(), rows }
    }

    /// Adds a column.
    pub(crate) fn column<S: ToString>(mut self, head: &str, cell: impl Fn(&R) -> S) -> Self {
        self.head.push(head.to_owned());
        for (cells, row) in self.cells.iter_mut().zip(&self.rows) {
            cells.push(cell(row).to_string());
        }
        self
    }

    /// Adds a column of numbers with this number of decimals.
    pub(crate) fn number(self, head: &str, digits: usize, value: impl Fn(&R) -> f64) -> Self {
        self.column(head, |row| format!("{:.digits$}", value(row)))
    }

    /// Adds a column for each of `items`.
    pub(crate) fn each<I, S: ToString>(
        self,
        items: impl IntoIterator<Item = I>,
        head: impl Fn(&I) -> String,
        cell: impl Fn(&R, &I) -> S,
    ) -> Self {
        items.into_iter().fold(self, |rows, item| rows.column(&head(&item), |row| cell(row, &item)))
    }

    /// Returns the table.
    pub(crate) fn table(self, title: &str) -> Table {
        Table { title: title.to_owned(), head: self.head, rows: self.cells }
    }
}

/// A plot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Figure {
    /// SVG element, as drawn by [`timeous_testbed::report::plot`].
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

/// Titles, axes and caption of a line plot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chart<'a> {
    pub(crate) title: &'a str,
    /// Labels of the axes, with units.
    pub(crate) x: &'a str,
    pub(crate) y: &'a str,
    pub(crate) caption: &'a str,
}

impl Chart<'_> {
    /// Draws these lines.
    ///
    /// # Errors
    /// [`RunError::Plot`] without a finite point.
    pub(crate) fn draw(self, series: impl IntoIterator<Item = Series>) -> Result<Figure, RunError> {
        let Self { title, x, y, caption } = self;
        Ok(Figure::new(Lines { title, x, y, series: series.into_iter().collect() }.draw()?, caption))
    }

    /// Draws a line for each name, through the points of the rows with that name.
    ///
    /// # Errors
    /// [`RunError::Plot`] without a finite point.
    pub(crate) fn of<R>(
        self,
        rows: impl IntoIterator<Item = R>,
        name: impl Fn(&R) -> String,
        point: impl Fn(&R) -> (f64, f64),
    ) -> Result<Figure, RunError> {
        let mut lines: Vec<Series> = Vec::new();
        for row in rows {
            let (name, point) = (name(&row), point(&row));
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push(point),
                None => lines.push(Series::new(&name, vec![point])),
            }
        }
        self.draw(lines)
    }
}
