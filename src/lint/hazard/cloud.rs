//! A cloud with all its layers, the input of hazards and rules.

use std::collections::BTreeMap;

use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::{Catalog, KeyTree};
use osdpl_core::desired::{Facts, ResolvedLayers, Selection, overridden_chart_version};
use osdpl_core::observed::ClusterInfo;
use osdpl_values::{Layer, Origin, Path, Values, trace};

/// A resolved spec with its layers.
pub struct Cloud<'a> {
    /// The spec.
    pub spec: &'a OpenStackDeploymentSpec,
    /// The catalogue.
    pub catalog: &'a Catalog,
    /// The selection of the spec.
    pub selection: &'a Selection,
    /// The facts from outside of the spec.
    facts: &'a Facts,
    /// The layers of each release, from low to high; without releases of which a layer is unavailable.
    pub layers: &'a BTreeMap<String, Vec<Layer>>,
    /// The available layers of releases of which another layer is unavailable; each is checked by itself.
    pub partial: &'a BTreeMap<String, Vec<Layer>>,
    /// The final values of the releases in `layers`; they contain secrets.
    pub values: BTreeMap<&'a str, &'a Values>,
}

impl<'a> Cloud<'a> {
    /// Combines a spec with its facts and its resolved layers.
    pub fn new(
        spec: &'a OpenStackDeploymentSpec,
        catalog: &'a Catalog,
        selection: &'a Selection,
        facts: &'a Facts,
        layered: &'a ResolvedLayers,
    ) -> Self {
        let releases = layered.desired.releases.iter().filter(|(name, _)| layered.layers.contains_key(*name));
        let values = releases.map(|(name, release)| (name.as_str(), &release.values)).collect();
        Self { spec, catalog, selection, facts, layers: &layered.layers, partial: &layered.partial, values }
    }

    /// The cluster of the cloud, as far as it is known.
    pub fn site(&self) -> &ClusterInfo {
        &self.facts.cluster_info
    }

    /// Returns the service and name of the credential with this value; `None` if several have it, as in adopted clouds.
    pub fn credential(&self, text: &str) -> Option<(&str, &str)> {
        let all = self.facts.credentials.iter();
        let all = all.flat_map(|(service, own)| own.iter().map(move |(name, value)| (service, name, value)));
        let mut matches = all.filter(|(_, _, value)| *value == text);
        let (service, name, _) = matches.next()?;
        matches.next().is_none().then_some((service.as_str(), name.as_str()))
    }

    /// Returns the origin of a value of a release, and whether it is secret; `None` if the chart's default holds.
    pub fn decided(&self, release: &str, path: &Path) -> (Option<&Origin>, bool) {
        let traced = self.layers.get(release).map(|layers| trace(layers, path)).unwrap_or_default();
        traced.first().map_or((None, false), |trace| (Some(trace.origin), trace.secret))
    }

    /// Returns the location of a layer that is checked: the user's own, or an addition to the catalogue.
    pub fn spot(&self, origin: &Origin) -> Option<Location> {
        if let Some(field) = user_field(origin) {
            return Some(Location::of_field(field));
        }
        let Origin::File { file, .. } = origin else { return None };
        Some(Location { location: Some(self.added(origin)?), field: including_field(file) })
    }

    /// Describes the location of a layer that was added to the catalogue.
    fn added(&self, origin: &Origin) -> Option<String> {
        let Origin::File { file, field } = origin else { return None };
        Some(format!("{} ({field})", self.catalog.added.get(file)?))
    }

    /// Describes a layer.
    pub fn called(&self, origin: &Origin) -> String {
        self.added(origin).unwrap_or_else(|| origin.to_string())
    }

    /// Returns the location that sets a value of a release, if it is the user's or an addition to the catalogue.
    pub fn spot_of(&self, release: &str, path: &Path) -> Option<Location> {
        self.decided(release, path).0.and_then(|origin| self.spot(origin))
    }

    /// Returns the prefix for a message about a value of a release: its path, where the field is not specific enough.
    pub fn before(&self, release: &str, path: &Path) -> String {
        match self.spot_of(release, path) {
            Some(spot) => spot.at(path).before(release),
            None => format!("{path} of {release}: "),
        }
    }

    /// Returns the field of the resource that causes a value of a release.
    pub fn field(&self, release: &str, path: &Path) -> String {
        let origin = self.decided(release, path).0;
        if let Some(place) = origin.and_then(user_field) {
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

    /// Returns the keys of a release's chart; `None` if they are not known, for example for another chart version.
    pub fn tree(&self, release: &str) -> Option<&KeyTree> {
        let (_, entry) = self.catalog.release(release)?;
        let is_another = overridden_chart_version(self.spec, self.catalog, release).is_some();
        if is_another { None } else { self.catalog.keys().get(&entry.chart) }
    }
}

/// A location that is checked: a field of the resource, or a file that was added to the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The location in an addition, such as `ConfigMap openstack/edge, key presets.edge.yaml (fragments[0])`; `None`
    /// for a field of the resource.
    ///
    /// This is the first field, so that the user's own values sort before additions.
    location: Option<String>,
    /// The field of the resource, or the one that includes the addition.
    pub field: String,
}

impl Location {
    /// A location in the resource.
    pub fn of_field(field: String) -> Self {
        Self { location: None, field }
    }

    /// The location in an addition to the catalogue; `None` for a field of the resource.
    pub fn stands(&self) -> Option<&str> {
        self.location.as_deref()
    }

    /// Returns the location of a path below this one.
    #[must_use]
    pub fn at(&self, path: &Path) -> Self {
        match &self.location {
            None => Self::of_field(format!("{}.{path}", self.field)),
            Some(location) => Self { location: Some(format!("{location}, {path}")), field: self.field.clone() },
        }
    }

    /// Returns the location of the entry of `unset` that removes this path.
    #[must_use]
    pub fn unset(&self, index: usize, path: &Path) -> Self {
        match (&self.location, self.field.strip_suffix(".values")) {
            (None, Some(above)) => Self::of_field(format!("{above}.unset[{index}]")),
            _ => self.at(path),
        }
    }

    /// Returns the prefix for a message about this location and these releases; empty for a field of the resource.
    pub fn before(&self, releases: &str) -> String {
        self.location.as_ref().map(|location| format!("{location} of {releases}: ")).unwrap_or_default()
    }
}

/// Returns the field of the resource that includes a file of the catalogue; empty for files that all clouds include.
pub fn including_field(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or_default().trim_end_matches(".yaml");
    match file.trim_start_matches("values/").split('/').next() {
        Some("presets") => "spec.presets".into(),
        Some("features") => format!("spec.features.{name}"),
        Some("services") => format!("spec.services.{name}"),
        Some("openstack") => "spec.openstackRelease".into(),
        _ => String::new(),
    }
}

/// Returns the field of a user's layer; `None` for other layers.
pub fn user_field(origin: &Origin) -> Option<String> {
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
