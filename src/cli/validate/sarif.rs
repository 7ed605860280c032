//! Formats findings as SARIF 2.1.0 (OASIS, *Static Analysis Results Interchange Format*). Code review tools read this
//! format, and show each finding next to its line.

use serde_json::{Value, json};

use osdpl_core::finding::Finding;
use osdpl_lint::rule::rules;
use osdpl_lint::validate::Report;

const SCHEMA: &str = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// Returns the report as a SARIF log with one run.
pub(crate) fn log(report: &Report) -> Value {
    let rules: Vec<Value> =
        rules().map(|(id, about)| json!({ "id": id, "shortDescription": { "text": about } })).collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "osdpl", "version": env!("CARGO_PKG_VERSION"), "rules": rules } },
            "columnKind": "unicodeCodePoints",
            "results": report.findings.iter().map(result).collect::<Vec<_>>(),
        }],
    })
}

fn result(finding: &Finding) -> Value {
    let (line, level, rule, resource) = (finding.line(), finding.level.as_str(), finding.rule, finding.resource());
    let (field, message) = (finding.field(), finding.text());
    let index = rules().position(|(id, _)| id == rule);
    let text = if field.is_empty() { message } else { format!("{field}: {message}") };
    json!({
        "ruleId": rule,
        "ruleIndex": index,
        "level": level,
        "message": { "text": text },
        "locations": [{
            "physicalLocation": { "artifactLocation": { "uri": uri(finding.file()) }, "region": { "startLine": line.max(1) } },
            "logicalLocations": [{ "name": field, "fullyQualifiedName": format!("{resource} {field}").trim() }],
        }],
    })
}

/// Returns the name of a file as a relative URI reference (RFC 3986): escapes all characters that are special in a URI.
fn uri(file: &str) -> String {
    let escaped = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    file.trim_start_matches("./").bytes().map(escaped).collect()
}
