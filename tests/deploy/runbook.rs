//! Checks that the runbook describes every reason of conditions and events that the code writes, and no other.

use std::collections::BTreeSet;
use std::path::Path;

use crate::{path, read};

/// Returns the string literal at the beginning of `text`, without its quotes. Returns `None` if the literal is not one
/// word in upper camel case, because then it can't be a reason.
fn quoted_reason(text: &str) -> Option<String> {
    let (reason, _) = text.strip_prefix('"')?.split_once('"')?;
    let is_word = reason.starts_with(|c: char| c.is_ascii_uppercase()) && reason.chars().all(char::is_alphanumeric);
    is_word.then(|| reason.to_owned())
}

/// Returns the body of the item that begins with the text `item`, such as `pub enum Wait {`. Returns an empty string
/// if the source does not contain `item`.
fn body<'a>(source: &'a str, item: &str) -> &'a str {
    let after = source.split_once(item).map_or("", |(_, after)| after);
    after.split_once("\n}").map_or(after, |(body, _)| body)
}

/// Returns the string constants of a module that could be reasons of conditions or events.
fn constants(source: &str, module: &str) -> BTreeSet<String> {
    let values = body(source, &format!("pub mod {module} {{")).split("&str = ").skip(1);
    values.filter_map(quoted_reason).collect()
}

/// Returns the names of the variants of the enum `name`. No variant may have fields.
fn variants(source: &str, name: &str) -> BTreeSet<String> {
    let lines = body(source, &format!("pub enum {name} {{")).lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with(['/', '#']))
        .map(|line| line.trim_end_matches(',').to_owned())
        .collect()
}

/// Returns the reasons of events: the second arguments of calls such as `event(true, "Drifted", …)`, which are literals
/// or constants of the same file.
fn event_reasons(source: &str) -> BTreeSet<String> {
    let arguments = source.split("event(").skip(1).filter_map(|call| call.split_once(','));
    let reason = |argument: &str| {
        quoted_reason(argument).or_else(|| {
            let name: String = argument.chars().take_while(|c| c.is_ascii_uppercase() || *c == '_').collect();
            let (_, value) = source.split_once(&format!("const {name}: &str = ")).filter(|_| !name.is_empty())?;
            quoted_reason(value)
        })
    };
    arguments.filter_map(|(_, argument)| reason(argument.trim_start())).collect()
}

/// Adds to `found` the text of each Rust file below a folder, without unit tests.
fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests.rs" {
            let text = std::fs::read_to_string(&path).unwrap();
            found.push(text.split("#[cfg(test)]\nmod ").next().unwrap_or_default().to_owned());
        }
    }
}

/// Returns the reasons that `find` finds in the source files in `src`. Panics if there is no reason.
fn in_sources(find: impl Fn(&str) -> BTreeSet<String>) -> BTreeSet<String> {
    let mut all = Vec::new();
    sources(&path("src"), &mut all);
    let found: BTreeSet<String> = all.iter().flat_map(|source| find(source)).collect();
    assert!(!found.is_empty(), "the test found no reason in src; if the code has moved or changed, adapt the test");
    found
}

/// Returns the name and the text of each section of the runbook that describes a reason.
fn documented() -> Vec<(String, String)> {
    let text = read("deploy/docs/runbook.md");
    let sections = text.split("\n### ").skip(1).filter_map(|section| section.split_once('\n'));
    sections
        .map(|(name, text)| (name.trim().to_owned(), text.split("\n## ").next().unwrap_or_default().to_owned()))
        .collect()
}

#[test]
fn the_runbook_lists_every_reason() {
    let reasons = in_sources(|source| constants(source, "reason"));
    let phases = in_sources(|source| variants(source, "MaintenancePhase"));
    let events = in_sources(event_reasons);
    assert!(events.contains("Drifted") && events.contains("Failed") && events.len() >= 15, "{events:?}");
    let code: BTreeSet<String> = reasons.into_iter().chain(phases).chain(events).collect();
    let runbook: BTreeSet<String> = documented().into_iter().map(|(name, _)| name).collect();
    let missing: Vec<_> = code.difference(&runbook).collect();
    let stale: Vec<_> = runbook.difference(&code).collect();
    assert!(missing.is_empty(), "deploy/docs/runbook.md lacks {missing:?}");
    assert!(stale.is_empty(), "deploy/docs/runbook.md describes {stale:?}, which the code does not write");
}

#[test]
fn the_runbook_lists_every_condition_type() {
    let text = read("deploy/docs/runbook.md");
    let table = text.split_once("## Condition types").map_or("", |(_, after)| after);
    let table = table.split("\n## ").next().unwrap_or_default();
    let names = table.lines().filter_map(|line| line.strip_prefix("| ")?.split('`').nth(1));
    let listed: BTreeSet<String> = names.map(str::to_owned).collect();
    let types = in_sources(|source| constants(source, "condition"));
    let types: BTreeSet<String> =
        types.into_iter().chain(in_sources(|source| constants(source, "maintenance_condition"))).collect();
    assert_eq!(listed, types);
}

#[test]
fn every_section_says_where_to_look_and_what_to_do() {
    let mut names = BTreeSet::new();
    for (name, text) in documented() {
        assert!(text.contains("* **Look at:** ") && text.contains("* **Do:** "), "{name} lacks `Look at` or `Do`");
        assert!(names.insert(name.clone()), "{name} has two sections");
    }
}

#[test]
fn reasons_are_found_in_every_form() {
    let source = "const FAILED: &str = \"Failed\";\npub mod reason {\n    /// Why.\n    pub const A: &str = \"Broken\";\n}\n\
                  pub enum Phase {\n    /// First.\n    Begun,\n    #[serde]\n    Over,\n}\n\
                  fn f() { event(true, FAILED, note); event(\n    false,\n    \"Done\",\n    \"some text\") }";
    assert_eq!(constants(source, "reason"), ["Broken".to_owned()].into());
    assert_eq!(variants(source, "Phase"), ["Begun".to_owned(), "Over".to_owned()].into());
    assert_eq!(event_reasons(source), ["Done".to_owned(), "Failed".to_owned()].into());
}
