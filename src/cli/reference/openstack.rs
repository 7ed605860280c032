//! Writes the page about an OpenStack release in the reference documentation.

use std::fmt::Write as _;

use serde_json::json;

use super::{Description, fragments};
use osdpl_core::catalog::file;

/// Describes an OpenStack release: from which releases a cloud can be upgraded to it, the variables that it defines for
/// the catalogue's expressions, and its values.
pub(crate) fn describe(entry: &file::OpenStackRelease) -> Description {
    let file::OpenStackRelease { openstack_release, description, variables, upgrades_from, fragments } = entry;
    let mut page = format!("# {openstack_release}\n\n{}\n", description.trim());
    if !upgrades_from.is_empty() {
        let _ = write!(page, "\nUpgrades are possible from {}.\n", upgrades_from.join(", "));
    }
    if !variables.is_empty() {
        let _ =
            write!(page, "\n## Variable `openstack` in expressions\n\n{}", fragments::block(&variables.clone().into()));
    }
    page.push_str(&fragments::fragments_page(fragments));
    let facts = json!({
        "kind": "release", "name": openstack_release, "description": description, "upgradesFrom": upgrades_from,
        "variables": variables, "values": fragments::fragments_data(fragments),
    });
    Description { data: facts, page }
}
