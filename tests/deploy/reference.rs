//! The reference documentation: what the catalogue says, page by page.

use std::collections::BTreeSet;
use std::path::Path;

use osdpl_cli::reference::{Reference, pages};

use crate::read;

const FOLDER: &str = "deploy/docs/reference";
/// What a reader, and a checkout, can bear.
const LARGEST: usize = 1 << 20;

#[test]
fn the_committed_pages_are_what_the_catalogue_says() {
    let reference = Reference::read(&osdpl_core::files::built_in()).unwrap();
    let pages = pages(&reference).unwrap();
    for (name, text) in &pages {
        let path = format!("{FOLDER}/{name}");
        assert!(
            Path::new(env!("CARGO_MANIFEST_DIR")).join(&path).exists(),
            "{path} is missing: sh deploy/docs/generate"
        );
        assert!(*text == read(&path), "{path} is out of date: sh deploy/docs/generate");
    }
    let written: BTreeSet<String> = below(FOLDER).into_iter().collect();
    let stale: Vec<_> = written.iter().filter(|name| !pages.contains_key(*name)).collect();
    assert!(stale.is_empty(), "{stale:?} describe nothing any more: sh deploy/docs/generate");
    assert!(pages.values().map(String::len).sum::<usize>() < LARGEST);
}

/// The files of a folder and of those in it, by their paths below it.
fn below(folder: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let names = |folder: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        entries.map(|name| name.into_string().unwrap()).collect()
    };
    let one = |name: String| {
        let path = root.join(&name);
        if path.is_dir() { names(&path).iter().map(|below| format!("{name}/{below}")).collect() } else { vec![name] }
    };
    names(&root).into_iter().flat_map(one).collect()
}
