//! Reads a file that contains an `OpenStackDeployment`, and the other objects in this file, such as the Secrets that
//! the `OpenStackDeployment` references.

use std::path::Path;
use std::rc::Rc;

use anyhow::{anyhow, bail};
use serde_json::{Map, Value};

use super::input::{display_name, read};
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::finding::{Finding, SourceLine};
use osdpl_lint::validate::{
    Content, Kind, ParsedDocument, describe_kinds, describe_resource, is_deployment, keys_of_field, likely_mistake,
    objects, read_spec, split_documents,
};
use osdpl_values::yaml::redact_literals;

/// An `OpenStackDeployment` that was read from a file.
pub(crate) struct Document {
    location: Location,
    /// The `OpenStackDeployment` as written in the file.
    object: Value,
    /// The namespace that the `OpenStackDeployment` gets if the file does not set one.
    namespace: Option<String>,
    /// The other objects of the file, for example Secrets and `ConfigMap`s that the `OpenStackDeployment` references.
    pub others: Vec<Value>,
}

/// The location of an object in a file.
struct Location {
    /// The file's name, as messages show it.
    file: String,
    document: Rc<ParsedDocument>,
    /// The path of keys from the root of the YAML document to the object, for example to an item of a `List`. Empty if
    /// the object is the whole document.
    keys: Vec<String>,
    /// The number of lines before this YAML document in the file, which may contain several YAML documents.
    lines_before: u64,
}

impl Location {
    /// Returns the file and line of a field, such as `cloud.yaml:12`. `keys` lead from the object to the field. If the
    /// file does not contain the field, the line is that of the field's nearest parent.
    fn line<'a>(&'a self, keys: impl IntoIterator<Item = &'a str>) -> String {
        format!("{}:{}", self.file, self.number(keys))
    }

    /// Returns the line number of a field in the file, or of the field's nearest parent if the file does not contain
    /// the field.
    fn number<'a>(&'a self, keys: impl IntoIterator<Item = &'a str>) -> u64 {
        self.document.nearest(self.keys.iter().map(String::as_str).chain(keys)) + self.lines_before
    }

    fn describe(&self, finding: &Finding) -> String {
        let keys = keys_of_field(&finding.location.field);
        format!("{}: {}: {}", self.line(keys.iter().map(String::as_str)), finding.field(), finding.text())
    }
}

impl Document {
    /// Reads the only `OpenStackDeployment` of a file, or of standard input for `-`.
    ///
    /// # Errors
    /// Returns an error if the file does not contain exactly one `OpenStackDeployment`, or if any of its documents is
    /// invalid YAML. An invalid document is an error, because the `OpenStackDeployment` might reference an object in
    /// this document.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        Self::read_named(path, None)
    }

    /// Reads the `OpenStackDeployment` named `name` from a file. If `name` is `None`, reads the only
    /// `OpenStackDeployment` of the file.
    ///
    /// # Errors
    /// Returns an error if the file does not contain exactly one such `OpenStackDeployment`, or if any of its documents
    /// is invalid YAML.
    pub(crate) fn read_named(path: &Path, name: Option<&str>) -> anyhow::Result<Self> {
        Self::parse(&display_name(path), &read(path)?, name)
    }

    /// Parses the text of a file, and returns its `OpenStackDeployment` named `name`. If `name` is `None`, returns the
    /// only `OpenStackDeployment` of the file.
    pub(super) fn parse(file: &str, text: &str, name: Option<&str>) -> anyhow::Result<Self> {
        let (mut resources, mut others, mut mistakes) = (Vec::new(), Vec::new(), Vec::new());
        for document in split_documents(file, text) {
            let lines_before = document.before;
            let parsed = match document.content {
                Content::Invalid(error) => {
                    bail!("{file}:{}: {}; correct the YAML", error.line + lines_before, error.message)
                }
                Content::Object(parsed) => Rc::new(parsed),
            };
            for (field, object) in objects(&parsed.value) {
                let (file, keys) = (file.to_owned(), keys_of_field(&field));
                let location = Location { file, document: Rc::clone(&parsed), keys, lines_before };
                if is_deployment(object) {
                    resources.push((location, object.clone()));
                } else {
                    mistakes.extend(likely_mistake(object).map(|finding| location.describe(&finding)));
                    others.push(object.clone());
                }
            }
        }
        let (location, object) = select(file, name, resources)?.ok_or_else(|| missing(file, &mistakes, &others))?;
        Ok(Self { location, object, namespace: None, others })
    }

    /// Sets the namespace that the `OpenStackDeployment` gets if its file does not set one, like `kubectl apply -n`.
    pub(crate) fn with_namespace(self, namespace: Option<String>) -> Self {
        Self { namespace, ..self }
    }

    /// Returns the parsed `OpenStackDeployment`. The caller must have checked that it matches the CRD's schema
    /// ([`super::offline::well_formed`]).
    ///
    /// # Errors
    /// Returns an error if the resource can't be parsed although it matches the schema, or if its namespace differs
    /// from the option `-n`.
    pub(crate) fn deployment(&self) -> anyhow::Result<OpenStackDeployment> {
        let object = self.object();
        // Take only the metadata that users set. The API server sets all other metadata, such as the uid.
        let fields = ["name", "namespace", "labels", "annotations"];
        let metadata: Value = fields.map(|key| (key.to_owned(), object["metadata"][key].clone())).into_iter().collect();
        let status = object.get("status").cloned().and_then(|status| serde_json::from_value(status).ok());
        let parse_error = |field: &'static str| {
            move |error: serde_json::Error| {
                let why = redact_literals(&error.to_string());
                anyhow!("{}: {field}: can't be parsed: {why}; correct it", self.line([field]))
            }
        };
        let spec = read_spec(&object).map_err(parse_error("spec"))?;
        let metadata = serde_json::from_value(metadata).map_err(parse_error("metadata"))?;
        let deployment = OpenStackDeployment { metadata, spec, status };
        if let (Some(own), Some(requested)) = (&deployment.metadata.namespace, &self.namespace)
            && own != requested
        {
            let line = self.line(["metadata", "namespace"]);
            bail!("{line}: the resource is in namespace {own}, and -n names {requested}; remove one of the two");
        }
        Ok(deployment)
    }

    /// Returns the `OpenStackDeployment` as written in the file, and adds the default name and namespace if they are
    /// missing.
    pub(crate) fn object(&self) -> Value {
        let mut object = self.object.clone();
        let metadata =
            object.as_object_mut().map(|object| object.entry("metadata").or_insert_with(|| Map::new().into()));
        if let Some(metadata) = metadata.and_then(Value::as_object_mut) {
            let mut set_default = |key: &str, value: &str| {
                if metadata.get(key).is_none_or(Value::is_null) {
                    metadata.insert(key.into(), value.into());
                }
            };
            set_default("name", "cloud");
            set_default("namespace", self.namespace.as_deref().unwrap_or("openstack"));
        }
        object
    }

    /// Returns the namespace of the `OpenStackDeployment`.
    pub(crate) fn namespace(&self) -> String {
        self.object()["metadata"]["namespace"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns the file and line of a field of the `OpenStackDeployment`, such as `cloud.yaml:12`. If the file does not
    /// contain the field, the line is that of the field's nearest parent.
    pub(crate) fn line<'a>(&'a self, keys: impl IntoIterator<Item = &'a str>) -> String {
        self.location.line(keys)
    }
}

/// Returns a finding about the `OpenStackDeployment` in `document`, with the file and line of its field. If `document`
/// is `None`, because the `OpenStackDeployment` is from the cluster, returns the finding without a file.
pub(crate) fn locate(finding: &Finding, document: Option<&Document>) -> Finding {
    let Some(Document { location, object, .. }) = document else { return finding.clone() };
    let keys = keys_of_field(finding.field());
    let line = location.number(keys.iter().map(String::as_str));
    let resource = describe_resource(Kind::OpenStackDeployment, object);
    finding.clone().at_line(SourceLine { file: location.file.clone(), line, resource })
}

/// Selects the `OpenStackDeployment` named `name` from `resources`, or the only one if `name` is `None`. Returns `None`
/// if `resources` is empty. Fails if several resources match, or if none has the name.
fn select(
    file: &str,
    name: Option<&str>,
    mut resources: Vec<(Location, Value)>,
) -> anyhow::Result<Option<(Location, Value)>> {
    let name_of = |object: &Value| object["metadata"]["name"].as_str().unwrap_or("cloud").to_owned();
    let available = resources.iter().map(|(_, object)| name_of(object)).collect::<Vec<_>>().join(", ");
    let count = resources.len();
    if let Some(name) = name {
        resources.retain(|(_, object)| name_of(object) == name);
    }
    match (resources.len(), name) {
        (0, Some(name)) if count > 0 => {
            bail!(
                "{file} contains no OpenStackDeployment named {name}, only {available}; correct the name, or leave it out"
            )
        }
        (0 | 1, _) => Ok(resources.pop()),
        (_, Some(name)) => {
            bail!("{file} contains several OpenStackDeployments named {name}; give each a file of its own")
        }
        (count, None) => {
            bail!(
                "{file} contains {count} OpenStackDeployments ({available}), and only one can be used at a time; give each a file of its own, or name one if the command takes a name"
            )
        }
    }
}

/// Returns the error for a file without an `OpenStackDeployment`. If the file contains likely mistakes, such as a
/// misspelled kind, the error consists of the messages about them (`mistakes`). Otherwise, the error lists the kinds of
/// the objects in the file (`others`).
fn missing(file: &str, mistakes: &[String], others: &[Value]) -> anyhow::Error {
    if !mistakes.is_empty() {
        return anyhow!("{}", mistakes.join("\n"));
    }
    let available = describe_kinds(&others.iter().collect::<Vec<_>>());
    anyhow!(
        "{file} contains no OpenStackDeployment (apiVersion osdpl.dev/v1alpha1): {available}; name the file that contains yours"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOUD: &str = "apiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\nmetadata: {name: cloud}\nspec: {openstackRelease: '2026.1'}\n";

    #[test]
    fn refuses_files_without_exactly_one_resource() {
        let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n";
        let foreign = "apiVersion: lcm.example.com/v1\nkind: OpenStackDeployment\n";
        let end = "; name the file that contains yours";
        for (text, expected) in [
            (
                String::new(),
                "c.yaml contains no OpenStackDeployment (apiVersion osdpl.dev/v1alpha1): it is empty; name".to_owned(),
            ),
            (secret.to_owned(), format!("osdpl.dev/v1alpha1): there is only Secret (v1){end}")),
            (foreign.to_owned(), format!("there is only OpenStackDeployment (lcm.example.com/v1){end}")),
            (format!("{secret}---\na: [1\n"), "c.yaml:5: unclosed bracket '['; correct the YAML".to_owned()),
            (format!("{CLOUD}---\n{CLOUD}"), "c.yaml contains 2 OpenStackDeployments".to_owned()),
        ] {
            let error = Document::parse("c.yaml", &text, None).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(&expected), "{error}\n{expected}");
        }
    }

    #[test]
    fn finds_a_resource_by_name_and_in_a_list() {
        let other = CLOUD.replace("{name: cloud}", "{name: other}");
        let both = format!("{CLOUD}---\n{other}");
        let name = |text: &str, name: &str| {
            let document = Document::parse("c.yaml", text, Some(name))?;
            document.deployment().map(|deployment| deployment.metadata.name.unwrap())
        };
        assert_eq!(name(&both, "other").unwrap(), "other");
        let error = name(&both, "third").unwrap_err().to_string();
        assert!(error.ends_with("named third, only cloud, other; correct the name, or leave it out"), "{error}");
        let item = CLOUD.trim_end().replace('\n', "\n  ");
        let list = format!("apiVersion: v1\nkind: List\nitems:\n- {item}\n- apiVersion: v1\n  kind: Secret\n");
        let found = Document::parse("c.yaml", &list, None).unwrap();
        assert_eq!((found.line(["spec"]).as_str(), found.others.len()), ("c.yaml:7", 1));
        assert!(found.deployment().is_ok());
    }

    #[test]
    fn suggests_the_correct_kind() {
        let wrong = CLOUD.replace("OpenStackDeployment", "OpenstackDeployment");
        let error = Document::parse("c.yaml", &wrong, None).err().unwrap().to_string();
        assert!(
            error.starts_with("c.yaml:2: kind: there is no kind \"OpenstackDeployment\" of osdpl (did you mean"),
            "{error}"
        );
    }

    #[test]
    fn checks_the_requested_namespace() {
        let namespace_of = |text: &str, namespace: Option<&str>| {
            let document = Document::parse("c.yaml", text, None).unwrap().with_namespace(namespace.map(str::to_owned));
            document.deployment().map(|deployment| deployment.metadata.namespace.unwrap())
        };
        assert_eq!(namespace_of(CLOUD, None).unwrap(), "openstack");
        assert_eq!(namespace_of(CLOUD, Some("prod")).unwrap(), "prod");
        let own = CLOUD.replace("{name: cloud}", "{name: cloud, namespace: prod}");
        assert_eq!(namespace_of(&own, Some("prod")).unwrap(), "prod");
        let error = namespace_of(&own, Some("test")).unwrap_err().to_string();
        assert_eq!(error, "c.yaml:3: the resource is in namespace prod, and -n names test; remove one of the two");
    }

    #[test]
    fn keeps_lines_of_the_file() {
        let text = format!("# mine\n---\nkind: Secret\napiVersion: v1\n---\n{CLOUD}");
        let found = Document::parse("c.yaml", &text, None).unwrap();
        assert_eq!((found.others.len(), found.line(["spec"]).as_str()), (1, "c.yaml:9"));
        assert_eq!(found.deployment().unwrap().metadata.name.as_deref(), Some("cloud"));
    }
}
