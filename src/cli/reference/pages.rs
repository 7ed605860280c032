//! The reference documentation: a page per item, and an index.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::table::table;
use super::{Error, Kind, Reference};

/// The header of every page.
const GENERATED: &str = "<!-- Written by `sh deploy/docs/generate`; do not edit. -->\n";

/// Returns every page, by its path below the folder of the reference.
///
/// # Errors
/// Never for a catalogue that could be read; [`Reference::describe`] returns a `Result`.
pub fn pages(reference: &Reference) -> Result<BTreeMap<String, String>, Error> {
    let mut pages = BTreeMap::new();
    let mut index = format!(
        "{GENERATED}\n# The catalogue\n\nThe services of OpenStack-Helm, and charts of other projects that belong to them. `osdpl catalog KIND NAME` shows these pages \
         for your own catalogue, `osdpl explain` shows the source of a value of your cloud.\n"
    );
    for kind in Kind::ALL {
        let lines = reference.list(kind);
        let link = |name: &str| format!("[{name}]({}/{name}.md)", kind.name());
        let rows: Vec<_> = lines.iter().map(|line| [link(&line.name), line.description.clone()]).collect();
        let _ = write!(index, "\n## {}\n\n{}", title(kind), table(["name", "description"], &rows));
        for line in lines {
            let page = reference.describe(kind, &line.name)?.page;
            pages.insert(format!("{}/{}.md", kind.name(), line.name), format!("{GENERATED}\n{page}"));
        }
    }
    pages.insert("README.md".into(), index);
    Ok(pages)
}

fn title(kind: Kind) -> &'static str {
    match kind {
        Kind::Services => "Services",
        Kind::Presets => "Presets",
        Kind::Features => "Features",
        Kind::Releases => "Releases of OpenStack",
    }
}
