//! The document of a file that holds a resource, and those beside it.

use std::path::Path;

use anyhow::bail;
use serde_json::{Map, Value};

use super::common::read;
use super::unknown::unknown_fields;
use crate::api::OpenStackDeployment;
use crate::catalog::Catalog;
use crate::rule::{Content, Judged, Kind, Schemas, is_ours, other_kinds, split};
use crate::yaml::{self, Located};

/// The document of a file that holds a resource.
pub struct Document {
    /// The file, for people.
    place: String,
    text: String,
    /// The lines of the file before it.
    before: u64,
    /// The namespace of the resource where it names none.
    namespace: Option<String>,
    /// The other objects of the file: Secrets and `ConfigMap`s that the resource names may be among them.
    pub beside: Vec<Value>,
}

impl Document {
    /// The resource in a file, or on standard input for `-`; of several none, for one of them would be left out in silence.
    ///
    /// # Errors
    /// With the line, where anything in the file is no YAML: it might be what the resource names.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        Self::of(&path.display().to_string(), &read(path)?)
    }

    fn of(place: &str, text: &str) -> anyhow::Result<Self> {
        let (mut resources, mut beside) = (Vec::new(), Vec::new());
        for document in split(place, text) {
            match document.content {
                Content::Wrong(error) => {
                    bail!("{place}:{}: {}; correct the YAML", error.line + document.before, error.problem)
                }
                Content::Object(read) if is_ours(&read.value) => resources.push((document.before, document.text)),
                Content::Object(read) => beside.push(read.value),
            }
        }
        if resources.len() > 1 {
            bail!(
                "{place} holds {} OpenStackDeployments, and one is judged at a time: give each a file of its own",
                resources.len()
            );
        }
        let Some((before, text)) = resources.pop() else {
            let there = other_kinds(&beside.iter().collect::<Vec<_>>());
            bail!(
                "{place} holds no OpenStackDeployment (apiVersion osdpl.dev/v1alpha1): {there}; name the file that holds yours"
            )
        };
        Ok(Self { place: place.to_owned(), text, before, namespace: None, beside })
    }

    /// The same in this namespace, as `kubectl -n` takes a file.
    pub fn within(self, namespace: Option<String>) -> Self {
        Self { namespace, ..self }
    }

    /// The resource.
    ///
    /// # Errors
    /// What is wrong with it, each with its line; that it names another namespace than it is meant to be in.
    pub fn deployment(&self) -> anyhow::Result<OpenStackDeployment> {
        let unknown = unknown_fields(&self.place, &self.text, self.before)?;
        if !unknown.is_empty() {
            bail!("{}", unknown.join("\n"));
        }
        let parsed: Result<OpenStackDeployment, _> = yaml::parse(&self.place, &self.text);
        let mut deployment = parsed.map_err(|error| yaml::Error { line: error.line + self.before, ..error })?;
        if let (Some(own), Some(asked)) = (&deployment.metadata.namespace, &self.namespace)
            && own != asked
        {
            let line = self.line(["metadata", "namespace"])?;
            bail!("{line}: the resource is in namespace {own}, and -n says {asked}; take one of them out");
        }
        let usual = || self.namespace.clone().unwrap_or_else(|| "openstack".into());
        deployment.metadata.namespace.get_or_insert_with(usual);
        deployment.metadata.name.get_or_insert_with(|| "cloud".into());
        Ok(deployment)
    }

    /// What the API server would refuse of the resource, with the name that it is given where it says none.
    ///
    /// # Errors
    /// Where a feature's schema is none.
    pub fn judged(&self, catalog: &Catalog) -> anyhow::Result<Vec<Judged>> {
        let mut object: Value = yaml::parse(&self.place, &self.text)?;
        let metadata =
            object.as_object_mut().map(|object| object.entry("metadata").or_insert_with(|| Map::new().into()));
        if let Some(metadata) = metadata.and_then(Value::as_object_mut)
            && metadata.get("name").is_none_or(Value::is_null)
        {
            metadata.insert("name".into(), "cloud".into());
        }
        Ok(Schemas::new(catalog)?.judge(Kind::OpenStackDeployment, &object))
    }

    /// Where a field stands, or what is nearest above it: `cloud.yaml:12`.
    pub fn line<'a>(&self, keys: impl IntoIterator<Item = &'a str>) -> anyhow::Result<String> {
        let located: Located = yaml::parse(&self.place, &self.text)?;
        Ok(format!("{}:{}", self.place, located.nearest(keys).line() + self.before))
    }
}

/// The resource in a file, or on standard input for `-`.
pub fn read_deployment(path: &Path) -> anyhow::Result<OpenStackDeployment> {
    Document::read(path)?.deployment()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOUD: &str = "apiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\nmetadata: {name: cloud}\nspec: {openstackRelease: '2026.1'}\n";

    #[test]
    fn a_file_without_a_resource_is_refused_with_what_it_holds_and_what_to_do() {
        let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n";
        let foreign = "apiVersion: lcm.example.com/v1\nkind: OpenStackDeployment\n";
        let end = "; name the file that holds yours";
        for (text, told) in [
            (
                String::new(),
                "c.yaml holds no OpenStackDeployment (apiVersion osdpl.dev/v1alpha1): it is empty; name".to_owned(),
            ),
            (secret.to_owned(), format!("osdpl.dev/v1alpha1): there is Secret (v1) alone{end}")),
            (foreign.to_owned(), format!("there is OpenStackDeployment (lcm.example.com/v1) alone{end}")),
            (format!("{secret}---\na: [1\n"), "c.yaml:5: unclosed bracket '['; correct the YAML".to_owned()),
            (format!("{CLOUD}---\n{CLOUD}"), "c.yaml holds 2 OpenStackDeployments".to_owned()),
        ] {
            let said = Document::of("c.yaml", &text).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(said.contains(&told), "{said}\n{told}");
        }
    }

    #[test]
    fn the_resource_is_in_the_namespace_that_is_asked_for_and_in_no_other_than_its_own() {
        let within = |text: &str, namespace: Option<&str>| {
            let document = Document::of("c.yaml", text).unwrap().within(namespace.map(str::to_owned));
            document.deployment().map(|deployment| deployment.metadata.namespace.unwrap())
        };
        assert_eq!(within(CLOUD, None).unwrap(), "openstack");
        assert_eq!(within(CLOUD, Some("prod")).unwrap(), "prod");
        let own = CLOUD.replace("{name: cloud}", "{name: cloud, namespace: prod}");
        assert_eq!(within(&own, Some("prod")).unwrap(), "prod");
        let said = within(&own, Some("test")).unwrap_err().to_string();
        assert_eq!(said, "c.yaml:3: the resource is in namespace prod, and -n says test; take one of them out");
    }

    #[test]
    fn the_resource_is_found_among_others_and_keeps_the_lines_of_its_file() {
        let text = format!("# mine\n---\nkind: Secret\napiVersion: v1\n---\n{CLOUD}");
        let found = Document::of("c.yaml", &text).unwrap();
        assert_eq!((found.beside.len(), found.line(["spec"]).unwrap().as_str()), (1, "c.yaml:9"));
        assert_eq!(found.deployment().unwrap().metadata.name.as_deref(), Some("cloud"));
        let wrong = text.replace("'2026.1'", "[1]");
        let said = Document::of("c.yaml", &wrong).unwrap().deployment().unwrap_err().to_string();
        assert!(said.starts_with("c.yaml:9:"), "{said}");
    }
}
