use super::*;

fn metadata(name: &str, labels: &[(&str, &str)]) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.into()),
        namespace: Some("cloud".into()),
        labels: Some(labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()),
        ..ObjectMeta::default()
    }
}

const RECORD: [(&str, &str); 4] = [("owner", "helm"), ("name", "keystone"), ("status", "deployed"), ("version", "10")];

fn with(extra: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    let replaced = |key| extra.iter().any(|(other, _)| *other == key);
    RECORD.into_iter().filter(|(key, _)| !replaced(*key)).chain(extra.iter().copied()).collect()
}

fn read(labels: &[(&str, &str)]) -> Result<RecordMeta, MalformedRecord> {
    RecordMeta::read(&metadata("sh.helm.release.v1.keystone.v10", labels))
}

#[test]
fn reads_release_revision_status_and_digests() {
    let meta = read(&with(&[
        (INPUTS_LABEL, "0a1b"),
        (CATALOG_LABEL, "c0de"),
        (ATTEMPT_LABEL, "p123.abc-7-v10"),
        (RELEASE_LABEL, "identity"),
        (IMAGES_LABEL, "1ma9e5"),
        ("modifiedAt", "1"),
    ]))
    .unwrap();
    assert_eq!(meta.release, ReleaseKey::new("cloud", "keystone"));
    assert_eq!((meta.revision, meta.status), (10, Status::Deployed));
    assert_eq!((meta.inputs.as_deref(), meta.catalog.as_deref()), (Some("0a1b"), Some("c0de")));
    assert_eq!(meta.maker, Maker::Ours(Attempt::new("p123.abc", 7, 10).unwrap()));
    assert_eq!((meta.catalog_name.as_deref(), meta.images.as_deref()), (Some("identity"), Some("1ma9e5")));
    assert_eq!(meta.secret_name(), "sh.helm.release.v1.keystone.v10");
}

#[test]
fn is_swept_only_if_the_label_names_the_revision() {
    assert!(!read(&RECORD).unwrap().cleaned_up);
    assert!(read(&with(&[(CLEANED_UP_LABEL, "10")])).unwrap().cleaned_up);
    assert!(!read(&with(&[(CLEANED_UP_LABEL, "9")])).unwrap().cleaned_up, "inherited");
}

#[test]
fn an_inherited_attempt_label_proves_nothing() {
    let inherited = read(&with(&[(ATTEMPT_LABEL, "p123.abc-7-v9")])).unwrap();
    assert_eq!(inherited.maker, Maker::Inherited(Attempt::new("p123.abc", 7, 9).unwrap()));
    assert_eq!(read(&RECORD).unwrap().maker, Maker::Foreign);
}

#[test]
fn the_newest_record_is_the_highest_revision() {
    let record = |revision: u32, status: &str| {
        let text = revision.to_string();
        RecordMeta::read(&metadata(
            &format!("sh.helm.release.v1.keystone.v{revision}"),
            &[("owner", "helm"), ("name", "keystone"), ("status", status), ("version", &text)],
        ))
        .unwrap()
    };
    let records = [record(10, "failed"), record(9, "deployed"), record(8, "superseded")];
    assert_eq!(newest_record(&records).unwrap().revision, 10);
    assert_eq!(newest_record([]), None);
}

#[test]
fn rejects_malformed_records_with_the_reason() {
    let cases: [(Vec<(&str, &str)>, &str); 8] = [
        (vec![], "its label \"owner\" is missing"),
        (with(&[("owner", "someone")]), "its label \"owner\" is \"someone\" where \"helm\" is expected"),
        (with(&[("name", "")]), "its label \"name\" is missing"),
        (with(&[("version", "ten")]), "its label \"version\" is \"ten\" where a revision number is expected"),
        (with(&[("version", "0")]), "its label \"version\" is \"0\""),
        (with(&[("status", "broken")]), "\"broken\" is not a release status of helm 3 or helm 4"),
        (with(&[("version", "11")]), "its labels belong to a secret named \"sh.helm.release.v1.keystone.v11\""),
        (with(&[(ATTEMPT_LABEL, "mine")]), "is not ours: \"mine\" is not an attempt of osdpl"),
    ];
    for (labels, why) in cases {
        let error = read(&labels).unwrap_err().to_string();
        assert!(error.contains(why), "{error}\nlacks {why}");
        assert!(error.contains("secret cloud/sh.helm.release.v1.keystone.v10"), "{error}");
        assert!(error.contains("kubectl get secret"), "{error}");
    }
}
