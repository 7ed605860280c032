//! Reads `values/hooks.yaml`: the values that no hook of a release reads.

use std::collections::BTreeMap;

use super::{Files, Reader};
use crate::catalog::file;
use osdpl_values::Path;

const FILE: &str = "values/hooks.yaml";

/// Returns the paths of the values that no hook of a release reads, by the name of the release.
pub(super) fn read(files: &Files, reader: &mut Reader<'_>) -> BTreeMap<String, Vec<Path>> {
    let Some(text) = files.get(FILE) else { return BTreeMap::new() };
    let file: file::Hooks = text.read(FILE).unwrap_or_else(|error| {
        reader.errors.push(error.into());
        file::Hooks::default()
    });
    let mut unread: BTreeMap<String, Vec<Path>> = BTreeMap::new();
    for (index, entry) in file.unread.into_iter().enumerate() {
        let field = format!("unread[{index}]");
        for name in entry.releases {
            let paths = entry.paths.iter().filter_map(|text| reader.path(FILE, &field, &name, text));
            unread.entry(name.clone()).or_default().extend(paths);
        }
    }
    unread
}
