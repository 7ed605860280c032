//! Formats Markdown tables that are also readable as plain text.

use std::fmt::Write as _;

/// Formats a Markdown table. Pads each column except the last to the width of its widest cell.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
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

/// Formats a table with at most one sentence per cell.
///
/// The whole text of a longer cell follows below the table, in a section named after the first cell of its row.
pub(crate) fn summary_table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let cells: Vec<[String; N]> =
        rows.iter().map(|row| row.each_ref().map(|cell| first_sentence(cell).to_owned())).collect();
    let mut text = table(head, &cells);
    for (row, cells) in rows.iter().zip(&cells) {
        let long: Vec<usize> = (0..N).filter(|column| row[*column].trim().len() > cells[*column].len()).collect();
        if !long.is_empty() {
            let _ = writeln!(text, "\n### {}", row[0]);
        }
        for column in &long {
            let label = if long.len() > 1 { format!("**{}:** ", head[*column]) } else { String::new() };
            let _ = writeln!(text, "\n{label}{}", row[*column].trim());
        }
    }
    text
}

/// Returns the first sentence of a text.
///
/// A sentence ends with a period, then a space, and then a capital letter or the backtick of a code span. A period
/// inside a code span ends no sentence.
pub(crate) fn first_sentence(text: &str) -> &str {
    let text = text.trim();
    let ends = |at: &usize| {
        let next = text[at + 1..].trim_start().chars().next();
        let is_outside_of_code = text[..*at].matches('`').count().is_multiple_of(2);
        let is_abbreviation = text[..*at].ends_with("e.g") || text[..*at].ends_with("i.e");
        next.is_some_and(|next| next.is_uppercase() || next == '`') && is_outside_of_code && !is_abbreviation
    };
    let mut periods = text.char_indices().filter(|(_, character)| *character == '.').map(|(at, _)| at);
    let end = periods.find(|at| text[at + 1..].starts_with(char::is_whitespace) && ends(at));
    end.map_or(text, |end| &text[..=end])
}

/// Formats a string as a Markdown code span. Returns an empty string unchanged.
pub(crate) fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{}`", text.split_whitespace().collect::<Vec<_>>().join(" ")) }
}

/// Formats each string as a Markdown code span, and joins them with commas.
pub(crate) fn codes<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    texts.into_iter().map(code).collect::<Vec<_>>().join(", ")
}
