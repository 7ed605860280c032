//! From the origin of a layer to the line on which a value stands.

use std::collections::BTreeMap;

use super::super::common::Document;
use osdpl_core::catalog::{Files, Text};
use osdpl_lint::rule::keys_of;
use osdpl_values::yaml::{self, Located};
use osdpl_values::{Origin, Path};

/// The texts in which values are written.
pub struct Places<'a> {
    /// The catalogue's.
    pub texts: &'a Files,
    /// Where files of the catalogue stand that someone added.
    pub added: &'a BTreeMap<String, String>,
    /// The resource's, where it is in a file.
    pub document: Option<&'a Document>,
}

/// Where a value is written.
#[derive(Debug, Default)]
pub struct Written {
    /// `values/services/nova.yaml:88 (releases.nova.values)`, or the field of the resource.
    pub place: String,
    /// Why the catalogue sets it, where it says so.
    pub why: Option<String>,
    /// The expression that it is, where it is one.
    pub expression: Option<String>,
}

impl Places<'_> {
    /// Where `path` of `release` is written by the layer of this origin; `unset` is the number of its entry that removes it, where one does.
    pub fn of(&self, origin: &Origin, release: &str, path: &Path, unset: Option<usize>) -> anyhow::Result<Written> {
        match origin {
            Origin::File { file, field } => self.file(file, field, release, &keys(path, unset)),
            Origin::Field(field) => {
                let below = keys(path, unset);
                let above = keys_of(above(field));
                let keys = above.iter().chain(&below).map(String::as_str);
                let line = self.document.map(|document| document.line(keys));
                let field = named(field, unset);
                let place = line.map_or_else(|| field.clone(), |line| format!("{line} ({field})"));
                Ok(Written { place, ..Written::default() })
            }
            Origin::Object(_) | Origin::Derived(_) => Ok(Written { place: origin.to_string(), ..Written::default() }),
        }
    }

    fn file(&self, file: &str, field: &str, release: &str, keys: &[String]) -> anyhow::Result<Written> {
        let tree: Located = yaml::parse(file, self.texts.get(file).map_or("", Text::as_str))?;
        let fragment = tree.nearest(above(field).split(['.', '[']).map(|part| part.trim_end_matches(']')));
        // A fragment has one body, or some for all or for single releases.
        let bodies = [&[][..], &["releases", release], &["every"]];
        let below = || keys.iter().map(String::as_str);
        let found = bodies.into_iter().find_map(|body| fragment.find(body.iter().copied().chain(below())));
        let of = |key: &str| fragment.find([key]).and_then(Located::text).map(str::to_owned);
        // Where a higher key holds it, that is the place.
        let near = || fragment.find(["releases", release]).or_else(|| fragment.find(["values"])).unwrap_or(fragment);
        let stands = self.added.get(file).map_or(file, String::as_str);
        let expression = found.and_then(Located::text).filter(|text| text.contains("${"));
        let line = found.map_or_else(|| near().line(), Located::line);
        let unset = keys.first().filter(|first| *first == "unset").and_then(|_| keys.last()?.parse().ok());
        Ok(Written {
            place: format!("{stands}:{line} ({})", named(field, unset)),
            why: of("why"),
            expression: expression.map(str::to_owned),
        })
    }
}

/// What holds `values` and `unset`: `releases.nova` of `releases.nova.values`.
fn above(field: &str) -> &str {
    field.strip_suffix(".values").unwrap_or(field)
}

/// Where a path stands below that.
fn keys(path: &Path, unset: Option<usize>) -> Vec<String> {
    match unset {
        Some(index) => vec!["unset".to_owned(), index.to_string()],
        None => std::iter::once("values".to_owned()).chain(path.keys().iter().cloned()).collect(),
    }
}

/// The field, or the one beside it that removes the value.
fn named(field: &str, unset: Option<usize>) -> String {
    match (unset, field.strip_suffix(".values")) {
        (Some(index), Some(above)) => format!("{above}.unset[{index}]"),
        _ => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(origin: &Origin, path: &str) -> Written {
        at(origin, path, None)
    }

    fn at(origin: &Origin, path: &str, unset: Option<usize>) -> Written {
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
    fn base_values_and_both_kinds_of_fragments_are_found_with_their_lines() {
        assert_eq!(written(&file("s.yaml", "releases.nova.values"), "a.b").place, "s.yaml:5 (releases.nova.values)");
        let own = written(&file("s.yaml", "releases.nova.fragments[0]"), "a.b");
        assert_eq!(own.place, "s.yaml:10 (releases.nova.fragments[0])");
        assert_eq!((own.why.as_deref(), own.expression.as_deref()), (Some("because"), Some("${spec.x}")));
        assert_eq!(written(&file("p.yaml", "fragments[0]"), "a").place, "p.yaml:3 (fragments[0])");
        assert_eq!(written(&file("p.yaml", "fragments[1]"), "a").place, "p.yaml:6 (fragments[1])");
    }

    #[test]
    fn what_is_held_by_a_key_above_has_the_place_of_its_release() {
        assert_eq!(written(&file("p.yaml", "fragments[1]"), "d.e").place, "p.yaml:5 (fragments[1])");
    }

    #[test]
    fn what_is_removed_has_the_place_where_that_is_written() {
        assert_eq!(at(&file("p.yaml", "fragments[1]"), "c.d", Some(1)).place, "p.yaml:7 (fragments[1])");
        let base = at(&file("s.yaml", "releases.nova.values"), "c", Some(0)).place;
        assert_eq!(base, "s.yaml:3 (releases.nova.unset[0])");
        let own = at(&Origin::Field("spec.common.values".into()), "c", Some(2)).place;
        assert_eq!(own, "spec.common.unset[2]");
    }

    #[test]
    fn what_someone_added_is_named_by_its_config_map() {
        let place = written(&file("p.yaml", "fragments[1]"), "d").place;
        assert_eq!(place, "ConfigMap openstack/edge, key p.yaml:5 (fragments[1])");
    }

    #[test]
    fn a_field_of_the_resource_speaks_for_itself() {
        assert_eq!(written(&Origin::Field("spec.common.values".into()), "a").place, "spec.common.values");
    }
}
