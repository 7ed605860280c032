//! Drops findings that only follow from parts that were removed as invalid ([`Sound`]): their advice would be wrong.
//! Findings that still hold appear once the invalid part is corrected.

use super::place::keys_of_field;
use super::sound::Sound;
use osdpl_core::catalog::{Catalog, Check};
use osdpl_core::finding::Finding;
use osdpl_values::expr::Expression;

/// The removed presets and features that other findings depend on.
pub(super) struct Lacking<'a> {
    catalog: &'a Catalog,
    /// Whether presets were removed: then the services of the cloud are unknown.
    presets: bool,
    features: Vec<Feature>,
}

/// A feature, or a part of one, as expressions name it.
struct Feature {
    name: String,
    /// `features.network.providerNetworks`
    whole: String,
}

impl<'a> Lacking<'a> {
    pub fn of(sound: &Sound, catalog: &'a Catalog) -> Self {
        let mut lacking = Self { catalog, presets: false, features: Vec::new() };
        for keys in sound.gone().map(keys_of_field) {
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            match keys[..] {
                ["spec", "presets", ..] => lacking.presets = true,
                ["spec", "features", name, ref below @ ..] => {
                    let part = below.first().map(|part| format!(".{part}")).unwrap_or_default();
                    lacking.features.push(Feature { name: name.to_owned(), whole: format!("features.{name}{part}") });
                }
                _ => {}
            }
        }
        lacking
    }

    /// Whether a finding may only follow from the removed parts.
    pub fn explains(&self, finding: &Finding) -> bool {
        if !self.presets && self.features.is_empty() {
            return false;
        }
        let keys = keys_of_field(&finding.location.field);
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        match (finding.rule, &keys[..]) {
            ("catalogue", ["spec", "services", service] | ["spec", "services", service, "enabled"])
                if self.catalog.services.contains_key(*service) =>
            {
                self.presets || self.hangs(service)
            }
            ("catalogue", _) => self.checks().any(|check| is_of(finding, check) && self.reads(check)),
            ("no-effect", ["spec", "services", service, ..]) => self.reaches(service),
            ("no-effect", _) | (_, ["spec", "presets"]) => true,
            // A finding about a value that the user did not write has the field of the preset or feature that sets it.
            (_, ["spec", "services", service]) => self.reaches(service),
            (_, ["spec", "features", name]) => self.presets || self.features.iter().any(|lacks| lacks.name == *name),
            _ => false,
        }
    }

    fn checks(&self) -> impl Iterator<Item = &'a Check> {
        let presets = self.catalog.presets.values().flat_map(|preset| &preset.checks);
        presets.chain(self.catalog.features.values().flat_map(|feature| &feature.checks))
    }

    /// Whether a check reads a removed part. Nearly every check reads something that presets set.
    fn reads(&self, check: &Check) -> bool {
        self.presets || self.names(check.when.source()) || self.names(&check.message)
    }

    /// Whether a text of the catalogue names a removed feature, its removed part, or the feature as a whole.
    fn names(&self, text: &str) -> bool {
        let is_named = |lacks: &Feature| {
            let whole = format!("features.{}", lacks.name);
            has(text, &lacks.whole, "") || has(text, &whole, ".")
        };
        self.features.iter().any(is_named)
    }

    /// Whether a removed part decides which releases of a service are part of the cloud.
    fn hangs(&self, service: &str) -> bool {
        let names = |when: Option<&Expression>| when.is_some_and(|when| self.names(when.source()));
        let Some(service) = self.catalog.services.get(service) else { return false };
        service.releases.values().any(|release| names(release.when.as_ref()))
    }

    /// Whether a removed part may set values of a service.
    fn reaches(&self, service: &str) -> bool {
        let Some(service) = self.catalog.services.get(service) else { return false };
        let sets = |lacks: &Feature| {
            let fragments = self.catalog.features.get(&lacks.name).into_iter().flat_map(|feature| &feature.fragments);
            fragments.into_iter().any(|fragment| service.releases.keys().any(|name| fragment.body(name).is_some()))
        };
        self.presets || self.features.iter().any(sets)
    }
}

/// Whether a finding is the result of a check: its message begins like the check's.
fn is_of(finding: &Finding, check: &Check) -> bool {
    let begins = check.message.split("${").next().unwrap_or_default();
    finding.location.field == check.field && finding.level == check.level && finding.message.starts_with(begins)
}

/// Whether a text contains these words as a whole, not followed by `nor`.
fn has(text: &str, words: &str, nor: &str) -> bool {
    let is_end = |rest: &str| {
        !rest.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '_')
            && (nor.is_empty() || !rest.starts_with(nor))
    };
    text.match_indices(words).any(|(at, _)| is_end(&text[at + words.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_feature_is_named_by_itself_or_with_the_whole() {
        let feature = Feature { name: "network".into(), whole: "features.network.mtu".into() };
        let catalog = Catalog::default();
        let lacking = Lacking { catalog: &catalog, presets: false, features: vec![feature] };
        for (text, is) in [
            ("has(features.network.mtu)", true),
            ("size(features.network) > 0", true),
            ("'x' in features.network", true),
            ("features.network.mtuOf > 1", false),
            ("features.network.dnsServers == ''", false),
            ("features.networkPolicies.enabled", false),
        ] {
            assert_eq!(lacking.names(text), is, "{text}");
        }
    }
}
