//! Writes the page about a feature in the reference documentation.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use osdpl_values::CollectSorted;
use serde_json::json;

use super::{Description, fragments, schema};
use osdpl_core::catalog::file;

/// Describes a feature: its fields, default, values, certificates and checks.
pub(crate) fn describe(entry: &file::Feature) -> Description {
    let file::Feature { feature, description, schema: feature_schema, default, fragments, certificates, checks } =
        entry;
    let fields = schema::fields(feature_schema);
    let releases: BTreeSet<&str> =
        fragments.iter().flat_map(|fragment| fragment.releases.keys().map(String::as_str)).collect_set();
    let mut page = format!("# {feature}\n\n{}\n\nSet by `spec.features.{feature}`", description.trim());
    if !releases.is_empty() {
        let _ = write!(page, "; it sets values of {}", releases.iter().copied().collect::<Vec<_>>().join(", "));
    }
    let _ = write!(page, ".\n\n## Fields\n\n{}", schema::fields_table(&fields));
    let _ = write!(page, "\n## Default\n\n{}", fragments::block(default));
    page.push_str(&fragments::fragments_page(fragments));
    page.push_str(&fragments::certificates(certificates));
    page.push_str(&fragments::checks(checks));
    let facts = json!({
        "kind": "feature", "name": feature, "description": description, "fields": fields, "schema": feature_schema, "default": default,
        "releases": releases, "values": fragments::fragments_data(fragments), "certificates": fragments::certificates_data(certificates), "checks": fragments::checks_data(checks),
    });
    Description { data: facts, page }
}
