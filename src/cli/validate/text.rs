//! Formats findings as `file:line: level: field: message [rule]`, like compilers, so that editors find the location.

use std::fmt::Write as _;

use osdpl_lint::validate::Report;

/// Returns the report as text.
pub(crate) fn format(report: &Report) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        let (file, line, level, rule) = (finding.file(), finding.line(), finding.level.as_str(), finding.rule);
        let message = if finding.field().is_empty() { finding.text() } else { finding.to_string() };
        let _ = writeln!(text, "{file}:{line}: {level}: {message} [{rule}]");
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    let summary = &report.summary;
    let (errors, warnings) = (counted(summary.errors, "error"), counted(summary.warnings, "warning"));
    let _ = writeln!(text, "{} validated: {errors}, {warnings}", counted(summary.resources, "resource"));
    text
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}
