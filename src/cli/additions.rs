//! Reads additions to the catalogue from `ConfigMap`s, in the file of the resource or in the cluster.

use std::path::Path;

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, ResourceExt};
use serde_json::Value;

use super::common::CatalogOption;
use super::connect::readable;
use super::input::{display_name, read};
use osdpl_core::catalog::{Addition, Catalog, ExtendedCatalog, LABEL, extend_catalog};
use osdpl_lint::validate::{Content, objects, split_documents};
use osdpl_operator::cluster::{list_additions, read_addition};
use osdpl_values::yaml::redact_literals;

/// The namespace of a resource if neither its file nor `-n` names one.
const DEFAULT_NAMESPACE: &str = "openstack";

/// The reaction of a command to an invalid addition to the catalogue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnInvalid {
    /// The command fails if an addition is invalid, because its user can correct the file.
    Fail,
    /// The command prints a warning about each invalid addition and ignores the addition, as the operator does.
    Warn,
}

impl CatalogOption {
    /// Loads the catalogue with the additions of the `ConfigMap`s in this file. `namespace` is the namespace of objects
    /// that name none.
    pub(crate) fn load_for(&self, file: &Path, namespace: Option<&str>) -> anyhow::Result<Catalog> {
        self.load_with(&read_file(file, namespace)?)
    }

    /// Loads the catalogue with additions from the `ConfigMap`s of the cluster and of the file. If both have a
    /// `ConfigMap` with the same name, it uses the `ConfigMap` of the file.
    pub(crate) async fn load_from(
        &self,
        client: &Client,
        namespace: &str,
        file: Option<&Path>,
    ) -> anyhow::Result<Catalog> {
        let mut additions = file.map(|file| read_file(file, Some(namespace))).transpose()?.unwrap_or_default();
        for live in read_cluster(client, namespace).await {
            if additions.iter().all(|other| other.source != live.source) {
                additions.push(live);
            }
        }
        Ok(self.extended(&additions, OnInvalid::Warn)?.catalog)
    }

    /// Loads the catalogue with additions, and fails if an addition is invalid.
    pub(crate) fn load_with(&self, additions: &[Addition]) -> anyhow::Result<Catalog> {
        Ok(self.extended(additions, OnInvalid::Fail)?.catalog)
    }

    /// Loads the catalogue with additions. It does not print errors of invalid additions: the result contains the
    /// errors.
    pub(crate) fn extended_silently(&self, additions: &[Addition]) -> anyhow::Result<ExtendedCatalog> {
        extend_catalog(&self.texts()?, additions).with_context(|| self.error_context())
    }

    /// Loads the catalogue with additions. `on_invalid` says whether an invalid addition is an error or only a warning.
    pub(crate) fn extended(&self, additions: &[Addition], on_invalid: OnInvalid) -> anyhow::Result<ExtendedCatalog> {
        let extended = self.extended_silently(additions)?;
        let messages = extended.rejected.iter().map(|rejected| format!("{}: {}", rejected.source, rejected.message));
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

/// Reads the `ConfigMap`s with the catalogue's label in a namespace of the cluster. If the API server can't list the
/// `ConfigMap`s, the function prints a warning and returns no additions.
pub(crate) async fn read_cluster(client: &Client, namespace: &str) -> Vec<Addition> {
    list_additions(client, namespace).await.unwrap_or_else(|error| {
        eprintln!("warning: additions to the catalogue in {namespace} can't be read: {:#}", readable(error));
        Vec::new()
    })
}

/// Reads additions from a file: the `ConfigMap`s with the catalogue's label in the namespace of the file's resource.
/// `namespace` is the namespace of objects that name none.
///
/// # Errors
/// If the file can't be read, or if a `ConfigMap` with the catalogue's label is invalid.
pub(crate) fn read_file(file: &Path, namespace: Option<&str>) -> anyhow::Result<Vec<Addition>> {
    let files = [(display_name(file), read(file)?)];
    parse_files(files.iter().map(|(name, text)| (name.as_str(), text.as_str())), namespace, OnInvalid::Fail)
}

/// Reads additions from several files, given by name and text, with the rules of [`read_file`]. With
/// [`OnInvalid::Warn`], it skips invalid `ConfigMap`s, because the validation of the files reports them.
pub(crate) fn parse_files<'a>(
    files: impl IntoIterator<Item = (&'a str, &'a str)>,
    namespace: Option<&str>,
    on_invalid: OnInvalid,
) -> anyhow::Result<Vec<Addition>> {
    let mut maps: Vec<ConfigMap> = Vec::new();
    let mut resource_namespaces: Vec<String> = Vec::new();
    for (name, text) in files {
        for document in split_documents(name, text) {
            // Skip documents that are invalid YAML, because they need not contain an addition.
            let Content::Object(parsed) = &document.content else { continue };
            for (_, object) in objects(&parsed.value) {
                if object["kind"] == "OpenStackDeployment" {
                    resource_namespaces.extend(object["metadata"]["namespace"].as_str().map(str::to_owned));
                }
                if object["kind"] == "ConfigMap" && object["metadata"]["labels"][LABEL] == "true" {
                    maps.extend(config_map(name, object, on_invalid)?);
                }
            }
        }
    }
    let resource_namespace =
        resource_namespaces.first().cloned().unwrap_or_else(|| namespace.unwrap_or(DEFAULT_NAMESPACE).to_owned());
    for map in &mut maps {
        map.metadata.namespace.get_or_insert_with(|| resource_namespace.clone());
    }
    let is_included = |map: &&ConfigMap| {
        map.namespace().is_some_and(|own| own == resource_namespace || resource_namespaces.contains(&own))
    };
    Ok(maps.iter().filter(is_included).map(read_addition).collect())
}

/// Parses a `ConfigMap` with the catalogue's label. For an invalid `ConfigMap`, the result is an error with
/// [`OnInvalid::Fail`], and `None` with [`OnInvalid::Warn`].
fn config_map(file: &str, object: &Value, on_invalid: OnInvalid) -> anyhow::Result<Option<ConfigMap>> {
    match serde_json::from_value(object.clone()) {
        Ok(map) => Ok(Some(map)),
        Err(error) if on_invalid == OnInvalid::Fail => {
            let why = redact_literals(&error.to_string());
            bail!("{file} contains an invalid ConfigMap with the label {LABEL}: {why}; correct it");
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
        let found = parse_files([("list.yaml", text.as_str())], None, OnInvalid::Warn).unwrap();
        let found: Vec<_> = found.iter().map(|addition| addition.source.as_str()).collect();
        assert_eq!(found, ["ConfigMap here/one"]);
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "the test writes a file, as a user does")]
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
        let found = read_file(&file, None).unwrap();
        let names: Vec<_> = found.iter().map(|addition| addition.source.as_str()).collect();
        assert_eq!(names, ["ConfigMap here/one", "ConfigMap here/two"]);
        assert_eq!(found[0].data["presets.edge.yaml"], "preset: edge\n");
        let without_namespace =
            [("c.yaml", "kind: OpenStackDeployment\n"), ("m.yaml", &map("one", "", "'osdpl.dev/catalog': 'true'"))];
        assert_eq!(
            parse_files(without_namespace, Some("prod"), OnInvalid::Fail).unwrap()[0].source,
            "ConfigMap prod/one",
            "an object without a namespace is in the namespace of -n"
        );
    }
}
