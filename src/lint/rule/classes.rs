//! `StorageClass`es that are not there, or whose volumes can't be what claims ask of them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Cloud, Judged};
use crate::hazard::place;
use osdpl_core::catalog::Shared;
use osdpl_core::observed::Class;
use osdpl_values::{Values, get, leaves_named};

/// The keys under which charts name a class.
const KEYS: [&str; 4] = ["class_name", "storageClassName", "storage_class", "storageClass"];
/// The class where `spec.storageClass` is unset: upstream's.
const USUAL: &str = "general";
/// What makes upstream's charts leave the class to the cluster: `{{ if ne .Values.volume.class_name "default" }}`.
const LEFT_TO_CLUSTER: &str = "default";

/// What the classes of the cluster are wrong for; nothing where nobody knows which there are.
pub(super) fn judge(cloud: &Cloud<'_>) -> Vec<Judged> {
    let Some(classes) = &cloud.site().classes else { return Vec::new() };
    let missing = asked(cloud)
        .into_iter()
        .filter_map(|(field, asked)| Some(Judged::warning("storage-class", field, missing(&asked, classes)?)));
    missing.chain(unshared(cloud, classes)).collect()
}

/// A class that someone asks for.
struct Asked {
    name: String,
    /// Whether it came out of a Secret.
    is_secret: bool,
}

/// The classes that are asked for: the spec's, where it reaches a release that can make claims, and those that the user's values name.
fn asked(cloud: &Cloud<'_>) -> BTreeMap<String, Asked> {
    let mut asked = BTreeMap::new();
    let is_local = cloud.selection.features.get("storage").is_some_and(|storage| storage["backend"] == "local");
    let class = cloud.spec.storage_class.as_deref().unwrap_or(USUAL);
    if !is_local && reaches(cloud, class) {
        asked.insert("spec.storageClass".to_owned(), Asked { name: class.to_owned(), is_secret: false });
    }
    for (release, layers) in cloud.layers {
        for layer in layers {
            let Some(place) = place(&layer.origin) else { continue };
            let named = leaves_named(&layer.values, |key| KEYS.contains(&key)).into_iter();
            for (path, class) in named {
                let (origin, is_secret) = cloud.decided(release, &path);
                let class = class.as_str().filter(|class| !class.is_empty() && origin == Some(&layer.origin));
                let asked_for = class.map(|name| Asked { name: name.to_owned(), is_secret });
                asked.extend(asked_for.map(|class| (format!("{place}.{path}"), class)));
            }
        }
    }
    asked
}

/// Whether the values of any release name the class of the spec, and not in the user's own words.
fn reaches(cloud: &Cloud<'_>, class: &str) -> bool {
    cloud.values.iter().any(|(release, values)| {
        let mut named =
            leaves_named(values, |key| KEYS.contains(&key)).into_iter().filter(|(_, value)| *value == class);
        named.any(|(path, _)| cloud.decided(release, &path).0.is_some_and(|origin| place(origin).is_none()))
    })
}

fn missing(Asked { name: class, is_secret }: &Asked, classes: &[Class]) -> Option<String> {
    if classes.iter().any(|known| known.name == *class)
        || classes.iter().any(|known| known.is_default) && class == LEFT_TO_CLUSTER
    {
        return None;
    }
    let names: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
    let class = if *is_secret {
        "of the name in this Secret".to_owned()
    } else {
        format!("{class:?}{}", osdpl_core::catalog::did_you_mean(class, names.iter().copied()))
    };
    let there = match names.as_slice() {
        [] => "the cluster has none at all; make one".to_owned(),
        names => format!("the cluster has {}; name one of them, or make it", names.join(", ")),
    };
    Some(format!(
        "there is no StorageClass {class}, so that volume claims, and the pods that mount them, wait for ever; {there}"
    ))
}

/// Whether a release makes the claim, and shares it.
fn is_there(shared: &Shared, cloud: &Cloud<'_>, values: &Values) -> bool {
    if shared.unless_false.as_ref().and_then(|path| get(values, path)) == Some(&Value::Bool(false)) {
        return false;
    }
    let Some(when) = &shared.when else { return true };
    let scope = super::values::scope(cloud, std::iter::once(shared.release.as_str()));
    // What it reads of values that nobody sets is the chart's own: not shared.
    when.holds(&scope).unwrap_or_default()
}

/// Claims that pods on several nodes share, of a class whose volumes one node alone can mount.
fn unshared<'a>(cloud: &'a Cloud<'_>, classes: &'a [Class]) -> impl Iterator<Item = Judged> + 'a {
    let tables = &cloud.catalog.judgements;
    tables.shared.iter().filter_map(move |shared| {
        let values = cloud.values.get(shared.release.as_str())?;
        if !is_there(shared, cloud, values) {
            return None;
        }
        let name = get(values, &shared.class)?.as_str()?;
        let class = classes.iter().find(|class| class.name == name)?;
        let provisioner = class.provisioner.as_str();
        tables.unshared.iter().find(|known| provisioner.ends_with(known.as_str()))?;
        let message = format!(
            "pods of {} on several nodes mount one volume (ReadWriteMany), and StorageClass {name:?} ({provisioner}) makes none that can be shared: the claim, and \
             the pods, wait for ever; name a class of a shared file system (CephFS, NFS) in services.{}.releases.{}.values.{}",
            shared.release,
            cloud.catalog.release(&shared.release)?.0,
            shared.release,
            shared.class
        );
        Some(Judged::warning("storage-class", cloud.field(&shared.release, &shared.class), message))
    })
}
