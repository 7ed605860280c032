//! A cloud with all its layers: what hazards and rules are judged by.

use std::collections::BTreeMap;

use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::{Catalog, KeyTree};
use osdpl_core::desired::{Facts, Layered, Selection, other_version};
use osdpl_core::observed::Site;
use osdpl_values::{Layer, Origin, Path, Values, trace};

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

    /// Where a layer stands whose words are judged: the user's own, or someone's who added to the catalogue.
    pub fn spot(&self, origin: &Origin) -> Option<Spot> {
        if let Some(field) = place(origin) {
            return Some(Spot::of_field(field));
        }
        let Origin::File { file, .. } = origin else { return None };
        Some(Spot { stands: Some(self.added(origin)?), field: taken_by(file) })
    }

    /// Where a layer stands that someone added to the catalogue.
    fn added(&self, origin: &Origin) -> Option<String> {
        let Origin::File { file, field } = origin else { return None };
        Some(format!("{} ({field})", self.catalog.added.get(file)?))
    }

    /// A layer for people.
    pub fn called(&self, origin: &Origin) -> String {
        self.added(origin).unwrap_or_else(|| origin.to_string())
    }

    /// What decides a value of a release, where that is somebody's own word.
    pub fn spot_of(&self, release: &str, path: &Path) -> Option<Spot> {
        self.decided(release, path).0.and_then(|origin| self.spot(origin))
    }

    /// What is said before a message about a value of a release: which value it is, where the field that is told does not say so itself.
    pub fn before(&self, release: &str, path: &Path) -> String {
        match self.spot_of(release, path) {
            Some(spot) => spot.at(path).before(release),
            None => format!("{path} of {release}: "),
        }
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

/// Where something stands that is judged: a field of the resource, or a file that someone added to the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// Where it is in what was added: `ConfigMap openstack/edge, key presets.edge.yaml (fragments[0])`; `None` where the field says it all. It is the
    /// first, so that the user's own words are blamed before others.
    stands: Option<String>,
    /// The field of the resource: its own, or the one that takes in what was added.
    pub field: String,
}

impl Spot {
    /// A field of the resource.
    pub fn of_field(field: String) -> Self {
        Self { stands: None, field }
    }

    /// Where it is in what was added to the catalogue; `None` in the resource itself.
    pub fn stands(&self) -> Option<&str> {
        self.stands.as_deref()
    }

    /// What is at this path in it.
    #[must_use]
    pub fn at(&self, path: &Path) -> Self {
        match &self.stands {
            None => Self::of_field(format!("{}.{path}", self.field)),
            Some(stands) => Self { stands: Some(format!("{stands}, {path}")), field: self.field.clone() },
        }
    }

    /// The entry of `unset` that removes this path.
    #[must_use]
    pub fn unset(&self, index: usize, path: &Path) -> Self {
        match (&self.stands, self.field.strip_suffix(".values")) {
            (None, Some(above)) => Self::of_field(format!("{above}.unset[{index}]")),
            _ => self.at(path),
        }
    }

    /// What is said before a message about it, of these releases: nothing where the field says it all.
    pub fn before(&self, releases: &str) -> String {
        self.stands.as_ref().map(|stands| format!("{stands} of {releases}: ")).unwrap_or_default()
    }
}

/// The field of the resource that takes in a file of the catalogue; the whole resource for what is for all.
pub fn taken_by(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or_default().trim_end_matches(".yaml");
    match file.trim_start_matches("values/").split('/').next() {
        Some("presets") => "spec.presets".into(),
        Some("features") => format!("spec.features.{name}"),
        Some("services") => format!("spec.services.{name}"),
        Some("openstack") => "spec.openstackRelease".into(),
        _ => String::new(),
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
