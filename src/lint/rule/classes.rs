//! Checks that the requested `StorageClass`es exist and support the access modes of the volume claims.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::cloud::Cloud;
use crate::cloud::user_field;
use osdpl_core::catalog::SharedClaim;
use osdpl_core::finding::Finding;
use osdpl_core::observed::Class;
use osdpl_values::{Values, get, leaves_with_key};

/// The keys in the values of upstream's charts that contain the name of a StorageClass.
const KEYS: [&str; 4] = ["class_name", "storageClassName", "storage_class", "storageClass"];
/// The StorageClass in the default values of upstream's charts, used if `spec.storageClass` is unset.
const DEFAULT: &str = "general";
/// The class name in a chart's values that lets the cluster choose the StorageClass.
///
/// With this name, the charts set no StorageClass in a volume claim, so that the cluster uses its default StorageClass.
/// The charts contain `{{ if ne .Values.volume.class_name "default" }}`.
const LEFT_TO_CLUSTER: &str = "default";

/// Checks the StorageClasses that a cloud requests; returns nothing if osdpl does not know which classes the cluster
/// has.
pub(super) fn check(cloud: &Cloud<'_>) -> Vec<Finding> {
    let Some(classes) = &cloud.cluster_info().classes else { return Vec::new() };
    let missing = requested(cloud)
        .into_iter()
        .filter_map(|(field, requested)| Some(Finding::warning("storage-class", field, missing(&requested, classes)?)));
    missing.chain(unshared(cloud, classes)).collect()
}

/// The name of a StorageClass that a spec requests.
struct Request {
    name: String,
    /// Whether the class name comes from a Secret. No message may contain such a name.
    is_secret: bool,
}

/// Returns the requested StorageClasses, by the field of the `OpenStackDeployment` that names the class.
///
/// The result contains every field in the user's values that names a class. It contains `spec.storageClass` only if a
/// release uses the class in this field.
fn requested(cloud: &Cloud<'_>) -> BTreeMap<String, Request> {
    let mut requested = BTreeMap::new();
    let is_local = cloud.selection.features.get("storage").is_some_and(|storage| storage["backend"] == "local");
    let class = cloud.spec.storage_class.as_deref().unwrap_or(DEFAULT);
    if !is_local && is_used(cloud, class) {
        requested.insert("spec.storageClass".to_owned(), Request { name: class.to_owned(), is_secret: false });
    }
    for (release, layers) in cloud.layers {
        for layer in layers {
            let Some(field) = user_field(&layer.origin) else { continue };
            let classes = leaves_with_key(&layer.values, |key| KEYS.contains(&key)).into_iter();
            for (path, class) in classes {
                let (origin, is_secret) = cloud.origin(release, &path);
                let class = class.as_str().filter(|class| !class.is_empty() && origin == Some(&layer.origin));
                let request = class.map(|name| Request { name: name.to_owned(), is_secret });
                requested.extend(request.map(|class| (format!("{field}.{path}"), class)));
            }
        }
    }
    requested
}

/// Whether a release uses `class`. The caller passes the StorageClass in `spec.storageClass`, or [`DEFAULT`].
///
/// The function ignores values that the user sets, because [`requested`] adds the classes in these values separately.
fn is_used(cloud: &Cloud<'_>, class: &str) -> bool {
    cloud.values.iter().any(|(release, values)| {
        let mut uses =
            leaves_with_key(values, |key| KEYS.contains(&key)).into_iter().filter(|(_, value)| *value == class);
        uses.any(|(path, _)| cloud.origin(release, &path).0.is_some_and(|origin| user_field(origin).is_none()))
    })
}

/// Returns a message if the cluster does not have a requested class; `None` if the class exists, or if
/// [`LEFT_TO_CLUSTER`] is requested and the cluster has a default class.
fn missing(Request { name: class, is_secret }: &Request, classes: &[Class]) -> Option<String> {
    if classes.iter().any(|known| known.name == *class)
        || classes.iter().any(|known| known.is_default) && class == LEFT_TO_CLUSTER
    {
        return None;
    }
    let names: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
    let class = if *is_secret {
        "with the name in this Secret".to_owned()
    } else {
        format!("{class:?}{}", osdpl_core::catalog::did_you_mean(class, names.iter().copied()))
    };
    let available = match names.as_slice() {
        [] => "the cluster has none; create one".to_owned(),
        names => {
            format!("the cluster has only {}; name an existing class, or create the missing one", names.join(", "))
        }
    };
    Some(format!(
        "there is no StorageClass {class}, so volume claims, and the pods that mount them, wait forever; {available}"
    ))
}

/// Whether pods on several nodes mount the volume of the claim `shared`. `values` are the final values of the release
/// that has the claim.
fn is_shared(shared: &SharedClaim, cloud: &Cloud<'_>, values: &Values) -> bool {
    if shared.unless_false.as_ref().and_then(|path| get(values, path)) == Some(&Value::Bool(false)) {
        return false;
    }
    let Some(when) = &shared.when else { return true };
    let scope = super::values::scope(cloud, std::iter::once(shared.release.as_str()));
    // If no layer sets a value that the condition `when` reads, osdpl can't evaluate the condition. Then the chart's
    // default applies, with which pods on several nodes do not share the claim.
    when.evaluate_condition(&scope).unwrap_or_default()
}

/// Reports a claim if pods on several nodes mount its volume, but only one node can mount a volume of its StorageClass.
fn unshared<'a>(cloud: &'a Cloud<'_>, classes: &'a [Class]) -> impl Iterator<Item = Finding> + 'a {
    let tables = &cloud.catalog.cross_checks;
    tables.shared.iter().filter_map(move |shared| {
        let values = cloud.values.get(shared.release.as_str())?;
        if !is_shared(shared, cloud, values) {
            return None;
        }
        let name = get(values, &shared.class)?.as_str()?;
        let class = classes.iter().find(|class| class.name == name)?;
        let provisioner = class.provisioner.as_str();
        tables.unshared.iter().find(|known| provisioner.ends_with(known.as_str()))?;
        let message = format!(
            "pods of {} on several nodes mount one volume (ReadWriteMany), and StorageClass {name:?} ({provisioner}) creates volumes that only one node can mount: the claim, and \
             the pods, wait forever; set a class of a shared file system (CephFS, NFS) in services.{}.releases.{}.values.{}",
            shared.release,
            cloud.catalog.release(&shared.release)?.0,
            shared.release,
            shared.class
        );
        Some(Finding::warning("storage-class", cloud.field(&shared.release, &shared.class), message))
    })
}
