//! What is said of bad inputs, by the library that `osdpl validate`, the webhook and the operator share; and the command's own forms.

#![allow(clippy::disallowed_methods, reason = "tests start programs and read files")]

#[path = "validate/certificates.rs"]
mod certificates;
#[path = "validate/command.rs"]
mod command;
#[path = "validate/files.rs"]
mod files;
#[path = "validate/leaks.rs"]
mod leaks;
#[path = "validate/site.rs"]
mod site;
#[path = "validate/sound.rs"]
mod sound;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use osdpl_core::catalog::Catalog;
use osdpl_core::observed::ClusterInfo;
use osdpl_lint::rule::{Report, Schemas, report, split_documents};

/// Where the table is.
const TABLE: &str = "tests/validate/bad.txt";
/// How many inputs it has at least.
const INPUTS: usize = 150;
/// What an input that is a spec alone stands below.
const HEAD: &str =
    "apiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\nmetadata: {name: cloud, namespace: openstack}\nspec:\n";

fn path(below: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(below)
}

fn judged(texts: &[(&str, &str)]) -> Report {
    let catalog = osdpl_core::files::load_catalog(None).unwrap();
    let schemas = Schemas::new(&catalog).unwrap();
    judged_by(texts, &catalog, &schemas)
}

fn judged_by(texts: &[(&str, &str)], catalog: &Catalog, schemas: &Schemas) -> Report {
    judged_at(texts, catalog, schemas, &ClusterInfo::default())
}

fn judged_at(texts: &[(&str, &str)], catalog: &Catalog, schemas: &Schemas, site: &ClusterInfo) -> Report {
    let documents: Vec<_> = texts.iter().flat_map(|(file, text)| split_documents(file, text)).collect();
    report(&documents, catalog, schemas, site, None)
}

/// The resource that an input is.
fn resource(input: &str) -> String {
    if input.starts_with("apiVersion:") {
        return input.to_owned();
    }
    let mut text = HEAD.to_owned();
    for (key, usual) in [("openstackRelease", "\"2026.1\""), ("presets", "[compute]")] {
        if !input.lines().any(|line| line.starts_with(&format!("{key}:"))) {
            let _ = writeln!(text, "  {key}: {usual}");
        }
    }
    for line in input.lines() {
        let _ = writeln!(text, "  {line}");
    }
    text
}

/// What is said of an input, a line for each finding; without what is `usual` where it stands below the usual presets.
fn said(input: &str, usual: &Report, catalog: &Catalog, schemas: &Schemas) -> String {
    let report = judged_by(&[("cloud.yaml", &resource(input))], catalog, schemas);
    let is_below = !input.starts_with("apiVersion:") && !input.lines().any(|line| line.starts_with("presets:"));
    let is_usual = |message: &str| is_below && usual.findings.iter().any(|found| found.message == message);
    report.findings.iter().filter(|found| !is_usual(&found.message)).fold(String::new(), |mut text, found| {
        let field = if found.field.is_empty() { String::new() } else { format!("{}: ", found.field) };
        let _ =
            writeln!(text, "=> {}: {}: {field}{} [{}]", found.line, found.level, settled(&found.message), found.rule);
        text
    })
}

/// A message without what grows with the catalogue: lists of all names, and which of a file's fragments it is.
fn settled(message: &str) -> String {
    let mut text = message.to_owned();
    for list in ["; there are ", "; these can: "] {
        text = text.split_once(list).map_or(text.clone(), |(before, _)| format!("{before}{list}…"));
    }
    let parts: Vec<&str> = text.split("fragments[").collect();
    let rest = parts[1..].iter().map(|part| part.split_once(']').map_or(*part, |(_, after)| after));
    rest.fold(parts[0].to_owned(), |text, part| format!("{text}fragments[…]{part}"))
}

/// An input, and what the table says is said of it.
fn case(text: &str) -> (String, String) {
    let is_said = |line: &&str| line.starts_with("=> ");
    let is_input = |line: &&str| !line.starts_with("=> ") && !line.starts_with("# ") && !line.is_empty();
    let with_ends = |lines: Vec<&str>| {
        let text = lines.join("\n");
        if text.is_empty() { text } else { text + "\n" }
    };
    (with_ends(text.lines().filter(is_input).collect()), with_ends(text.lines().filter(is_said).collect()))
}

#[test]
fn of_every_bad_input_is_said_where_why_and_what_to_do() {
    let table = std::fs::read_to_string(path(TABLE)).unwrap();
    let catalog = osdpl_core::files::load_catalog(None).unwrap();
    let schemas = Schemas::new(&catalog).unwrap();
    let usual = judged_by(&[("cloud.yaml", &resource(""))], &catalog, &schemas);
    let (mut written, mut wrong, mut count) = (String::new(), String::new(), 0);
    for (index, part) in table.split("---\n").enumerate() {
        let (input, expected) = case(part);
        if index == 0 {
            written.push_str(part);
            continue;
        }
        count += 1;
        let said = said(&input, &usual, &catalog, &schemas);
        if said != expected {
            let _ = writeln!(wrong, "{input}is said:\n{said}not:\n{expected}");
        }
        let has_remedy = |line: &&str| {
            ["; ", ", did you mean", ", such as ", ": either", ": name "].iter().any(|word| line.contains(word))
        };
        for line in said.lines().filter(|line| !has_remedy(line)) {
            let _ = writeln!(wrong, "{input}is not told what to do:\n{line}");
        }
        if said.is_empty() {
            let _ = writeln!(wrong, "{input}is taken without a word");
        }
        // What stands after an input is the next one's heading.
        let heading = part.lines().filter(|line| line.starts_with("# ")).map(|line| format!("\n{line}\n"));
        let _ = write!(written, "---\n{input}{said}{}", heading.collect::<String>());
    }
    if std::env::var_os("UPDATE_TABLE").is_some() {
        std::fs::write(path(TABLE), written).unwrap();
        return;
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count >= INPUTS, "only {count} bad inputs are left");
}
