//! Defines the data that all rules check: a spec, facts such as credentials, and the layers of each release's values.

use std::collections::BTreeMap;

use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::{Catalog, KeyTree};
use osdpl_core::desired::{Facts, ResolvedLayers, Selection, overridden_chart_version, release_variables};
use osdpl_core::observed::ClusterInfo;
use osdpl_values::{CollectSorted, Layer, Origin, Path, Values, trace};
use serde_json::Value;

/// The data that all rules check: a spec, facts such as credentials, and the layers of each release's values.
pub(crate) struct Cloud<'a> {
    pub spec: &'a OpenStackDeploymentSpec,
    pub catalog: &'a Catalog,
    pub selection: &'a Selection,
    facts: &'a Facts,
    /// The layers of each release for which osdpl has the data of all layers, from low to high precedence.
    pub layers: &'a BTreeMap<String, Vec<Layer>>,
    /// The layers of each other release. For these releases, a layer is missing, for example because an object of
    /// `valuesFrom` does not exist; the list contains the rest.
    pub partial: &'a BTreeMap<String, Vec<Layer>>,
    /// The final values of the releases in `layers`. The values contain secrets.
    pub values: BTreeMap<&'a str, &'a Values>,
}

impl<'a> Cloud<'a> {
    /// Creates the input of the rules from a spec, its facts and its resolved layers.
    pub(crate) fn new(
        spec: &'a OpenStackDeploymentSpec,
        catalog: &'a Catalog,
        selection: &'a Selection,
        facts: &'a Facts,
        layered: &'a ResolvedLayers,
    ) -> Self {
        let releases = layered.desired.releases.iter().filter(|(name, _)| layered.layers.contains_key(*name));
        let values = releases.map(|(name, release)| (name.as_str(), &release.values)).collect_map();
        Self { spec, catalog, selection, facts, layers: &layered.layers, partial: &layered.partial, values }
    }

    /// Returns the variable `releases` of expressions, with the baseline of each installed release.
    pub(crate) fn releases(&self) -> Value {
        release_variables(self.selection, self.facts)
    }

    /// Returns what osdpl knows about the Kubernetes cluster in which the cloud runs, such as its nodes and
    /// `StorageClasses`.
    pub(crate) fn cluster_info(&self) -> &ClusterInfo {
        &self.facts.cluster_info
    }

    /// Returns the service and the name of the credential whose value is `text`.
    ///
    /// Returns `None` if no credential or several credentials have this value. In an adopted cloud, several users can
    /// have the same password, so that the text does not identify one credential.
    pub(crate) fn credential(&self, text: &str) -> Option<(&str, &str)> {
        let all = self.facts.credentials.iter();
        let all = all.flat_map(|(service, own)| own.iter().map(move |(name, value)| (service, name, value)));
        let mut matches = all.filter(|(_, _, value)| *value == text);
        let (service, name, _) = matches.next()?;
        matches.next().is_none().then_some((service.as_str(), name.as_str()))
    }

    /// Returns the origin of the layer that sets a value of a release, and whether the value is secret.
    ///
    /// The origin is `None` if no layer sets the value, so that the chart's default applies.
    pub(crate) fn origin(&self, release: &str, path: &Path) -> (Option<&Origin>, bool) {
        let traced = self.layers.get(release).map(|layers| trace(layers, path)).unwrap_or_default();
        traced.first().map_or((None, false), |trace| (Some(trace.origin), trace.secret))
    }

    /// Whether a value of a release is secret.
    pub(crate) fn is_secret(&self, release: &str, path: &Path) -> bool {
        self.origin(release, path).1
    }

    /// Returns the location of a layer if rules about overrides check the layer; `None` for all other layers.
    ///
    /// These rules check the layers of the user (`spec.common`, `spec.services` and the objects in `valuesFrom`) and
    /// the layers of additions to the catalogue. All other layers, such as the catalogue's own layers, have no
    /// location.
    pub(crate) fn layer_location(&self, origin: &Origin) -> Option<Location> {
        if let Some(field) = user_field(origin) {
            return Some(Location::of_field(field));
        }
        let Origin::File { file, .. } = origin else { return None };
        Some(Location { addition: Some(self.addition(origin)?), field: including_field(file) })
    }

    /// Returns the location of a layer in an addition to the catalogue; `None` if the layer is not from an addition.
    fn addition(&self, origin: &Origin) -> Option<String> {
        let Origin::File { file, field } = origin else { return None };
        Some(format!("{} ({field})", self.catalog.added.get(file)?))
    }

    /// Describes a layer for a message: by its location if an addition contains the layer, and otherwise by its origin.
    pub(crate) fn describe_layer(&self, origin: &Origin) -> String {
        self.addition(origin).unwrap_or_else(|| origin.to_string())
    }

    /// Returns the location of the layer that sets a value of a release.
    ///
    /// Returns `None` if no layer sets the value, or if the layer has no location ([`Cloud::layer_location`]).
    pub(crate) fn value_location(&self, release: &str, path: &Path) -> Option<Location> {
        self.origin(release, path).0.and_then(|origin| self.layer_location(origin))
    }

    /// Returns the text that precedes the message of a finding about a value of a release.
    ///
    /// The text names the path of the value. The text is empty if the field that the finding names already ends with
    /// this path.
    pub(crate) fn message_prefix(&self, release: &str, path: &Path) -> String {
        match self.value_location(release, path) {
            Some(location) => location.child(path).message_prefix(release),
            None => format!("{path} of {release}: "),
        }
    }

    /// Returns the field of the `OpenStackDeployment` that the user must correct to change a value of a release.
    ///
    /// This field sets the value, or selects the file of the catalogue that sets the value. If there is no such field,
    /// the function returns the field of the release's service, such as `spec.services.nova`.
    pub(crate) fn field(&self, release: &str, path: &Path) -> String {
        let origin = self.origin(release, path).0;
        if let Some(field) = origin.and_then(user_field) {
            return format!("{field}.{path}");
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

    /// Returns the key tree of a release's chart; `None` if osdpl does not know the keys.
    ///
    /// The catalogue contains the key tree of only one version of each chart. So osdpl does not know the keys if the
    /// spec sets another version of the chart.
    pub(crate) fn chart_keys(&self, release: &str) -> Option<&KeyTree> {
        self.catalog.keys().get(self.known_chart(release)?)
    }

    /// Whether osdpl knows the keys of a release's chart. Does not load them.
    pub(crate) fn knows_chart_keys(&self, release: &str) -> bool {
        self.known_chart(release).is_some_and(|chart| self.catalog.keys().contains(chart))
    }

    /// Calls `read` with the key tree of a release's chart, which does not remain in memory ([`Keys::read`]); `None` if
    /// osdpl does not know the keys.
    ///
    /// [`Keys::read`]: osdpl_core::catalog::Keys::read
    pub(crate) fn read_chart_keys<T>(&self, release: &str, read: impl FnOnce(&KeyTree) -> T) -> Option<T> {
        self.catalog.keys().read(self.known_chart(release)?, read)
    }

    fn known_chart(&self, release: &str) -> Option<&str> {
        let (_, entry) = self.catalog.release(release)?;
        overridden_chart_version(self.spec, self.catalog, release).is_none().then_some(&*entry.chart)
    }
}

/// The location of a value that rules check: a field of the `OpenStackDeployment`, or a path in an addition to the
/// catalogue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Location {
    /// The location in an addition, such as `ConfigMap openstack/edge, key presets.edge.yaml (fragments[0])`; `None`
    /// for a field of the resource.
    ///
    /// The derived order compares this field first, and `None` is the lowest value. So the locations of the user's own
    /// values sort before locations in additions.
    addition: Option<String>,
    /// The field of the resource that contains the value. For a value in an addition: the field that selects the file
    /// with the value, such as `spec.presets`.
    pub field: String,
}

impl Location {
    /// Creates the location of a field of the resource.
    pub(crate) fn of_field(field: String) -> Self {
        Self { addition: None, field }
    }

    /// Returns the location as text, if the location is in an addition to the catalogue; `None` for a field of the
    /// resource.
    pub(crate) fn addition(&self) -> Option<&str> {
        self.addition.as_deref()
    }

    /// Returns the location of the value at a path below this location.
    #[must_use]
    pub(crate) fn child(&self, path: &Path) -> Self {
        match &self.addition {
            None => Self::of_field(format!("{}.{path}", self.field)),
            Some(addition) => Self { addition: Some(format!("{addition}, {path}")), field: self.field.clone() },
        }
    }

    /// Returns the location of the entry with the number `index` in the list `unset` of a layer. The entry removes the
    /// value at `path`.
    ///
    /// If the layer is in an addition or in an object of `valuesFrom`, the location names `path` and not the entry.
    #[must_use]
    pub(crate) fn unset_entry(&self, index: usize, path: &Path) -> Self {
        match (&self.addition, self.field.strip_suffix(".values")) {
            (None, Some(above)) => Self::of_field(format!("{above}.unset[{index}]")),
            _ => self.child(path),
        }
    }

    /// Returns the text that precedes a message about this location; empty for a field of the resource.
    ///
    /// For a location in an addition, the text contains the location and `releases`, the names of releases.
    pub(crate) fn message_prefix(&self, releases: &str) -> String {
        self.addition.as_ref().map(|addition| format!("{addition} of {releases}: ")).unwrap_or_default()
    }
}

/// Returns the field of the `OpenStackDeployment` that makes a cloud use `file`, a file of the catalogue; empty if
/// every cloud uses the file.
fn including_field(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or_default().trim_end_matches(".yaml");
    match file.trim_start_matches("values/").split('/').next() {
        Some("presets") => "spec.presets".into(),
        Some("features") => format!("spec.features.{name}"),
        Some("services") => format!("spec.services.{name}"),
        Some("openstack") => "spec.openstackRelease".into(),
        _ => String::new(),
    }
}

/// Returns the field of the spec to which the values of a user's layer belong; `None` if the layer is not from
/// `spec.common` or `spec.services`.
///
/// If the values are in an object of `valuesFrom`, the function returns the field that names this object.
pub(crate) fn user_field(origin: &Origin) -> Option<String> {
    match origin {
        Origin::Field(field) if field.starts_with("spec.common") || field.starts_with("spec.services") => {
            Some(field.clone())
        }
        // Take the field in parentheses at the end of the origin: `Secret nova-values, key values.yaml
        // (spec.services.nova.releases.nova.valuesFrom[0])`.
        Origin::Object(object) => {
            let field = object.rsplit_once('(').map_or(object.as_str(), |(_, field)| field.trim_end_matches(')'));
            Some(field.to_owned())
        }
        Origin::Field(_) | Origin::File { .. } | Origin::Derived(_) => None,
    }
}
