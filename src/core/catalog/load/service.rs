//! Loads services and their releases from `values/services/`.

use std::collections::BTreeMap;

use super::Loader;
use crate::catalog::{ClaimOwner, DaemonSet, Endpoint, Error, Fragment, Need, Release, Service, file};
use osdpl_values::{CollectSorted, Path};

impl Loader<'_> {
    pub(super) fn service(&mut self, name: &str, entry: file::Service) -> Service {
        self.check_name("values/services/", name, &entry.service);
        let path = format!("values/services/{name}.yaml");
        let releases = entry.releases.into_iter();
        let releases =
            releases.map(|(name, release)| (name.clone(), Box::new(self.release(&path, &name, release)))).collect_map();
        let file::Service { description, group, credentials, external, .. } = entry;
        Service { file: path, description, group, releases, credentials, external }
    }

    fn release(&mut self, path: &str, name: &str, entry: file::Release) -> Release {
        let field = format!("releases.{name}");
        let when = self.condition(path, &format!("{field}.when"), entry.when);
        let needs = self.needs(path, &format!("{field}.needs"), entry.needs);
        let mut components = BTreeMap::new();
        for (text, kind) in entry.components {
            components
                .extend(self.component(path, &format!("{field}.components"), &text).map(|component| (component, kind)));
        }
        let field_of_tests = format!("{field}.tests");
        let tests = entry.tests.into_iter();
        let tests = tests.filter_map(|(text, kept)| Some((self.component(path, &field_of_tests, &text)?, kept)));
        let tests = tests.collect_map();
        let endpoint = entry.endpoint.and_then(|entry| self.endpoint(path, &format!("{field}.endpoint"), entry));
        let instance_digest = self.condition(path, &format!("{field}.instanceDigest"), entry.instance_digest);
        let daemonsets = entry.daemonsets.into_iter();
        let daemonsets =
            daemonsets.filter_map(|(name, own)| Some((name.clone(), self.daemonset(path, &field, &name, own)?)));
        let daemonsets = daemonsets.collect_map();
        let base = self.body(path, &field, entry.values, entry.unset);
        let fragments = entry.fragments.into_iter().enumerate().map(|(index, own)| {
            let field = format!("{field}.fragments[{index}]");
            let when = self.condition(path, &format!("{field}.when"), own.when);
            let body = self.body(path, &field, own.values, own.unset);
            let named = [(name.to_owned(), Box::new(body))].into();
            Fragment { file: path.into(), field, why: own.why, when, named, every: None }
        });
        Release {
            fragments: fragments.collect(),
            chart: entry.chart.unwrap_or_else(|| name.to_owned()),
            namespace: entry.namespace.inspect(|namespace| self.namespace(path, &field, namespace)),
            when,
            needs,
            waits_for: self.needs(path, &format!("{field}.awaits"), entry.awaits),
            alongside: self.needs(path, &format!("{field}.alongside"), entry.alongside),
            components,
            endpoint,
            quorum: self.components(path, &format!("{field}.quorum"), &entry.quorum),
            tests,
            hosts: entry.hosts,
            daemonsets,
            plain_jobs: entry.plain_jobs,
            facts: entry.facts.inspect(|name| self.config_map(path, &field, name)),
            kept_secrets: entry.kept_secrets,
            kept_config_maps: entry.kept_config_maps,
            claim_sizes: self.claim_sizes(path, &field, entry.claim_sizes),
            floating_images: entry.floating_images,
            instance_digest,
            timeout: entry.timeout,
            server_side: entry.server_side,
            base,
        }
    }

    fn needs(&mut self, path: &str, field: &str, entries: Vec<file::Need>) -> Vec<Need> {
        let mut needs = Vec::new();
        for (index, need) in entries.into_iter().enumerate() {
            let field = format!("{field}[{index}]");
            if let Some(component) = self.component(path, &field, &need.component) {
                needs.push(Need { component, when: self.condition(path, &field, need.when) });
            }
        }
        needs
    }

    fn claim_sizes(
        &mut self,
        path: &str,
        field: &str,
        entries: BTreeMap<String, String>,
    ) -> BTreeMap<Path, ClaimOwner> {
        let mut sizes = BTreeMap::new();
        for (text, owner) in entries {
            let field = format!("{field}.claimSizes.{text}");
            let owner = if owner.contains('/') {
                self.component(path, &field, &owner).map(ClaimOwner::StatefulSet)
            } else {
                Some(ClaimOwner::Claim(owner))
            };
            match Path::parse(&text) {
                Ok(value) => sizes.extend(owner.map(|owner| (value, owner))),
                Err(error) => self.errors.push(Error::Path { file: path.into(), field, error }),
            }
        }
        sizes
    }

    fn namespace(&mut self, path: &str, field: &str, namespace: &str) {
        let is_label = |text: &str| osdpl_values::expr::matches(text, "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$");
        if !is_label(namespace) {
            let problem = format!(
                "{field}.namespace: {namespace:?} is not a valid namespace name; write lower-case letters, digits and dashes, 63 at most, with no dash at either end"
            );
            self.errors.push(Error::Other { file: path.into(), problem });
        }
    }

    fn config_map(&mut self, path: &str, field: &str, name: &str) {
        if name.len() > 253 || !osdpl_values::expr::matches(name, "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$") {
            let problem = format!(
                "{field}.facts: {name:?} is not a valid ConfigMap name; write lower-case letters, digits, dashes and dots, 253 at most, with a letter or digit at each end"
            );
            self.errors.push(Error::Other { file: path.into(), problem });
        }
    }

    fn endpoint(&mut self, path: &str, field: &str, entry: file::Endpoint) -> Option<Endpoint> {
        let file::Endpoint { component, endpoint, service, port_name, port, path: probe_path, accept, keystone } =
            entry;
        let component = self.component(path, &format!("{field}.component"), &component)?;
        Some(Endpoint { component, endpoint, service, port_name, port, path: probe_path, accept, keystone })
    }

    fn daemonset(&mut self, path: &str, field: &str, name: &str, entry: file::DaemonSet) -> Option<DaemonSet> {
        let field = format!("{field}.daemonsets.{name}");
        let component = self.component(path, &format!("{field}.component"), &entry.component)?;
        let when = self.condition(path, &format!("{field}.when"), entry.when);
        let mut shared = Vec::new();
        for text in &entry.shared {
            match Path::parse(text) {
                Ok(path) => shared.push(path),
                Err(error) => {
                    let field = format!("{field}.shared");
                    self.errors.push(Error::Path { file: path.into(), field, error });
                }
            }
        }
        Some(DaemonSet { form: entry.form, component, when, shared })
    }
}
