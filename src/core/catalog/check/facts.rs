//! Facts are known once a release is installed. Reports expressions that read them earlier, or that read facts of a
//! release without any.

use super::super::{Body, Catalog, Error, Fragment};
use super::{fragments, unknown};
use osdpl_values::expr::{Expression, Template};

/// Checks the use of facts in the catalogue.
pub(super) fn check(catalog: &Catalog, errors: &mut Vec<Error>) {
    for (file, when) in early_conditions(catalog).filter(|(_, when)| when.uses_variable("facts")) {
        let problem = format!(
            "the condition `{}` reads facts, which are unknown until the releases are installed; use the spec, or move it to a fragment of values",
            when.source()
        );
        errors.push(Error::Other { file: file.to_owned(), problem });
    }
    let releases = || catalog.services.values().flat_map(|service| &service.releases);
    let releases_with_facts: Vec<&str> =
        releases().filter(|(_, release)| release.facts.is_some()).map(|(name, _)| name.as_str()).collect();
    let mut check_expression = |file: &str, field: &str, expression: &str| {
        for name in releases_of_facts(expression).filter(|name| !releases_with_facts.contains(name)) {
            errors.push(unknown(
                file,
                field.to_owned(),
                "release with facts",
                name,
                releases_with_facts.iter().copied(),
            ));
        }
    };
    for service in catalog.services.values() {
        for (name, release) in &service.releases {
            check_expression(&service.file, &format!("releases.{name}.values"), &expressions(&release.base));
        }
    }
    for Fragment { file, field, when, named, every, .. } in fragments(catalog) {
        if let Some(when) = when {
            check_expression(file, &format!("{field}.when"), when.source());
        }
        let bodies = named.values().chain(every.as_ref().map(|every| &every.unfiltered));
        bodies.for_each(|body| check_expression(file, field, &expressions(body)));
    }
}

/// Returns every expression in a body, one per line, at any place in texts and lists.
fn expressions(body: &Body) -> String {
    // Parsing the values again is slow.
    if !body.source.contains("facts") {
        return String::new();
    }
    Template::expressions(&body.values()).join("\n")
}

/// Returns the conditions that decide which releases exist and whether a spec is valid.
fn early_conditions(catalog: &Catalog) -> impl Iterator<Item = (&str, &Expression)> {
    let services = catalog.services.values().flat_map(|service| {
        let releases = service.releases.values();
        releases.map(move |release| (service.file.as_str(), release))
    });
    let releases = services.flat_map(|(file, release)| {
        let needs = release.needs.iter().chain(&release.waits_for).chain(&release.alongside);
        let needs = needs.filter_map(|need| need.when.as_ref());
        release.when.iter().chain(needs).map(move |when| (file, when))
    });
    let features = catalog.features.values().map(|feature| (feature.file.as_str(), &feature.checks));
    let presets = catalog.presets.values().map(|preset| (preset.file.as_str(), &preset.checks));
    let checks = features.chain(presets);
    releases.chain(checks.flat_map(|(file, checks)| checks.iter().map(move |check| (file, &check.when))))
}

/// Returns the releases whose facts an expression reads, as `facts.name` or `facts['name']`.
pub fn releases_of_facts(expression: &str) -> impl Iterator<Item = &str> {
    let matches = expression
        .match_indices("facts")
        .filter(|(place, _)| !expression[..*place].ends_with(|c: char| c.is_alphanumeric() || "._".contains(c)));
    matches.filter_map(|(place, word)| {
        let rest = &expression[place + word.len()..];
        let quoted = rest.strip_prefix("['").or_else(|| rest.strip_prefix("[\""));
        let name = quoted.or_else(|| rest.strip_prefix('.'))?;
        let is_name = |c: char| c.is_alphanumeric() || c == '_' || quoted.is_some() && c == '-';
        Some(&name[..name.find(|c| !is_name(c)).unwrap_or(name.len())])
    })
}

#[cfg(test)]
mod tests {
    use super::releases_of_facts;
    use crate::catalog::Catalog;
    use crate::testing::files;

    #[test]
    fn finds_releases_of_facts() {
        for (expression, expected) in [
            ("has(facts.store.network) ? facts.store.network : ''", vec!["store", "store"]),
            ("facts['ceph-rgw'].user + facts[\"a\"].b", vec!["ceph-rgw", "a"]),
            ("features.facts.store + artefacts.store", vec![]),
        ] {
            assert_eq!(releases_of_facts(expression).collect::<Vec<_>>(), expected, "{expression}");
        }
    }

    #[test]
    fn rejects_unknown_and_early_facts() {
        let front = files(&[])["values/services/front.yaml"].as_written().into_owned();
        let with = |from: &str, to: &str| front.replace(from, to);
        for (text, expected) in [
            (
                with("region: '${spec.region}'", "region: '${facts.store.region}'"),
                "releases.front.values: there is no release with facts \"store\"",
            ),
            (
                with(
                    "    plainJobs",
                    "    facts: made\n    fragments: [{when: has(facts.frnt.a), values: {a: 1}}]\n    plainJobs",
                ),
                "releases.front.fragments[0].when: there is no release with facts \"frnt\", did you mean \"front\"?",
            ),
            (
                with("region: '${spec.region}'", "region: 'in ${facts.store.region}'"),
                "releases.front.values: there is no release with facts \"store\"",
            ),
            (
                with("region: '${spec.region}'", "region: [{name: '${facts.store.region}'}]"),
                "releases.front.values: there is no release with facts \"store\"",
            ),
            (
                with(
                    "    plainJobs",
                    "    facts: made\n    awaits: [{component: store/db, when: has(facts.front.a)}]\n    plainJobs",
                ),
                "the condition `has(facts.front.a)` reads facts, which are unknown until the releases are installed",
            ),
            (
                with("    plainJobs", "    facts: made\n    when: has(facts.front.a)\n    plainJobs"),
                "the condition `has(facts.front.a)` reads facts, which are unknown until the releases are installed",
            ),
            (
                with("    plainJobs", "    facts: Made_1\n    plainJobs"),
                "releases.front.facts: \"Made_1\" is not a valid ConfigMap name",
            ),
        ] {
            let errors = Catalog::load(&files(&[("values/services/front.yaml", &text)])).unwrap_err().to_string();
            assert!(errors.contains(expected), "{expected}\n{errors}");
        }
    }
}
