use std::collections::BTreeMap;

use osdpl_core::api::AdditionReference;

use super::*;

/// Returns the additions of a spec that names one `ConfigMap` for each of `presets`. Each item of `presets` consists of
/// the name that the preset and its `ConfigMap` share, and the text in the `ConfigMap`; the text is `None` if the
/// `ConfigMap` is missing.
fn named(presets: &[(&str, Option<&str>)]) -> NamedAdditions {
    let reference = |(name, _): &(&str, _)| AdditionReference { name: (*name).to_owned(), digest: None };
    let references: Vec<_> = presets.iter().map(reference).collect();
    let texts: BTreeMap<_, _> = presets.iter().copied().collect();
    NamedAdditions::read(&references, "openstack", |name| {
        Ok(texts[name].map(|text| [(format!("presets.{name}.yaml"), text.to_owned())].into()))
    })
}

const EDGE: &str = "preset: edge\ndescription: First.\nservices: [keystone]\n";
const INVALID: &str = "preset: edge\ndescription: Second.\nservices: [keystne]\n";

fn catalog() -> CatalogHandle {
    CatalogHandle::new(files::load_catalog(None).unwrap(), None)
}

fn errors(handle: &CatalogHandle) -> Vec<String> {
    let findings = handle.findings();
    assert!(findings.iter().all(|finding| finding.level == Level::Error), "{findings:?}");
    findings.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn unusable_additions_are_errors_until_corrected() {
    let handle = catalog();
    let other = ("other", Some("preset: other\ndescription: Another.\n"));
    let edge = [("edge", Some(EDGE)), other];
    assert!(handle.update(&named(&edge), false).await);
    assert!(!handle.update(&named(&edge), false).await, "an update with the same additions changes nothing");
    assert_eq!(handle.catalog().presets["edge"].description, "First.");
    assert!(handle.update(&named(&[("edge", Some(INVALID)), other]), false).await);
    assert!(handle.catalog().presets.contains_key("other"), "other additions are used");
    let expected = "spec.catalog[0]: ConfigMap openstack/edge: key \"presets.edge.yaml\": services: there is no \
                    service \"keystne\" (did you mean \"keystone\"?)";
    let found = errors(&handle);
    assert!(found[0].starts_with(expected), "{found:?}");
    handle.update(&named(&[("edge", None), other]), false).await;
    let found = errors(&handle);
    assert!(found[0].starts_with("spec.catalog[0].name: ConfigMap openstack/edge does not exist; "), "{found:?}");
    assert!(!handle.update(&named(&[("edge", None), other]), true).await);
    assert_eq!(errors(&handle), Vec::<String>::new(), "a missing ConfigMap does not stop a deletion");
    handle.update(&named(&edge), false).await;
    assert_eq!(errors(&handle), Vec::<String>::new());
    assert_eq!(handle.catalog().presets["edge"].description, "First.");
}

#[tokio::test]
async fn validates_without_changing_the_catalogue_of_passes() {
    let handle = catalog();
    assert!(!handle.update(&named(&[]), false).await, "no additions do not change the catalogue");
    let first = handle.extended_with(&named(&[("edge", Some(EDGE))]));
    assert!(first.0.presets.contains_key("edge") && first.1.is_empty());
    assert!(!handle.catalog().presets.contains_key("edge"), "a validation does not change the catalogue of passes");
    let second = handle.extended_with(&named(&[("edge", Some(EDGE))]));
    assert!(Arc::ptr_eq(&first.0, &second.0), "the result is cached");
    let invalid = [("edge", Some(INVALID)), ("none", None)];
    let (_, findings) = handle.extended_with(&named(&invalid));
    handle.update(&named(&invalid), false).await;
    assert_eq!(handle.findings(), findings, "the webhook reports the same findings as a pass");
    assert_eq!(findings.len(), 2);
}
