//! The values that an upgrade changes, as they are printed.

use serde::Serialize;
use serde_json::Value;

use super::shown::Look;
use crate::adopt::Compared;
use crate::controller::Preview;
use crate::desired::DesiredRelease;
use crate::observed::Verdict;
use crate::scrub::{Scrubber, secretive};
use crate::values::{Path, Values, changed, get};

/// A value that changes.
#[derive(Serialize)]
pub struct Change {
    pub path: String,
    /// Absent where values are not shown, and where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    /// Where it comes from, where that is neither the spec nor the catalogue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// What the next upgrade changes.
pub fn changes(name: &str, release: &DesiredRelease, preview: &Preview, look: Look) -> Vec<Change> {
    let bare = |path: String| Change { path, before: None, after: None, source: None };
    let (before, after) = match (preview.compared.get(name), preview.recorded.get(name)) {
        // What others made is compared by what templates see: they write values in their own way.
        (Some(compared), _) => (&compared.before, &compared.after),
        (None, None) => return Vec::new(),
        (None, Some(Err(problem))) => return vec![bare(format!("(unknown: {problem})"))],
        (None, Some(Ok(values))) => (values, &release.values),
    };
    let paths = changed(before, after);
    if let Some(Compared { verdict: Verdict::Same, .. }) = preview.compared.get(name) {
        return Vec::new();
    }
    if paths.is_empty() {
        return vec![bare("(no value: the chart, helm's version or its flags)".into())];
    }
    let shows = |values: &Values, path: &Path| {
        let value = get(values, path).filter(|_| look.values)?;
        let hides = !look.credentials && is_secret(path, value, release, &preview.scrubber);
        Some(if hides { "<redacted>".into() } else { value.clone() })
    };
    let change = |path: &Path| Change {
        path: path.to_string(),
        before: shows(before, path),
        after: shows(after, path),
        source: preview.ceph.get(name).filter(|(paths, _)| paths.contains(path)).map(|(_, source)| source.clone()),
    };
    paths.iter().map(change).collect()
}

/// Whether a value must not show: marked as secret where it came from, made of a known secret, or, since a record knows no marks, named
/// like one.
pub fn is_secret(path: &Path, value: &Value, release: &DesiredRelease, scrubber: &Scrubber) -> bool {
    // An image's name is none, whatever it is the image of.
    let is_image = path.keys().first().is_some_and(|top| top == "images");
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    release.secret.iter().any(|secret| secret.covers(path) || path.covers(secret))
        || !is_image && secretive(path, value)
        || scrubber.scrub(&text) != text
}

impl Change {
    /// For people, both sides known: what is secret shows no difference.
    pub fn told(&self) -> String {
        if self.before.is_some() && self.before == self.after {
            return format!("{}: changed, not shown", self.path);
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
            (Some(before), None) => write!(formatter, "{path}: {before} (goes)"),
            (Some(before), Some(after)) => write!(formatter, "{path}: {before} → {after}"),
        }?;
        source.iter().try_for_each(|source| write!(formatter, ", from {source}"))
    }
}
