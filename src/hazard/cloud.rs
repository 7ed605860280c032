//! A cloud with all its layers: what hazards and rules are judged by.

use std::collections::BTreeMap;

use crate::api::OpenStackDeploymentSpec;
use crate::catalog::{Catalog, KeyTree};
use crate::desired::{Facts, Layered, Selection, other_version};
use crate::observed::Site;
use crate::values::{Layer, Origin, Path, Values, trace};

/// What a spec comes to, layer by layer.
pub struct Cloud<'a> {
    /// The spec.
    pub spec: &'a OpenStackDeploymentSpec,
    /// The catalogue.
    pub catalog: &'a Catalog,
    /// What the spec selects.
    pub selection: &'a Selection,
    /// What is known from outside.
    facts: &'a Facts,
    /// The layers of each release, low to high; none of one of which a layer can't be had.
    pub layers: &'a BTreeMap<String, Vec<Layer>>,
    /// Those that can be had of a release of which another can't: each says what it says by itself.
    pub partial: &'a BTreeMap<String, Vec<Layer>>,
    /// The final values of the releases in `layers`; secrets inside.
    pub values: BTreeMap<&'a str, &'a Values>,
}

impl<'a> Cloud<'a> {
    /// The cloud that a spec means, by these facts, and what it came to.
    pub fn new(
        spec: &'a OpenStackDeploymentSpec,
        catalog: &'a Catalog,
        selection: &'a Selection,
        facts: &'a Facts,
        layered: &'a Layered,
    ) -> Self {
        let releases = layered.desired.releases.iter().filter(|(name, _)| layered.layers.contains_key(*name));
        let values = releases.map(|(name, release)| (name.as_str(), &release.values)).collect();
        Self { spec, catalog, selection, facts, layers: &layered.layers, partial: &layered.partial, values }
    }

    /// The cluster that it runs in, as far as it is known.
    pub fn site(&self) -> &Site {
        &self.facts.site
    }

    /// The credential that has this text, by its service and name; `None` where several have it, as in clouds that took their passwords over.
    pub fn credential(&self, text: &str) -> Option<(&str, &str)> {
        let all = self.facts.credentials.iter();
        let all = all.flat_map(|(service, own)| own.iter().map(move |(name, value)| (service, name, value)));
        let mut alike = all.filter(|(_, _, value)| *value == text);
        let (service, name, _) = alike.next()?;
        alike.next().is_none().then_some((service.as_str(), name.as_str()))
    }

    /// What decides a value of a release, and whether that must not be shown; nothing where the chart's default holds.
    pub fn decided(&self, release: &str, path: &Path) -> (Option<&Origin>, bool) {
        let traced = self.layers.get(release).map(|layers| trace(layers, path)).unwrap_or_default();
        traced.first().map_or((None, false), |trace| (Some(trace.origin), trace.secret))
    }

    /// The field of the resource to look at for a value of a release: the user's own, or what brings the value about.
    pub fn field(&self, release: &str, path: &Path) -> String {
        let origin = self.decided(release, path).0;
        if let Some(place) = origin.and_then(place) {
            return format!("{place}.{path}");
        }
        match origin {
            Some(Origin::Field(field)) => field.clone(),
            Some(Origin::File { file, .. }) if file.starts_with("presets/") => "spec.presets".into(),
            Some(Origin::File { file, .. }) if file.starts_with("values/features/") => {
                let feature = file.trim_start_matches("values/features/").trim_end_matches(".yaml");
                format!("spec.features.{feature}")
            }
            _ => format!("spec.services.{}", self.catalog.release(release).map_or(release, |(service, _)| service)),
        }
    }

    /// The keys of a release's chart, where they are known: another version of the chart may know others.
    pub fn tree(&self, release: &str) -> Option<&KeyTree> {
        let (_, entry) = self.catalog.release(release)?;
        let is_another = other_version(self.spec, self.catalog, release).is_some();
        if is_another { None } else { self.catalog.keys().get(&entry.chart) }
    }
}

/// Where a user's layer was written, as a field of the resource; `None` for what is not the user's own words.
pub fn place(origin: &Origin) -> Option<String> {
    match origin {
        Origin::Field(field) if field.starts_with("spec.common") || field.starts_with("spec.services") => {
            Some(field.clone())
        }
        // `Secret nova-values, key values.yaml (spec.services.nova.releases.nova.valuesFrom[0])`.
        Origin::Object(object) => {
            let field = object.rsplit_once('(').map_or(object.as_str(), |(_, field)| field.trim_end_matches(')'));
            Some(field.to_owned())
        }
        Origin::Field(_) | Origin::File { .. } | Origin::Derived(_) => None,
    }
}
