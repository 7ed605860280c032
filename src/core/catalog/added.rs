//! Additions: `ConfigMap`s in which users provide further catalogue files. A running osdpl adds these files to its
//! built-in catalogue.
//!
//! `spec.catalog` names the `ConfigMap`s. Each key of a `ConfigMap` stands for one file. The key is the file's path in
//! the catalogue, but without `values/`, and with a dot for each slash, because keys can't contain slashes. Examples of
//! keys are `services.skyline.yaml`, `presets.edge.yaml`, `features.colour.yaml`, `openstack.2026.2.yaml`,
//! `shared.topic.yaml`, `keys.chart.yaml`, `options.chart.path.yaml` and `lock.yaml`.
//!
//! osdpl rejects an addition that has an error, and every addition that depends on a rejected addition. It loads all
//! other additions.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::{Catalog, Errors, Files, Text, file};
use osdpl_values::yaml::{self, LocatedNode};
use osdpl_values::{CollectSorted, canonical, sha256};

/// The prefixes of an addition's keys, each with the folder of the catalogue that the prefix stands for. For example,
/// the key `services.skyline.yaml` stands for the file `values/services/skyline.yaml`.
const FOLDERS: [(&str, &str); 7] = [
    ("services.", "values/services/"),
    ("presets.", "presets/"),
    ("features.", "values/features/"),
    ("openstack.", "values/openstack/"),
    ("shared.", "values/shared/"),
    ("keys.", "values/keys/"),
    ("options.", "values/options/"),
];

/// The path of the chart lock, the file with the pinned version of each chart. An addition can add entries to the lock,
/// but can't replace it.
const LOCK: &str = "values/lock.yaml";

/// The maximum size of the files of all additions, in bytes ([`LocatedNode::size`]). A `ConfigMap` has at most 1 MiB,
/// but its aliases could repeat a value thousands of times.
const MAX_SIZE: usize = 4 << 20;

/// The catalogue files in one `ConfigMap` of a user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Addition {
    /// The name of the `ConfigMap` in messages: `ConfigMap openstack/edge`.
    pub source: String,
    /// The name of the `ConfigMap`.
    pub name: String,
    /// The data of the `ConfigMap`: maps a key, such as `presets.edge.yaml`, to the file's text.
    pub data: BTreeMap<String, String>,
}

impl Addition {
    /// Creates the addition with the data of a `ConfigMap`.
    pub fn new(namespace: &str, name: &str, data: BTreeMap<String, String>) -> Self {
        Self { source: Self::source_of(namespace, name), name: name.to_owned(), data }
    }

    /// Returns the name of a `ConfigMap` in messages: `ConfigMap openstack/edge`.
    pub(super) fn source_of(namespace: &str, name: &str) -> String {
        format!("ConfigMap {namespace}/{name}")
    }

    /// Returns the digest of the `ConfigMap`'s data, in the format of `digest` in `spec.catalog`. osdpl converts the
    /// data to compact JSON with sorted keys, and computes the digest of this JSON.
    pub fn digest(&self) -> String {
        sha256(&canonical(&json!(self.data)))
    }
}

/// Whether a `ConfigMap` is probably meant as an addition: its data has keys, and all of them are names of catalogue
/// files.
pub fn has_catalog_keys<'a>(mut keys: impl Iterator<Item = &'a String>) -> bool {
    let first = keys.next();
    first.into_iter().chain(keys).all(|key| path(key).is_some()) && first.is_some()
}

/// An addition that osdpl rejects: it has errors, or it depends on another rejected addition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedAddition {
    /// The name of the `ConfigMap` in messages: `ConfigMap openstack/edge`.
    pub source: String,
    /// The errors of the addition, one per line. Each error names the key in the `ConfigMap`, except for errors that no
    /// single file causes, such as a cycle of releases.
    pub message: String,
}

/// The catalogue extended by the accepted additions, and the additions that osdpl rejected.
#[derive(Debug)]
pub struct ExtendedCatalog {
    /// The catalogue with the accepted additions.
    pub catalog: Catalog,
    /// The files from which osdpl loaded `catalog`: the built-in files and those of the accepted additions.
    pub files: Files,
    /// The additions that osdpl rejected, each with the errors.
    pub rejected: Vec<RejectedAddition>,
}

/// One file of an addition, with its key in the `ConfigMap` and its path in the catalogue.
struct AddedFile {
    source: String,
    key: String,
    path: String,
    text: String,
    /// The size of the file, in which the content of an anchor counts again for each alias.
    size: usize,
}

impl AddedFile {
    /// Returns the path of the added file in the catalogue, and the text that names the file's origin in messages:
    /// `ConfigMap openstack/edge, key presets.edge.yaml`.
    fn location(&self) -> (String, String) {
        (self.path.clone(), format!("{}, key {}", self.source, self.key))
    }
}

/// Adds the files of the additions to the catalogue `base`, and rejects additions with errors.
///
/// osdpl reads the additions in the order of the `ConfigMap`s' namespaces and names. If two additions contain a file
/// with the same path, osdpl rejects the addition that it reads second. Several additions can contain `lock.yaml`, but
/// osdpl rejects an addition that pins a chart which the catalogue or an earlier addition already pins.
///
/// # Errors
/// Returns all errors of `base` if `base` has errors even without additions.
pub fn extend_catalog(base: &Files, additions: &[Addition]) -> Result<ExtendedCatalog, Errors> {
    let mut sorted: Vec<&Addition> = additions.iter().collect();
    sorted.sort();
    let mut refused = Vec::new();
    let mut given: Vec<AddedFile> = Vec::new();
    for addition in sorted {
        match read(base, addition, &given) {
            Ok(more) => given.extend(more),
            Err(message) => refused.push(RejectedAddition { source: addition.source.clone(), message }),
        }
    }
    loop {
        let files = with(base, &given);
        let errors = match Catalog::load(&files) {
            Ok(mut catalog) => {
                catalog.added = given.iter().map(AddedFile::location).collect_map();
                let is_used = |addition: &&Addition| refused.iter().all(|one| one.source != addition.source);
                let used = additions.iter().filter(is_used);
                catalog.additions = used.map(|addition| (addition.name.clone(), addition.digest())).collect_map();
                return Ok(ExtendedCatalog { catalog, files, rejected: refused });
            }
            Err(errors) => errors,
        };
        let Some(last) = given.last() else { return Err(errors) };
        let mut errors_by_source = group_by_source(&errors, &given);
        if errors_by_source.is_empty() {
            // No error names a file of an addition: for example, the error about a cycle of releases names only the
            // releases. So osdpl does not know which addition causes the errors, and rejects the addition that it read
            // last. If the errors remain, the next iteration rejects another addition.
            errors_by_source.insert(last.source.clone(), errors.to_string());
        }
        given.retain(|given| !errors_by_source.contains_key(&given.source));
        refused.extend(errors_by_source.into_iter().map(|(source, message)| RejectedAddition { source, message }));
    }
}

/// Returns the files of one addition, or the errors that osdpl can find without loading the catalogue.
///
/// `before` contains the files of all additions that osdpl has read before this one.
fn read(base: &Files, addition: &Addition, before: &[AddedFile]) -> Result<Vec<AddedFile>, String> {
    let mut files = Vec::new();
    let mut errors = Vec::new();
    let mut total: usize = before.iter().map(|given| given.size).sum();
    for (key, text) in &addition.data {
        let Some(path) = path(key) else {
            errors.push(format!(
                "key {key:?} is not the name of a catalogue file; write services.NAME.yaml, presets.NAME.yaml, features.NAME.yaml, openstack.RELEASE.yaml, \
                 shared.TOPIC.yaml, keys.CHART.yaml, options.CHART.PATH.yaml or lock.yaml"
            ));
            continue;
        };
        if path == LOCK {
            errors.extend(pinned(base, text, before).err().map(|problem| format!("key {key:?}: {problem}")));
        } else if let Some(own) = own(base, &path) {
            errors.push(format!(
                "key {key:?}: the catalogue already has {own}, which an addition can't replace; choose another key"
            ));
        } else if let Some(other) = before.iter().find(|given| given.path == path) {
            errors.push(format!(
                "key {key:?}: {} already contains a file of this name; choose another name, or remove one of the two files",
                other.source
            ));
        }
        // If the file is no valid YAML, the loader of the catalogue reports the error.
        let size = yaml::parse::<LocatedNode>(&path, text).map_or(0, |tree| tree.size());
        total += size;
        if total > MAX_SIZE {
            errors.push(format!(
                "key {key:?}: with this file, the additions of the cloud have more than {} MiB, including the content \
                 of aliases; use fewer aliases, or shorten the files",
                MAX_SIZE >> 20
            ));
            break;
        }
        files.push(AddedFile { source: addition.source.clone(), key: key.clone(), path, text: text.clone(), size });
    }
    if errors.is_empty() { Ok(files) } else { Err(errors.join("\n")) }
}

/// Converts a key of an addition to the path of the file in the catalogue; `None` if the key is not the name of a
/// catalogue file.
fn path(key: &str) -> Option<String> {
    if key == "lock.yaml" {
        return Some(LOCK.into());
    }
    FOLDERS.iter().find_map(|(prefix, folder)| {
        let name = key.strip_prefix(prefix)?.strip_suffix(".yaml")?;
        (!name.is_empty()).then(|| format!("{folder}{name}.yaml"))
    })
}

/// Returns the path of the file in the catalogue `base` that an addition's file would replace; `None` if `base` has no
/// such file. `path` is the path of the addition's file and ends in `.yaml`. The file in `base` may end in `.json`
/// instead, because the built-in key trees are JSON files.
fn own<'a>(base: &'a Files, path: &str) -> Option<&'a str> {
    let name = path.strip_suffix(".yaml")?;
    let is_same = |own: &&String| own.strip_suffix(".yaml").or_else(|| own.strip_suffix(".json")) == Some(name);
    base.keys().find(is_same).map(String::as_str)
}

/// Returns the pin of each chart in the chart lock of the catalogue `base`.
fn own_pins(base: &Files) -> BTreeMap<String, file::Pin> {
    let lock = base.get(LOCK).and_then(|text| text.read::<file::Lock>(LOCK).ok());
    lock.map(|lock| lock.charts).unwrap_or_default()
}

/// Returns the pin of each chart in the file `lock.yaml` of an addition. `text` is the content of this file.
///
/// Returns an error if the file is not a valid chart lock, or if the catalogue `base` or an earlier addition already
/// pins one of these charts.
fn pinned(base: &Files, text: &str, before: &[AddedFile]) -> Result<BTreeMap<String, file::Pin>, String> {
    let read = |text: &str| Text::from(text).read::<file::Lock>(LOCK).map(|lock| lock.charts);
    let mut known: BTreeSet<String> = own_pins(base).into_keys().collect_set();
    for given in before.iter().filter(|given| given.path == LOCK) {
        known.extend(read(&given.text).unwrap_or_default().into_keys());
    }
    let pins = read(text).map_err(|error| format!("line {}: {}; correct it", error.line, error.message))?;
    match pins.keys().find(|chart| known.contains(*chart)) {
        Some(chart) => Err(format!(
            "the catalogue or another addition already pins chart {chart}; remove the chart here, and set `version` of the chart's release in the spec"
        )),
        None => Ok(pins),
    }
}

/// Returns the files of the catalogue `base` and of the additions. The result contains one chart lock, which has the
/// pins from the chart lock of `base` and from the chart locks of the additions.
fn with(base: &Files, given: &[AddedFile]) -> Files {
    let mut files = base.clone();
    let mut pins: BTreeMap<String, file::Pin> = BTreeMap::new();
    for own in given {
        if own.path == LOCK {
            let lock = Text::from(own.text.as_str()).read::<file::Lock>(LOCK);
            pins.extend(lock.map(|lock| lock.charts).unwrap_or_default());
        } else {
            files.insert(own.path.clone(), own.text.clone().into());
        }
    }
    if !pins.is_empty() {
        pins.extend(own_pins(base));
        let charts = BTreeMap::from([("charts", pins)]);
        files.insert(LOCK.into(), yaml::write(&charts).into());
    }
    files
}

/// Groups the errors by the addition that causes them: maps `Addition::source` to the errors as text. Leaves out errors
/// that name no file of an addition. In the text, the key (`key "presets.edge.yaml"`) replaces the path of the
/// addition's file, because users know the key.
fn group_by_source(errors: &Errors, given: &[AddedFile]) -> BTreeMap<String, String> {
    let mut errors_by_source: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for error in &errors.0 {
        let text = error.to_string();
        let at = |given: &&AddedFile| text.starts_with(&format!("{}:", given.path));
        // If an addition contradicts a built-in file, the error may begin with the path of the built-in file, and name
        // the addition's file later. So if the error does not begin with the path of an addition's file, search the
        // whole text of the error for such a path.
        let named = given.iter().find(at).or_else(|| given.iter().find(|given| text.contains(&given.path)));
        if let Some(own) = named {
            let text = text.replace(&own.path, &format!("key {:?}", own.key));
            errors_by_source.entry(own.source.clone()).or_default().push(text);
        }
    }
    errors_by_source.into_iter().map(|(source, texts)| (source, texts.join("\n"))).collect_map()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::files;

    fn addition(source: &str, data: &[(&str, &str)]) -> Addition {
        let data = data.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
        Addition::new("openstack", source, data)
    }

    fn extended(additions: &[Addition]) -> (Catalog, Vec<String>) {
        let ExtendedCatalog { catalog, rejected: refused, .. } = extend_catalog(&files(&[]), additions).unwrap();
        (catalog, refused.into_iter().map(|refused| format!("{}: {}", refused.source, refused.message)).collect())
    }

    const BACK: &str = "service: back\ndescription: A test.\ngroup: openstack\nreleases:\n  back:\n    needs: [{component: front/api}]\n    components: {back/api: Deployment}\n";
    const EDGE: &str = "preset: edge\ndescription: A test.\nservices: [back]\n";

    #[test]
    fn adds_every_kind_of_file() {
        let (catalog, refused) = extended(&[
            addition("a", &[("presets.edge.yaml", EDGE)]),
            addition(
                "b",
                &[
                    ("services.back.yaml", BACK),
                    ("features.shape.yaml", "feature: shape\ndescription: x\nschema: {type: object}\ndefault: {}\n"),
                    ("openstack.2026.2.yaml", "openstackRelease: '2026.2'\ndescription: x\nupgradesFrom: ['2026.1']\n"),
                    ("shared.more.yaml", "shared: more\ndescription: x\nfragments: [{every: {values: {mine: 1}}}]\n"),
                    ("keys.back.yaml", "mine: number\n"),
                    ("lock.yaml", "charts: {back: {version: 2.0.0, repository: 'https://charts.example.org'}}\n"),
                ],
            ),
        ]);
        assert_eq!(refused, Vec::<String>::new());
        assert!(catalog.presets.contains_key("edge") && catalog.features.contains_key("shape"));
        assert!(catalog.openstack.contains_key("2026.2") && catalog.services.contains_key("back"));
        assert_eq!(catalog.lock["back"].repository.as_deref(), Some("https://charts.example.org"));
        assert_eq!(catalog.lock["front"].version, "1.0.0", "an addition does not change a pin of the catalogue");
        let location = catalog.added.get("presets/edge.yaml").map(String::as_str);
        assert!(location.is_some_and(|location| location.ends_with(", key presets.edge.yaml")), "{location:?}");
        assert!(!catalog.added.contains_key("presets/small.yaml"));
    }

    #[test]
    fn rejects_only_invalid_config_maps() {
        let good = || addition("good", &[("services.back.yaml", BACK)]);
        for (bad, expected) in [
            (
                ("presets.x.yaml", "preset: x\ndescription: x\nservcies: []\n"),
                "key \"presets.x.yaml\":3:1: unknown field `servcies`",
            ),
            (
                ("presets.x.yaml", "preset: x\ndescription: x\nservices: [bakc]\n"),
                "key \"presets.x.yaml\": services: there is no service \"bakc\" (did you mean \"back\"?)",
            ),
            (
                ("presets.x.yaml", "preset: z\ndescription: x\n"),
                "key \"presets.x.yaml\": the file is named \"x\" but declares \"z\"",
            ),
            (
                ("presets.small.yaml", "preset: small\ndescription: x\n"),
                "key \"presets.small.yaml\": the catalogue already has presets/small.yaml",
            ),
            (
                ("small.yaml", "preset: small\n"),
                "key \"small.yaml\" is not the name of a catalogue file; write services.NAME.yaml",
            ),
            (
                ("lock.yaml", "charts: {front: {version: 9.9.9}}\n"),
                "key \"lock.yaml\": the catalogue or another addition already pins chart front",
            ),
            (("lock.yaml", "chart: {}\n"), "key \"lock.yaml\": line 1: unknown field `chart`"),
            (
                ("services.z.yaml", "service: z\ndescription: x\ngroup: infra\nreleases: {front: {}}\n"),
                "key \"services.z.yaml\": release \"front\" is also in values/services/front.yaml",
            ),
            (
                ("services.a.yaml", "service: a\ndescription: x\ngroup: infra\nreleases: {front: {}}\n"),
                "values/services/front.yaml: release \"front\" is also in key \"services.a.yaml\"",
            ),
            (
                ("presets.x.yaml", "preset: x\ndescription: y\n"),
                "key \"presets.x.yaml\":2:1: invalid type: boolean, expected a string; put the value in quotes",
            ),
            (
                ("services.back.yaml", BACK),
                "key \"services.back.yaml\": ConfigMap openstack/good already contains a file of this name",
            ),
        ] {
            let (catalog, refused) = extended(&[addition("mine", &[bad, ("presets.edge.yaml", EDGE)]), good()]);
            assert_eq!(refused.len(), 1, "{refused:?}");
            assert!(
                refused[0].starts_with(&format!("ConfigMap openstack/mine: {expected}")),
                "{expected}\n{refused:?}"
            );
            assert!(
                catalog.services.contains_key("back") && !catalog.presets.contains_key("edge"),
                "osdpl rejects the whole ConfigMap, including its valid preset"
            );
        }
    }

    #[test]
    fn rejects_dependents_and_closers_of_cycles() {
        let bad = BACK.replace("front/api", "front/ap");
        let (_, refused) =
            extended(&[addition("a", &[("presets.edge.yaml", EDGE)]), addition("b", &[("services.back.yaml", &bad)])]);
        assert_eq!(refused.len(), 2, "{refused:?}");
        assert!(
            refused[0].starts_with("ConfigMap openstack/a") || refused[1].contains("there is no service \"back\""),
            "{refused:?}"
        );
        let ring = BACK.replace("front/api", "back/api");
        let (catalog, refused) = extended(&[addition("a", &[("services.back.yaml", &ring)])]);
        assert!(
            refused[0].starts_with("ConfigMap openstack/a: releases need each other in a cycle: back → back"),
            "{refused:?}"
        );
        assert!(catalog.added.is_empty());
    }

    #[test]
    fn limits_the_size_with_aliases() {
        let preset = |name: &str, aliases: usize| {
            let text = format!("&a {}{}", "x".repeat(16 << 10), ", *a".repeat(aliases));
            let release = format!("{{front: {{values: {{conf: {{region: [{text}]}}}}}}}}");
            let text = format!("preset: {name}\ndescription: x\nfragments: [{{releases: {release}}}]\n");
            (format!("presets.{name}.yaml"), text)
        };
        let addition = |source: &str, files: Vec<(String, String)>| {
            Addition::new("openstack", source, files.into_iter().collect())
        };
        let good = || addition("good", vec![preset("good", 60)]);
        let (catalog, refused) = extended(&[good(), addition("more", vec![preset("more", 60)])]);
        assert!(refused.is_empty() && catalog.presets.contains_key("more"), "{refused:?}");
        let document = "\"presets.bad0.yaml\":3:";
        let all = "\"presets.bad10.yaml\": with this file, the additions of the cloud have more than 4 MiB, including";
        for (aliases, problem) in [(4000, document), (110, all)] {
            let names = (0..36).map(|index| format!("bad{index}"));
            let bad = addition("bad", names.map(|name| preset(&name, aliases)).collect());
            let (catalog, refused) = extended(&[bad, good()]);
            let [refused] = &refused[..] else { panic!("{refused:?}") };
            assert!(refused.starts_with("ConfigMap openstack/bad: key ") && refused.contains(problem), "{refused}");
            assert!(refused.contains("use fewer aliases"), "{refused}");
            assert!(catalog.presets.contains_key("good") && !catalog.presets.contains_key("bad0"));
        }
    }

    #[test]
    fn no_additions_change_nothing() {
        let extended = extend_catalog(&files(&[]), &[]).unwrap();
        assert_eq!(extended.files, files(&[]));
    }
}
