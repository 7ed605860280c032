//! Writes parts of the pages about catalogue entries: the fragments (values with their conditions and reasons), the
//! checks and the certificates.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::table::{code, codes};
use osdpl_core::catalog::{Group, file};
use osdpl_values::yaml;
use osdpl_values::{CollectSorted, Values};

/// Converts the fragments to JSON, for programs.
pub(crate) fn fragments_data(fragments: &[file::Fragment]) -> Value {
    let body = |body: &file::Body| json!({"values": body.values, "unset": body.unset});
    let one = |fragment: &file::Fragment| {
        let releases: BTreeMap<_, _> = fragment.releases.iter().map(|(name, own)| (name, body(own))).collect_map();
        let every = fragment.every.as_ref();
        let every =
            every.map(|every| json!({"group": every.group.map(group), "except": every.except, "values": every.values}));
        json!({"why": fragment.why, "when": fragment.when, "releases": releases, "every": every})
    };
    fragments.iter().map(one).collect()
}

/// Returns the name that the catalogue's files use for a group of releases: `infra` or `openstack`.
pub(crate) fn group(group: Group) -> &'static str {
    match group {
        Group::Infra => "infra",
        Group::Openstack => "openstack",
    }
}

/// Writes the fragments as Markdown, for the page of a catalogue entry. Returns an empty string if there are no
/// fragments.
pub(crate) fn fragments_page(fragments: &[file::Fragment]) -> String {
    let mut text = String::new();
    if !fragments.is_empty() {
        text.push_str("\n## Values\n");
    }
    for (index, fragment) in fragments.iter().enumerate() {
        let when = condition(fragment.when.as_deref());
        let _ = write!(text, "\n### {}. {when}\n", index + 1);
        if !fragment.why.is_empty() {
            let _ = write!(text, "\n{}\n", fragment.why.trim());
        }
        if let Some(every) = &fragment.every {
            let of = every.group.map_or_else(String::new, |of| format!(" of the group {}", group(of)));
            let but =
                if every.except.is_empty() { String::new() } else { format!(", except {}", every.except.join(", ")) };
            body(
                &mut text,
                &format!("every release{of} whose chart has these keys{but}"),
                &every.values.clone().into(),
                &[],
            );
        }
        for (names, own) in group_equal(fragment) {
            body(&mut text, &names.join(", "), &own.values.clone().into(), &own.unset);
        }
    }
    text
}

/// Returns the values that a service sets for a release, with their conditions, as Markdown; an empty string if the
/// service sets no values.
pub(crate) fn own_values_page(name: &str, release: &file::Release) -> String {
    let mut text = String::new();
    let mut part = |title: &str, why: &str, values: &Values, unset: &[String]| {
        if values.is_empty() && unset.is_empty() {
            return;
        }
        let _ = write!(text, "\n### {name}: values {title}\n");
        if !why.is_empty() {
            let _ = write!(text, "\n{}\n", why.trim());
        }
        fields(&mut text, &values.clone().into(), unset);
    };
    part("always", "", &release.values, &release.unset);
    for fragment in &release.fragments {
        part(&condition(fragment.when.as_deref()), &fragment.why, &fragment.values, &fragment.unset);
    }
    text
}

/// Returns the values that a service sets for a release, with their conditions, as JSON for programs.
pub(crate) fn own_values_data(release: &file::Release) -> Value {
    let one = |fragment: &file::OwnFragment| json!({"why": fragment.why, "when": fragment.when, "values": fragment.values, "unset": fragment.unset});
    let always = json!({"why": "", "when": null, "values": release.values, "unset": release.unset});
    std::iter::once(always).chain(release.fragments.iter().map(one)).collect()
}

fn condition(when: Option<&str>) -> String {
    when.map_or_else(|| "always".to_owned(), |when| format!("if {}", code(when)))
}

/// Groups the releases of a fragment that get equal values, so that the page shows these values only once.
fn group_equal(fragment: &file::Fragment) -> Vec<(Vec<&str>, &file::Body)> {
    let mut found: Vec<(Vec<&str>, &file::Body)> = Vec::new();
    for (name, own) in &fragment.releases {
        match found.iter_mut().find(|(_, known)| known.values == own.values && known.unset == own.unset) {
            Some((names, _)) => names.push(name),
            None => found.push((vec![name], own)),
        }
    }
    found
}

fn body(text: &mut String, who: &str, values: &Value, unset: &[String]) {
    let _ = write!(text, "\n{who}:\n");
    fields(text, values, unset);
}

fn fields(text: &mut String, values: &Value, unset: &[String]) {
    if values.as_object().is_some_and(|values| !values.is_empty()) {
        let _ = write!(text, "\n```yaml\n{}\n```\n", yaml::write(values).trim_end());
    }
    if !unset.is_empty() {
        let _ = write!(text, "\nwithout the chart's {}\n", codes(unset.iter().map(String::as_str)));
    }
}

/// Converts the checks of a catalogue entry to JSON for programs. osdpl applies these checks to a user's spec.
pub(crate) fn checks_data(checks: &[file::Check]) -> Value {
    let one = |check: &file::Check| json!({"level": check.level.as_str(), "field": check.field, "when": check.when, "message": check.message});
    checks.iter().map(one).collect()
}

/// Returns the checks of a catalogue entry as Markdown; an empty string if the entry has no checks. osdpl applies these
/// checks to a user's spec.
pub(crate) fn checks(checks: &[file::Check]) -> String {
    if checks.is_empty() {
        return String::new();
    }
    let mut text = "\n## Checks\n".to_owned();
    for (index, check) in checks.iter().enumerate() {
        let (level, field, when) = (check.level.as_str(), code(&check.field), check.when.trim());
        let (number, message) = (index + 1, check.message.trim());
        let _ = write!(text, "\n### {number}. {level}: {field}\n\n{message}\n\nIf:\n\n```text\n{when}\n```\n");
    }
    text
}

/// Converts the certificates of a catalogue entry to JSON for programs. osdpl verifies these certificates in the user's
/// Secrets.
pub(crate) fn certificates_data(certificates: &[file::Certificates]) -> Value {
    let one = |entry: &file::Certificates| {
        json!({
            "field": entry.field, "when": entry.when, "secrets": entry.secrets, "keys": entry.keys, "userProvided": entry.user_provided,
        })
    };
    certificates.iter().map(one).collect()
}

/// Returns the certificates of a catalogue entry as Markdown; an empty string if the entry has no certificates. osdpl
/// verifies these certificates in the user's Secrets.
pub(crate) fn certificates(certificates: &[file::Certificates]) -> String {
    let mut text = String::new();
    if !certificates.is_empty() {
        text.push_str("\n## Verified certificates\n");
    }
    for (index, entry) in certificates.iter().enumerate() {
        let when = condition(entry.when.as_deref());
        let keys = [&entry.keys.certificate, &entry.keys.key, &entry.keys.authority];
        let keys = codes(keys.into_iter().flatten().map(String::as_str));
        let (field, secrets) = (code(&entry.field), block(&entry.secrets));
        let _ = write!(text, "\n### {}. {when}\n\n{field}: {keys} of these Secrets\n\n{secrets}", index + 1);
    }
    text
}

/// Returns a value as a Markdown code block that contains YAML.
pub(crate) fn block(value: &Value) -> String {
    format!("```yaml\n{}\n```\n", yaml::write(value).trim_end())
}
