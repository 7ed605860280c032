//! Markdown tables that are also readable as plain text.

use std::fmt::Write as _;

/// Formats a table. All columns but the last are padded to their widest cell.
pub fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let clean = |cell: &str| cell.replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" ");
    let all: Vec<[String; N]> =
        std::iter::once(head.map(clean)).chain(rows.iter().map(|row| row.each_ref().map(|cell| clean(cell)))).collect();
    let width = |column: usize| all.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; N] = std::array::from_fn(|column| if column + 1 == N { 3 } else { width(column) });
    let mut text = String::new();
    for (index, row) in all.iter().enumerate() {
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(text, "| {cell:<width$} ");
        }
        text.push_str("|\n");
        if index == 0 {
            let lines = widths.map(|width| "-".repeat(width + 2));
            let _ = writeln!(text, "|{}|", lines.join("|"));
        }
    }
    text
}

/// Formats a text as code; empty text stays empty.
pub fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{}`", text.split_whitespace().collect::<Vec<_>>().join(" ")) }
}

/// Formats texts as code, separated by commas.
pub fn codes<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    texts.into_iter().map(code).collect::<Vec<_>>().join(", ")
}
