//! Writes the file that describes an existing cloud: the `OpenStackDeployment` and its Secrets.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use serde_json::{Map, Value, json};

use osdpl_core::adopt::Description;
use osdpl_values::yaml;

/// The permissions of the file that `osdpl adopt` writes: only its owner can read it, because it contains passwords.
const PRIVATE: u32 = 0o600;

/// The file that describes an existing cloud: the `OpenStackDeployment`, and the Secrets that it references.
pub(crate) struct DescriptionFile<'a> {
    pub name: &'a str,
    pub namespace: &'a str,
    pub described: &'a Description,
    /// The note about the cloud's Ceph cluster. The file contains the note as a comment. `None` if the cloud uses no
    /// Ceph.
    pub note: Option<&'a str>,
}

impl DescriptionFile<'_> {
    /// Writes the file. The Secrets come before the `OpenStackDeployment`, because `kubectl apply` must create the
    /// Secrets before the `OpenStackDeployment` that references them.
    #[allow(clippy::disallowed_methods, reason = "the command line writes the file that its user names")]
    pub(crate) fn save(&self, file: &Path) -> anyhow::Result<()> {
        let mut open = std::fs::OpenOptions::new();
        let mut target = open.write(true).create(true).truncate(true).mode(PRIVATE).open(file)?;
        // `mode` above sets the permissions only if the file is new. So also restrict an existing file before writing
        // passwords to it.
        target.set_permissions(std::fs::Permissions::from_mode(PRIVATE))?;
        target.write_all(self.text(true)?.as_bytes())?;
        Ok(())
    }

    /// Returns the `OpenStackDeployment` as YAML. With `with_secrets`, the text also contains the Secrets and their
    /// passwords.
    pub(crate) fn text(&self, with_secrets: bool) -> anyhow::Result<String> {
        let mut text = String::new();
        if with_secrets {
            for secret in self.secrets() {
                let _ = writeln!(text, "{}---", yaml::write(&secret));
            }
        } else if !self.described.secrets.is_empty() {
            let names = self.described.secrets.keys().cloned().collect::<Vec<_>>().join(", ");
            let _ = writeln!(
                text,
                "# The referenced Secrets contain passwords, and are left out here (--out FILE also writes them): {names}"
            );
        }
        text.push_str("# The cloud is paused and osdpl adopts nothing yet: check `osdpl plan`, adopt releases with `osdpl adopt RELEASE…`, and set\n");
        text.push_str("# `paused` to false when the plan is as expected.\n");
        let Self { name, namespace, described, note } = self;
        // osdpl guesses the OpenStack release, and a finding describes the guess. The file repeats this finding as a
        // comment, so that the user checks the guess.
        let guessed = described.findings.iter().filter(|finding| finding.location.field == "spec.openstackRelease");
        let notes = note.iter().map(|note| (*note).to_owned()).chain(guessed.map(ToString::to_string));
        for line in notes.flat_map(|note| wrap(&note)) {
            let _ = writeln!(text, "# {line}");
        }
        text.push_str(&yaml::write(&json!({
            "apiVersion": "osdpl.dev/v1alpha1",
            "kind": "OpenStackDeployment",
            "metadata": {"name": name, "namespace": namespace},
            "spec": without_empty(serde_json::to_value(&described.spec)?),
        })));
        Ok(text)
    }

    fn secrets(&self) -> Vec<Value> {
        let secrets = self.described.secrets.iter().map(|(name, keys)| {
            let data: Map<String, Value> =
                keys.iter().map(|(key, content)| (key.clone(), content.text().into())).collect();
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
                "metadata": {"name": name, "namespace": self.namespace}, "stringData": data,
            })
        });
        secrets.collect()
    }
}

/// Removes empty maps and nulls from a spec. Keeps them below `values` and `features`, where an empty map or null has a
/// meaning.
fn without_empty(spec: Value) -> Value {
    let Value::Object(map) = spec else { return spec };
    let entries = map.into_iter().filter_map(|(key, value)| {
        let value = if key == "values" || key == "features" { value } else { without_empty(value) };
        (!value.as_object().is_some_and(Map::is_empty) && !value.is_null()).then_some((key, value))
    });
    Value::Object(entries.collect())
}

/// Wraps a text, which becomes a comment in the file, into lines of limited width.
fn wrap(text: &str) -> Vec<String> {
    const MAX_WIDTH: usize = 140;
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().filter(|line| line.is_empty() || line.len() + word.len() < MAX_WIDTH);
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => drop(write!(line, " {word}")),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}
