//! What is judged layer by layer: each of the user's over what lies below it and under what lies above.

use std::collections::BTreeSet;

use serde_json::Value;

use super::tally::{Said, Tally};
use super::{Cloud, IDLE, Spot, place, shape};
use osdpl_core::catalog::{KeyTree, KeyType, entry_name};
use osdpl_core::desired::is_unknown_in;
use osdpl_values::{Layer, Origin, Path, Values, fold, get, lay, leaves, trace};

/// The list of a volume claim's modes.
const ACCESS_MODES: &str = "accessModes";

/// One release.
pub(super) struct Release<'a> {
    pub name: &'a str,
    /// Low to high.
    pub layers: &'a [Layer],
    /// The keys of its chart, where they are known.
    pub tree: Option<&'a KeyTree>,
    /// The cloud that it is part of.
    pub cloud: &'a Cloud<'a>,
}

/// Judges every layer of somebody's own words.
pub(super) fn judge(release: &Release<'_>, tally: &mut Tally) {
    let mut below = Values::new();
    for (index, layer) in release.layers.iter().enumerate() {
        if let Some(spot) = release.cloud.spot(&layer.origin) {
            Own { release, index, layer, below: &below, spot, beside: &[] }.judge(tally);
        }
        lay(&mut below, layer.values.clone(), &layer.unset);
    }
}

/// Judges the last layer alone, which is for some nodes; `beside` is what is said for some nodes at all.
pub(super) fn judge_last(release: &Release<'_>, beside: &[Layer], tally: &mut Tally) {
    let Some((layer, lower)) = release.layers.split_last() else { return };
    let spot = Spot::of_field(layer.origin.to_string());
    Own { release, index: lower.len(), layer, below: &fold(lower), spot, beside }.judge(tally);
}

/// The paths of the maps in which something stands.
fn above(path: &Path) -> impl Iterator<Item = Path> {
    let keys = path.keys();
    (1..keys.len()).map(|length| keys[..length].iter().cloned().collect())
}

/// One layer of somebody's own words in its place.
struct Own<'a> {
    release: &'a Release<'a>,
    index: usize,
    layer: &'a Layer,
    below: &'a Values,
    /// Where it stands.
    spot: Spot,
    /// All layers for some nodes, where it is one of those: on a node that two of them fit, one alone holds.
    beside: &'a [Layer],
}

impl Own<'_> {
    fn judge(&self, tally: &mut Tally) {
        let name = self.release.name;
        let set: Vec<(Path, &Value)> =
            leaves(&self.layer.values).into_iter().filter(|(path, _)| !path.keys().is_empty()).collect();
        for path in set.iter().flat_map(|(path, _)| above(path)).collect::<BTreeSet<Path>>() {
            tally.add(self.spot.at(&path), name, self.is_for(&path), self.turned(&path));
        }
        for (path, value) in set {
            let said = self.removed(&path).or_else(|| self.said(&path, value));
            tally.add(self.spot.at(&path), name, self.is_for(&path), said.filter(|said| self.tells(said, &path)));
        }
        for (index, path) in &self.layer.unset {
            // What it removes may be this layer's own, which is told of there.
            let is_own = get(&self.layer.values, path).is_some();
            let said = self.said(path, &Value::Null).filter(|said| !(is_own && said.kind == "null-nothing"));
            let said = said.filter(|said| self.tells(said, path));
            tally.add(self.spot.unset(*index, path), name, self.is_for(path), said);
        }
    }

    /// Whether it is to be told: what was added may be for other clouds as well, where something comes of it, and so does of what is said for some nodes
    /// where the values of other entries would hold there.
    fn tells(&self, said: &Said, path: &Path) -> bool {
        let own = get(&self.layer.values, path);
        let agrees =
            |other: &Layer| trace(std::slice::from_ref(other), path).iter().all(|trace| trace.value.as_ref() == own);
        !IDLE.contains(&said.kind) || self.spot.stands().is_none() && self.beside.iter().all(agrees)
    }

    /// Whether the release's chart, or a layer below, has anything to do with the path: what is common to many is not for each.
    fn is_for(&self, path: &Path) -> bool {
        let Release { tree, cloud, .. } = self.release;
        if self.spot.stands().is_none() && self.spot.field.starts_with("spec.common") {
            let is_known = |tree: &KeyTree| !is_unknown_in(tree, cloud.catalog, path);
            return tree.is_none_or(is_known) || get(self.below, path).is_some();
        }
        let first = &path.keys()[..1];
        tree.is_none_or(|tree| tree.find(first).is_some())
            || get(self.below, &first.iter().cloned().collect()).is_some()
    }

    fn said(&self, path: &Path, value: &Value) -> Option<Said> {
        self.shadowed(path)
            .or_else(|| self.repeated(path, value))
            .or_else(|| self.empty(path, value))
            .or_else(|| self.credential(path, value))
            .or_else(|| self.changed(path, value))
    }

    /// Beside the values stands that they are to be removed, and that comes last.
    fn removed(&self, path: &Path) -> Option<Said> {
        let (index, _) = self.layer.unset.iter().find(|(_, unset)| unset.covers(path))?;
        let unset = self.spot.unset(*index, path).field;
        let message = format!("is never used: {unset} removes it again; take one of the two out");
        Some(Said { kind: "no-effect", message })
    }

    /// A later layer of the user's own decides.
    fn shadowed(&self, path: &Path) -> Option<Said> {
        let above = self.release.layers[self.index + 1..].iter().filter(|layer| place(&layer.origin).is_some());
        let above: Vec<Layer> = above.cloned().collect();
        let trace =
            trace(&above, path).into_iter().find(|trace| !trace.value.as_ref().is_some_and(Value::is_object))?;
        let message =
            format!("is never used: {} sets it as well and comes later; take one of the two out", trace.origin);
        Some(Said { kind: "no-effect", message })
    }

    /// The same holds below already.
    fn repeated(&self, path: &Path, value: &Value) -> Option<Said> {
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
            return Some(Said { kind: "preset-repeated", message });
        }
        let origin = self.release.cloud.called(origin);
        Some(Said { kind: "no-effect", message: format!("changes nothing: {origin} says the same; take it out") })
    }

    /// The chart says the same, and no layer below takes that away.
    fn is_default(&self, path: &Path, value: &Value) -> Option<Said> {
        let is_kept = |above: Path| get(self.below, &above).is_none_or(Value::is_object);
        let default = self.release.tree?.find(path.keys())?;
        let message = if value.as_object().is_some_and(serde_json::Map::is_empty)
            && default.kind() == Some(KeyType::Map)
        {
            "changes nothing: helm merges maps, and an empty one leaves the chart's as it is; take it out, or remove keys with `unset`"
        } else if default.default()? == *value {
            "changes nothing: the chart's own values say the same; take it out, so that later versions of the chart may change it"
        } else {
            return None;
        };
        above(path).all(is_kept).then(|| Said { kind: "no-effect", message: message.into() })
    }

    /// Another word in the place of a credential, which the catalogue tells others as well.
    fn credential(&self, path: &Path, value: &Value) -> Option<Said> {
        // An address is another server's as a whole.
        let text = value.as_str().filter(|text| !text.is_empty() && !text.contains("://"))?;
        let trace = trace(&self.release.layers[..self.index], path).into_iter().next()?;
        let given = trace.value.as_ref()?.as_str().filter(|given| *given != text)?;
        if !matches!(trace.origin, Origin::File { .. }) || !trace.secret {
            return None;
        }
        let (service, name) = self.release.cloud.credential(given)?;
        let other = self.also_told(given, path)?;
        let message = format!(
            "takes the place of the credential {name} of {service} here alone, and {other} goes on with the one from before; name a Secret with it in \
             `spec.services.{service}.credentials.{name}`, or take it out"
        );
        Some(Said { kind: "contradiction", message })
    }

    /// Where else a credential is told, alone or in a longer text such as an address.
    fn also_told(&self, given: &str, path: &Path) -> Option<String> {
        let Release { name, cloud, .. } = self.release;
        let is_told = |value: &Value| value.as_str().is_some_and(|text| text.contains(given));
        cloud.values.iter().find_map(|(release, values)| {
            let is_another = |at: &Path| release != name || at != path;
            let (at, _) = leaves(values).into_iter().find(|(at, value)| is_told(value) && is_another(at))?;
            Some(format!("{release} ({at})"))
        })
    }

    /// A map in place of what is none.
    fn turned(&self, path: &Path) -> Option<Said> {
        let value = get(&self.layer.values, path)?;
        shape::changed(path, value, self.holds(path, value), self.release.tree)
    }

    /// What a value takes the place of; nothing where that is somebody's mistake, and the value is of the kind that the chart has.
    fn holds(&self, path: &Path, value: &Value) -> Option<&Value> {
        let Release { tree, cloud, .. } = self.release;
        let holds = get(self.below, path).filter(|holds| !holds.is_null())?;
        let is_somebodys = || self.winner(path).is_some_and(|origin| cloud.spot(origin).is_some());
        let is_as_the_charts = tree.and_then(|tree| tree.find(path.keys()).and_then(KeyTree::kind)).is_some()
            && shape::changed(path, value, None, *tree).is_none();
        let is_mistaken = || shape::changed(path, holds, None, *tree).is_some();
        (!(is_as_the_charts && is_mistaken() && is_somebodys())).then_some(holds)
    }

    /// A null where nothing is, or where a whole map is.
    fn empty(&self, path: &Path, value: &Value) -> Option<Said> {
        let tree = self.release.tree?;
        if value.is_null()
            && let Some(said) = shape::removed(path, tree)
        {
            return Some(said);
        }
        let is_nothing = value.is_null() && get(self.below, path).is_none() && tree.find(path.keys()).is_none();
        // A key of the first level that the chart lacks altogether is told of as unknown.
        let message =
            "removes nothing: neither the chart nor a layer below has this key; correct the path, or take it out";
        is_nothing.then(|| Said { kind: "null-nothing", message: message.into() })
    }

    /// The new value is of another kind, or hides or loses something.
    fn changed(&self, path: &Path, value: &Value) -> Option<Said> {
        if value.is_null() {
            return None;
        }
        let holds = self.holds(path, value);
        if let Some(said) = shape::changed(path, value, holds, self.release.tree) {
            return Some(said);
        }
        value.as_array().and_then(|after| self.replaced(path, holds, after))
    }

    /// A list takes the place of another, of a layer below or of the chart.
    fn replaced(&self, path: &Path, holds: Option<&Value>, after: &[Value]) -> Option<Said> {
        // Who names a claim's modes chooses one in place of another.
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
        (!lost.is_empty()).then(|| Said {
            kind: "list-replaced",
            message: format!(
                "replaces the list of {whose}, because helm merges maps and never lists: lost is {names}; repeat here what shall stay"
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
