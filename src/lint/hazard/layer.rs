//! Checks layers one by one: each user layer against the layers below and above it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::tally::{Tally, Warning};
use super::{Cloud, IDLE, Location, shape, user_field};
use osdpl_core::catalog::{KeyTree, KeyType, entry_name};
use osdpl_core::desired::is_unknown_key_in;
use osdpl_values::{Layer, Origin, Path, Values, get, leaves, merge_layer, merge_layers, trace};

/// The key of a volume claim's access modes.
const ACCESS_MODES: &str = "accessModes";

/// A release with its layers.
pub(super) struct Release<'a> {
    pub name: &'a str,
    /// The layers, from low to high.
    pub layers: &'a [Layer],
    /// The keys of its chart, if they are known.
    pub tree: Option<&'a KeyTree>,
    /// The cloud of the release.
    pub cloud: &'a Cloud<'a>,
}

/// Checks every layer of the user and of additions to the catalogue.
pub(super) fn check(release: &Release<'_>, tally: &mut Tally) {
    let mut below = Values::new();
    for (index, layer) in release.layers.iter().enumerate() {
        if let Some(spot) = release.cloud.spot(&layer.origin) {
            LayerCheck { release, index, layer, below: &below, spot, beside: &[] }.check(tally);
        }
        merge_layer(&mut below, layer.values.clone(), &layer.unset);
    }
}

/// Checks only the last layer, which is for some nodes; `beside` has all layers for some nodes.
pub(super) fn check_last(release: &Release<'_>, beside: &[Layer], tally: &mut Tally) {
    let Some((layer, lower)) = release.layers.split_last() else { return };
    let spot = Location::of_field(layer.origin.to_string());
    LayerCheck { release, index: lower.len(), layer, below: &merge_layers(lower), spot, beside }.check(tally);
}

/// Returns the paths of all parent maps.
fn above(path: &Path) -> impl Iterator<Item = Path> {
    let keys = path.keys();
    (1..keys.len()).map(|length| keys[..length].iter().cloned().collect())
}

/// A layer to check, with its context.
struct LayerCheck<'a> {
    release: &'a Release<'a>,
    index: usize,
    layer: &'a Layer,
    below: &'a Values,
    /// The location of the layer.
    spot: Location,
    /// All layers for some nodes, if this is one of them: on a node that several match, only one applies.
    beside: &'a [Layer],
}

impl LayerCheck<'_> {
    fn check(&self, tally: &mut Tally) {
        let name = self.release.name;
        let set: Vec<(Path, &Value)> =
            leaves(&self.layer.values).into_iter().filter(|(path, _)| !path.keys().is_empty()).collect();
        for path in set.iter().flat_map(|(path, _)| above(path)).collect::<BTreeSet<Path>>() {
            tally.add(self.spot.at(&path), name, self.is_for(&path), self.replaced_by_map(&path));
        }
        for (path, value) in set {
            let warning = self.removed_again(&path).or_else(|| self.find(&path, value));
            tally.add(
                self.spot.at(&path),
                name,
                self.is_for(&path),
                warning.filter(|warning| self.should_report(warning, &path)),
            );
        }
        for (index, path) in &self.layer.unset {
            // If it removes a value of this layer, that value is reported instead.
            let is_own = get(&self.layer.values, path).is_some();
            let warning = self.find(path, &Value::Null).filter(|warning| !(is_own && warning.kind == "null-nothing"));
            let warning = warning.filter(|warning| self.should_report(warning, path));
            tally.add(self.spot.unset(*index, path), name, self.is_for(path), warning);
        }
    }

    /// Whether to report a warning about a missing effect: an addition may have an effect in other clouds, and an entry
    /// for some nodes where another entry would apply otherwise.
    fn should_report(&self, warning: &Warning, path: &Path) -> bool {
        let own = get(&self.layer.values, path);
        let agrees =
            |other: &Layer| trace(std::slice::from_ref(other), path).iter().all(|trace| trace.value.as_ref() == own);
        !IDLE.contains(&warning.kind) || self.spot.stands().is_none() && self.beside.iter().all(agrees)
    }

    /// Whether the release's chart or a layer below knows the path: common values are not meant for every release.
    fn is_for(&self, path: &Path) -> bool {
        let Release { tree, cloud, .. } = self.release;
        if self.spot.stands().is_none() && self.spot.field.starts_with("spec.common") {
            let is_known = |tree: &KeyTree| !is_unknown_key_in(tree, cloud.catalog, path);
            return tree.is_none_or(is_known) || get(self.below, path).is_some();
        }
        let first = &path.keys()[..1];
        tree.is_none_or(|tree| tree.find(first).is_some())
            || get(self.below, &first.iter().cloned().collect()).is_some()
    }

    fn find(&self, path: &Path, value: &Value) -> Option<Warning> {
        self.shadowed(path)
            .or_else(|| self.repeated(path, value))
            .or_else(|| self.empty(path, value))
            .or_else(|| self.credential(path, value))
            .or_else(|| self.changed(path, value))
    }

    /// Reports a value that an `unset` of the same layer removes afterwards.
    fn removed_again(&self, path: &Path) -> Option<Warning> {
        let (index, _) = self.layer.unset.iter().find(|(_, unset)| unset.covers(path))?;
        let unset = self.spot.unset(*index, path).field;
        let message = format!("is never used: {unset} removes it again; take one of the two out");
        Some(Warning { kind: "no-effect", message })
    }

    /// Reports a value that a later layer of the user overrides.
    fn shadowed(&self, path: &Path) -> Option<Warning> {
        let above = self.release.layers[self.index + 1..].iter().filter(|layer| user_field(&layer.origin).is_some());
        let above: Vec<Layer> = above.cloned().collect();
        let trace =
            trace(&above, path).into_iter().find(|trace| !trace.value.as_ref().is_some_and(Value::is_object))?;
        let message =
            format!("is never used: {} sets it as well and comes later; take one of the two out", trace.origin);
        Some(Warning { kind: "no-effect", message })
    }

    /// Reports a value that a layer below sets already.
    fn repeated(&self, path: &Path, value: &Value) -> Option<Warning> {
        let Some(holds) = get(self.below, path) else { return self.is_default(path, value) };
        let is_empty = value.as_object().is_some_and(serde_json::Map::is_empty);
        if holds != value && !(is_empty && holds.is_object()) {
            return None;
        }
        let origin = self.winner(path)?;
        if let Origin::File { file, .. } = origin
            && let Some(preset) = file.strip_prefix("presets/").and_then(|file| file.strip_suffix(".yaml"))
            && self.release.cloud.spec.presets.iter().any(|name| name == preset)
        {
            let message = format!(
                "repeats what the preset {preset} of this spec sets, and will hide what later versions of it set; take it out"
            );
            return Some(Warning { kind: "preset-repeated", message });
        }
        let origin = self.release.cloud.called(origin);
        Some(Warning {
            kind: "no-effect",
            message: format!("changes nothing: {origin} sets the same value; take it out"),
        })
    }

    /// Reports a value that is the chart's default, unless a layer below removes that.
    fn is_default(&self, path: &Path, value: &Value) -> Option<Warning> {
        let is_kept = |above: Path| get(self.below, &above).is_none_or(Value::is_object);
        let default = self.release.tree?.find(path.keys())?;
        let message = if value.as_object().is_some_and(serde_json::Map::is_empty)
            && default.key_type() == Some(KeyType::Map)
        {
            "changes nothing: helm merges maps, and an empty one leaves the chart's as it is; take it out, or remove keys with `unset`"
        } else if default.default()? == *value {
            "changes nothing: the chart's own values are the same; take it out, so that later versions of the chart may change it"
        } else {
            return None;
        };
        above(path).all(is_kept).then(|| Warning { kind: "no-effect", message: message.into() })
    }

    /// Reports a value that replaces a credential which other places use as well.
    fn credential(&self, path: &Path, value: &Value) -> Option<Warning> {
        // A URL is about another server as a whole.
        let text = value.as_str().filter(|text| !text.is_empty() && !text.contains("://"))?;
        let trace = trace(&self.release.layers[..self.index], path).into_iter().next()?;
        let given = trace.value.as_ref()?.as_str().filter(|given| *given != text)?;
        if !matches!(trace.origin, Origin::File { .. }) || !trace.secret {
            return None;
        }
        let (service, name) = self.release.cloud.credential(given)?;
        let other = self.other_use(given, path)?;
        let message = format!(
            "replaces the credential {name} of {service} only here, and {other} keeps using the original one; name a Secret with it in \
             `spec.services.{service}.credentials.{name}`, or take it out"
        );
        Some(Warning { kind: "contradiction", message })
    }

    /// Returns another value that contains the credential, alone or in a longer text such as a URL.
    fn other_use(&self, given: &str, path: &Path) -> Option<String> {
        let Release { name, cloud, .. } = self.release;
        let uses = |value: &Value| value.as_str().is_some_and(|text| text.contains(given));
        cloud.values.iter().find_map(|(release, values)| {
            let is_another = |at: &Path| release != name || at != path;
            let (at, _) = leaves(values).into_iter().find(|(at, value)| uses(value) && is_another(at))?;
            Some(format!("{release} ({at})"))
        })
    }

    /// Reports a map that replaces another kind of value.
    fn replaced_by_map(&self, path: &Path) -> Option<Warning> {
        let value = get(&self.layer.values, path)?;
        shape::changed(path, value, self.replaced_value(path, value), self.release.tree)
    }

    /// Returns the value that is replaced; `None` if that was an override of the wrong kind, and the new value has the
    /// kind of the chart's default.
    fn replaced_value(&self, path: &Path, value: &Value) -> Option<&Value> {
        let Release { tree, cloud, .. } = self.release;
        let holds = get(self.below, path).filter(|holds| !holds.is_null())?;
        let is_checked = || self.winner(path).is_some_and(|origin| cloud.spot(origin).is_some());
        let is_as_the_charts = tree.and_then(|tree| tree.find(path.keys()).and_then(KeyTree::key_type)).is_some()
            && shape::changed(path, value, None, *tree).is_none();
        let is_mistaken = || shape::changed(path, holds, None, *tree).is_some();
        (!(is_as_the_charts && is_mistaken() && is_checked())).then_some(holds)
    }

    /// Reports a null that removes nothing, or a whole map.
    fn empty(&self, path: &Path, value: &Value) -> Option<Warning> {
        let tree = self.release.tree?;
        if value.is_null()
            && let Some(warning) = shape::removed(path, tree)
        {
            return Some(warning);
        }
        let is_nothing = value.is_null() && get(self.below, path).is_none() && tree.find(path.keys()).is_none();
        // An unknown top-level key is reported as such elsewhere.
        let message =
            "removes nothing: neither the chart nor a layer below has this key; correct the path, or take it out";
        is_nothing.then(|| Warning { kind: "null-nothing", message: message.into() })
    }

    /// Reports a value that has another kind, or that hides or drops something.
    fn changed(&self, path: &Path, value: &Value) -> Option<Warning> {
        if value.is_null() {
            return None;
        }
        let holds = self.replaced_value(path, value);
        if let Some(warning) = shape::changed(path, value, holds, self.release.tree) {
            return Some(warning);
        }
        value.as_array().and_then(|after| self.replaced_list(path, holds, after))
    }

    /// Reports a list that replaces one of a layer below or of the chart and drops entries.
    fn replaced_list(&self, path: &Path, holds: Option<&Value>, after: &[Value]) -> Option<Warning> {
        // Access modes are alternatives, not entries to merge.
        if path.keys().last().is_some_and(|key| key == ACCESS_MODES) {
            return None;
        }
        let (lost, whose): (Vec<String>, _) = match (holds, self.release.tree.and_then(|tree| tree.find(path.keys()))) {
            (Some(Value::Array(before)), _) => {
                let lost = before.iter().filter(|item| !after.contains(item)).map(entry_name);
                (lost.collect(), self.release.cloud.called(self.winner(path)?))
            }
            (None, Some(KeyTree::List(before))) => {
                let after: Vec<String> = after.iter().map(entry_name).collect();
                let lost = before.iter().map(ToString::to_string).filter(|name| !after.contains(name));
                (lost.collect(), "the chart".to_owned())
            }
            _ => return None,
        };
        let names = if self.is_secret(path) { format!("{} entries", lost.len()) } else { shape::few(&lost) };
        (!lost.is_empty()).then(|| Warning {
            kind: "list-replaced",
            message: format!(
                "replaces the list of {whose}, because helm merges maps and never lists: this drops {names}; repeat here the entries to keep"
            ),
        })
    }

    fn winner(&self, path: &Path) -> Option<&Origin> {
        trace(&self.release.layers[..self.index], path).first().map(|trace| trace.origin)
    }

    fn is_secret(&self, path: &Path) -> bool {
        let layers = &self.release.layers[..self.index];
        let secret = layers.iter().chain([self.layer]).flat_map(|layer| &layer.secret);
        secret.into_iter().any(|hidden| hidden.covers(path) || path.covers(hidden))
    }
}
