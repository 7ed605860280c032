//! Finds the line of a value from the origin of its layer.

use std::collections::BTreeMap;

use super::super::common::Document;
use osdpl_core::catalog::{Files, Text};
use osdpl_lint::validate::keys_of_field;
use osdpl_values::yaml::LocatedNode;
use osdpl_values::{Origin, Path};

/// The files that contain values.
pub struct Places<'a> {
    /// The files of the catalogue.
    pub texts: &'a Files,
    /// The locations of files that were added to the catalogue.
    pub added: &'a BTreeMap<String, String>,
    /// The document of the resource, if it is in a file.
    pub document: Option<&'a Document>,
}

/// The place of a value.
#[derive(Debug, Default)]
pub struct ValuePlace {
    /// `values/services/nova.yaml:88 (releases.nova.values)`, or the field of the resource.
    pub place: String,
    /// The reason, if the catalogue states it.
    pub why: Option<String>,
    /// The expression, if the value is one.
    pub expression: Option<String>,
}

impl Places<'_> {
    /// Returns where the layer of this origin sets `path` of `release`; `unset` is the index of the entry that removes
    /// it, if any.
    pub fn of(&self, origin: &Origin, release: &str, path: &Path, unset: Option<usize>) -> anyhow::Result<ValuePlace> {
        match origin {
            Origin::File { file, field } => self.file(file, field, release, &keys(path, unset)),
            Origin::Field(field) => {
                let below = keys(path, unset);
                let above = keys_of_field(above(field));
                let keys = above.iter().chain(&below).map(String::as_str);
                let line = self.document.map(|document| document.line(keys));
                let field = named(field, unset);
                let place = line.map_or_else(|| field.clone(), |line| format!("{line} ({field})"));
                Ok(ValuePlace { place, ..ValuePlace::default() })
            }
            Origin::Object(_) | Origin::Derived(_) => {
                Ok(ValuePlace { place: origin.to_string(), ..ValuePlace::default() })
            }
        }
    }

    fn file(&self, file: &str, field: &str, release: &str, keys: &[String]) -> anyhow::Result<ValuePlace> {
        let tree = LocatedNode::parse(file, &self.texts.get(file).map(Text::as_written).unwrap_or_default())?;
        let fragment = tree.nearest(above(field).split(['.', '[']).map(|part| part.trim_end_matches(']')));
        // A fragment has one body, or one for all releases and single ones.
        let bodies = [&[][..], &["releases", release], &["every"]];
        let below = || keys.iter().map(String::as_str);
        let found = bodies.into_iter().find_map(|body| fragment.find(body.iter().copied().chain(below())));
        let of = |key: &str| fragment.find([key]).and_then(LocatedNode::text).map(str::to_owned);
        // Falls back to the nearest parent key.
        let near = || fragment.find(["releases", release]).or_else(|| fragment.find(["values"])).unwrap_or(fragment);
        let location = self.added.get(file).map_or(file, String::as_str);
        let expression = found.and_then(LocatedNode::text).filter(|text| text.contains("${"));
        let line = found.map_or_else(|| near().line(), LocatedNode::line);
        let unset = keys.first().filter(|first| *first == "unset").and_then(|_| keys.last()?.parse().ok());
        Ok(ValuePlace {
            place: format!("{location}:{line} ({})", named(field, unset)),
            why: of("why"),
            expression: expression.map(str::to_owned),
        })
    }
}

/// Returns the parent of `values` and `unset`: `releases.nova` of `releases.nova.values`.
fn above(field: &str) -> &str {
    field.strip_suffix(".values").unwrap_or(field)
}

/// Returns the keys of a path below that parent.
fn keys(path: &Path, unset: Option<usize>) -> Vec<String> {
    match unset {
        Some(index) => vec!["unset".to_owned(), index.to_string()],
        None => std::iter::once("values".to_owned()).chain(path.keys().iter().cloned()).collect(),
    }
}

/// Returns the field, or the entry of `unset` beside it that removes the value.
fn named(field: &str, unset: Option<usize>) -> String {
    match (unset, field.strip_suffix(".values")) {
        (Some(index), Some(above)) => format!("{above}.unset[{index}]"),
        _ => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(origin: &Origin, path: &str) -> ValuePlace {
        written_with(origin, path, None)
    }

    fn written_with(origin: &Origin, path: &str, unset: Option<usize>) -> ValuePlace {
        let text = "releases:\n  nova:\n    unset: [c]\n    values:\n      a: {b: 1}\n    fragments:\n    - why: because\n      values:\n        a:\n          b: \"${spec.x}\"\n";
        let more = "fragments:\n- why: all\n  every: {values: {a: 1}}\n- releases:\n    nova:\n      values: {a: 2}\n      unset: [b, c]\n";
        let texts =
            [("s.yaml".to_owned(), text.to_owned().into()), ("p.yaml".to_owned(), more.to_owned().into())].into();
        let added = [("p.yaml".to_owned(), "ConfigMap openstack/edge, key p.yaml".to_owned())].into();
        let added = if path == "d" { added } else { BTreeMap::new() };
        let places = Places { texts: &texts, added: &added, document: None };
        places.of(origin, "nova", &Path::parse(path).unwrap(), unset).unwrap()
    }

    fn file(file: &str, field: &str) -> Origin {
        Origin::File { file: file.into(), field: field.into() }
    }

    #[test]
    fn finds_lines_of_values_and_fragments() {
        assert_eq!(written(&file("s.yaml", "releases.nova.values"), "a.b").place, "s.yaml:5 (releases.nova.values)");
        let own = written(&file("s.yaml", "releases.nova.fragments[0]"), "a.b");
        assert_eq!(own.place, "s.yaml:10 (releases.nova.fragments[0])");
        assert_eq!((own.why.as_deref(), own.expression.as_deref()), (Some("because"), Some("${spec.x}")));
        assert_eq!(written(&file("p.yaml", "fragments[0]"), "a").place, "p.yaml:3 (fragments[0])");
        assert_eq!(written(&file("p.yaml", "fragments[1]"), "a").place, "p.yaml:6 (fragments[1])");
    }

    #[test]
    fn falls_back_to_the_line_of_the_release() {
        assert_eq!(written(&file("p.yaml", "fragments[1]"), "d.e").place, "p.yaml:5 (fragments[1])");
    }

    #[test]
    fn finds_lines_of_unset_entries() {
        assert_eq!(written_with(&file("p.yaml", "fragments[1]"), "c.d", Some(1)).place, "p.yaml:7 (fragments[1])");
        let base = written_with(&file("s.yaml", "releases.nova.values"), "c", Some(0)).place;
        assert_eq!(base, "s.yaml:3 (releases.nova.unset[0])");
        let own = written_with(&Origin::Field("spec.common.values".into()), "c", Some(2)).place;
        assert_eq!(own, "spec.common.unset[2]");
    }

    #[test]
    fn names_the_config_map_of_an_addition() {
        let place = written(&file("p.yaml", "fragments[1]"), "d").place;
        assert_eq!(place, "ConfigMap openstack/edge, key p.yaml:5 (fragments[1])");
    }

    #[test]
    fn returns_the_field_of_the_resource() {
        assert_eq!(written(&Origin::Field("spec.common.values".into()), "a").place, "spec.common.values");
    }
}
