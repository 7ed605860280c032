//! The file that describes a cloud: the resource, and the Secrets that it refers to.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use serde_json::{Map, Value, json};

use osdpl_core::adopt::Description;
use osdpl_values::yaml;

/// Only its owner reads it: there are passwords in it.
const PRIVATE: u32 = 0o600;

pub struct Written<'a> {
    pub name: &'a str,
    pub namespace: &'a str,
    pub described: &'a Description,
    /// What is said of the cloud's Ceph.
    pub note: Option<&'a str>,
}

impl Written<'_> {
    /// Writes all of it, Secrets first, so that `kubectl apply` makes them before the resource that names them.
    #[allow(clippy::disallowed_methods, reason = "the command line writes the file that its user names")]
    pub fn save(&self, file: &Path) -> anyhow::Result<()> {
        let mut open = std::fs::OpenOptions::new();
        let mut target = open.write(true).create(true).truncate(true).mode(PRIVATE).open(file)?;
        // A file that was there keeps its own rights when it is opened.
        target.set_permissions(std::fs::Permissions::from_mode(PRIVATE))?;
        target.write_all(self.text(true)?.as_bytes())?;
        Ok(())
    }

    pub fn text(&self, secrets: bool) -> anyhow::Result<String> {
        let mut text = String::new();
        if secrets {
            for secret in self.secrets() {
                let _ = writeln!(text, "{}---", yaml::write(&secret));
            }
        } else if !self.described.secrets.is_empty() {
            let names = self.described.secrets.keys().cloned().collect::<Vec<_>>().join(", ");
            let _ = writeln!(
                text,
                "# Without the Secrets that it names, which hold passwords (--out FILE writes them too): {names}"
            );
        }
        text.push_str("# It is paused and takes nothing over: look at `osdpl plan`, name what to take over with `osdpl adopt RELEASE…`, and set\n");
        text.push_str("# `paused` to false when all is as it should be.\n");
        let Self { name, namespace, described, note } = self;
        // What is only guessed is to be corrected here.
        let guessed = described.findings.iter().filter(|finding| finding.field == "spec.openstackRelease");
        let notes = note.iter().map(|note| (*note).to_owned()).chain(guessed.map(ToString::to_string));
        for line in notes.flat_map(|note| wrapped(&note)) {
            let _ = writeln!(text, "# {line}");
        }
        text.push_str(&yaml::write(&json!({
            "apiVersion": "osdpl.dev/v1alpha1",
            "kind": "OpenStackDeployment",
            "metadata": {"name": name, "namespace": namespace},
            "spec": bare(serde_json::to_value(&described.spec)?),
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

/// Without maps that say nothing, outside of values.
fn bare(spec: Value) -> Value {
    let Value::Object(map) = spec else { return spec };
    let kept = map.into_iter().filter_map(|(key, value)| {
        let value = if key == "values" || key == "features" { value } else { bare(value) };
        (!value.as_object().is_some_and(Map::is_empty) && !value.is_null()).then_some((key, value))
    });
    Value::Object(kept.collect())
}

/// Lines that are no longer than lines of YAML should be.
fn wrapped(text: &str) -> Vec<String> {
    const WIDEST: usize = 140;
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().filter(|line| line.is_empty() || line.len() + word.len() < WIDEST);
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => drop(write!(line, " {word}")),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}
