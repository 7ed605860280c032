//! Checks that the generated reference documentation describes the whole catalogue.

use std::collections::BTreeSet;

use osdpl_cli::reference::{Kind, Reference, pages};

/// The maximum size of all pages together, in bytes.
const LARGEST: usize = 2 << 20;

#[test]
fn the_reference_has_a_page_for_everything() {
    let files = osdpl_core::files::built_in();
    let pages = pages(&Reference::read(&files).unwrap()).unwrap();
    let index = &pages["index.md"];
    let mut expected: BTreeSet<String> = ["index.md".to_owned()].into();
    for (kind, folder) in [
        (Kind::Services, "values/services/"),
        (Kind::Presets, "presets/"),
        (Kind::Features, "values/features/"),
        (Kind::Releases, "values/openstack/"),
    ] {
        let names = files.keys().filter_map(|path| path.strip_prefix(folder)?.strip_suffix(".yaml"));
        let names: Vec<&str> = names.filter(|name| !name.contains('/')).collect();
        assert!(!names.is_empty(), "{folder} is empty");
        for name in names {
            let page = format!("{}/{name}.md", kind.name());
            assert!(index.contains(&format!("]({page})")), "the index has no link to {page}");
            expected.insert(page);
        }
    }
    assert_eq!(pages.keys().cloned().collect::<BTreeSet<_>>(), expected);
    assert!(pages.values().map(String::len).sum::<usize>() < LARGEST);
}

#[test]
fn committed_pages_match_the_catalogue() {
    let reference = Reference::read(&osdpl_core::files::built_in()).unwrap();
    for line in reference.list(Kind::Features) {
        let described = reference.describe(Kind::Features, &line.name).unwrap();
        let page = one_line(&described.page);
        for field in described.data["fields"].as_array().unwrap() {
            let (path, meaning) = (field["path"].as_str().unwrap(), one_line(field["meaning"].as_str().unwrap()));
            // The page may show the field's meaning in a cell of a Markdown table, in which `|` is escaped.
            let is_described = page.contains(&meaning) || page.contains(&meaning.replace('|', "\\|"));
            let is_named = path.is_empty() || page.contains(&format!("`{path}`"));
            assert!(is_described && is_named, "features/{}.md lacks {path}: {meaning}", line.name);
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
