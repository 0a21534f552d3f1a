//! Tables in Markdown, for the documentation.

/// Formats a table.
pub fn table<C: AsRef<str>>(head: &[impl AsRef<str>], rows: &[Vec<C>]) -> String {
    let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
    let rows = rows.iter().map(|row| line(row.iter().map(AsRef::as_ref).collect()));
    [line(head.iter().map(AsRef::as_ref).collect()), line(vec!["---"; head.len()])].into_iter().chain(rows).collect()
}
