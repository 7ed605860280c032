//! Reads additions to the catalogue from `ConfigMap`s, in the file of the resource or in the cluster.

use std::path::Path;

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, ResourceExt};
use serde_json::Value;

use super::common::{CatalogOption, display_name, read, readable};
use osdpl_core::catalog::{Addition, Catalog, ExtendedCatalog, LABEL, extend_catalog};
use osdpl_lint::validate::{Content, objects, split_documents};
use osdpl_operator::cluster::{list_additions, read_addition};
use osdpl_values::yaml::redact_literals;

/// The namespace of a resource that names none.
pub const DEFAULT_NAMESPACE: &str = "openstack";

/// What to do about an invalid `ConfigMap`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OnInvalid {
    /// Fail, because the author of the file can correct it.
    Fail,
    /// Warn and ignore it, as the operator does.
    Warn,
}

impl CatalogOption {
    /// Loads the catalogue with the additions of the `ConfigMap`s in this file. Objects without a namespace are in this
    /// one, like the resource.
    pub fn load_for(&self, file: &Path, namespace: Option<&str>) -> anyhow::Result<Catalog> {
        self.load_with(&in_file_within(file, namespace)?)
    }

    /// Loads the catalogue with the additions of `ConfigMap`s in the cluster; those in the file replace those of the
    /// same names.
    pub async fn load_from(&self, client: &Client, namespace: &str, file: Option<&Path>) -> anyhow::Result<Catalog> {
        let mut all = file.map(|file| in_file_of(file, namespace)).transpose()?.unwrap_or_default();
        for live in in_cluster(client, namespace).await {
            if all.iter().all(|other| other.source != live.source) {
                all.push(live);
            }
        }
        Ok(self.extended(&all, OnInvalid::Warn)?.catalog)
    }

    /// Loads the catalogue with additions, which must be valid.
    pub fn load_with(&self, additions: &[Addition]) -> anyhow::Result<Catalog> {
        Ok(self.extended(additions, OnInvalid::Fail)?.catalog)
    }

    /// Loads the catalogue with additions; invalid ones are returned and not reported.
    pub fn with(&self, additions: &[Addition]) -> anyhow::Result<ExtendedCatalog> {
        extend_catalog(&self.texts()?, additions).with_context(|| self.error_context())
    }

    /// Loads the catalogue with additions, and its files.
    pub fn extended(&self, additions: &[Addition], on_invalid: OnInvalid) -> anyhow::Result<ExtendedCatalog> {
        let extended = self.with(additions)?;
        let messages = extended.rejected.iter().map(|refused| format!("{}: {}", refused.source, refused.message));
        let messages: Vec<String> = messages.collect();
        if on_invalid == OnInvalid::Fail && !messages.is_empty() {
            bail!("{}", messages.join("\n"));
        }
        for message in messages {
            eprintln!("warning: {message}");
        }
        Ok(extended)
    }
}

/// Reads the `ConfigMap`s with the catalogue's label in a namespace; if they can't be read, prints a warning and
/// returns none.
pub async fn in_cluster(client: &Client, namespace: &str) -> Vec<Addition> {
    list_additions(client, namespace).await.unwrap_or_else(|error| {
        eprintln!("not readable: ConfigMaps of the catalogue in {namespace}: {:#}", readable(error));
        Vec::new()
    })
}

/// Reads the `ConfigMap`s with the catalogue's label in a file that are in the namespace of its resource, or have none.
pub fn in_file(file: &Path) -> anyhow::Result<Vec<Addition>> {
    in_file_of(file, DEFAULT_NAMESPACE)
}

/// As [`in_file`], with this namespace as the default.
pub fn in_file_within(file: &Path, namespace: Option<&str>) -> anyhow::Result<Vec<Addition>> {
    in_file_of(file, namespace.unwrap_or(DEFAULT_NAMESPACE))
}

/// As [`in_file`], with this default namespace for objects that name none.
fn in_file_of(file: &Path, default_namespace: &str) -> anyhow::Result<Vec<Addition>> {
    in_texts_of([(display_name(file).as_str(), read(file)?.as_str())], default_namespace, OnInvalid::Fail)
}

/// As [`in_file`] for several files, each with its name. Invalid `ConfigMap`s are skipped: validation of the files
/// reports them.
pub fn in_texts<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> anyhow::Result<Vec<Addition>> {
    in_texts_of(files, DEFAULT_NAMESPACE, OnInvalid::Warn)
}

/// As [`in_texts`], with this default namespace for objects that name none.
pub fn in_texts_of<'a>(
    files: impl IntoIterator<Item = (&'a str, &'a str)>,
    default_namespace: &str,
    on_invalid: OnInvalid,
) -> anyhow::Result<Vec<Addition>> {
    let mut maps: Vec<ConfigMap> = Vec::new();
    let mut resource_namespaces: Vec<String> = Vec::new();
    for (place, text) in files {
        for document in split_documents(place, text) {
            // Other documents of the file need not even be valid YAML.
            let Content::Object(read) = &document.content else { continue };
            for (_, object) in objects(&read.value) {
                if object["kind"] == "OpenStackDeployment" {
                    resource_namespaces.extend(object["metadata"]["namespace"].as_str().map(str::to_owned));
                }
                if object["kind"] == "ConfigMap" && object["metadata"]["labels"][LABEL] == "true" {
                    maps.extend(config_map(place, object, on_invalid)?);
                }
            }
        }
    }
    let resource_namespace = resource_namespaces.first().cloned().unwrap_or_else(|| default_namespace.to_owned());
    for map in &mut maps {
        map.metadata.namespace.get_or_insert_with(|| resource_namespace.clone());
    }
    let is_included = |map: &&ConfigMap| {
        map.namespace().is_some_and(|at| at == resource_namespace || resource_namespaces.contains(&at))
    };
    Ok(maps.iter().filter(is_included).map(read_addition).collect())
}

fn config_map(place: &str, object: &Value, on_invalid: OnInvalid) -> anyhow::Result<Option<ConfigMap>> {
    match serde_json::from_value(object.clone()) {
        Ok(map) => Ok(Some(map)),
        Err(error) if on_invalid == OnInvalid::Fail => {
            let why = redact_literals(&error.to_string());
            bail!("{place} contains an invalid ConfigMap with the label {LABEL}: {why}; correct it");
        }
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_config_maps_in_a_list() {
        let map = "- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: one, labels: {osdpl.dev/catalog: 'true'}}\n  data: {presets.edge.yaml: 'preset: edge'}\n";
        let cloud = "- kind: OpenStackDeployment\n  metadata: {name: c, namespace: here}\n";
        let text = format!("apiVersion: v1\nkind: List\nitems:\n{map}{cloud}--- # the end\nkind: Other\n");
        let found = in_texts([("list.yaml", text.as_str())]).unwrap();
        let found: Vec<_> = found.iter().map(|addition| addition.source.as_str()).collect();
        assert_eq!(found, ["ConfigMap here/one"]);
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a file as a user has it")]
    fn reads_only_labelled_config_maps_of_the_namespace() {
        let map = |name: &str, namespace: &str, label: &str| {
            format!(
                "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  {namespace}\n  labels: {{{label}}}\ndata:\n  presets.edge.yaml: |\n    preset: edge\n"
            )
        };
        let text = format!(
            "# A cloud.\nkind: OpenStackDeployment\nmetadata: {{name: c, namespace: here}}\n{}{}{}{}---\nkind: Other\n",
            map("one", "", "'osdpl.dev/catalog': 'true'"),
            map("two", "namespace: here", "'osdpl.dev/catalog': 'true'"),
            map("three", "namespace: there", "'osdpl.dev/catalog': 'true'"),
            map("four", "", "app: x"),
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cloud.yaml");
        std::fs::write(&file, text).unwrap();
        let found = in_file(&file).unwrap();
        let names: Vec<_> = found.iter().map(|addition| addition.source.as_str()).collect();
        assert_eq!(names, ["ConfigMap here/one", "ConfigMap here/two"]);
        assert_eq!(found[0].data["presets.edge.yaml"], "preset: edge\n");
        let without_namespace =
            [("c.yaml", "kind: OpenStackDeployment\n"), ("m.yaml", &map("one", "", "'osdpl.dev/catalog': 'true'"))];
        assert_eq!(
            in_texts_of(without_namespace, "prod", OnInvalid::Fail).unwrap()[0].source,
            "ConfigMap prod/one",
            "the default namespace applies"
        );
    }
}
