//! Table of macroflows as plain text, for `--once`.

use std::fmt::Write;

use timeous_daemon::view::View;

use super::history::History;
use super::table::{COLUMNS, Layout, complaints, rows, summary};

/// Formats all columns but the history, as wide as needed.
pub(crate) fn plain(view: &View, history: &History, layout: Layout) -> String {
    let rows = rows(view, history, layout);
    let shown = COLUMNS.len() - 1;
    let width = |at: usize| {
        let cells = rows.iter().map(|row| row.cells[at].chars().count());
        cells.chain([COLUMNS[at].title.len()]).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..shown).map(width).collect();
    let mut text = summary(view, history) + "\n";
    if let Some(complaints) = complaints(view) {
        text += &format!("{complaints}\n");
    }
    let titles: Vec<_> = COLUMNS.iter().map(|column| column.title).collect();
    line(&mut text, &widths, &titles);
    for row in &rows {
        let cells: Vec<_> = row.cells.iter().map(String::as_str).collect();
        line(&mut text, &widths, &cells);
    }
    text
}

/// Appends a row: names left-aligned, figures right-aligned.
fn line(text: &mut String, widths: &[usize], cells: &[&str]) {
    let mut line = String::new();
    for (at, (width, cell)) in widths.iter().zip(cells).enumerate() {
        let written = if at < 3 { write!(line, "{cell:width$} ") } else { write!(line, "{cell:>width$} ") };
        // Writing to a String never fails.
        debug_assert!(written.is_ok());
    }
    text.push_str(line.trim_end());
    text.push('\n');
}
