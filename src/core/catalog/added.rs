//! What someone adds to a catalogue without a new program: files in `ConfigMap`s.
//!
//! A key is the file's path with dots for slashes, because a key of a `ConfigMap` holds none: `services.skyline.yaml`, `presets.edge.yaml`,
//! `features.colour.yaml`, `openstack.2026.2.yaml`, `shared.topic.yaml`, `keys.chart.yaml` and `lock.yaml`. What is wrong with one `ConfigMap`
//! keeps that one out, and those that can't be without it; every other one is read.

use std::collections::{BTreeMap, BTreeSet};

use super::{Catalog, Errors, Files, file};
use osdpl_values::yaml;

/// The label of such a `ConfigMap`; its value is `true`.
pub const LABEL: &str = "osdpl.dev/catalog";

/// What kinds of files can be added, and where each is below the catalogue's root.
const FOLDERS: [(&str, &str); 6] = [
    ("services.", "values/services/"),
    ("presets.", "presets/"),
    ("features.", "values/features/"),
    ("openstack.", "values/openstack/"),
    ("shared.", "values/shared/"),
    ("keys.", "values/keys/"),
];

/// The chart lock, of which entries are added.
const LOCK: &str = "values/lock.yaml";

/// Files that come from one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Addition {
    /// The place: `ConfigMap openstack/edge`.
    pub source: String,
    /// Its keys with their texts.
    pub data: BTreeMap<String, String>,
}

/// An addition that is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The place.
    pub source: String,
    /// What is wrong, with key and line, and what to do; a line for each mistake.
    pub message: String,
}

/// A catalogue with what was added to it.
#[derive(Debug)]
pub struct Extended {
    /// The whole.
    pub catalog: Catalog,
    /// Its files.
    pub files: Files,
    /// What is not in it.
    pub refused: Vec<Refused>,
}

/// One file of an addition.
struct Given {
    source: String,
    key: String,
    path: String,
    text: String,
}

impl Given {
    /// Its path in the catalogue, and where it stands.
    fn place(&self) -> (String, String) {
        (self.path.clone(), format!("{}, key {}", self.source, self.key))
    }
}

/// Adds to the files of a catalogue. Additions are taken in the order of their places; of two that give the same file the first one counts.
///
/// # Errors
/// Everything that is wrong with the catalogue itself.
pub fn extend(base: &Files, additions: &[Addition]) -> Result<Extended, Errors> {
    let mut sorted: Vec<&Addition> = additions.iter().collect();
    sorted.sort();
    let mut refused = Vec::new();
    let mut given: Vec<Given> = Vec::new();
    for addition in sorted {
        match read(base, addition, &given) {
            Ok(more) => given.extend(more),
            Err(message) => refused.push(Refused { source: addition.source.clone(), message }),
        }
    }
    loop {
        let files = with(base, &given);
        let errors = match Catalog::load(&files) {
            Ok(mut catalog) => {
                catalog.added = given.iter().map(Given::place).collect();
                return Ok(Extended { catalog, files, refused });
            }
            Err(errors) => errors,
        };
        let Some(last) = given.last() else { return Err(errors) };
        let mut wrong = blamed(&errors, &given);
        if wrong.is_empty() {
            // Such as releases in a circle: whoever came last closed it.
            wrong.insert(last.source.clone(), errors.to_string());
        }
        given.retain(|given| !wrong.contains_key(&given.source));
        refused.extend(wrong.into_iter().map(|(source, message)| Refused { source, message }));
    }
}

/// The files of one addition, or everything that can be said against them at first sight.
fn read(base: &Files, addition: &Addition, before: &[Given]) -> Result<Vec<Given>, String> {
    let mut files = Vec::new();
    let mut wrong = Vec::new();
    for (key, text) in &addition.data {
        let Some(path) = path(key) else {
            wrong.push(format!(
                "key {key:?} is no file of a catalogue; write services.NAME.yaml, presets.NAME.yaml, features.NAME.yaml, openstack.RELEASE.yaml, \
                 shared.TOPIC.yaml, keys.CHART.yaml or lock.yaml"
            ));
            continue;
        };
        if path == LOCK {
            wrong.extend(pinned(base, text, before).err().map(|problem| format!("key {key:?}: {problem}")));
        } else if let Some(own) = own(base, &path) {
            wrong.push(format!(
                "key {key:?}: the catalogue has {own} itself, and it can't be replaced here; choose another name"
            ));
        } else if let Some(other) = before.iter().find(|given| given.path == path) {
            wrong.push(format!(
                "key {key:?}: {} has the same file; choose another name, or take one of the two out",
                other.source
            ));
        }
        files.push(Given { source: addition.source.clone(), key: key.clone(), path, text: text.clone() });
    }
    if wrong.is_empty() { Ok(files) } else { Err(wrong.join("\n")) }
}

/// Where the file of a key is below the catalogue's root.
fn path(key: &str) -> Option<String> {
    if key == "lock.yaml" {
        return Some(LOCK.into());
    }
    FOLDERS.iter().find_map(|(prefix, folder)| {
        let name = key.strip_prefix(prefix)?.strip_suffix(".yaml")?;
        (!name.is_empty()).then(|| format!("{folder}{name}.yaml"))
    })
}

/// The catalogue's own file of that name, whatever its ending.
fn own<'a>(base: &'a Files, path: &str) -> Option<&'a str> {
    let name = path.strip_suffix(".yaml")?;
    let is_same = |own: &&String| own.strip_suffix(".yaml").or_else(|| own.strip_suffix(".json")) == Some(name);
    base.keys().find(is_same).map(String::as_str)
}

/// The entries of a lock that is added: each of a chart of which nothing is known yet.
fn pinned(base: &Files, text: &str, before: &[Given]) -> Result<BTreeMap<String, file::Pin>, String> {
    let read = |text: &str| yaml::parse::<file::Lock>(LOCK, text).map(|lock| lock.charts);
    let mut known: BTreeSet<String> = BTreeSet::new();
    let before = before.iter().filter(|given| given.path == LOCK).map(|given| given.text.as_str());
    for text in base.get(LOCK).into_iter().map(|text| &text[..]).chain(before) {
        known.extend(read(text).unwrap_or_default().into_keys());
    }
    let pins = read(text).map_err(|error| format!("line {}: {}; correct it", error.line, error.problem))?;
    match pins.keys().find(|chart| known.contains(*chart)) {
        Some(chart) => Err(format!(
            "chart {chart} is in the lock already, and can't be pinned here; take it out, and set `version` of its release in the spec"
        )),
        None => Ok(pins),
    }
}

/// The files of the catalogue and those that were given; all locks are one.
fn with(base: &Files, given: &[Given]) -> Files {
    let mut files = base.clone();
    let mut pins: BTreeMap<String, file::Pin> = BTreeMap::new();
    for own in given {
        if own.path == LOCK {
            pins.extend(yaml::parse::<file::Lock>(LOCK, &own.text).map(|lock| lock.charts).unwrap_or_default());
        } else {
            files.insert(own.path.clone(), own.text.clone().into());
        }
    }
    if !pins.is_empty() {
        let text = base.get(LOCK).map(|text| &text[..]).unwrap_or_default();
        pins.extend(yaml::parse::<file::Lock>(LOCK, text).map(|lock| lock.charts).unwrap_or_default());
        let charts = BTreeMap::from([("charts", pins)]);
        files.insert(LOCK.into(), yaml::write(&charts).into());
    }
    files
}

/// Whose files the errors speak of, each error with the key in place of the path.
fn blamed(errors: &Errors, given: &[Given]) -> BTreeMap<String, String> {
    let mut wrong: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for error in &errors.0 {
        let text = error.to_string();
        let at = |given: &&Given| text.starts_with(&format!("{}:", given.path));
        // An error may stand at a file of the catalogue's own that the addition contradicts.
        let named = given.iter().find(at).or_else(|| given.iter().find(|given| text.contains(&given.path)));
        if let Some(own) = named {
            let text = text.replace(&own.path, &format!("key {:?}", own.key));
            wrong.entry(own.source.clone()).or_default().push(text);
        }
    }
    wrong.into_iter().map(|(source, texts)| (source, texts.join("\n"))).collect()
}

#[cfg(test)]
mod tests;
