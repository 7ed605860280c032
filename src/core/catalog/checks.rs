//! Loads the files that contain paths in the values of several releases: `values/couplings.yaml` and
//! `values/rules.yaml` with checks of these values, and `values/hooks.yaml` with the values that no hook reads.

mod coupling;
mod hooks;
mod pool;
mod rule;
mod separate_servers;
mod shared;

use std::collections::BTreeMap;

use super::{Error, Files, Service};
use osdpl_values::Path;

pub use coupling::{EqualSetting, SettingPath};
pub use pool::ConnectionPool;
pub use rule::Rule;
pub use separate_servers::SeparateServers;
pub use shared::SharedClaim;

/// The path of the file with the tables of [`CrossChecks`] except for the couplings.
const RULES_FILE: &str = "values/rules.yaml";

/// The checks of helm values that `values/couplings.yaml` and `values/rules.yaml` declare. Each field contains the
/// entries of one table of these files.
#[derive(Debug, Default)]
pub struct CrossChecks {
    /// Settings that must be equal in several charts (`couplings`).
    pub couplings: Vec<EqualSetting>,
    /// Conditions on the final values of releases (`rules`).
    pub rules: Vec<Rule>,
    /// Components whose pods keep pools of connections to the database (`pools`).
    pub pools: Vec<ConnectionPool>,
    /// Servers that form a quorum and must run on different nodes (`separateServers`).
    pub separate_servers: Vec<SeparateServers>,
    /// Volume claims that pods on several nodes mount at once (`shared`).
    pub shared: Vec<SharedClaim>,
    /// Suffixes of the names of storage provisioners whose volumes only one node can mount (`unshared`).
    pub unshared: Vec<String>,
}

/// Reads the tables of `values/couplings.yaml`, `values/rules.yaml` and `values/hooks.yaml`. `services` contains the
/// releases that the tables can name, and `errors` collects the errors in the tables.
struct Reader<'a> {
    services: &'a BTreeMap<String, Service>,
    errors: &'a mut Vec<Error>,
}

/// Reads `values/couplings.yaml` and `values/rules.yaml`, and adds the errors in these files to `errors`. If a file has
/// errors, the returned checks are incomplete.
pub(super) fn read(files: &Files, services: &BTreeMap<String, Service>, errors: &mut Vec<Error>) -> CrossChecks {
    let mut reader = Reader { services, errors };
    CrossChecks { couplings: coupling::read(files, &mut reader), ..rule::read(files, &mut reader) }
}

/// Reads `values/hooks.yaml`, and adds the errors in this file to `errors`. Returns the paths of the values that no
/// hook of a release reads, by the name of the release.
pub(super) fn read_unread_by_hooks(
    files: &Files,
    services: &BTreeMap<String, Service>,
    errors: &mut Vec<Error>,
) -> BTreeMap<String, Vec<Path>> {
    hooks::read(files, &mut Reader { services, errors })
}

impl Reader<'_> {
    /// Parses `text`, a path in the values of `release`. If the path is malformed or the release is unknown, adds an
    /// error and returns `None`.
    fn path(&mut self, file: &str, field: &str, release: &str, text: &str) -> Option<Path> {
        let path = match Path::parse(text) {
            Ok(path) => path,
            Err(error) => {
                self.errors.push(Error::Path { file: file.into(), field: format!("{field}.path"), error });
                return None;
            }
        };
        self.release(file, field, release)?;
        Some(path)
    }

    /// Returns the name of the chart of the release `name`. If the release is unknown, adds an error and returns
    /// `None`.
    fn release(&mut self, file: &str, field: &str, name: &str) -> Option<String> {
        let releases = || self.services.values().flat_map(|service| &service.releases);
        if let Some((_, release)) = releases().find(|(known, _)| *known == name) {
            return Some(release.chart.clone());
        }
        let hint = super::did_you_mean(name, releases().map(|(name, _)| name.as_str()));
        let field = format!("{field}.release");
        self.errors.push(Error::Unknown { file: file.into(), field, kind: "release", name: name.into(), hint });
        None
    }
}
