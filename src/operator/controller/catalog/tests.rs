use super::*;

fn addition(name: &str, preset: &str) -> Addition {
    let data = [(format!("presets.{name}.yaml"), preset.to_owned())].into();
    Addition { source: format!("ConfigMap openstack/{name}"), data }
}

fn catalog() -> CatalogHandle {
    CatalogHandle::new(files::load_catalog(None).unwrap(), None)
}

#[tokio::test]
async fn invalid_edit_keeps_the_previous_content() {
    let handle = catalog();
    let edge = addition("edge", "preset: edge\ndescription: First.\nservices: [keystone]\n");
    assert!(handle.update(vec![edge.clone()]).await);
    assert!(!handle.update(vec![edge]).await, "an update with the same additions changes nothing");
    assert_eq!(handle.catalog().presets["edge"].description, "First.");
    let invalid = addition("edge", "preset: edge\ndescription: Second.\nservices: [keystne]\n");
    let other = addition("other", "preset: other\ndescription: Another.\n");
    assert!(handle.update(vec![invalid.clone(), other]).await);
    assert_eq!(handle.catalog().presets["edge"].description, "First.");
    assert!(handle.catalog().presets.contains_key("other"), "other additions are used");
    let findings = handle.findings().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert!(
        findings.starts_with(
            "ConfigMap openstack/edge: key \"presets.edge.yaml\": services: there is no service \"keystne\", did you \
             mean \"keystone\"?"
        ),
        "{findings}"
    );
    assert!(findings.ends_with("; its previous content is used until it is corrected"), "{findings}");
    assert!(handle.update(vec![invalid.clone()]).await);
    assert_eq!(
        handle.catalog().presets["edge"].description,
        "First.",
        "as long as the edit is invalid, the first content stays in use"
    );
    assert!(handle.update(Vec::new()).await);
    assert!(!handle.catalog().presets.contains_key("edge") && handle.findings().is_empty());
    assert!(handle.update(vec![invalid]).await);
    let finding = handle.findings()[0].to_string();
    assert!(finding.ends_with("; it is ignored until it is corrected"), "{finding}");
}

#[tokio::test]
async fn invalid_addition_at_the_start_is_an_error() {
    let handle = catalog();
    let invalid = addition("edge", "preset: edge\ndescription: First.\nservices: [keystne]\n");
    assert!(handle.update(vec![invalid.clone()]).await);
    let findings = |handle: &CatalogHandle| {
        handle.findings().iter().map(|finding| (finding.level, finding.message.clone())).collect::<Vec<_>>()
    };
    let first = findings(&handle);
    assert_eq!(first[0].0, Level::Error, "{first:?}");
    assert!(first[0].1.ends_with("so that nothing is changed until it is corrected or deleted"), "{first:?}");
    let other = addition("other", "preset: other\ndescription: Another.\n");
    assert!(handle.update(vec![invalid, other]).await);
    assert_eq!(
        findings(&handle)[0].0,
        Level::Error,
        "a valid addition does not remove the error about the invalid addition"
    );
    assert!(handle.update(vec![addition("edge", "preset: edge\ndescription: Right.\n")]).await);
    assert_eq!(findings(&handle), []);
}

#[tokio::test]
async fn unknown_additions_are_an_error() {
    let handle = catalog();
    handle.set_unknown(Some("configmaps is forbidden"));
    let finding = handle.findings().pop().unwrap();
    assert!(finding.level == Level::Error && finding.message.contains("forbidden; nothing is changed"), "{finding}");
    let findings = handle.extended_with(Vec::new(), Some("configmaps is forbidden")).await.1;
    assert_eq!(findings, [finding], "the webhook reports the same error as a pass");
    handle.set_unknown(None);
    handle.update(vec![addition("edge", "preset: edge\ndescription: First.\nservices: [keystne]\n")]).await;
    assert_eq!(
        handle.findings()[0].level,
        Level::Error,
        "an addition that is invalid in the first list is an error, because its valid content is not known"
    );
}

#[tokio::test]
async fn validates_with_the_additions_of_another_namespace() {
    let handle = catalog();
    assert!(!handle.update(Vec::new()).await, "an empty list does not change the catalogue");
    let edge = addition("edge", "preset: edge\ndescription: First.\n");
    assert!(handle.extended_with(vec![edge.clone()], None).await.0.presets.contains_key("edge"));
    assert!(!handle.catalog().presets.contains_key("edge"), "a validation does not change the catalogue of passes");
    let first = handle.extended_with(vec![edge.clone()], None).await;
    let second = handle.extended_with(vec![edge], None).await;
    assert!(Arc::ptr_eq(&first.0, &second.0), "the result is cached");
}

#[tokio::test]
async fn validates_an_invalid_edit_like_the_next_pass() {
    let handle = catalog();
    handle.update(vec![addition("edge", "preset: edge\ndescription: First.\nservices: [keystone]\n")]).await;
    let invalid = addition("edge", "preset: edge\ndescription: Second.\nservices: [keystne]\n");
    let (catalog, findings) = handle.extended_with(vec![invalid.clone()], None).await;
    assert_eq!(
        catalog.presets["edge"].description, "First.",
        "the webhook validates with the content that passes will use"
    );
    let message = findings.iter().map(ToString::to_string).collect::<String>();
    assert!(
        message.starts_with("ConfigMap openstack/edge: ") && message.ends_with("is used until it is corrected"),
        "{message}"
    );
    assert_eq!(handle.extended_with(vec![invalid.clone()], None).await.1, findings, "the result is cached");
    handle.update(vec![invalid.clone()]).await;
    assert_eq!(
        handle.extended_with(vec![invalid], None).await.1,
        findings,
        "the webhook reports the same findings before and after passes have read the edit"
    );
}
