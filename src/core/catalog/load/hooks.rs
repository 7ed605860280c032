//! Loads `values/hooks.yaml`.

use std::collections::BTreeMap;

use super::Loader;
use crate::catalog::error::did_you_mean;
use crate::catalog::{Error, Service, file};
use osdpl_values::Path;

const FILE: &str = "values/hooks.yaml";

impl Loader<'_> {
    /// Returns the paths of the values that no hook of a release reads, by the name of the release.
    pub(super) fn unread_by_hooks(&mut self, services: &BTreeMap<String, Service>) -> BTreeMap<String, Vec<Path>> {
        let mut unread: BTreeMap<String, Vec<Path>> = BTreeMap::new();
        let entries = self.parse::<file::Hooks>(FILE).unwrap_or_default().unread;
        for (index, entry) in entries.into_iter().enumerate() {
            let field = format!("unread[{index}]");
            let paths: Vec<Path> = entry.paths.iter().filter_map(|text| self.path(&field, text)).collect();
            for name in entry.releases {
                let names = || services.values().flat_map(|service| service.releases.keys());
                if !names().any(|known| *known == name) {
                    let hint = did_you_mean(&name, names().map(String::as_str));
                    let field = format!("{field}.releases");
                    self.errors.push(Error::Unknown { file: FILE.into(), field, kind: "release", name, hint });
                    continue;
                }
                unread.entry(name).or_default().extend(paths.iter().cloned());
            }
        }
        unread
    }

    fn path(&mut self, field: &str, text: &str) -> Option<Path> {
        let field = format!("{field}.paths");
        let wrong = |error| self.errors.push(Error::Path { file: FILE.into(), field, error });
        Path::parse(text).map_err(wrong).ok()
    }
}
