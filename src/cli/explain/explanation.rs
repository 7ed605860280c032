//! Explains one value of a release: the layers that set it, and the chart's default.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::Cloud;
use super::locations::{LocationFinder, ValueLocation};
use super::service_option::{OptionExplanation, explain_option};
use crate::parent_effect::{ParentEffect, parent_effect};
use osdpl_core::api::NodeOverride;
use osdpl_core::catalog::{Catalog, KeyTree, SecretField, credentials_in};
use osdpl_core::ceph::uses_ceph;
use osdpl_core::credentials::{secret_name, user_secret};
use osdpl_core::desired::{
    KeyState, NodeTarget, classify_key_in, layers, list_node_layers, overridden_chart_version, parse_target, redact,
};
use osdpl_operator::charts::{self, keys};
use osdpl_values::{self as values, Layer, Path, trace};

/// The string that osdpl shows instead of a secret.
const REDACTED: &str = "<redacted>";

/// The input of an explanation: the cloud, the catalogue, and the path of the value that the user asks about.
pub(crate) struct Query<'a> {
    pub cloud: &'a Cloud,
    pub catalog: &'a Catalog,
    pub locations: &'a LocationFinder<'a>,
    pub path: &'a Path,
}

/// The explanation of a value of a release.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Explanation {
    pub release: String,
    pub path: String,
    /// The value that osdpl passes to helm, with `<redacted>` in place of each secret; absent if osdpl passes no value
    /// for the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// Why the chart's default does not apply either. Present only if the release has no value at the path, because a
    /// layer sets a parent key to null, or to a value that is not a map.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub above: Option<ParentEffect>,
    /// All layers that set the value. The first layer overrides all others.
    pub layers: Vec<LayerValue>,
    /// The values that `spec.nodes.overrides` sets for some nodes only, in the order of the spec.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<OnNodes>,
    pub chart: Chart,
    /// The facts that osdpl knows about the value as an option of a service; absent if the value is no option.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub option: Option<OptionExplanation>,
    /// One line for each placeholder that the value may contain: it names the fact that osdpl can't know without a
    /// cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub placeholders: Vec<String>,
}

/// The value that one entry of `spec.nodes.overrides` sets.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OnNodes {
    /// The nodes for which this entry of `spec.nodes.overrides` sets the value: node names, or a label and its values.
    pub nodes: String,
    #[serde(flatten)]
    pub layer: LayerValue,
}

/// The value that one layer sets.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LayerValue {
    /// The location at which the layer sets the value: a file, line and field such as
    /// `values/services/nova.yaml:88 (releases.nova.values)`, or a field of the `OpenStackDeployment`.
    pub location: String,
    /// The value that the layer sets; absent if the layer sets a parent key to a value other than a map or null.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The catalogue's reason for the value; absent if the catalogue states none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The CEL expression in the catalogue that computes the value; absent if the catalogue contains the value itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,
    /// The Secrets or Ceph settings that `expression` reads; absent if it reads only the spec and the catalogue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// The content of the chart at the explained path.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Chart {
    pub name: String,
    /// Whether the path is valid for the chart: the chart has a default there, its templates read the key, or it
    /// accepts any key there. Also true if osdpl does not know the chart's keys.
    pub known: bool,
    /// Whether the chart has a default for the key; `None` if the chart has no such key, or if osdpl does not know the
    /// chart's keys.
    #[serde(skip)]
    pub has_default: Option<bool>,
    /// A description of the key in the chart, such as `has the key (number)`. The output shows this text after the
    /// chart's name.
    #[serde(rename = "description")]
    pub description: String,
    /// The chart's default. Absent if the chart has none, or if the catalogue's key tree contains only a part of it.
    /// With `--charts`, osdpl reads the whole default from the chart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// The structure of the chart's default ([`KeyTree::outline`]). Present if the default is a map or list, and the
    /// catalogue's key tree contains only a part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outline: Option<Value>,
}

impl Explanation {
    /// Whether any layer sets the value, for all nodes or only for some.
    pub(crate) fn is_set(&self) -> bool {
        !self.layers.is_empty() || !self.nodes.is_empty()
    }
}

impl Query<'_> {
    /// Explains the value at the query's path in one release.
    pub(crate) fn explain(&self, release: &str) -> anyhow::Result<Explanation> {
        let Self { cloud, catalog, path, .. } = *self;
        let layers = layers(release, &cloud.spec, catalog, &cloud.selection, &cloud.facts).map_err(|problems| {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            anyhow::anyhow!("release {release}: {}", problems.join("; "))
        })?;
        let values = layers.iter().rev().filter_map(|layer| self.layer_value(layer, release).transpose());
        let desired = cloud.desired.releases.get(release);
        let value = desired.and_then(|desired| redacted_value(&desired.values, &desired.secret, path));
        Ok(Explanation {
            release: release.to_owned(),
            path: path.to_string(),
            above: desired.filter(|_| value.is_none()).and_then(|desired| parent_effect(&desired.values, path)),
            value,
            layers: values.collect::<anyhow::Result<_>>()?,
            nodes: self.on_nodes(release)?,
            option: self.option(release),
            chart: self.chart(release),
            placeholders: cloud.placeholders.clone(),
        })
    }

    fn on_nodes(&self, release: &str) -> anyhow::Result<Vec<OnNodes>> {
        let mut found = Vec::new();
        for (entry, layer) in list_node_layers(&self.cloud.spec, release) {
            if let Some(value) = self.layer_value(&layer, release)? {
                found.push(OnNodes { nodes: nodes(entry), layer: value });
            }
        }
        Ok(found)
    }

    fn layer_value(&self, layer: &Layer, release: &str) -> anyhow::Result<Option<LayerValue>> {
        let Some(trace) = trace(std::slice::from_ref(layer), self.path).pop() else { return Ok(None) };
        let unset = layer.unset.iter().find(|(_, unset)| unset.covers(self.path)).map(|(index, _)| *index);
        let location = self.locations.find(&layer.origin, release, self.path, unset)?;
        // A layer that sets a parent key of the path to null removes the value at the path. So show null as the value
        // that the layer sets.
        let is_removed = matches!(parent_effect(&layer.values, self.path), Some(ParentEffect::Removed));
        let value = trace.value.or(is_removed.then_some(Value::Null)).map(|value| {
            let removed = value.is_null();
            if removed { value } else { redacted_value(&layer.values, &layer.secret, self.path).unwrap_or(value) }
        });
        let source = location.expression.as_deref().and_then(|expression| self.source(expression));
        let ValueLocation { location, why, expression } = location;
        Ok(Some(LayerValue { location, value, why, expression, source }))
    }

    /// Describes the Secrets or the Ceph settings that an expression reads. Returns `None` if it reads only the spec
    /// and the catalogue.
    fn source(&self, expression: &str) -> Option<String> {
        let credentials = credentials_in(expression).map(|(service, name)| {
            let credential = (service.to_owned(), name.to_owned());
            match user_secret(&self.cloud.spec, &credential) {
                Some(secret) => format!(
                    "Secret {}, key {}, referenced by spec.services.{service}.credentials.{name}",
                    secret.name, secret.key
                ),
                None => {
                    format!("Secret {}, key {name}, generated by the operator", secret_name(&self.cloud.name, service))
                }
            }
        });
        let of_ceph = uses_ceph(expression).then(|| self.ceph_source(expression)).flatten();
        let all: Vec<String> = of_ceph.into_iter().chain(credentials).chain(self.secrets(expression)).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Describes the source of the Ceph settings that an expression reads. Returns `None` if osdpl does not have these
    /// settings.
    fn ceph_source(&self, expression: &str) -> Option<String> {
        let Cloud { selection, facts, .. } = self.cloud;
        let is_published = || selection.object_store().is_some_and(|store| store.public_url().is_some());
        if expression.contains("ceph.rgw.public.") && is_published() {
            return Some("spec.features.storage.ceph.objectStore.publicUrl".to_owned());
        }
        let settings = facts.ceph.as_ref()?.settings.as_ref().ok()?;
        Some(format!("Ceph, as described by {}", settings.source()))
    }

    /// Describes the keys of Secrets that an expression can read with the CEL function `secret`. Does not evaluate the
    /// expression. Instead, describes, for each feature whose name the expression contains, all Secret keys to which
    /// the fields of the feature refer.
    fn secrets(&self, expression: &str) -> Vec<String> {
        if !expression.contains("secret(") {
            return Vec::new();
        }
        let is_used = |field: &&SecretField| {
            let feature = field.field.trim_start_matches("spec.features.").split('.').next().unwrap_or_default();
            expression.contains(&format!("features.{feature}."))
        };
        let used = self.cloud.selection.secrets.iter().filter(is_used);
        used.map(|field| format!("Secret {}, key {}, referenced by {}", field.name, field.key, field.field)).collect()
    }

    fn option(&self, release: &str) -> Option<OptionExplanation> {
        let (_, entry) = self.catalog.release(release)?;
        explain_option(self.catalog, &entry.chart, self.path, &self.cloud.spec.openstack_release)
    }

    fn chart(&self, release: &str) -> Chart {
        let name = self.catalog.release(release).map(|(_, release)| release.chart.clone()).unwrap_or_default();
        if let Some(version) = overridden_chart_version(&self.cloud.spec, self.catalog, release) {
            return Chart::unknown(name, &format!(" in version {version}"));
        }
        let Some(tree) = self.catalog.keys().get(&name) else { return Chart::unknown(name, "") };
        let found = tree.find(self.path.keys());
        let default = found.and_then(KeyTree::default);
        // An outline lists the entries of a map or list. Other values, such as long or secret texts, have no outline.
        let has_entries = |tree: &&KeyTree| matches!(tree, KeyTree::Map(_) | KeyTree::List(_));
        let outline = found.filter(has_entries).filter(|_| default.is_none()).map(KeyTree::outline);
        Chart { default, outline, ..Chart::with_key(name, &classify_key_in(tree, self.catalog, self.path)) }
    }
}

impl Chart {
    /// Describes a chart whose keys osdpl does not know. If the spec selects a version that the catalogue's lock
    /// (`values/lock.yaml`) does not pin, `suffix` names this version.
    fn unknown(name: String, suffix: &str) -> Self {
        let description = format!("has keys that osdpl does not know{suffix}; name the chart's folder with --charts");
        Self { name, known: true, has_default: None, description, default: None, outline: None }
    }

    /// Describes a chart, and says whether it has, reads or accepts the explained key.
    fn with_key(name: String, key: &KeyState) -> Self {
        let (has_default, description) = match key {
            KeyState::Has(kind) => (Some(true), format!("has the key ({})", kind.name())),
            KeyState::Read => (Some(false), "reads the key, and has no default".to_owned()),
            KeyState::Free => (Some(false), "accepts any key here".to_owned()),
            KeyState::No(hint) => (None, format!("has no such key{hint}")),
        };
        Self { name, has_default, known: !matches!(key, KeyState::No(_)), description, default: None, outline: None }
    }

    /// Reads the key and its default from the files of the chart. The catalogue's key tree is not enough, because it
    /// lacks long defaults.
    pub(crate) fn read(self, chart: &charts::Chart, catalog: &Catalog, path: &Path) -> anyhow::Result<Self> {
        let defaults = chart.default_values()?;
        let tree: KeyTree = serde_json::from_str(&keys::to_json(&defaults, &chart.reads()?)?)?;
        let default = defaults.as_object().and_then(|defaults| values::get(defaults, path)).cloned();
        Ok(Self { default, ..Self::with_key(self.name, &classify_key_in(&tree, catalog, path)) })
    }
}

/// Describes which nodes an entry of `spec.nodes.overrides` selects, by node names or by a label.
fn nodes(entry: &NodeOverride) -> String {
    let list = |names: BTreeSet<String>| names.into_iter().collect::<Vec<_>>().join(", ");
    match parse_target(entry) {
        Ok(NodeTarget::Hosts(names)) => list(names),
        Ok(NodeTarget::Label(key, values)) => format!("{key} in ({})", list(values)),
        Err(_) => entry.name.clone(),
    }
}

/// Returns the value at `path`, with `<redacted>` in place of every secret.
fn redacted_value(all: &values::Values, secret: &[Path], path: &Path) -> Option<Value> {
    let value = values::get(all, path)?;
    let hidden = !value.is_null() && secret.iter().any(|hidden| hidden.covers(path));
    if hidden {
        return Some(REDACTED.into());
    }
    values::get(&redact(all, secret), path).cloned()
}
