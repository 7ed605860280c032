//! Lists the values of a release that its next upgrade changes, for the output of commands. Replaces secrets with
//! `<redacted>`, unless the user asks for credentials.

use serde::Serialize;
use serde_json::Value;

use osdpl_core::adopt::Comparison;
use osdpl_core::desired::DesiredRelease;
use osdpl_core::observed::ComparisonResult;
use osdpl_core::scrub::{Scrubber, find_secret_paths, is_secret_value};
use osdpl_operator::controller::Preview;
use osdpl_values::{Path, Values, changed_paths, get, plain_text};

/// The options that decide what a command prints about changed values.
#[derive(Clone, Copy)]
pub(crate) struct DisplayOptions {
    /// Print the values, not only their paths.
    pub values: bool,
    /// Print credentials in clear text, instead of `<redacted>`.
    pub credentials: bool,
}

/// A value that an upgrade changes.
#[derive(Serialize)]
pub(crate) struct Change {
    pub path: String,
    /// The value before the upgrade; absent if the options of the command hide values, or if there was no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// The value after the upgrade; absent if the options of the command hide values, or if the upgrade removes the
    /// value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    /// For a value that describes Ceph: the kind and name of the object, such as a Secret, from which osdpl takes
    /// Ceph's settings. Absent for all other values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// Returns the values that the next upgrade of a release would change.
pub(crate) fn changes(name: &str, release: &DesiredRelease, preview: &Preview, options: DisplayOptions) -> Vec<Change> {
    let without_values = |path: String| Change { path, before: None, after: None, source: None };
    let (before, after) = match (preview.compared.get(name), preview.recorded.get(name)) {
        // If another tool made the newest revision of the release, do not compare the overrides, but the values that
        // the templates read: the chart's defaults with the overrides merged into them. The tool's overrides can differ
        // from osdpl's, although the templates read the same values.
        (Some(compared), _) => (&compared.before, &compared.after),
        (None, None) => return Vec::new(),
        (None, Some(Err(problem))) => return vec![without_values(format!("(unknown: {problem})"))],
        (None, Some(Ok(values))) => (values, &release.values),
    };
    let paths = changed_paths(before, after);
    if let Some(Comparison { result: ComparisonResult::Same, .. }) = preview.compared.get(name) {
        return Vec::new();
    }
    if paths.is_empty() {
        let existing = preview.observed.releases.get(&release.key);
        let note = existing.map(|existing| existing.note_without_values(&release.inputs));
        return note.map(|note| without_values(note.to_owned())).into_iter().collect();
    }
    let redactor = Redactor::new(release, &preview.scrubber, [before, after]);
    let printed = |values: &Values, path: &Path, source: ValuesSource| match options {
        DisplayOptions { values: false, .. } => None,
        DisplayOptions { credentials: true, .. } => get(values, path).cloned(),
        DisplayOptions { credentials: false, .. } => redactor.value(values, path, source),
    };
    let change = |path: &Path| Change {
        path: path.to_string(),
        before: printed(before, path, ValuesSource::Record),
        after: printed(after, path, ValuesSource::Desired),
        source: preview.ceph.get(name).filter(|(paths, _)| paths.contains(path)).map(|(_, source)| source.clone()),
    };
    paths.iter().map(change).collect()
}

/// Replaces the secret values of a release with `<redacted>`.
///
/// A value is secret if a layer marks its path as secret, or if it contains a secret that the scrubber knows. helm's
/// records can contain further secrets, which no layer marks. So a value is also secret if its key is named like a
/// secret, or if the value belongs to the manifest of a Secret in `extraObjects`.
pub(crate) struct Redactor<'a> {
    release: &'a DesiredRelease,
    scrubber: &'a Scrubber,
    /// The paths at which `extraObjects` contains the data of Secrets, in the values before or after the upgrade.
    paths_in_secrets: Vec<Path>,
}

/// The source of values: helm's record, or the desired state. [`Redactor`] uses other rules to find the secrets in a
/// record than in the desired state.
#[derive(Clone, Copy)]
pub(crate) enum ValuesSource {
    /// The values in helm's record. osdpl does not know their layers, so [`Redactor`] regards a value as secret if any
    /// layer of the desired state marks its path as secret.
    Record,
    /// Desired values. [`Redactor`] regards a value as secret if any layer marks its path as secret, with one
    /// exception: if a later layer overrides a value of `valuesFrom`, the mark of `valuesFrom` has no effect.
    Desired,
}

impl<'a> Redactor<'a> {
    /// Returns a redactor for a release. `values` are the release's values before the upgrade and after it.
    pub(crate) fn new(release: &'a DesiredRelease, scrubber: &'a Scrubber, values: [&Values; 2]) -> Self {
        Self { release, scrubber, paths_in_secrets: values.into_iter().flat_map(find_secret_paths).collect() }
    }

    /// Returns the value at a path, or `<redacted>` if the value is secret.
    pub(crate) fn value(&self, values: &Values, path: &Path, source: ValuesSource) -> Option<Value> {
        let value = get(values, path)?;
        let marks = match source {
            ValuesSource::Record => &self.release.marked,
            ValuesSource::Desired => &self.release.secret,
        };
        Some(if self.is_secret(path, value, marks) { "<redacted>".into() } else { value.clone() })
    }

    fn is_secret(&self, path: &Path, value: &Value, marks: &[Path]) -> bool {
        // Below the chart's key `images`, a value is the name of an image and not secret, even if its key is named like
        // a secret.
        let is_image = path.keys().first().is_some_and(|top| top == "images");
        let text = plain_text(value);
        let mut marked = marks.iter().chain(&self.paths_in_secrets);
        marked.any(|secret| secret.covers(path) || path.covers(secret))
            || !is_image && is_secret_value(path, value)
            || self.scrubber.scrub(&text) != text
    }
}

impl Change {
    /// Returns the change as text, with the old and the new value. If the value is secret, the text only says that it
    /// changes.
    pub(crate) fn describe(&self) -> String {
        if self.before.is_some() && self.before == self.after {
            return format!("{}: changed (secret, not shown)", self.path);
        }
        self.to_string()
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, before, after, source } = self;
        match (before, after) {
            (None, None) => write!(formatter, "{path}"),
            (None, Some(after)) => write!(formatter, "{path}: {after} (new)"),
            (Some(before), None) => write!(formatter, "{path}: {before} (removed)"),
            (Some(before), Some(after)) => write!(formatter, "{path}: {before} → {after}"),
        }?;
        source.iter().try_for_each(|source| write!(formatter, ", from {source}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use osdpl_core::api::ValuesKind;
    use osdpl_core::catalog::Catalog;
    use osdpl_core::desired::{Facts, resolve, select};
    use osdpl_core::placeholder;

    #[test]
    fn redacts_values_of_removed_secrets() {
        let catalog = Catalog::load(&osdpl_core::testing::files(&[])).unwrap();
        let spec = serde_json::from_value(json!({"openstackRelease": "2026.1", "presets": ["small"]})).unwrap();
        let selection = select("cloud", "openstack", &spec, &catalog);
        let desired = resolve(&spec, &catalog, &selection, &Facts::default());
        let scrubber = Scrubber::default();
        let secret = json!({"kind": "Secret", "stringData": {"config": "hunter2"}});
        for objects in
            [json!({"one": secret}), json!([secret]), json!({"one": "kind: Secret\nstringData: {config: hunter2}\n"})]
        {
            let before = json!({"extraObjects": objects, "plain": 1}).as_object().unwrap().clone();
            let after = json!({"extraObjects": {"one": {"data": null}}}).as_object().unwrap().clone();
            for values in [[&before, &after], [&after, &before]] {
                let redactor = Redactor::new(&desired.releases["front"], &scrubber, values);
                let paths = changed_paths(&before, &after);
                let shown: Vec<_> =
                    paths.iter().filter_map(|path| redactor.value(&before, path, ValuesSource::Desired)).collect();
                assert!(shown.contains(&json!("<redacted>")) && shown.contains(&json!(1)), "{shown:?}");
                assert!(!json!(shown).to_string().contains("hunter2"), "{shown:?}");
            }
        }
    }

    #[test]
    fn redacts_old_secrets_that_are_plain_now() {
        let catalog = Catalog::load(&osdpl_core::testing::files(&[])).unwrap();
        let release = json!({"valuesFrom": [{"kind": "Secret", "name": "given"}], "values": {"conf": {"x": "public"}}});
        let services = json!({"front": {"releases": {"front": release}}});
        let spec = json!({"openstackRelease": "2026.1", "presets": ["small"], "services": services});
        let spec = serde_json::from_value(spec).unwrap();
        let selection = select("cloud", "openstack", &spec, &catalog);
        let mut facts = placeholder::facts(&catalog, &selection);
        let given = json!({"conf": {"x": "rotated"}}).as_object().unwrap().clone();
        let source = (ValuesKind::Secret, "given".to_owned(), "values.yaml".to_owned());
        facts.values_from.insert(source, Ok(given));
        let desired = resolve(&spec, &catalog, &selection, &facts);
        let front = &desired.releases["front"];
        let before = json!({"conf": {"x": "hunter2"}}).as_object().unwrap().clone();
        let scrubber = Scrubber::default();
        let redactor = Redactor::new(front, &scrubber, [&before, &front.values]);
        let path = Path::parse("conf.x").unwrap();
        let shown = [
            redactor.value(&before, &path, ValuesSource::Record),
            redactor.value(&front.values, &path, ValuesSource::Desired),
        ];
        assert_eq!(shown, [Some(json!("<redacted>")), Some(json!("public"))]);
        let manifests = crate::manifests::scrubber(front, &[], Some(&before));
        assert_eq!(manifests.scrub("x: hunter2, y: public"), "x: [redacted], y: public");
    }
}
