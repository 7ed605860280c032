//! Reads `values/couplings.yaml`: settings that must be equal in several charts.

use serde::Deserialize;
use serde_json::Value;

use super::super::{Error, Files};
use super::Reader;
use osdpl_values::Path;
use osdpl_values::expr::Expression;

/// The path of the file that this module reads.
const FILE: &str = "values/couplings.yaml";

/// A setting that several charts have, possibly at different paths. Its value must be equal in all these charts.
#[derive(Debug)]
pub struct EqualSetting {
    /// The name of the setting in messages, such as `the Keystone region`.
    pub what: String,
    /// The reason why the charts must agree on the setting.
    pub why: String,
    /// The text in messages that tells users how to make the values equal, such as `set spec.region instead`. If it is
    /// empty, messages say `set equal values`.
    pub remedy: String,
    /// The default of the setting in upstream's charts. At each path that no layer sets, osdpl assumes this default. If
    /// the field is `None`, osdpl compares only the paths that a layer sets.
    pub default: Option<Value>,
    /// An expression for the value that the setting should have, such as `spec.region`; `None` if the values only need
    /// to be equal.
    pub expected: Option<Expression>,
    /// For a setting of a server and its clients: the name of the release with the server that most services share,
    /// such as `rabbitmq`. `None` for any other setting.
    ///
    /// A service can also have its own server: nova can use `rabbitmq-nova`. osdpl compares each server only with the
    /// clients of this server, so two servers can have different settings.
    pub server: Option<String>,
    /// The paths at which the values of releases contain the setting.
    pub paths: Vec<SettingPath>,
}

/// A path at which the values of one or several releases contain a setting that must be equal ([`EqualSetting`]).
#[derive(Debug)]
pub struct SettingPath {
    /// The name of the release whose values contain the path; `None` for every release whose chart knows the path.
    pub release: Option<String>,
    /// The path in the release's values; a key `*` matches any key.
    pub path: Path,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    couplings: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    what: String,
    why: String,
    #[serde(default)]
    remedy: String,
    #[serde(default)]
    default: Option<Value>,
    #[serde(default)]
    expected: Option<String>,
    #[serde(default)]
    server: Option<String>,
    paths: Vec<PathEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PathEntry {
    #[serde(default)]
    release: Option<String>,
    path: String,
}

pub(super) fn read(files: &Files, reader: &mut Reader<'_>) -> Vec<EqualSetting> {
    let Some(text) = files.get(FILE) else { return Vec::new() };
    let file: File = text.read(FILE).unwrap_or_else(|error| {
        reader.errors.push(error.into());
        File::default()
    });
    file.couplings.into_iter().enumerate().map(|(index, entry)| coupling(index, entry, reader)).collect()
}

fn coupling(index: usize, entry: Entry, reader: &mut Reader<'_>) -> EqualSetting {
    let field = format!("couplings[{index}]");
    let expected = entry.expected.and_then(|text| {
        let compiled = Expression::compile(&text);
        compiled
            .map_err(|error| {
                let field = format!("{field}.expected");
                reader.errors.push(Error::Expression { file: FILE.into(), line: 0, field, error });
            })
            .ok()
    });
    let paths = entry.paths.into_iter().enumerate();
    let paths = paths.filter_map(|(position, entry)| {
        let field = format!("{field}.paths[{position}]");
        let path = match &entry.release {
            Some(name) => reader.path(FILE, &field, name, &entry.path)?,
            None => Path::parse(&entry.path)
                .map_err(|error| reader.errors.push(Error::Path { file: FILE.into(), field, error }))
                .ok()?,
        };
        Some(SettingPath { release: entry.release, path })
    });
    let paths = paths.collect();
    let server = entry.server.filter(|name| reader.release(FILE, &field, name).is_some());
    let Entry { what, why, remedy, default, .. } = entry;
    EqualSetting { what, why, remedy, default, expected, server, paths }
}
