//! What is said of a value.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::super::above::{Above, above};
use super::Cloud;
use super::places::Places;
use osdpl_core::api::NodeOverride;
use osdpl_core::catalog::{Catalog, KeyTree, SecretField, credentials_in};
use osdpl_core::ceph::is_of_ceph;
use osdpl_core::credentials::{given, secret_name};
use osdpl_core::desired::{Known, Target, by_node, known_in, layers, other_version, redacted, target};
use osdpl_operator::charts::{self, keys};
use osdpl_values::{self as values, Layer, Path, trace};

/// What stands for a secret.
const REDACTED: &str = "<redacted>";

/// What is asked.
pub struct Question<'a> {
    pub cloud: &'a Cloud,
    pub catalog: &'a Catalog,
    pub places: &'a Places<'a>,
    pub path: &'a Path,
}

/// Where a value of a release comes from.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    pub release: String,
    pub path: String,
    /// What helm is given, secrets replaced; absent where it is given nothing, so that the chart's default holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// What a key above does to it, so that not even the chart's default holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub above: Option<Above>,
    /// Every layer that says something, the one that wins first.
    pub layers: Vec<Said>,
    /// What is said for some nodes alone, in the order of the spec.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<OnNodes>,
    pub chart: Chart,
}

/// What one entry of `spec.nodes.overrides` says.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OnNodes {
    /// Which nodes: their names, or their label.
    pub nodes: String,
    #[serde(flatten)]
    pub said: Said,
}

/// What one layer says.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Said {
    /// `values/services/nova.yaml:88 (releases.nova.values)`, or the field of the resource.
    pub place: String,
    /// What it sets there; absent where it sets something above, which hides all below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// Why, where the catalogue says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The expression that gives the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,
    /// The object that gives it, where it is neither the spec nor the catalogue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// What the chart's own values say.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Chart {
    pub name: String,
    /// Whether its values have the key, or leave it to the user.
    pub known: bool,
    /// Whether its values have a default for it; `None` where the key is not known.
    #[serde(skip)]
    pub has_default: Option<bool>,
    /// In words.
    pub said: String,
    /// Its default, where it is known whole: always where charts were named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Where a map or a list is not known whole, as far as it is ([`KeyTree::outline`]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outline: Option<Value>,
}

impl Answer {
    /// Whether anybody says anything, be it for some nodes alone.
    pub fn is_said(&self) -> bool {
        !self.layers.is_empty() || !self.nodes.is_empty()
    }
}

impl Question<'_> {
    /// Of one release.
    pub fn answer(&self, release: &str) -> anyhow::Result<Answer> {
        let Self { cloud, catalog, path, .. } = *self;
        let layers = layers(release, &cloud.spec, catalog, &cloud.selection, &cloud.facts).map_err(|problems| {
            let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
            anyhow::anyhow!("release {release}: {}", said.join("; "))
        })?;
        let said = layers.iter().rev().filter_map(|layer| self.said(layer, release).transpose());
        let desired = cloud.desired.releases.get(release);
        let value = desired.and_then(|desired| shown(&desired.values, &desired.secret, path));
        Ok(Answer {
            release: release.to_owned(),
            path: path.to_string(),
            above: desired.filter(|_| value.is_none()).and_then(|desired| above(&desired.values, path)),
            value,
            layers: said.collect::<anyhow::Result<_>>()?,
            nodes: self.on_nodes(release)?,
            chart: self.chart(release),
        })
    }

    fn on_nodes(&self, release: &str) -> anyhow::Result<Vec<OnNodes>> {
        let mut found = Vec::new();
        for (entry, layer) in by_node(&self.cloud.spec, release) {
            if let Some(said) = self.said(&layer, release)? {
                found.push(OnNodes { nodes: nodes(entry), said });
            }
        }
        Ok(found)
    }

    fn said(&self, layer: &Layer, release: &str) -> anyhow::Result<Option<Said>> {
        let Some(trace) = trace(std::slice::from_ref(layer), self.path).pop() else { return Ok(None) };
        let unset = layer.unset.iter().find(|(_, unset)| unset.covers(self.path)).map(|(index, _)| *index);
        let written = self.places.of(&layer.origin, release, self.path, unset)?;
        // What a null stands above goes with it.
        let is_removed = matches!(above(&layer.values, self.path), Some(Above::Removed));
        let value = trace.value.or(is_removed.then_some(Value::Null)).map(|value| {
            let removed = value.is_null();
            if removed { value } else { shown(&layer.values, &layer.secret, self.path).unwrap_or(value) }
        });
        let source = written.expression.as_deref().and_then(|expression| self.source(expression));
        Ok(Some(Said { place: written.place, value, why: written.why, expression: written.expression, source }))
    }

    /// The object that an expression takes its value from, where that is neither the spec nor the catalogue.
    fn source(&self, expression: &str) -> Option<String> {
        let of_ceph = || {
            if self.cloud.is_offline {
                return Some("the Ceph of spec.features.storage.ceph".to_owned());
            }
            let known = self.cloud.facts.ceph.as_ref()?.read.as_ref().ok()?;
            Some(format!("Ceph, as {} says", known.source()))
        };
        let credentials = credentials_in(expression).map(|(service, name)| {
            let credential = (service.to_owned(), name.to_owned());
            match given(&self.cloud.spec, &credential) {
                Some(secret) => format!(
                    "Secret {}, key {}, which spec.services.{service}.credentials.{name} names",
                    secret.name, secret.key
                ),
                None => format!("Secret {}, key {name}, made by the operator", secret_name(&self.cloud.name, service)),
            }
        });
        let of_ceph = is_of_ceph(expression).then(of_ceph).flatten();
        let all: Vec<String> = of_ceph.into_iter().chain(credentials).chain(self.secrets(expression)).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// The keys of Secrets that an expression can read: those that the features which it names have.
    fn secrets(&self, expression: &str) -> Vec<String> {
        if !expression.contains("secret(") {
            return Vec::new();
        }
        let is_named = |field: &&SecretField| {
            let feature = field.field.trim_start_matches("spec.features.").split('.').next().unwrap_or_default();
            expression.contains(&format!("features.{feature}."))
        };
        let named = self.cloud.selection.secrets.iter().filter(is_named);
        named.map(|field| format!("Secret {}, key {}, which {} names", field.name, field.key, field.field)).collect()
    }

    fn chart(&self, release: &str) -> Chart {
        let name = self.catalog.release(release).map(|(_, release)| release.chart.clone()).unwrap_or_default();
        if let Some(version) = other_version(&self.cloud.spec, self.catalog, release) {
            return Chart::unknown(name, &format!(" in version {version}"));
        }
        let Some(tree) = self.catalog.keys().get(&name) else { return Chart::unknown(name, "") };
        let found = tree.find(self.path.keys());
        let default = found.and_then(KeyTree::default);
        // Of a text that is long or secret there is nothing to show.
        let is_more = |tree: &&KeyTree| matches!(tree, KeyTree::Map(_) | KeyTree::List(_));
        let outline = found.filter(is_more).filter(|_| default.is_none()).map(KeyTree::outline);
        Chart { default, outline, ..Chart::of(name, &known_in(tree, self.catalog, self.path)) }
    }
}

impl Chart {
    /// One whose keys nobody knows.
    fn unknown(name: String, whose: &str) -> Self {
        let said = format!("its keys{whose} are not known here (name its folder with --charts)");
        Self { name, known: true, has_default: None, said, default: None, outline: None }
    }

    /// One that stands so to the key.
    fn of(name: String, known: &Known) -> Self {
        let (has_default, said) = match known {
            Known::Has(kind) => (Some(true), format!("has the key ({})", kind.name())),
            Known::Read => (Some(false), "reads the key, and has no default".to_owned()),
            Known::Free => (Some(false), "leaves the key to its users".to_owned()),
            Known::No(hint) => (None, format!("has no such key{hint}")),
        };
        Self { name, has_default, known: !matches!(known, Known::No(_)), said, default: None, outline: None }
    }

    /// The same one, now that its files are at hand.
    pub fn read(self, chart: &charts::Chart, catalog: &Catalog, path: &Path) -> anyhow::Result<Self> {
        let defaults = chart.default_values()?;
        let tree: KeyTree = serde_json::from_str(&keys::to_json(&defaults, &chart.reads()?)?)?;
        let default = defaults.as_object().and_then(|defaults| values::get(defaults, path)).cloned();
        Ok(Self { default, ..Self::of(self.name, &known_in(&tree, catalog, path)) })
    }
}

/// The nodes that an entry is for, as people name them.
fn nodes(entry: &NodeOverride) -> String {
    let list = |names: BTreeSet<String>| names.into_iter().collect::<Vec<_>>().join(", ");
    match target(entry) {
        Ok(Target::Hosts(names)) => list(names),
        Ok(Target::Label(key, values)) => format!("{key} in ({})", list(values)),
        Err(_) => entry.name.clone(),
    }
}

/// The value at a path, with everything secret replaced.
fn shown(all: &values::Values, secret: &[Path], path: &Path) -> Option<Value> {
    let value = values::get(all, path)?;
    let hidden = !value.is_null() && secret.iter().any(|hidden| hidden.covers(path));
    if hidden {
        return Some(REDACTED.into());
    }
    values::get(&redacted(all, secret), path).cloned()
}
