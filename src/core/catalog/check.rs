//! Checks that compare the files of a catalogue with each other: every name that a file refers to must exist, and
//! releases must not need each other in a cycle.

use std::collections::{BTreeMap, BTreeSet};

use super::error::did_you_mean;
use super::{Body, Catalog, Component, Error, Fragment, Release, WorkloadKind};
use osdpl_values::CollectSorted;
use osdpl_values::expr::{Expression, Template};

/// Compares the catalogue's files with each other, and returns the errors, such as a name that no file declares.
pub(crate) fn check(catalog: &Catalog) -> Vec<Error> {
    let mut errors = Vec::new();
    owners(catalog, &mut errors);
    needs(catalog, &mut errors);
    presets(catalog, &mut errors);
    rollout(catalog, &mut errors);
    credentials(catalog, &mut errors);
    conditions(catalog, &mut errors);
    instance_digests(catalog, &mut errors);
    early_expressions(catalog, &mut errors);
    check_facts(catalog, &mut errors);
    for feature in catalog.features.values() {
        let wrong = super::secrets::check(feature).into_iter();
        errors.extend(wrong.map(|problem| Error::Other { file: feature.file.clone(), problem }));
    }
    errors.extend(cycle(catalog).map(Error::Cycle));
    errors
}

fn unknown<'a>(
    file: &str,
    field: String,
    kind: &'static str,
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Error {
    Error::Unknown { file: file.into(), field, kind, name: name.into(), hint: did_you_mean(name, candidates) }
}

/// Checks that no two releases have the same name or provide the same component, and that fragments name existing
/// releases.
fn owners(catalog: &Catalog, errors: &mut Vec<Error>) {
    let mut releases: BTreeMap<&str, &str> = BTreeMap::new();
    let mut components: BTreeMap<&Component, &str> = BTreeMap::new();
    for service in catalog.services.values() {
        for (name, release) in &service.releases {
            if let Some(other) = releases.insert(name, &service.file) {
                let problem = format!("release {name:?} is also in {other}; release names are unique, so rename one");
                errors.push(Error::Other { file: service.file.clone(), problem });
            }
            for component in release.components.keys() {
                if let Some(other) = components.insert(component, name) {
                    let problem = format!(
                        "component {component} of release {name:?} is also in release {other:?}; declare the component in only one of the two releases"
                    );
                    errors.push(Error::Other { file: service.file.clone(), problem });
                }
            }
        }
    }
    for fragment in fragments(catalog) {
        for name in fragment.named.keys().filter(|name| !releases.contains_key(name.as_str())) {
            let field = format!("{}.releases", fragment.field);
            errors.push(unknown(&fragment.file, field, "release", name, releases.keys().copied()));
        }
    }
}

/// Returns every fragment of the catalogue.
fn fragments(catalog: &Catalog) -> impl Iterator<Item = &Fragment> {
    let own =
        catalog.services.values().flat_map(|service| service.releases.values().flat_map(|release| &release.fragments));
    own.chain(&catalog.shared)
        .chain(catalog.presets.values().flat_map(|preset| &preset.fragments))
        .chain(catalog.features.values().flat_map(|feature| &feature.fragments))
        .chain(catalog.openstack.values().flat_map(|release| &release.fragments))
}

/// Checks that no condition reads a credential or a Secret. Everybody can see whether a condition is true, and could
/// infer the secret from the result.
fn conditions(catalog: &Catalog, errors: &mut Vec<Error>) {
    let fragments = fragments(catalog).filter_map(|fragment| Some((fragment.file.as_str(), fragment.when.as_ref()?)));
    let daemonsets = releases(catalog).flat_map(|(file, _, release)| {
        release.daemonsets.values().filter_map(move |own| Some((file, own.when.as_ref()?)))
    });
    let all = fragments.chain(early_conditions(catalog)).chain(daemonsets);
    for (file, when) in all.filter(|(_, when)| when.is_secret()) {
        let problem = format!(
            "the condition `{}` reads a secret, but everybody can see whether the condition is true; let it read only the spec",
            when.source()
        );
        errors.push(Error::Other { file: file.to_owned(), problem });
    }
}

/// Checks that no `instanceDigest` reads a credential or a Secret. The operator writes the result to a label of helm's
/// record of the release, and labels must not contain secrets.
fn instance_digests(catalog: &Catalog, errors: &mut Vec<Error>) {
    for (file, name, release) in releases(catalog) {
        let Some(digest) = release.instance_digest.as_ref().filter(|digest| digest.is_secret()) else { continue };
        let problem = format!(
            "releases.{name}.instanceDigest: `{}` reads a secret, but the operator writes the result to a label; read a digest of the secret, such as ceph.libvirt.digest, or the spec",
            digest.source()
        );
        errors.push(Error::Other { file: file.to_owned(), problem });
    }
}

/// Returns every release of the catalogue, with the path of its service's file and its name.
fn releases(catalog: &Catalog) -> impl Iterator<Item = (&str, &str, &Release)> {
    catalog.services.values().flat_map(|service| {
        let releases = service.releases.iter();
        releases.map(|(name, release)| (service.file.as_str(), name.as_str(), &**release))
    })
}

/// Checks that the components to which a release refers (`needs`, `awaits`, `alongside`, `quorum`, `hosts`) exist.
fn needs(catalog: &Catalog, errors: &mut Vec<Error>) {
    let all: Vec<String> = catalog
        .services
        .values()
        .flat_map(|service| service.releases.values().flat_map(|release| release.components.keys()))
        .map(ToString::to_string)
        .collect();
    for service in catalog.services.values() {
        for (name, release) in &service.releases {
            let needs = release.needs.iter().map(|need| ("needs", &need.component));
            let awaits = release.waits_for.iter().map(|need| ("awaits", &need.component));
            let alongside = release.alongside.iter().map(|need| ("alongside", &need.component));
            let quorum = release.quorum.iter().map(|component| ("quorum", component));
            let hosts = release.hosts.iter().map(|hosts| ("hosts", &hosts.component));
            for (list, component) in needs
                .chain(awaits)
                .chain(alongside)
                .chain(quorum)
                .chain(hosts)
                .filter(|(_, component)| catalog.provider(component).is_none())
            {
                let field = format!("releases.{name}.{list}");
                let name = component.to_string();
                errors.push(unknown(&service.file, field, "component", &name, all.iter().map(String::as_str)));
            }
        }
    }
}

/// Checks that each release in the list `rollout` of `values/nodes.yaml` exists, is named once, and has a `DaemonSet`.
fn rollout(catalog: &Catalog, errors: &mut Vec<Error>) {
    let file = "values/nodes.yaml";
    let releases = || catalog.services.values().flat_map(|service| &service.releases);
    for (index, name) in catalog.rollout.iter().enumerate() {
        let Some((_, release)) = catalog.release(name) else {
            let field = format!("rollout[{index}]");
            errors.push(unknown(file, field, "release", name, releases().map(|(name, _)| name.as_str())));
            continue;
        };
        let problem = if catalog.rollout[..index].contains(name) {
            format!("rollout names release {name:?} twice; name it once")
        } else if !release.components.values().any(|kind| *kind == WorkloadKind::DaemonSet) {
            format!("rollout names release {name:?}, which has no DaemonSet; remove it")
        } else {
            continue;
        };
        errors.push(Error::Other { file: file.into(), problem });
    }
}

/// Checks that presets name only services, features and presets that exist, and that no OpenStack release names itself
/// in `upgradesFrom`.
fn presets(catalog: &Catalog, errors: &mut Vec<Error>) {
    for preset in catalog.presets.values() {
        for name in preset.services.iter().filter(|name| !catalog.services.contains_key(*name)) {
            let names = catalog.services.keys().map(String::as_str);
            errors.push(unknown(&preset.file, "services".into(), "service", name, names));
        }
        for name in preset.features.keys().filter(|name| !catalog.features.contains_key(*name)) {
            let names = catalog.features.keys().map(String::as_str);
            errors.push(unknown(&preset.file, "features".into(), "feature", name, names));
        }
        for name in preset.excludes.keys().filter(|name| !catalog.presets.contains_key(*name)) {
            let names = catalog.presets.keys().map(String::as_str);
            errors.push(unknown(&preset.file, "excludes".into(), "preset", name, names));
        }
    }
    for (name, release) in &catalog.openstack {
        for from in release.upgrades_from.iter().filter(|from| from.as_str() == name) {
            let problem = format!(
                "upgradesFrom: a cloud can't be upgraded from {from} to {from}; name earlier OpenStack releases"
            );
            errors.push(Error::Other { file: release.file.clone(), problem });
        }
    }
}

/// Returns each credential that `text` mentions as `credentials.<service>.<name>`, as a pair of service and name.
pub fn credentials_in(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split("credentials.").skip(1).filter_map(|rest| {
        let is_name = |character: char| character.is_alphanumeric() || character == '_';
        let (service, rest) = rest.split_at(rest.find(|c| !is_name(c))?);
        let rest = rest.strip_prefix('.')?;
        Some((service, &rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())]))
    })
}

/// Checks that a service declares each credential that the catalogue's values use.
fn credentials(catalog: &Catalog, errors: &mut Vec<Error>) {
    let known = |service: &str, name: &str| {
        catalog.services.get(service).is_some_and(|entry| entry.credentials.contains_key(name))
    };
    let mut reported = BTreeSet::new();
    let mut check_body = |file: &str, field: &str, body: &Body| {
        for (service, name) in credentials_in(&body.source).filter(|(service, name)| !known(service, name)) {
            if reported.insert((file.to_owned(), service.to_owned(), name.to_owned())) {
                let owned = catalog.services.get(service).map(|entry| entry.credentials.keys().map(String::as_str));
                let name = format!("{service}.{name}");
                let hint = owned.into_iter().flatten().map(|known| format!("{service}.{known}")).collect::<Vec<_>>();
                errors.push(unknown(file, field.into(), "credential", &name, hint.iter().map(String::as_str)));
            }
        }
    };
    for fragment in fragments(catalog) {
        let bodies =
            fragment.named.values().map(Box::as_ref).chain(fragment.every.as_ref().map(|every| &every.unfiltered));
        bodies.for_each(|body| check_body(&fragment.file, &fragment.field, body));
    }
    for service in catalog.services.values() {
        for (name, release) in &service.releases {
            check_body(&service.file, &format!("releases.{name}.values"), &release.base);
        }
    }
}

/// Returns the first cycle of releases that need or await components of each other, as a string such as
/// `nova → neutron → nova`; `None` if there is no cycle.
fn cycle(catalog: &Catalog) -> Option<String> {
    let releases = || catalog.services.values().flat_map(|service| &service.releases);
    let edges: BTreeMap<&str, Vec<&str>> = releases()
        .map(|(name, release)| {
            let components = release.needs.iter().chain(&release.waits_for).map(|need| &need.component);
            let providers = components.filter_map(|component| Some(catalog.provider(component)?.1));
            (name.as_str(), providers.collect())
        })
        .collect_map();
    let mut done = BTreeSet::new();
    edges.keys().find_map(|name| walk(name, &edges, &mut Vec::new(), &mut done))
}

fn walk<'a>(
    name: &'a str,
    edges: &BTreeMap<&'a str, Vec<&'a str>>,
    path: &mut Vec<&'a str>,
    done: &mut BTreeSet<&'a str>,
) -> Option<String> {
    if let Some(start) = path.iter().position(|visited| *visited == name) {
        path.push(name);
        return Some(path[start..].join(" → "));
    }
    if !done.insert(name) {
        return None;
    }
    path.push(name);
    let found = edges.get(name).into_iter().flatten().find_map(|next| walk(next, edges, path, done));
    path.pop();
    found
}

/// Checks the expressions that osdpl evaluates before it installs any release: the conditions that
/// [`early_conditions`] returns, and the expressions in the list `secrets` of a feature's `certificates`.
///
/// These expressions must not read the variable `facts`: it contains the facts that Jobs of releases record, and a Job
/// can record facts only after helm has installed the Job's release. The expressions must not read the variable
/// `release` either, because osdpl evaluates them for the whole cloud, and not for one release.
fn early_expressions(catalog: &Catalog, errors: &mut Vec<Error>) {
    let late_variable = |expression: &Expression| {
        // A macro such as `releases.exists(release, …)` has a variable of its own.
        let uses = |name: &str| expression.uses_variable(name) && !expression.source().contains(&format!("({name},"));
        let facts = "facts, which are unknown until the releases are installed; let it read only the spec";
        let release = "`release`, which only expressions about one release can read; read `releases.<name>` instead";
        uses("facts").then_some(facts).or_else(|| uses("release").then_some(release))
    };
    for (file, when) in early_conditions(catalog) {
        // The catalogue keeps its expressions. To save memory, compile a copy.
        if let Some(problem) = late_variable(&Expression::lazy(when.source())) {
            let problem = format!("the condition `{}` reads {problem}", when.source());
            errors.push(Error::Other { file: file.to_owned(), problem });
        }
    }
    for feature in catalog.features.values() {
        let sources = feature.certificates.iter().flat_map(|entry| Template::expressions(&entry.secrets.values()));
        for expression in sources.map(|source| Expression::lazy(&source)) {
            let secret = "a secret, which is unknown when osdpl evaluates the expression; let it read only the spec";
            let secret = expression.is_secret().then_some(secret);
            let Some(problem) = late_variable(&expression).or(secret) else { continue };
            let problem = format!("certificates: the expression `{}` reads {problem}", expression.source());
            errors.push(Error::Other { file: feature.file.clone(), problem });
        }
    }
}

/// Checks that the expressions of fragments and releases read `facts.<release>` only if a Job of `<release>` records
/// facts (`facts` in a service's file).
fn check_facts(catalog: &Catalog, errors: &mut Vec<Error>) {
    let releases_with_facts: Vec<&str> =
        releases(catalog).filter(|(.., release)| release.facts.is_some()).map(|(_, name, _)| name).collect();
    let mut check_expression = |file: &str, field: &str, expression: &str| {
        for name in releases_of_facts(expression).filter(|name| !releases_with_facts.contains(name)) {
            let hint = did_you_mean(name, releases_with_facts.iter().copied());
            let problem = format!(
                "{field}: the expression reads facts.{name}, but no release {name:?} sets `facts`{hint}; correct the name, or set `facts` in the file of the release's service"
            );
            errors.push(Error::Other { file: file.to_owned(), problem });
        }
    };
    for (file, name, release) in releases(catalog) {
        check_expression(file, &format!("releases.{name}.values"), &expressions(&release.base));
        if let Some(digest) = &release.instance_digest {
            check_expression(file, &format!("releases.{name}.instanceDigest"), digest.source());
        }
        for (daemonset, own) in &release.daemonsets {
            let when = own.when.as_ref().map_or("", Expression::source);
            check_expression(file, &format!("releases.{name}.daemonsets.{daemonset}.when"), when);
        }
    }
    for Fragment { file, field, when, named, every, .. } in fragments(catalog) {
        if let Some(when) = when {
            check_expression(file, &format!("{field}.when"), when.source());
        }
        let bodies = named.values().map(Box::as_ref).chain(every.as_ref().map(|every| &every.unfiltered));
        bodies.for_each(|body| check_expression(file, field, &expressions(body)));
    }
}

/// Returns the expressions (`${…}`) in values that a fragment or service sets, one per line, including expressions
/// within longer strings and within lists. Returns an empty string if the values do not contain the word `facts`.
fn expressions(body: &Body) -> String {
    // Only values with the word `facts` can read facts. Do not parse other values, because parsing is slow.
    if !body.source.contains("facts") {
        return String::new();
    }
    Template::expressions(&body.values()).join("\n")
}

/// Returns the conditions that osdpl evaluates before it installs any release, each with its file.
///
/// These conditions decide which releases and components are part of the cloud, whether a spec is valid, and which
/// certificates the cloud needs.
fn early_conditions(catalog: &Catalog) -> impl Iterator<Item = (&str, &Expression)> {
    let releases = releases(catalog).flat_map(|(file, _, release)| {
        let needs = release.needs.iter().chain(&release.waits_for).chain(&release.alongside);
        let needs = needs.filter_map(|need| need.when.as_ref());
        release.when.iter().chain(needs).map(move |when| (file, when))
    });
    let features = catalog.features.values().map(|feature| (feature.file.as_str(), &feature.checks));
    let presets = catalog.presets.values().map(|preset| (preset.file.as_str(), &preset.checks));
    let checks = features.chain(presets);
    let certificates = catalog.features.values().flat_map(|feature| {
        feature.certificates.iter().filter_map(|entry| Some((feature.file.as_str(), entry.when.as_ref()?)))
    });
    let checks = checks.flat_map(|(file, checks)| checks.iter().map(move |check| (file, &check.when)));
    releases.chain(checks).chain(certificates)
}

/// Returns the names of the releases whose facts an expression reads, such as `nova` for `facts.nova`, and `ceph-rgw`
/// for `facts['ceph-rgw']`.
pub(crate) fn releases_of_facts(expression: &str) -> impl Iterator<Item = &str> {
    let matches = expression
        .match_indices("facts")
        .filter(|(start, _)| !expression[..*start].ends_with(|c: char| c.is_alphanumeric() || "._".contains(c)));
    matches.filter_map(|(start, word)| {
        let rest = &expression[start + word.len()..];
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
                "releases.front.values: the expression reads facts.store, but no release \"store\" sets `facts`",
            ),
            (
                with(
                    "    plainJobs",
                    "    facts: made\n    fragments: [{when: has(facts.frnt.a), values: {a: 1}}]\n    plainJobs",
                ),
                "releases.front.fragments[0].when: the expression reads facts.frnt, but no release \"frnt\" sets `facts` (did you mean \"front\"?)",
            ),
            (
                with("region: '${spec.region}'", "region: 'in ${facts.store.region}'"),
                "releases.front.values: the expression reads facts.store, but no release \"store\" sets `facts`",
            ),
            (
                with("region: '${spec.region}'", "region: [{name: '${facts.store.region}'}]"),
                "releases.front.values: the expression reads facts.store, but no release \"store\" sets `facts`",
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

    #[test]
    fn checks_conditions_of_daemon_sets_and_digests_of_instances() {
        let front = files(&[])["values/services/front.yaml"].as_written().into_owned();
        let daemonset =
            |when: &str| format!("daemonsets: {{agent: {{form: conf, component: front/agent, when: {when}}}}}");
        for (line, expected) in [
            (daemonset("has(facts.frnt.a)"), "releases.front.daemonsets.agent.when: the expression reads facts.frnt"),
            (daemonset("credentials.a.b == 'x'"), "the condition `credentials.a.b == 'x'` reads a secret"),
            ("instanceDigest: facts.frnt.a".into(), "releases.front.instanceDigest: the expression reads facts.frnt"),
            (
                "instanceDigest: credentials.front.user".into(),
                "releases.front.instanceDigest: `credentials.front.user` reads a secret",
            ),
            ("when: release.name == 'x'".into(), "the condition `release.name == 'x'` reads `release`"),
        ] {
            let text = front.replace("    plainJobs", &format!("    {line}\n    plainJobs"));
            let errors = Catalog::load(&files(&[("values/services/front.yaml", &text)])).unwrap_err().to_string();
            assert!(errors.contains(expected), "{expected}\n{errors}");
        }
    }

    #[test]
    fn rejects_certificates_that_read_late_variables() {
        for (certificate, expected) in [
            ("when: has(facts.front.a), secrets: []", "the condition `has(facts.front.a)` reads facts"),
            ("when: release.name == 'x', secrets: []", "the condition `release.name == 'x'` reads `release`"),
            ("secrets: [{name: '${facts.front.a}'}]", "certificates: the expression `facts.front.a` reads facts"),
            ("secrets: [{name: 'x-${release.name}'}]", "certificates: the expression `release.name` reads `release`"),
            (
                "secrets: [{name: '${credentials.a.b}'}]",
                "certificates: the expression `credentials.a.b` reads a secret",
            ),
        ] {
            let text = format!(
                "feature: seal\ndescription: x\nschema: {{type: object}}\ndefault: {{}}\ncertificates: [{{field: spec.x, keys: {{}}, {certificate}}}]\n"
            );
            let errors = Catalog::load(&files(&[("values/features/seal.yaml", &text)])).unwrap_err().to_string();
            assert!(errors.starts_with(&format!("values/features/seal.yaml: {expected}")), "{expected}\n{errors}");
        }
    }
}
