use super::*;

fn addition(name: &str, preset: &str) -> Addition {
    let data = [(format!("presets.{name}.yaml"), preset.to_owned())].into();
    Addition { source: format!("ConfigMap openstack/{name}"), data }
}

fn book() -> Book {
    Book::new(files::load_catalog(None).unwrap(), None)
}

#[tokio::test]
async fn what_was_right_goes_on_where_an_edit_is_wrong_and_goes_with_its_config_map() {
    let book = book();
    let edge = addition("edge", "preset: edge\ndescription: First.\nservices: [keystone]\n");
    assert!(book.take(vec![edge.clone()]).await);
    assert!(!book.take(vec![edge]).await, "nothing is read again where nothing has changed");
    let whole = book.whole();
    assert_eq!(whole.presets["edge"].description, "First.");
    let wrong = addition("edge", "preset: edge\ndescription: Second.\nservices: [keystne]\n");
    let other = addition("other", "preset: other\ndescription: Another.\n");
    assert!(book.take(vec![wrong.clone(), other]).await);
    assert_eq!(book.whole().presets["edge"].description, "First.");
    assert!(book.whole().presets.contains_key("other"), "others are not held up");
    let told = book.findings().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert!(told.starts_with("ConfigMap openstack/edge: key \"presets.edge.yaml\": services: there is no service \"keystne\", did you mean \"keystone\"?"), "{told}");
    assert!(told.ends_with("; what it held before goes on until it is corrected"), "{told}");
    assert!(book.take(vec![wrong.clone()]).await);
    assert_eq!(book.whole().presets["edge"].description, "First.", "as long as it is wrong");
    assert!(book.take(Vec::new()).await);
    assert!(!book.whole().presets.contains_key("edge") && book.findings().is_empty());
    assert!(book.take(vec![wrong]).await);
    let told = book.findings()[0].to_string();
    assert!(told.ends_with("; nothing of it is used until it is corrected"), "{told}");
}

#[tokio::test]
async fn what_is_wrong_when_the_operator_starts_has_nothing_changed_until_it_is_corrected() {
    let book = book();
    let wrong = addition("edge", "preset: edge\ndescription: First.\nservices: [keystne]\n");
    assert!(book.take(vec![wrong.clone()]).await);
    let told =
        |book: &Book| book.findings().iter().map(|found| (found.level, found.message.clone())).collect::<Vec<_>>();
    let said = told(&book);
    assert_eq!(said[0].0, Level::Error, "{said:?}");
    assert!(said[0].1.ends_with("so that nothing is changed until it is corrected, or deleted"), "{said:?}");
    let other = addition("other", "preset: other\ndescription: Another.\n");
    assert!(book.take(vec![wrong, other]).await);
    assert_eq!(told(&book)[0].0, Level::Error, "what else is added makes it no better");
    assert!(book.take(vec![addition("edge", "preset: edge\ndescription: Right.\n")]).await);
    assert_eq!(told(&book), []);
}

#[tokio::test]
async fn where_it_is_not_known_what_is_added_nothing_is_changed_and_the_first_word_is_still_the_first() {
    let book = book();
    book.doubt(Some("configmaps is forbidden"));
    let said = book.findings().pop().unwrap();
    assert!(said.level == Level::Error && said.message.contains("forbidden; nothing is changed"), "{said}");
    let asked = book.with(Vec::new(), Some("configmaps is forbidden")).await.1;
    assert_eq!(asked, [said], "whoever asks for a judgement hears it too, before and after the first pass");
    book.doubt(None);
    book.take(vec![addition("edge", "preset: edge\ndescription: First.\nservices: [keystne]\n")]).await;
    assert_eq!(book.findings()[0].level, Level::Error, "what it held before is not known");
}

#[tokio::test]
async fn a_resource_in_another_namespace_is_judged_by_what_is_added_there() {
    let book = book();
    assert!(!book.take(Vec::new()).await, "nothing is no news");
    let edge = addition("edge", "preset: edge\ndescription: First.\n");
    assert!(book.with(vec![edge.clone()], None).await.0.presets.contains_key("edge"));
    assert!(!book.whole().presets.contains_key("edge"), "passes go by their own");
    let (once, again) = (book.with(vec![edge.clone()], None).await, book.with(vec![edge], None).await);
    assert!(Arc::ptr_eq(&once.0, &again.0), "it is not read again for each question");
}

#[tokio::test]
async fn between_a_wrong_edit_and_the_next_pass_a_resource_is_judged_by_what_goes_on_and_the_mistake_is_told() {
    let book = book();
    book.take(vec![addition("edge", "preset: edge\ndescription: First.\nservices: [keystone]\n")]).await;
    let wrong = addition("edge", "preset: edge\ndescription: Second.\nservices: [keystne]\n");
    let (catalog, findings) = book.with(vec![wrong.clone()], None).await;
    assert_eq!(catalog.presets["edge"].description, "First.", "passes go on with it");
    let told = findings.iter().map(ToString::to_string).collect::<String>();
    assert!(
        told.starts_with("ConfigMap openstack/edge: ") && told.ends_with("goes on until it is corrected"),
        "{told}"
    );
    assert_eq!(book.with(vec![wrong.clone()], None).await.1, findings, "to everyone who asks");
    book.take(vec![wrong.clone()]).await;
    assert_eq!(book.with(vec![wrong], None).await.1, findings, "and once a pass has heard of it");
}
