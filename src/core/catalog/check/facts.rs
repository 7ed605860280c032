//! Facts are known once a release is: whoever asks for them earlier, or asks a release that writes none, is told.

use super::super::{Body, Catalog, Error, Fragment};
use super::{fragments, unknown};
use osdpl_values::expr::{Expression, Template};

/// What is wrong with how the catalogue asks for facts.
pub(super) fn check(catalog: &Catalog, errors: &mut Vec<Error>) {
    for (file, when) in early(catalog).filter(|(_, when)| when.asks("facts")) {
        let problem = format!(
            "the condition `{}` asks for facts, which nobody knows before the releases are; ask the spec, or put it at a fragment of values",
            when.source()
        );
        errors.push(Error::Other { file: file.to_owned(), problem });
    }
    let releases = || catalog.services.values().flat_map(|service| &service.releases);
    let told: Vec<&str> =
        releases().filter(|(_, release)| release.facts.is_some()).map(|(name, _)| name.as_str()).collect();
    let mut look = |file: &str, field: &str, expression: &str| {
        for name in facts_in(expression).filter(|name| !told.contains(name)) {
            errors.push(unknown(file, field.to_owned(), "release with facts", name, told.iter().copied()));
        }
    };
    for service in catalog.services.values() {
        for (name, release) in &service.releases {
            look(&service.file, &format!("releases.{name}.values"), &expressions(&release.base));
        }
    }
    for Fragment { file, field, when, named, every, .. } in fragments(catalog) {
        if let Some(when) = when {
            look(file, &format!("{field}.when"), when.source());
        }
        let bodies = named.values().chain(every.as_ref().map(|every| &every.whole));
        bodies.for_each(|body| look(file, field, &expressions(body)));
    }
}

/// Every expression in a body, one a line, wherever in a text or a list it stands.
fn expressions(body: &Body) -> String {
    // Reading a text again takes its time.
    if !body.source.contains("facts") {
        return String::new();
    }
    Template::expressions(&body.values()).join("\n")
}

/// The conditions that say which releases there are, and whether a spec is refused.
fn early(catalog: &Catalog) -> impl Iterator<Item = (&str, &Expression)> {
    let services = catalog.services.values().flat_map(|service| {
        let releases = service.releases.values();
        releases.map(move |release| (service.file.as_str(), release))
    });
    let releases = services.flat_map(|(file, release)| {
        let needs = release.needs.iter().chain(&release.awaits).chain(&release.alongside);
        let needs = needs.filter_map(|need| need.when.as_ref());
        release.when.iter().chain(needs).map(move |when| (file, when))
    });
    let features = catalog.features.values().map(|feature| (feature.file.as_str(), &feature.checks));
    let presets = catalog.presets.values().map(|preset| (preset.file.as_str(), &preset.checks));
    let checks = features.chain(presets);
    releases.chain(checks.flat_map(|(file, checks)| checks.iter().map(move |check| (file, &check.when))))
}

/// The releases that an expression asks for facts of, as `facts.name` or `facts['name']`.
pub fn facts_in(expression: &str) -> impl Iterator<Item = &str> {
    let places = expression
        .match_indices("facts")
        .filter(|(place, _)| !expression[..*place].ends_with(|c: char| c.is_alphanumeric() || "._".contains(c)));
    places.filter_map(|(place, word)| {
        let rest = &expression[place + word.len()..];
        let quoted = rest.strip_prefix("['").or_else(|| rest.strip_prefix("[\""));
        let name = quoted.or_else(|| rest.strip_prefix('.'))?;
        let is_name = |c: char| c.is_alphanumeric() || c == '_' || quoted.is_some() && c == '-';
        Some(&name[..name.find(|c| !is_name(c)).unwrap_or(name.len())])
    })
}

#[cfg(test)]
mod tests {
    use super::facts_in;
    use crate::catalog::Catalog;
    use crate::testing::files;

    #[test]
    fn an_expression_tells_whose_facts_it_asks_for() {
        for (expression, expected) in [
            ("has(facts.store.network) ? facts.store.network : ''", vec!["store", "store"]),
            ("facts['ceph-rgw'].user + facts[\"a\"].b", vec!["ceph-rgw", "a"]),
            ("features.facts.store + artefacts.store", vec![]),
        ] {
            assert_eq!(facts_in(expression).collect::<Vec<_>>(), expected, "{expression}");
        }
    }

    #[test]
    fn facts_that_nobody_writes_or_that_are_asked_for_too_early_are_refused() {
        let front = files(&[])["values/services/front.yaml"].to_string();
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
                "the condition `has(facts.front.a)` asks for facts, which nobody knows before the releases are",
            ),
            (
                with("    plainJobs", "    facts: made\n    when: has(facts.front.a)\n    plainJobs"),
                "the condition `has(facts.front.a)` asks for facts, which nobody knows before the releases are",
            ),
            (
                with("    plainJobs", "    facts: Made_1\n    plainJobs"),
                "releases.front.facts: \"Made_1\" is no name of a ConfigMap",
            ),
        ] {
            let errors = Catalog::load(&files(&[("values/services/front.yaml", &text)])).unwrap_err().to_string();
            assert!(errors.contains(expected), "{expected}\n{errors}");
        }
    }
}
