//! What `ConfigMap`s add to the catalogue, out of the file that holds the resource, or out of the cluster.

use std::path::Path;

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, ResourceExt};
use serde_json::Value;

use super::common::{CatalogOption, called, read, readable};
use osdpl_core::catalog::{Addition, Catalog, Extended, LABEL, extend};
use osdpl_lint::rule::{Content, objects, split};
use osdpl_operator::cluster::{addition, additions};
use osdpl_values::yaml::without_literals;

/// The namespace of a resource that names none.
pub const USUAL: &str = "openstack";

/// What is done about a `ConfigMap` that is wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// Nothing goes on: whoever wrote the file is here.
    Refused,
    /// It is told, and left out, as the operator does.
    Told,
}

impl CatalogOption {
    /// The catalogue with what the `ConfigMap`s add to it that stand in this file beside the resource.
    /// What names no namespace is in this one, as the resource is.
    pub fn load_for(&self, file: &Path, namespace: Option<&str>) -> anyhow::Result<Catalog> {
        self.load_with(&in_file_within(file, namespace)?)
    }

    /// The catalogue with what `ConfigMap`s in the cluster add to it, and, instead of those of the same names, those in a file.
    pub async fn load_from(&self, client: &Client, namespace: &str, file: Option<&Path>) -> anyhow::Result<Catalog> {
        let mut all = file.map(|file| in_file_of(file, namespace)).transpose()?.unwrap_or_default();
        for standing in in_cluster(client, namespace).await {
            if all.iter().all(|other| other.source != standing.source) {
                all.push(standing);
            }
        }
        Ok(self.extended(&all, Wrong::Told)?.catalog)
    }

    /// The catalogue with additions that are right.
    pub fn load_with(&self, additions: &[Addition]) -> anyhow::Result<Catalog> {
        Ok(self.extended(additions, Wrong::Refused)?.catalog)
    }

    /// The catalogue with additions, its files, and what of the additions is wrong, which nobody is told here.
    pub fn with(&self, additions: &[Addition]) -> anyhow::Result<Extended> {
        extend(&self.texts()?, additions).with_context(|| self.wrong())
    }

    /// The catalogue with additions, and its files.
    pub fn extended(&self, additions: &[Addition], wrong: Wrong) -> anyhow::Result<Extended> {
        let extended = self.with(additions)?;
        let said = extended.refused.iter().map(|refused| format!("{}: {}", refused.source, refused.message));
        let said: Vec<String> = said.collect();
        if wrong == Wrong::Refused && !said.is_empty() {
            bail!("{}", said.join("\n"));
        }
        for said in said {
            eprintln!("warning: {said}");
        }
        Ok(extended)
    }
}

/// The `ConfigMap`s with the catalogue's label in a namespace; none where they may not be seen, which is told.
pub async fn in_cluster(client: &Client, namespace: &str) -> Vec<Addition> {
    additions(client, namespace).await.unwrap_or_else(|error| {
        eprintln!("not seen: ConfigMaps of the catalogue in {namespace}: {:#}", readable(error));
        Vec::new()
    })
}

/// The `ConfigMap`s with the catalogue's label in a file, of the namespace of the resource in it, or of none.
pub fn in_file(file: &Path) -> anyhow::Result<Vec<Addition>> {
    in_file_of(file, USUAL)
}

/// The same, where the resource is in this namespace if the file names none.
pub fn in_file_within(file: &Path, namespace: Option<&str>) -> anyhow::Result<Vec<Addition>> {
    in_file_of(file, namespace.unwrap_or(USUAL))
}

/// The same, where what names no namespace is in this one.
fn in_file_of(file: &Path, usual: &str) -> anyhow::Result<Vec<Addition>> {
    in_texts_of([(called(file).as_str(), read(file)?.as_str())], usual, Wrong::Refused)
}

/// The same in several files, each by its name: those of the namespaces of the resources in all of them, or of none. What is no `ConfigMap` is left out: whoever
/// judges the files tells it.
pub fn in_texts<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> anyhow::Result<Vec<Addition>> {
    in_texts_of(files, USUAL, Wrong::Told)
}

/// The same, where what names no namespace is in this one.
pub fn in_texts_of<'a>(
    files: impl IntoIterator<Item = (&'a str, &'a str)>,
    usual: &str,
    wrong: Wrong,
) -> anyhow::Result<Vec<Addition>> {
    let mut maps: Vec<ConfigMap> = Vec::new();
    let mut homes: Vec<String> = Vec::new();
    for (place, text) in files {
        for document in split(place, text) {
            // Anything else in the file is the business of others, and need not even be YAML that we understand.
            let Content::Object(read) = &document.content else { continue };
            for (_, object) in objects(&read.value) {
                if object["kind"] == "OpenStackDeployment" {
                    homes.extend(object["metadata"]["namespace"].as_str().map(str::to_owned));
                }
                if object["kind"] == "ConfigMap" && object["metadata"]["labels"][LABEL] == "true" {
                    maps.extend(config_map(place, object, wrong)?);
                }
            }
        }
    }
    let home = homes.first().cloned().unwrap_or_else(|| usual.to_owned());
    for map in &mut maps {
        map.metadata.namespace.get_or_insert_with(|| home.clone());
    }
    let is_at_home = |map: &&ConfigMap| map.namespace().is_some_and(|at| at == home || homes.contains(&at));
    Ok(maps.iter().filter(is_at_home).map(addition).collect())
}

fn config_map(place: &str, object: &Value, wrong: Wrong) -> anyhow::Result<Option<ConfigMap>> {
    match serde_json::from_value(object.clone()) {
        Ok(map) => Ok(Some(map)),
        Err(error) if wrong == Wrong::Refused => {
            let why = without_literals(&error.to_string());
            bail!("{place} holds a ConfigMap with the label {LABEL} that is none: {why}; correct it");
        }
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_maps_in_a_list_are_read_and_are_at_home_with_the_resource_in_it() {
        let map = "- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: one, labels: {osdpl.dev/catalog: 'true'}}\n  data: {presets.edge.yaml: 'preset: edge'}\n";
        let cloud = "- kind: OpenStackDeployment\n  metadata: {name: c, namespace: here}\n";
        let text = format!("apiVersion: v1\nkind: List\nitems:\n{map}{cloud}--- # the end\nkind: Other\n");
        let found = in_texts([("list.yaml", text.as_str())]).unwrap();
        let found: Vec<_> = found.iter().map(|addition| addition.source.as_str()).collect();
        assert_eq!(found, ["ConfigMap here/one"]);
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a file as a user has it")]
    fn config_maps_with_the_label_beside_the_resource_are_read_and_nothing_else() {
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
        let nowhere =
            [("c.yaml", "kind: OpenStackDeployment\n"), ("m.yaml", &map("one", "", "'osdpl.dev/catalog': 'true'"))];
        assert_eq!(
            in_texts_of(nowhere, "prod", Wrong::Refused).unwrap()[0].source,
            "ConfigMap prod/one",
            "as the resource is"
        );
    }
}
