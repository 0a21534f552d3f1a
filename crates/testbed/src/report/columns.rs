//! Plain-text tables for a terminal.

/// Formats a table; the first column is left-aligned, the others right-aligned.
pub fn columns(head: &[impl AsRef<str>], rows: &[Vec<String>]) -> String {
    let head = head.iter().map(|cell| cell.as_ref().to_owned()).collect::<Vec<_>>();
    let lines: Vec<&[String]> = [head.as_slice()].into_iter().chain(rows.iter().map(Vec::as_slice)).collect();
    let cell = |line: &[String], column: usize| line.get(column).map_or(0, |cell| cell.chars().count());
    let widths: Vec<usize> =
        (0..head.len()).map(|c| lines.iter().map(|line| cell(line, c)).max().unwrap_or(0)).collect();
    let mut out = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_below_each_other_whatever_their_letters() {
        let rows = [["µ".to_owned(), "1".to_owned()].to_vec(), ["long".to_owned(), "–".to_owned()].to_vec()];
        assert_eq!(columns(&["a", "what"], &rows), "a     what\nµ        1\nlong     –\n");
    }
}
