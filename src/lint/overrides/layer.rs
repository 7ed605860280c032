//! Checks each layer of the user and of additions to the catalogue. The check compares the layer's values with the
//! values of lower and higher layers.

use serde_json::Value;

use super::types;
use super::warnings::{Warning, Warnings};
use crate::cloud::{Cloud, Location, user_field};
use osdpl_core::catalog::{KeyTree, KeyType, entry_name};
use osdpl_core::desired::is_unknown_key_in;
use osdpl_values::{CollectSorted, Layer, Origin, Path, Values, get, leaves, merge_layer, merge_layers, trace};

/// The key of a volume claim's access modes.
const ACCESS_MODES: &str = "accessModes";

/// A release with its layers.
pub(super) struct Release<'a> {
    pub name: &'a str,
    /// The layers, from low to high precedence.
    pub layers: &'a [Layer],
    /// The keys of the release's chart; `None` if osdpl does not know the keys.
    pub chart_keys: Option<&'a KeyTree>,
    /// The data that rules check, which includes the layers of all releases.
    pub cloud: &'a Cloud<'a>,
}

/// Checks the layers of a release that come from the user or from an addition to the catalogue.
pub(super) fn check(release: &Release<'_>, warnings: &mut Warnings) {
    let mut below = Values::new();
    for (index, layer) in release.layers.iter().enumerate() {
        if let Some(location) = release.cloud.layer_location(&layer.origin) {
            LayerCheck { release, index, layer, below: &below, location, node_layers: &[] }.check(warnings);
        }
        merge_layer(&mut below, layer.values.clone(), &layer.unset);
    }
}

/// Checks only the last layer in `release`, which contains the values of one entry of `spec.nodes.overrides`.
///
/// `node_layers` contains one layer for each entry.
pub(super) fn check_node_layer(release: &Release<'_>, node_layers: &[Layer], warnings: &mut Warnings) {
    let Some((layer, lower)) = release.layers.split_last() else { return };
    let location = Location::of_field(layer.origin.to_string());
    let below = merge_layers(lower);
    LayerCheck { release, index: lower.len(), layer, below: &below, location, node_layers }.check(warnings);
}

/// Returns the paths of the maps above the value at `path`. For `a.b.c`, these are `a` and `a.b`.
fn parents(path: &Path) -> impl Iterator<Item = Path> {
    let keys = path.keys();
    (1..keys.len()).map(|length| keys[..length].iter().cloned().collect())
}

/// The check of one layer of a release against the release's other layers and its chart.
struct LayerCheck<'a> {
    release: &'a Release<'a>,
    index: usize,
    layer: &'a Layer,
    /// The merged values of the layers below `layer`.
    below: &'a Values,
    /// The location at which the user or an addition to the catalogue sets the values of `layer`. Warnings name this
    /// location.
    location: Location,
    /// The layers of all entries of `spec.nodes.overrides`, if `layer` belongs to one of these entries; otherwise
    /// empty.
    ///
    /// [`Self::should_report`] needs all these layers: a value without an effect on the release's values may still
    /// override the value of another entry.
    node_layers: &'a [Layer],
}

impl LayerCheck<'_> {
    fn check(&self, warnings: &mut Warnings) {
        let mut add = |location: Location, path: &Path, warning: Option<Warning>| {
            if self.is_for_release(path) {
                warnings.add(location, self.release.name, warning);
            }
        };
        let set: Vec<(Path, &Value)> =
            leaves(&self.layer.values).into_iter().filter(|(path, _)| !path.keys().is_empty()).collect();
        for path in set.iter().flat_map(|(path, _)| parents(path)).collect_set() {
            add(self.location.child(&path), &path, self.replaced_by_map(&path));
        }
        for (path, value) in set {
            let warning = self.removed_again(&path).or_else(|| self.check_value(&path, value));
            add(self.location.child(&path), &path, warning.filter(|warning| self.should_report(warning, &path)));
        }
        for (index, path) in &self.layer.unset {
            // If `unset` names a path that the same layer sets, `removed_again` has already reported the path. So drop
            // the warning `null-nothing` about it.
            let is_own = get(&self.layer.values, path).is_some();
            let warning = self.check_value(path, &Value::Null);
            let warning = warning.filter(|warning| !(is_own && warning.kind == "null-nothing"));
            let warning = warning.filter(|warning| self.should_report(warning, path));
            add(self.location.unset_entry(*index, path), path, warning);
        }
    }

    /// Whether to report a warning.
    ///
    /// In two cases, the function rejects a warning that a value has no effect:
    ///
    /// * The value comes from an addition to the catalogue. In other clouds, the value can have an effect.
    /// * The value is in an entry of `spec.nodes.overrides`, and another entry sets a different value at the same path.
    ///   If a node matches both entries, the value can override the value of the other entry.
    fn should_report(&self, warning: &Warning, path: &Path) -> bool {
        let own = get(&self.layer.values, path);
        let agrees =
            |other: &Layer| trace(std::slice::from_ref(other), path).iter().all(|trace| trace.value.as_ref() == own);
        !warning.is_without_effect() || self.location.addition().is_none() && self.node_layers.iter().all(agrees)
    }

    /// Whether the value at `path` is meant for this release: a layer for many releases can contain values that only
    /// other releases use.
    ///
    /// The result is `true` if the release's chart or a lower layer contains the first key of the path. For a value in
    /// `spec.common`, which applies to every release, the chart or a lower layer must contain the whole path.
    fn is_for_release(&self, path: &Path) -> bool {
        let Release { chart_keys, cloud, .. } = self.release;
        if self.location.addition().is_none() && self.location.field.starts_with("spec.common") {
            let is_known = |keys: &KeyTree| !is_unknown_key_in(keys, cloud.catalog, path);
            return chart_keys.is_none_or(is_known) || get(self.below, path).is_some();
        }
        let first = &path.keys()[..1];
        chart_keys.is_none_or(|keys| keys.find(first).is_some())
            || get(self.below, &first.iter().cloned().collect()).is_some()
    }

    fn check_value(&self, path: &Path, value: &Value) -> Option<Warning> {
        self.overridden(path)
            .or_else(|| self.repeated(path, value))
            .or_else(|| self.null(path, value))
            .or_else(|| self.credential(path, value))
            .or_else(|| self.changed(path, value))
    }

    /// Reports a value if `unset` in the same layer removes the value again.
    fn removed_again(&self, path: &Path) -> Option<Warning> {
        let (index, _) = self.layer.unset.iter().find(|(_, unset)| unset.covers(path))?;
        let unset = self.location.unset_entry(*index, path).field;
        let message = format!("is never used: {unset} removes it again; remove one of the two");
        Some(Warning { kind: "no-effect", message })
    }

    /// Reports a value that has no effect, because a higher layer of the user overrides it.
    fn overridden(&self, path: &Path) -> Option<Warning> {
        let later = self.release.layers[self.index + 1..].iter().filter(|layer| user_field(&layer.origin).is_some());
        let later: Vec<Layer> = later.cloned().collect();
        let trace =
            trace(&later, path).into_iter().find(|trace| !trace.value.as_ref().is_some_and(Value::is_object))?;
        let message = format!("is never used: {} overrides it; remove one of the two", trace.origin);
        Some(Warning { kind: "no-effect", message })
    }

    /// Reports a value that changes nothing: it equals the value of the layers below, or the chart's default.
    fn repeated(&self, path: &Path, value: &Value) -> Option<Warning> {
        let Some(current) = get(self.below, path) else { return self.chart_default(path, value) };
        let is_empty = value.as_object().is_some_and(serde_json::Map::is_empty);
        if current != value && !(is_empty && current.is_object()) {
            return None;
        }
        let origin = self.origin_below(path)?;
        if let Origin::File { file, .. } = origin
            && let Some(preset) = file.strip_prefix("presets/").and_then(|file| file.strip_suffix(".yaml"))
            && self.release.cloud.spec.presets.iter().any(|name| name == preset)
        {
            let message = format!(
                "repeats a value of the preset {preset} of this spec, so later changes of the preset have no effect; remove this value"
            );
            return Some(Warning { kind: "preset-repeated", message });
        }
        let origin = self.release.cloud.describe_layer(origin);
        Some(Warning {
            kind: "no-effect",
            message: format!("changes nothing: {origin} sets the same value; remove this value"),
        })
    }

    /// Reports a value that equals the chart's default. Reports nothing if a lower layer removes or replaces a map with
    /// this default, because then the value restores the default.
    fn chart_default(&self, path: &Path, value: &Value) -> Option<Warning> {
        let is_kept = |parent: Path| get(self.below, &parent).is_none_or(Value::is_object);
        let default = self.release.chart_keys?.find(path.keys())?;
        let message = if value.as_object().is_some_and(serde_json::Map::is_empty)
            && default.key_type() == Some(KeyType::Map)
        {
            "changes nothing: helm merges maps, so an empty map keeps the chart's values; remove the empty map, or remove keys with `unset`"
        } else if default.default()? == *value {
            "changes nothing: the chart has the same default; remove the value, so that later versions of the chart can change the default"
        } else {
            return None;
        };
        parents(path).all(is_kept).then(|| Warning { kind: "no-effect", message: message.into() })
    }

    /// Reports a value that replaces a credential in one place, although another value of the cloud still contains the
    /// credential.
    fn credential(&self, path: &Path, value: &Value) -> Option<Warning> {
        // Ignore a URL: with a URL, the user replaces the whole connection to a server, including its credential.
        let text = value.as_str().filter(|text| !text.is_empty() && !text.contains("://"))?;
        let trace = trace(&self.release.layers[..self.index], path).into_iter().next()?;
        let replaced = trace.value.as_ref()?.as_str().filter(|replaced| *replaced != text)?;
        if !matches!(trace.origin, Origin::File { .. }) || !trace.secret {
            return None;
        }
        let (service, name) = self.release.cloud.credential(replaced)?;
        let other = self.other_use(replaced, path)?;
        let message = format!(
            "replaces the credential {name} of {service} only here, and {other} still uses the original credential; \
             put the new credential into a Secret that `spec.services.{service}.credentials.{name}` references, or \
             remove this value"
        );
        Some(Warning { kind: "contradiction", message })
    }

    /// Returns the release and path of another value that contains the credential, alone or in a longer string such as
    /// a URL.
    fn other_use(&self, credential: &str, path: &Path) -> Option<String> {
        let Release { name, cloud, .. } = self.release;
        let uses = |value: &Value| value.as_str().is_some_and(|text| text.contains(credential));
        cloud.values.iter().find_map(|(release, values)| {
            let is_other = |other: &Path| release != name || other != path;
            let (other, _) = leaves(values).into_iter().find(|(other, value)| uses(value) && is_other(other))?;
            Some(format!("{release} ({other})"))
        })
    }

    /// Reports a map that replaces a value that is not a map.
    fn replaced_by_map(&self, path: &Path) -> Option<Warning> {
        let value = get(&self.layer.values, path)?;
        types::check_type(path, value, self.replaced_value(path, value), self.release.chart_keys)
    }

    /// Returns the value of the lower layers that `value` replaces. The caller compares the types of the two values.
    ///
    /// Returns `None` if `value` corrects a mistake: the replaced value is an override with another type than the
    /// chart's default, and `value` has the type of this default.
    fn replaced_value(&self, path: &Path, value: &Value) -> Option<&Value> {
        let Release { chart_keys, cloud, .. } = self.release;
        let current = get(self.below, path).filter(|current| !current.is_null())?;
        let is_checked = || self.origin_below(path).is_some_and(|origin| cloud.layer_location(origin).is_some());
        let has_chart_type = chart_keys.and_then(|keys| keys.find(path.keys()).and_then(KeyTree::key_type)).is_some()
            && types::check_type(path, value, None, *chart_keys).is_none();
        let has_wrong_type = || types::check_type(path, current, None, *chart_keys).is_some();
        (!(has_chart_type && has_wrong_type() && is_checked())).then_some(current)
    }

    /// Reports a null that removes nothing, or that removes a whole map of the chart's defaults.
    fn null(&self, path: &Path, value: &Value) -> Option<Warning> {
        let chart_keys = self.release.chart_keys?;
        if value.is_null()
            && let Some(warning) = types::check_removed_map(path, chart_keys)
        {
            return Some(warning);
        }
        // If the first key of the path is unknown, the rule `unknown-key` already reports the null. This function
        // returns a warning nevertheless, but `check` drops it (see `is_for_release`).
        let removes_nothing =
            value.is_null() && get(self.below, path).is_none() && chart_keys.find(path.keys()).is_none();
        let message = "removes nothing: neither the chart nor a layer below has this key; correct or remove the path";
        removes_nothing.then(|| Warning { kind: "null-nothing", message: message.into() })
    }

    /// Reports a value that has another type than the value that it replaces, or a list that drops entries of the
    /// replaced list.
    fn changed(&self, path: &Path, value: &Value) -> Option<Warning> {
        if value.is_null() {
            return None;
        }
        let replaced = self.replaced_value(path, value);
        if let Some(warning) = types::check_type(path, value, replaced, self.release.chart_keys) {
            return Some(warning);
        }
        value.as_array().and_then(|list| self.replaced_list(path, replaced, list))
    }

    /// Reports a list that replaces a list of a lower layer or of the chart, but lacks entries of the replaced list.
    fn replaced_list(&self, path: &Path, replaced: Option<&Value>, list: &[Value]) -> Option<Warning> {
        // Do not warn about the access modes of a volume claim: the entries of this list are alternatives, so the user
        // means to replace the whole list.
        if path.keys().last().is_some_and(|key| key == ACCESS_MODES) {
            return None;
        }
        let chart_value = self.release.chart_keys.and_then(|keys| keys.find(path.keys()));
        let (dropped, source): (Vec<String>, _) = match (replaced, chart_value) {
            (Some(Value::Array(before)), _) => {
                let dropped = before.iter().filter(|item| !list.contains(item)).map(entry_name);
                (dropped.collect(), self.release.cloud.describe_layer(self.origin_below(path)?))
            }
            (None, Some(KeyTree::List(before))) => {
                let list: Vec<String> = list.iter().map(entry_name).collect();
                let dropped = before.iter().map(ToString::to_string).filter(|name| !list.contains(name));
                (dropped.collect(), "the chart".to_owned())
            }
            _ => return None,
        };
        let names =
            if self.is_secret(path) { format!("{} entries", dropped.len()) } else { types::join_first(&dropped) };
        (!dropped.is_empty()).then(|| Warning {
            kind: "list-replaced",
            message: format!(
                "replaces the list of {source} and drops {names}, because helm merges maps but not lists; repeat the entries that must stay"
            ),
        })
    }

    /// Returns the origin of the value at `path` in the layers below the checked layer; `None` if these layers do not
    /// set the value.
    fn origin_below(&self, path: &Path) -> Option<&Origin> {
        trace(&self.release.layers[..self.index], path).first().map(|trace| trace.origin)
    }

    fn is_secret(&self, path: &Path) -> bool {
        let layers = &self.release.layers[..self.index];
        let mut secret = layers.iter().chain([self.layer]).flat_map(|layer| &layer.secret);
        secret.any(|hidden| hidden.covers(path) || path.covers(hidden))
    }
}
