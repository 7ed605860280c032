//! Finds the file and line where a layer sets a value.

use std::collections::BTreeMap;

use crate::document::Document;
use osdpl_core::catalog::{Files, Text};
use osdpl_lint::validate::keys_of_field;
use osdpl_values::yaml::{self, LocatedNode};
use osdpl_values::{Origin, Path};

/// Finds where the files of the catalogue, or the file of the `OpenStackDeployment`, set a value.
pub(crate) struct LocationFinder<'a> {
    /// The files of the catalogue.
    pub files: &'a Files,
    /// The files that the user's `ConfigMaps` add to the catalogue. Maps the path of each such file in the catalogue to
    /// its origin, such as `ConfigMap openstack/edge, key presets.edge.yaml`.
    pub added: &'a BTreeMap<String, String>,
    /// The YAML document of the `OpenStackDeployment`; `None` if the `OpenStackDeployment` comes from the cluster.
    pub document: Option<&'a Document>,
}

/// The location at which a layer sets a value, and what the catalogue says about the value: the reason and the
/// expression.
#[derive(Debug, Default)]
pub(crate) struct ValueLocation {
    /// The location at which the layer sets the value: a file, line and field such as
    /// `values/services/nova.yaml:88 (releases.nova.values)`, or a field of the `OpenStackDeployment`.
    pub location: String,
    /// The catalogue's reason for the value; `None` if the catalogue states none.
    pub why: Option<String>,
    /// The CEL expression in the catalogue that computes the value; `None` if the catalogue contains the value itself.
    pub expression: Option<String>,
}

impl LocationFinder<'_> {
    /// Returns the location at which a layer sets `path` in the values of `release`. `origin` is the file, field or
    /// object that contains the layer.
    ///
    /// If an entry of the layer's list `unset` removes the value at `path`, the argument `unset` is the entry's index.
    pub(crate) fn find(
        &self,
        origin: &Origin,
        release: &str,
        path: &Path,
        unset: Option<usize>,
    ) -> anyhow::Result<ValueLocation> {
        match origin {
            Origin::File { file, field } => self.file(file, field, release, &keys(path, unset)),
            Origin::Field(field) => {
                let parent = keys_of_field(parent_field(field));
                let keys = keys(path, unset);
                let keys = parent.iter().chain(&keys).map(String::as_str);
                let line = self.document.map(|document| document.line(keys));
                let field = with_unset(field, unset);
                let location = line.map_or_else(|| field.clone(), |line| format!("{line} ({field})"));
                Ok(ValueLocation { location, ..ValueLocation::default() })
            }
            Origin::Object(_) | Origin::Derived(_) => {
                Ok(ValueLocation { location: origin.to_string(), ..ValueLocation::default() })
            }
        }
    }

    fn file(&self, file: &str, field: &str, release: &str, keys: &[String]) -> anyhow::Result<ValueLocation> {
        let tree = yaml::parse::<LocatedNode>(file, &self.files.get(file).map(Text::as_written).unwrap_or_default())?;
        let fragment = tree.nearest(parent_field(field).split(['.', '[']).map(|part| part.trim_end_matches(']')));
        // A fragment contains the values of the release at one of three places: at its top level if the fragment is
        // only for this release; below `releases` and the release's name; or below `every`, which is for all releases.
        let bodies = [&[][..], &["releases", release], &["every"]];
        let keys_below = || keys.iter().map(String::as_str);
        let found = bodies.into_iter().find_map(|body| fragment.find(body.iter().copied().chain(keys_below())));
        let text_of = |key: &str| fragment.find([key]).and_then(LocatedNode::text).map(str::to_owned);
        // If the fragment does not contain the key, take the line of the map with the release's values.
        let parent = || fragment.find(["releases", release]).or_else(|| fragment.find(["values"])).unwrap_or(fragment);
        let file = self.added.get(file).map_or(file, String::as_str);
        let expression = found.and_then(LocatedNode::text).filter(|text| text.contains("${"));
        let line = found.map_or_else(|| parent().line(), LocatedNode::line);
        let unset = keys.first().filter(|first| *first == "unset").and_then(|_| keys.last()?.parse().ok());
        Ok(ValueLocation {
            location: format!("{file}:{line} ({})", with_unset(field, unset)),
            why: text_of("why"),
            expression: expression.map(str::to_owned),
        })
    }
}

/// Returns the field that has `values` and `unset` as subfields: `releases.nova` for `releases.nova.values`. If `field`
/// does not end in `.values`, returns `field` unchanged.
fn parent_field(field: &str) -> &str {
    field.strip_suffix(".values").unwrap_or(field)
}

/// Returns the keys that lead from the result of [`parent_field`] to the value at `path`.
///
/// If the layer removes the value, `unset` is the index of an entry in the layer's list `unset`, and the keys lead to
/// this entry.
fn keys(path: &Path, unset: Option<usize>) -> Vec<String> {
    match unset {
        Some(index) => vec!["unset".to_owned(), index.to_string()],
        None => std::iter::once("values".to_owned()).chain(path.keys().iter().cloned()).collect(),
    }
}

/// Returns the field in which a layer sets a value. If the layer removes the value, returns the entry of the layer's
/// list `unset`, such as `releases.nova.unset[0]`.
fn with_unset(field: &str, unset: Option<usize>) -> String {
    match (unset, field.strip_suffix(".values")) {
        (Some(index), Some(parent)) => format!("{parent}.unset[{index}]"),
        _ => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(origin: &Origin, path: &str) -> ValueLocation {
        location_with_unset(origin, path, None)
    }

    fn location_with_unset(origin: &Origin, path: &str, unset: Option<usize>) -> ValueLocation {
        let text = "releases:\n  nova:\n    unset: [c]\n    values:\n      a: {b: 1}\n    fragments:\n    - why: because\n      values:\n        a:\n          b: \"${spec.x}\"\n";
        let more = "fragments:\n- why: all\n  every: {values: {a: 1}}\n- releases:\n    nova:\n      values: {a: 2}\n      unset: [b, c]\n";
        let files =
            [("s.yaml".to_owned(), text.to_owned().into()), ("p.yaml".to_owned(), more.to_owned().into())].into();
        let added = [("p.yaml".to_owned(), "ConfigMap openstack/edge, key p.yaml".to_owned())].into();
        let added = if path == "d" { added } else { BTreeMap::new() };
        let locations = LocationFinder { files: &files, added: &added, document: None };
        locations.find(origin, "nova", &Path::parse(path).unwrap(), unset).unwrap()
    }

    fn file(file: &str, field: &str) -> Origin {
        Origin::File { file: file.into(), field: field.into() }
    }

    #[test]
    fn finds_lines_of_values_and_fragments() {
        assert_eq!(
            location(&file("s.yaml", "releases.nova.values"), "a.b").location,
            "s.yaml:5 (releases.nova.values)"
        );
        let own = location(&file("s.yaml", "releases.nova.fragments[0]"), "a.b");
        assert_eq!(own.location, "s.yaml:10 (releases.nova.fragments[0])");
        assert_eq!((own.why.as_deref(), own.expression.as_deref()), (Some("because"), Some("${spec.x}")));
        assert_eq!(location(&file("p.yaml", "fragments[0]"), "a").location, "p.yaml:3 (fragments[0])");
        assert_eq!(location(&file("p.yaml", "fragments[1]"), "a").location, "p.yaml:6 (fragments[1])");
    }

    #[test]
    fn falls_back_to_the_line_of_the_release() {
        assert_eq!(location(&file("p.yaml", "fragments[1]"), "d.e").location, "p.yaml:5 (fragments[1])");
    }

    #[test]
    fn finds_lines_of_unset_entries() {
        assert_eq!(
            location_with_unset(&file("p.yaml", "fragments[1]"), "c.d", Some(1)).location,
            "p.yaml:7 (fragments[1])"
        );
        let base = location_with_unset(&file("s.yaml", "releases.nova.values"), "c", Some(0)).location;
        assert_eq!(base, "s.yaml:3 (releases.nova.unset[0])");
        let own = location_with_unset(&Origin::Field("spec.common.values".into()), "c", Some(2)).location;
        assert_eq!(own, "spec.common.unset[2]");
    }

    #[test]
    fn names_the_config_map_of_an_addition() {
        let location = location(&file("p.yaml", "fragments[1]"), "d").location;
        assert_eq!(location, "ConfigMap openstack/edge, key p.yaml:5 (fragments[1])");
    }

    #[test]
    fn returns_the_field_of_the_resource() {
        assert_eq!(location(&Origin::Field("spec.common.values".into()), "a").location, "spec.common.values");
    }
}
