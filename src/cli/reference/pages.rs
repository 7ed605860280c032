//! Builds the pages of the reference documentation: one for each entry of the catalogue, and an index.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::table::{first_sentence, table};
use super::{Error, Kind, Reference};

/// The comment at the top of every generated page.
const GENERATED: &str = "<!-- Written by `sh deploy/docs/generate`; do not edit. -->\n";

/// Returns the text of every page. The keys are the paths of the pages, relative to the folder of the reference.
///
/// # Errors
/// Returns an error if [`Reference::describe`] fails. This never happens here, because the function describes only
/// entries that the reference contains.
pub fn pages(reference: &Reference) -> Result<BTreeMap<String, String>, Error> {
    let mut pages = BTreeMap::new();
    let mut index = format!(
        "{GENERATED}\n# The catalogue\n\nThe services of OpenStack-Helm, and charts of other projects that belong to them. `osdpl catalog KIND NAME` shows these pages \
         for your own catalogue, `osdpl explain` shows the source of a value of your cloud.\n"
    );
    for kind in Kind::ALL {
        let lines = reference.list(kind);
        let link = |name: &str| format!("[{name}]({}/{name}.md)", kind.name());
        let rows: Vec<_> =
            lines.iter().map(|line| [link(&line.name), first_sentence(&line.description).to_owned()]).collect();
        let _ = write!(index, "\n## {}\n\n{}", title(kind), table(["name", "description"], &rows));
        for line in lines {
            let page = reference.describe(kind, &line.name)?.page;
            pages.insert(format!("{}/{}.md", kind.name(), line.name), format!("{GENERATED}\n{}", escape_html(&page)));
        }
    }
    pages.insert("index.md".into(), index);
    Ok(pages)
}

/// Escapes each `<` in a Markdown page, except in code. Otherwise, a text such as `<service>.example.org` would start
/// an HTML tag.
fn escape_html(page: &str) -> String {
    let mut in_block = false;
    let escaped = page.lines().map(|line| {
        let fence = line.trim_start().starts_with("```");
        in_block ^= fence;
        if fence || in_block {
            return format!("{line}\n");
        }
        let parts = line.split('`').enumerate();
        let parts = parts.map(|(at, part)| if at % 2 == 0 { part.replace('<', "\\<") } else { part.to_owned() });
        parts.collect::<Vec<_>>().join("`") + "\n"
    });
    escaped.collect()
}

fn title(kind: Kind) -> &'static str {
    match kind {
        Kind::Services => "Services",
        Kind::Presets => "Presets",
        Kind::Features => "Features",
        Kind::Releases => "Releases of OpenStack",
    }
}
