//! Checks the findings about bad inputs, and the options of `osdpl validate`. The findings come from a library,
//! `osdpl-lint`, which the operator and its webhook use, too.

#![allow(clippy::disallowed_methods, reason = "tests start programs and read files")]

#[path = "validate/certificates.rs"]
mod certificates;
#[path = "validate/cluster.rs"]
mod cluster;
#[path = "validate/command.rs"]
mod command;
#[path = "validate/files.rs"]
mod files;
#[path = "validate/leaks.rs"]
mod leaks;
#[path = "validate/valid.rs"]
mod valid;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use osdpl_core::catalog::{Catalog, Level};
use osdpl_core::observed::ClusterInfo;
use osdpl_lint::validate::{Report, Schemas, report, split_documents};

/// The table of bad inputs, each with its expected findings.
const TABLE: &str = "tests/validate/bad.txt";
/// The minimum number of bad inputs in the table.
const INPUTS: usize = 150;
/// The lines that the tests put before an input that is only a spec. Such an input has no `apiVersion`.
const HEAD: &str =
    "apiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\nmetadata: {name: cloud, namespace: openstack}\nspec:\n";

fn path(below: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(below)
}

fn checked(texts: &[(&str, &str)]) -> Report {
    let catalog = osdpl_core::files::load_catalog(None).unwrap();
    let schemas = Schemas::new(&catalog).unwrap();
    checked_by(texts, &catalog, &schemas)
}

fn checked_by(texts: &[(&str, &str)], catalog: &Catalog, schemas: &Schemas) -> Report {
    checked_at(texts, catalog, schemas, &ClusterInfo::default())
}

fn checked_at(texts: &[(&str, &str)], catalog: &Catalog, schemas: &Schemas, cluster_info: &ClusterInfo) -> Report {
    let documents: Vec<_> = texts.iter().flat_map(|(file, text)| split_documents(file, text)).collect();
    report(&documents, &|_| (catalog, schemas), cluster_info, None)
}

/// Returns an input as a complete resource. An input without `apiVersion` is only a spec, so this function puts
/// [`HEAD`] and default fields before the input.
fn resource(input: &str) -> String {
    if input.starts_with("apiVersion:") {
        return input.to_owned();
    }
    let mut text = HEAD.to_owned();
    for (key, default) in [("openstackRelease", "\"2026.1\""), ("presets", "[compute]")] {
        if !input.lines().any(|line| line.starts_with(&format!("{key}:"))) {
            let _ = writeln!(text, "  {key}: {default}");
        }
    }
    for line in input.lines() {
        let _ = writeln!(text, "  {line}");
    }
    text
}

/// Returns the findings about an input, one per line. If the input is only a spec and sets no presets, leaves out the
/// findings in `usual`, which the default presets cause.
fn findings_of(input: &str, usual: &Report, catalog: &Catalog, schemas: &Schemas) -> String {
    let report = checked_by(&[("cloud.yaml", &resource(input))], catalog, schemas);
    let has_defaults = !input.starts_with("apiVersion:") && !input.lines().any(|line| line.starts_with("presets:"));
    let is_usual = |message: &str| has_defaults && usual.findings.iter().any(|found| found.text() == message);
    report.findings.iter().filter(|found| !is_usual(&found.text())).fold(String::new(), |mut text, found| {
        assert!(found.remedy.is_some() || found.level == Level::Note, "the finding has no remedy: {found}");
        let field = if found.field().is_empty() { String::new() } else { format!("{}: ", found.field()) };
        let _ = writeln!(
            text,
            "=> {}: {}: {field}{} [{}]",
            found.line(),
            found.level.as_str(),
            without_lists(&found.text()),
            found.rule
        );
        text
    })
}

/// Returns a message with `…` in place of the parts that change when the catalogue grows. These parts are a list of
/// names at the end of the message, and the index of a fragment in its file.
fn without_lists(message: &str) -> String {
    let mut text = message.to_owned();
    for list in ["; choose from ", "; these can: "] {
        text = text.split_once(list).map_or(text.clone(), |(before, _)| format!("{before}{list}…"));
    }
    let parts: Vec<&str> = text.split("fragments[").collect();
    let rest = parts[1..].iter().map(|part| part.split_once(']').map_or(*part, |(_, after)| after));
    rest.fold(parts[0].to_owned(), |text, part| format!("{text}fragments[…]{part}"))
}

/// Returns the input in one entry of the table, and its expected findings.
fn case(text: &str) -> (String, String) {
    let is_finding = |line: &&str| line.starts_with("=> ");
    let is_input = |line: &&str| !line.starts_with("=> ") && !line.starts_with("# ") && !line.is_empty();
    let with_ends = |lines: Vec<&str>| {
        let text = lines.join("\n");
        if text.is_empty() { text } else { text + "\n" }
    };
    (with_ends(text.lines().filter(is_input).collect()), with_ends(text.lines().filter(is_finding).collect()))
}

#[test]
fn every_bad_input_has_location_cause_and_remedy() {
    let table = std::fs::read_to_string(path(TABLE)).unwrap();
    let catalog = osdpl_core::files::load_catalog(None).unwrap();
    let schemas = Schemas::new(&catalog).unwrap();
    let usual = checked_by(&[("cloud.yaml", &resource(""))], &catalog, &schemas);
    let (mut table_now, mut problems, mut count) = (String::new(), String::new(), 0);
    for (index, part) in table.split("---\n").enumerate() {
        let (input, expected) = case(part);
        if index == 0 {
            table_now.push_str(part);
            continue;
        }
        count += 1;
        let actual = findings_of(&input, &usual, &catalog, &schemas);
        if actual != expected {
            let _ = writeln!(problems, "{input}has the findings:\n{actual}not:\n{expected}");
        }
        if actual.is_empty() {
            let _ = writeln!(problems, "{input}has no findings");
        }
        // Keep comments that follow an input: they are the heading of the next input.
        let heading = part.lines().filter(|line| line.starts_with("# ")).map(|line| format!("\n{line}\n"));
        let _ = write!(table_now, "---\n{input}{actual}{}", heading.collect::<String>());
    }
    if std::env::var_os("UPDATE_TABLE").is_some() {
        std::fs::write(path(TABLE), table_now).unwrap();
        return;
    }
    assert!(problems.is_empty(), "{problems}");
    assert!(count >= INPUTS, "{TABLE} must have at least {INPUTS} bad inputs, but has {count}");
}
