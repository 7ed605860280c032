//! The document of a file that holds a resource, and those beside it.

use std::path::Path;
use std::rc::Rc;

use anyhow::{anyhow, bail};
use serde_json::{Map, Value};

use super::common::{called, read};
use osdpl_core::api::OpenStackDeployment;
use osdpl_lint::rule::{Content, Judged, Read, is_ours, keys_of, meant, objects, other_kinds, read_spec, split};
use osdpl_values::yaml::without_literals;

/// The document of a file that holds a resource.
pub struct Document {
    stands: Stands,
    /// The resource as it is written.
    object: Value,
    /// The namespace of the resource where it names none.
    namespace: Option<String>,
    /// The other objects of the file: Secrets and `ConfigMap`s that the resource names may be among them.
    pub beside: Vec<Value>,
}

/// Where an object stands.
struct Stands {
    /// The file, for people.
    place: String,
    read: Rc<Read>,
    /// The keys in the document that lead to the object; none where it is the whole.
    at: Vec<String>,
    /// The lines of the file before the document.
    before: u64,
}

impl Stands {
    /// Where a field stands, or what is nearest above it: `cloud.yaml:12`.
    fn line<'a>(&'a self, keys: impl IntoIterator<Item = &'a str>) -> String {
        format!("{}:{}", self.place, self.number(keys))
    }

    /// The same line by its number alone.
    fn number<'a>(&'a self, keys: impl IntoIterator<Item = &'a str>) -> u64 {
        self.read.nearest(self.at.iter().map(String::as_str).chain(keys)) + self.before
    }

    fn told(&self, judged: &Judged) -> String {
        let keys = keys_of(&judged.field);
        format!("{}: {}: {}", self.line(keys.iter().map(String::as_str)), judged.field, judged.message)
    }
}

impl Document {
    /// The resource in a file, or on standard input for `-`; of several none, for one of them would be left out in silence.
    ///
    /// # Errors
    /// With the line, where anything in the file is no YAML: it might be what the resource names.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        Self::named(path, None)
    }

    /// The same where the one of this name is meant.
    ///
    /// # Errors
    /// Where there is none of this name, too.
    pub fn named(path: &Path, name: Option<&str>) -> anyhow::Result<Self> {
        Self::of(&called(path), &read(path)?, name)
    }

    pub(super) fn of(place: &str, text: &str, name: Option<&str>) -> anyhow::Result<Self> {
        let (mut resources, mut beside, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
        for document in split(place, text) {
            let before = document.before;
            let read = match document.content {
                Content::Wrong(error) => {
                    bail!("{place}:{}: {}; correct the YAML", error.line + before, error.problem)
                }
                Content::Object(read) => Rc::new(read),
            };
            for (at, object) in objects(&read.value) {
                let stands = Stands { place: place.to_owned(), read: Rc::clone(&read), at: keys_of(&at), before };
                if is_ours(object) {
                    resources.push((stands, object.clone()));
                } else {
                    wrong.extend(meant(object).map(|judged| stands.told(&judged)));
                    beside.push(object.clone());
                }
            }
        }
        let (stands, object) = one(place, name, resources)?.ok_or_else(|| nothing(place, &wrong, &beside))?;
        Ok(Self { stands, object, namespace: None, beside })
    }

    /// The same in this namespace, as `kubectl -n` takes a file.
    pub fn within(self, namespace: Option<String>) -> Self {
        Self { namespace, ..self }
    }

    /// The resource, whose shape was judged ([`super::offline::shaped`]).
    ///
    /// # Errors
    /// Where it can't be read all the same; that it names another namespace than it is meant to be in.
    pub fn deployment(&self) -> anyhow::Result<OpenStackDeployment> {
        let object = self.object();
        // The rest of its metadata is the API server's, and its status the operator's.
        let own = ["name", "namespace", "labels", "annotations"];
        let metadata: Value = own.map(|key| (key.to_owned(), object["metadata"][key].clone())).into_iter().collect();
        let status = object.get("status").cloned().and_then(|status| serde_json::from_value(status).ok());
        let unread = |field: &'static str| {
            move |error: serde_json::Error| {
                let why = without_literals(&error.to_string());
                anyhow!("{}: {field}: it can't be read: {why}; correct it", self.line([field]))
            }
        };
        let spec = read_spec(&object).map_err(unread("spec"))?;
        let metadata = serde_json::from_value(metadata).map_err(unread("metadata"))?;
        let deployment = OpenStackDeployment { metadata, spec, status };
        if let (Some(own), Some(asked)) = (&deployment.metadata.namespace, &self.namespace)
            && own != asked
        {
            let line = self.line(["metadata", "namespace"]);
            bail!("{line}: the resource is in namespace {own}, and -n says {asked}; take one of them out");
        }
        Ok(deployment)
    }

    /// The resource as it is written, with the name and the namespace that it is given where it says none.
    pub fn object(&self) -> Value {
        let mut object = self.object.clone();
        let metadata =
            object.as_object_mut().map(|object| object.entry("metadata").or_insert_with(|| Map::new().into()));
        if let Some(metadata) = metadata.and_then(Value::as_object_mut) {
            let mut give = |key: &str, value: &str| {
                if metadata.get(key).is_none_or(Value::is_null) {
                    metadata.insert(key.into(), value.into());
                }
            };
            give("name", "cloud");
            give("namespace", self.namespace.as_deref().unwrap_or("openstack"));
        }
        object
    }

    /// The namespace of the resource.
    pub fn namespace(&self) -> String {
        self.object()["metadata"]["namespace"].as_str().unwrap_or_default().to_owned()
    }

    /// The file that it stands in, for people.
    pub fn file(&self) -> &str {
        &self.stands.place
    }

    /// Where a field stands, or what is nearest above it: `cloud.yaml:12`.
    pub fn line<'a>(&'a self, keys: impl IntoIterator<Item = &'a str>) -> String {
        self.stands.line(keys)
    }

    /// The same line by its number alone.
    pub fn number<'a>(&'a self, keys: impl IntoIterator<Item = &'a str>) -> u64 {
        self.stands.number(keys)
    }
}

/// The one resource that is meant; `None` where there is none at all.
fn one(
    place: &str,
    name: Option<&str>,
    mut resources: Vec<(Stands, Value)>,
) -> anyhow::Result<Option<(Stands, Value)>> {
    let named = |object: &Value| object["metadata"]["name"].as_str().unwrap_or("cloud").to_owned();
    let there = resources.iter().map(|(_, object)| named(object)).collect::<Vec<_>>().join(", ");
    let count = resources.len();
    if let Some(name) = name {
        resources.retain(|(_, object)| named(object) == name);
    }
    match (resources.len(), name) {
        (0, Some(name)) if count > 0 => {
            bail!(
                "{place} holds no OpenStackDeployment of the name {name}; there is {there}: name that one, or leave the name out"
            )
        }
        (0 | 1, _) => Ok(resources.pop()),
        (_, Some(name)) => {
            bail!("{place} holds several OpenStackDeployments of the name {name}; give each a file of its own")
        }
        (count, None) => {
            bail!(
                "{place} holds {count} OpenStackDeployments ({there}), and one is judged at a time: give each a file of its own, or where the command takes a name, name one"
            )
        }
    }
}

/// What is said of a file without a resource.
fn nothing(place: &str, wrong: &[String], beside: &[Value]) -> anyhow::Error {
    if !wrong.is_empty() {
        return anyhow!("{}", wrong.join("\n"));
    }
    let there = other_kinds(&beside.iter().collect::<Vec<_>>());
    anyhow!(
        "{place} holds no OpenStackDeployment (apiVersion osdpl.dev/v1alpha1): {there}; name the file that holds yours"
    )
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
            let said = Document::of("c.yaml", &text, None).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(said.contains(&told), "{said}\n{told}");
        }
    }

    #[test]
    fn one_of_several_is_found_by_its_name_and_within_a_list() {
        let other = CLOUD.replace("{name: cloud}", "{name: other}");
        let both = format!("{CLOUD}---\n{other}");
        let name = |text: &str, name: &str| {
            let document = Document::of("c.yaml", text, Some(name))?;
            document.deployment().map(|deployment| deployment.metadata.name.unwrap())
        };
        assert_eq!(name(&both, "other").unwrap(), "other");
        let said = name(&both, "third").unwrap_err().to_string();
        assert!(
            said.ends_with("of the name third; there is cloud, other: name that one, or leave the name out"),
            "{said}"
        );
        let item = CLOUD.trim_end().replace('\n', "\n  ");
        let list = format!("apiVersion: v1\nkind: List\nitems:\n- {item}\n- apiVersion: v1\n  kind: Secret\n");
        let found = Document::of("c.yaml", &list, None).unwrap();
        assert_eq!((found.line(["spec"]).as_str(), found.beside.len()), ("c.yaml:7", 1));
        assert!(found.deployment().is_ok());
    }

    #[test]
    fn what_is_meant_to_be_one_is_told_with_what_to_write() {
        let wrong = CLOUD.replace("OpenStackDeployment", "OpenstackDeployment");
        let said = Document::of("c.yaml", &wrong, None).err().unwrap().to_string();
        assert!(
            said.starts_with("c.yaml:2: kind: there is no kind \"OpenstackDeployment\" of osdpl, did you mean"),
            "{said}"
        );
    }

    #[test]
    fn the_resource_is_in_the_namespace_that_is_asked_for_and_in_no_other_than_its_own() {
        let within = |text: &str, namespace: Option<&str>| {
            let document = Document::of("c.yaml", text, None).unwrap().within(namespace.map(str::to_owned));
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
        let found = Document::of("c.yaml", &text, None).unwrap();
        assert_eq!((found.beside.len(), found.line(["spec"]).as_str()), (1, "c.yaml:9"));
        assert_eq!(found.deployment().unwrap().metadata.name.as_deref(), Some("cloud"));
    }
}
