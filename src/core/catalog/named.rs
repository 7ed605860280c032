//! Reads the `ConfigMap`s with catalogue files (additions) that `spec.catalog` names, and checks their digests.

use std::collections::BTreeMap;

use super::{Addition, Level, RejectedAddition};
use crate::api::AdditionReference;
use crate::finding::Finding;

/// The data of a `ConfigMap`; `None` if the `ConfigMap` does not exist. If osdpl can't read the `ConfigMap`, the error
/// text says why, and what to do.
pub type ConfigMapData = Result<Option<BTreeMap<String, String>>, String>;

/// The additions (`ConfigMap`s with catalogue files) that a spec names, and the errors about additions that osdpl can't
/// use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamedAdditions {
    /// The additions that osdpl has read. If the spec sets a digest for an addition, the addition's content has this
    /// digest. [`extend_catalog`](super::extend_catalog) may still reject some of these additions.
    pub additions: Vec<Addition>,
    /// For each `ConfigMap` that does not exist, the field of the spec that names it, and the name of the `ConfigMap`
    /// in messages, such as `ConfigMap openstack/edge`.
    pub missing: Vec<(String, String)>,
    /// The errors about `ConfigMap`s that osdpl can't read, or whose content does not have the digest in the spec.
    pub errors: Vec<Finding>,
    /// For each addition, the field of the spec that names it. The map's key is the addition's name in messages, such
    /// as `ConfigMap openstack/edge`.
    fields: BTreeMap<String, String>,
}

impl NamedAdditions {
    /// Reads the additions that a spec names in `references`. `read` returns the data of the `ConfigMap` with a given
    /// name in `namespace`, the namespace of the `OpenStackDeployment`.
    pub fn read(
        references: &[AdditionReference],
        namespace: &str,
        mut read: impl FnMut(&str) -> ConfigMapData,
    ) -> Self {
        let mut named = Self::default();
        for (index, AdditionReference { name, digest }) in references.iter().enumerate() {
            let field = format!("spec.catalog[{index}]");
            let source = Addition::source_of(namespace, name);
            named.fields.insert(source.clone(), field.clone());
            match read(name) {
                Ok(None) => named.missing.push((format!("{field}.name"), source)),
                Err(reason) => {
                    let message = format!("{source} can't be read: {reason}");
                    named.errors.push(Finding::new(Level::Error, format!("{field}.name"), message));
                }
                Ok(Some(data)) => {
                    let addition = Addition::new(namespace, name, data);
                    match digest.as_ref().map(|digest| (digest, addition.digest())) {
                        Some((digest, found)) if *digest != found => {
                            let message = format!(
                                "{source} has the digest {found}, not the digest in this field; review the content of \
                                 the ConfigMap and write its digest here, or restore the former content"
                            );
                            named.errors.push(Finding::new(Level::Error, format!("{field}.digest"), message));
                        }
                        _ => named.additions.push(addition),
                    }
                }
            }
        }
        named
    }

    /// Returns the errors about `ConfigMap`s that do not exist.
    pub fn missing_errors(&self) -> impl Iterator<Item = Finding> {
        self.missing.iter().map(|(field, source)| {
            let message = format!("{source} does not exist; create it, or remove this entry");
            Finding::new(Level::Error, field, message)
        })
    }

    /// Returns a finding for each addition in `rejected`, the additions that [`extend_catalog`](super::extend_catalog)
    /// rejected.
    pub fn rejected_errors(&self, rejected: &[RejectedAddition]) -> Vec<Finding> {
        let error = |RejectedAddition { source, message }: &RejectedAddition| {
            let field = self.fields.get(source).map_or("spec.catalog", String::as_str);
            Finding::new(Level::Error, field, format!("{source}: {}", message.replace('\n', "; ")))
        };
        rejected.iter().map(error).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(references: &str) -> NamedAdditions {
        let references: Vec<AdditionReference> = osdpl_values::yaml::parse("spec", references).unwrap();
        NamedAdditions::read(&references, "openstack", |name| match name {
            "edge" => Ok(Some([("presets.edge.yaml".to_owned(), "preset: edge\n".to_owned())].into())),
            "secret" => Err("configmaps is forbidden; allow it".into()),
            _ => Ok(None),
        })
    }

    #[test]
    fn names_the_field_of_each_problem() {
        let found = named("[{name: edge}, {name: none}, {name: secret}]");
        assert_eq!(found.additions.len(), 1);
        assert_eq!(found.missing, [("spec.catalog[1].name".into(), "ConfigMap openstack/none".into())]);
        let missing = found.missing_errors().next().unwrap().to_string();
        assert_eq!(
            missing,
            "spec.catalog[1].name: ConfigMap openstack/none does not exist; create it, or remove this entry"
        );
        assert_eq!(
            found.errors[0].to_string(),
            "spec.catalog[2].name: ConfigMap openstack/secret can't be read: configmaps is forbidden; allow it"
        );
        let rejected = RejectedAddition { source: "ConfigMap openstack/edge".into(), message: "one\ntwo".into() };
        let rejected = found.rejected_errors(&[rejected])[0].to_string();
        assert_eq!(rejected, "spec.catalog[0]: ConfigMap openstack/edge: one; two");
    }

    #[test]
    fn accepts_only_content_with_the_digest() {
        // This command prints the digest of the ConfigMap's data:
        // printf '%s' '{"presets.edge.yaml":"preset: edge\n"}' | sha256sum
        let digest = "sha256:dff637324d3e12a05dd225a7ba084246f5c391802244dcd1dc7036291635811b";
        let found = named(&format!("[{{name: edge, digest: '{digest}'}}]"));
        assert_eq!((found.additions.len(), found.errors), (1, Vec::new()));
        let found = named(&format!("[{{name: edge, digest: 'sha256:{}'}}]", "0".repeat(64)));
        assert_eq!(found.additions, []);
        let error = found.errors[0].to_string();
        let expected = format!(
            "spec.catalog[0].digest: ConfigMap openstack/edge has the digest {digest}, not the digest in this field; \
             review the content of the ConfigMap and write its digest here, or restore the former content"
        );
        assert_eq!(error, expected);
    }
}
