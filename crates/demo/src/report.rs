//! Tables of a comparison: markdown and JSON into files, columns to the terminal.

use std::fs;
use std::path::Path;

use serde::Serialize;
use timeous_testbed::report::columns::columns;
use timeous_testbed::report::markdown;

use crate::error::DemoError;

/// Writes a table to the files `name` in `out`, and prints it, as JSON or in columns.
pub(crate) fn write<T: Serialize>(
    out: &Path,
    is_json: bool,
    name: &str,
    rows: &[T],
    head: &[&str],
    cells: fn(&T) -> Vec<String>,
) -> Result<(), DemoError> {
    let json = serde_json::to_string_pretty(rows).expect("names and numbers are JSON");
    let cells: Vec<_> = rows.iter().map(cells).collect();
    for (end, content) in [("md", &markdown::table(head, &cells)), ("json", &json)] {
        let path = out.join(format!("{name}.{end}"));
        fs::write(&path, content).map_err(DemoError::file(&path))?;
    }
    if is_json {
        println!("{json}");
    } else {
        print!("{}", columns(head, &cells));
    }
    Ok(())
}

/// Milliseconds with one digit behind the point.
pub(crate) fn round(millis: f64) -> f64 {
    (millis * 10.0).round() / 10.0
}
