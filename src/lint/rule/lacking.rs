//! A resource that something was taken out of ([`Sound`]) is judged as if that had never been written. What is said of it for this very reason is left out:
//! the advice would be wrong, and what is true of it is told once the mistake is mended.

use super::place::keys_of_field;
use super::sound::Sound;
use osdpl_core::catalog::{Catalog, Check};
use osdpl_core::finding::Finding;
use osdpl_values::expr::Expression;

/// What the rest of the resource is judged by, and is not there.
pub(super) struct Lacking<'a> {
    catalog: &'a Catalog,
    /// Whether presets are missing: nobody knows then which services there are.
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

    /// Whether what is said may only follow of what is not there.
    pub fn explains(&self, judged: &Finding) -> bool {
        if !self.presets && self.features.is_empty() {
            return false;
        }
        let keys = keys_of_field(&judged.location.field);
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        match (judged.rule, &keys[..]) {
            ("catalogue", ["spec", "services", service] | ["spec", "services", service, "enabled"])
                if self.catalog.services.contains_key(*service) =>
            {
                self.presets || self.hangs(service)
            }
            ("catalogue", _) => self.checks().any(|check| is_of(judged, check) && self.reads(check)),
            ("no-effect", ["spec", "services", service, ..]) => self.reaches(service),
            ("no-effect", _) | (_, ["spec", "presets"]) => true,
            // What is said of a value that is not the user's own is said of what brings it.
            (_, ["spec", "services", service]) => self.reaches(service),
            (_, ["spec", "features", name]) => self.presets || self.features.iter().any(|lacks| lacks.name == *name),
            _ => false,
        }
    }

    fn checks(&self) -> impl Iterator<Item = &'a Check> {
        let presets = self.catalog.presets.values().flat_map(|preset| &preset.checks);
        presets.chain(self.catalog.features.values().flat_map(|feature| &feature.checks))
    }

    /// Whether a check asks for what is missing; what presets bring, nearly every one does.
    fn reads(&self, check: &Check) -> bool {
        self.presets || self.names(check.when.source()) || self.names(&check.message)
    }

    /// Whether a text of the catalogue names a feature that is missing, the part of it that is, or the whole.
    fn names(&self, text: &str) -> bool {
        let is_named = |lacks: &Feature| {
            let whole = format!("features.{}", lacks.name);
            has(text, &lacks.whole, "") || has(text, &whole, ".")
        };
        self.features.iter().any(is_named)
    }

    /// Whether what is missing decides what of a service is part of the cloud.
    fn hangs(&self, service: &str) -> bool {
        let names = |when: Option<&Expression>| when.is_some_and(|when| self.names(when.source()));
        let Some(service) = self.catalog.services.get(service) else { return false };
        service.releases.values().any(|release| names(release.when.as_ref()))
    }

    /// Whether what is missing may set values of a service.
    fn reaches(&self, service: &str) -> bool {
        let Some(service) = self.catalog.services.get(service) else { return false };
        let sets = |lacks: &Feature| {
            let fragments = self.catalog.features.get(&lacks.name).into_iter().flat_map(|feature| &feature.fragments);
            fragments.into_iter().any(|fragment| service.releases.keys().any(|name| fragment.body(name).is_some()))
        };
        self.presets || self.features.iter().any(sets)
    }
}

/// Whether a finding is a check's: its message begins as the check's does.
fn is_of(judged: &Finding, check: &Check) -> bool {
    let begins = check.message.split("${").next().unwrap_or_default();
    judged.location.field == check.field && judged.level == check.level && judged.message.starts_with(begins)
}

/// Whether a text has these words, and no letter behind them, nor one of these.
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
