//! A preset, described.

use std::fmt::Write as _;

use serde_json::json;

use super::{Described, written};
use crate::catalog::file;

/// Its services, features, values and checks.
pub fn describe(entry: &file::Preset) -> Described {
    let file::Preset { preset, description, services, features, fragments, checks } = entry;
    let mut page = format!("# {preset}\n\n{}\n", description.trim());
    if !services.is_empty() {
        let _ = write!(page, "\n## Services\n\n{}\n", services.join(", "));
    }
    if !features.is_empty() {
        let _ = write!(page, "\n## Features\n\n{}", written::block(&features.clone().into()));
    }
    page.push_str(&written::shown(fragments));
    page.push_str(&written::checks(checks));
    let facts = json!({
        "kind": "preset", "name": preset, "description": description, "services": services, "features": features,
        "values": written::facts(fragments), "checks": written::checks_facts(checks),
    });
    Described { facts, page }
}
