//! The order in which a new cloud comes up, from its spec alone.

use std::collections::BTreeMap;

use kube::ResourceExt;

use super::shown::{Kind, Line, Shown};
use crate::api::OpenStackDeployment;
use crate::desired::{Desired, Provider};

/// Every release, those that others need first.
pub fn new_cloud(deployment: &OpenStackDeployment, desired: &Desired) -> Shown {
    let depths = depths(desired);
    let mut names: Vec<_> = desired.releases.keys().map(String::as_str).collect();
    names.sort_by_key(|name| depths[name]);
    let line = |name: &str| {
        let release = &desired.releases[name];
        let needs: Vec<String> = release.needs.keys().map(ToString::to_string).collect();
        let kind = if needs.is_empty() { Kind::Do } else { Kind::Wait };
        let when = match needs.as_slice() {
            [] => "at once".to_owned(),
            needs => format!("as soon as {} are available", needs.join(", ")),
        };
        Line {
            name: name.to_owned(),
            release: release.key.to_string(),
            kind,
            message: format!("helm upgrade --install in {}, {when}", release.key.namespace),
            needs,
            ..Line::default()
        }
    };
    Shown {
        name: deployment.name_any(),
        namespace: deployment.namespace().unwrap_or_default(),
        is_offline: true,
        releases: names.into_iter().map(line).collect(),
        ..Shown::default()
    }
}

/// How long the longest chain of needs below each release is.
fn depths(desired: &Desired) -> BTreeMap<&str, usize> {
    let mut depths: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..=desired.releases.len() {
        for (name, release) in &desired.releases {
            let below = release.needs.values().filter_map(|provider| match provider {
                Provider::Release(name) => Some(depths.get(name.as_str()).copied().unwrap_or_default() + 1),
                Provider::External(_) => None,
            });
            depths.insert(name, below.max().unwrap_or_default());
        }
    }
    depths
}
