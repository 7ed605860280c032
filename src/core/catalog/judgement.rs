//! What is judged between the values of releases: `values/couplings.yaml` and `values/rules.yaml`.

mod apart;
mod coupling;
mod pool;
mod rule;
mod shared;

use std::collections::BTreeMap;

use super::{Error, Files, Service};
use osdpl_values::Path;

pub use apart::Apart;
pub use coupling::{Coupling, Place};
pub use pool::Pool;
pub use rule::Rule;
pub use shared::Shared;

/// The tables.
#[derive(Debug, Default)]
pub struct Judgements {
    /// What several charts must be told alike.
    pub couplings: Vec<Coupling>,
    /// What must hold between values.
    pub rules: Vec<Rule>,
    /// Pods that keep connections to the database.
    pub pools: Vec<Pool>,
    /// Servers that belong on nodes of their own.
    pub apart: Vec<Apart>,
    /// Claims that pods on several nodes mount at once.
    pub shared: Vec<Shared>,
    /// How the names of provisioners end whose volumes one node alone can mount.
    pub unshared: Vec<String>,
}

/// What the tables are read with.
struct Reader<'a> {
    services: &'a BTreeMap<String, Service>,
    errors: &'a mut Vec<Error>,
}

/// Reads the tables; what is wrong with them goes to `errors`.
pub(super) fn read(files: &Files, services: &BTreeMap<String, Service>, errors: &mut Vec<Error>) -> Judgements {
    let mut reader = Reader { services, errors };
    Judgements { couplings: coupling::read(files, &mut reader), ..rule::read(files, &mut reader) }
}

impl Reader<'_> {
    /// A path of this release's chart, where both exist.
    fn path(&mut self, file: &str, field: &str, release: Option<&str>, text: &str) -> Option<Path> {
        let path = match Path::parse(text) {
            Ok(path) => path,
            Err(error) => {
                self.errors.push(Error::Path { file: file.into(), field: format!("{field}.path"), error });
                return None;
            }
        };
        self.release(file, field, release?)?;
        Some(path)
    }

    /// The chart of a release.
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
