//! Finds entries of the catalogue by the name of a release, of a component, or of a key in helm values.

use std::collections::BTreeMap;

use super::{Body, Catalog, Component, Fragment, Release, Service, credentials_in};
use osdpl_values::{CollectSorted, Digest, canonical, canonical_map};

impl Catalog {
    /// Returns the release `name` of the catalogue, and the name of its service; `None` if no service has this release.
    pub fn release(&self, name: &str) -> Option<(&str, &Release)> {
        let (service, entry) = self.services.get_key_value(self.release_index.service(name)?)?;
        Some((service.as_str(), entry.releases.get(name)?))
    }

    /// Returns the names of the service and the release that provide a component; `None` if no release provides it.
    pub fn provider(&self, component: &Component) -> Option<(&str, &str)> {
        self.providers.get(component).map(|(service, release)| (service.as_str(), release.as_str()))
    }

    /// Returns all values that the catalogue's files can set in a release, each set as a [`Body`]. The function ignores
    /// all conditions, so the result does not depend on the spec.
    pub fn bodies(&self, release: &str) -> impl Iterator<Item = &Body> {
        let own = self.release(release).map(|(_, entry)| entry);
        let fragments = own.into_iter().flat_map(|entry| &entry.fragments).chain(&self.shared);
        let fragments = fragments
            .chain(self.openstack.values().flat_map(|entry| &entry.fragments))
            .chain(self.presets.values().flat_map(|preset| &preset.fragments))
            .chain(self.features.values().flat_map(|feature| &feature.fragments));
        own.map(|entry| &entry.base).into_iter().chain(fragments.filter_map(move |fragment| fragment.body(release)))
    }

    /// Returns the credentials that expressions in the catalogue can insert into the values of a release, as pairs of
    /// service and credential name.
    pub(crate) fn credentials_of(&self, release: &str) -> &[(String, String)] {
        self.release_index.credentials(release, || {
            let used = self.bodies(release).flat_map(|body| credentials_in(&body.source));
            used.map(|(service, name)| (service.to_owned(), name.to_owned())).collect_set()
        })
    }

    /// Whether a built-in file of the catalogue sets a value under a key with the name `key`, at any depth and in any
    /// release. If so, osdpl does not regard a user's key of this name as a typo, even if the key resembles a key of a
    /// chart.
    pub(crate) fn has_own_key(&self, key: &str) -> bool {
        // A `Body` stores canonical JSON. In JSON, a string before a colon is always a key. So search for the quoted
        // key followed by a colon.
        let written = format!("{}:", canonical(&key.into()));
        let has = |body: &Body| body.source.contains(&written);
        let services = self.services.values().filter(|service| !self.added.contains_key(&service.file));
        let releases = services.flat_map(|service| service.releases.values());
        let fragments = releases.clone().flat_map(|release| &release.fragments).chain(&self.shared);
        let fragments = fragments
            .chain(self.openstack.values().flat_map(|entry| &entry.fragments))
            .chain(self.presets.values().flat_map(|preset| &preset.fragments))
            .chain(self.features.values().flat_map(|feature| &feature.fragments));
        let mut own_fragments = fragments.filter(|fragment| !self.added.contains_key(&fragment.file));
        let any = |fragment: &Fragment| {
            fragment.named.values().map(Box::as_ref).any(has)
                || fragment.every.as_ref().is_some_and(|every| has(&every.unfiltered))
        };
        own_fragments.any(any) || releases.map(|release| &release.base).any(has)
    }

    /// Returns a digest of everything in the built-in catalogue that can set values of a release. The caller can add
    /// further inputs to the digest.
    ///
    /// The digest changes only with a new version of osdpl. It does not depend on the catalogue files that users add,
    /// because a person approves changes of these files separately
    /// ([`Policy::changed_additions`](crate::plan::Policy::changed_additions)).
    pub(crate) fn release_digest(&self, release: &str) -> Digest {
        self.release_index.digest(release, || {
            let mut digest = Digest::default();
            let own = self.release(release).map(|(_, entry)| entry);
            let fragments = self.shared.iter().chain(own.into_iter().flat_map(|entry| &entry.fragments));
            let fragments = fragments
                .chain(self.openstack.values().flat_map(|entry| &entry.fragments))
                .chain(self.presets.values().flat_map(|preset| &preset.fragments))
                .chain(self.features.values().flat_map(|feature| &feature.fragments));
            let is_ours = |file: &str| !self.added.contains_key(file);
            let own_text = |fragment: &Fragment| {
                if !is_ours(&fragment.file) {
                    return None;
                }
                let body = fragment.body(release)?;
                Some(format!("{:?}{}", fragment.when, body.source))
            };
            fragments.filter_map(own_text).for_each(|text| digest.add(&text));
            let service = self.release(release).and_then(|(service, _)| self.services.get(service));
            if service.is_none_or(|service| is_ours(&service.file)) {
                digest.add(own.map_or("", |entry| &entry.base.source));
            }
            let features = self.features.values().filter(|feature| is_ours(&feature.file));
            digest.add(&features.map(|feature| canonical(&feature.default)).collect::<String>());
            let openstack = self.openstack.values().filter(|entry| is_ours(&entry.file));
            let variables = openstack.map(|entry| canonical_map(&entry.variables));
            digest.add(&variables.collect::<String>());
            digest
        })
    }
}

/// Returns the names of the service and the release that provide each component.
pub(super) fn providers(services: &BTreeMap<String, Service>) -> BTreeMap<Component, (String, String)> {
    let mut providers = BTreeMap::new();
    for (service, entry) in services {
        for (release, provided) in &entry.releases {
            for component in provided.components.keys() {
                providers.entry(component.clone()).or_insert_with(|| (service.clone(), release.clone()));
            }
        }
    }
    providers
}
