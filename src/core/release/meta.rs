//! Reads the metadata of release records without decoding the records' payloads, and finds the release to which an
//! object belongs.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;

use super::{
    ATTEMPT_LABEL, Attempt, BASELINE_LABEL, CATALOG_LABEL, CHART_LABEL, CLEANED_UP_LABEL, ChartIdentity, HOOKS_LABEL,
    HookInputs, IMAGES_LABEL, INPUTS_LABEL, INSTANCES_LABEL, RELEASE_LABEL, SPLIT_LABEL, Status,
};

/// Identifies a release within the Kubernetes cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReleaseKey {
    /// The namespace of the release and of its records.
    pub namespace: String,
    /// The name of the release in helm.
    pub name: String,
}

impl ReleaseKey {
    /// Creates the key of the release `name` in `namespace`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl FromStr for ReleaseKey {
    type Err = InvalidReleaseKey;

    /// Parses `namespace/name`, the string that [`fmt::Display`] writes.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (namespace, name) = text.split_once('/').ok_or_else(|| InvalidReleaseKey(text.to_owned()))?;
        Ok(Self::new(namespace, name))
    }
}

/// The error for a string that does not have the form `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the name of a release; expected namespace/name")]
pub struct InvalidReleaseKey(String);

impl fmt::Display for ReleaseKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}

/// The origin of a revision, osdpl or someone else, according to the label `ATTEMPT_LABEL` of its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RevisionOrigin {
    /// osdpl made the revision. Contains the attempt. The attempt label contains the number of this revision, so helm
    /// did not copy the label from another record.
    Ours(Attempt),
    /// Someone else made the revision, and helm copied the label: in an upgrade, from the record of the previous
    /// revision; in a rollback, from the record of the restored revision. Contains the attempt that the copied label
    /// names.
    Inherited(Attempt),
    /// Someone else made the revision, and its record has no attempt label.
    Foreign,
}

/// One revision of a release, according to the metadata of its record's Secret.
///
/// If someone else makes a revision, helm copies osdpl's labels from another record. So most fields that come from
/// osdpl's labels are valid only for [`RevisionOrigin::Ours`].
///
/// osdpl does not read helm's labels `createdAt` and `modifiedAt`. helm copies these labels, too, so their times are
/// wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordMeta {
    /// The release to which the record belongs.
    pub release: ReleaseKey,
    /// The number of the revision. The first revision of a release is 1.
    pub revision: u32,
    /// helm's status of the revision.
    pub status: Status,
    /// The origin of the revision: osdpl or someone else.
    pub origin: RevisionOrigin,
    /// The digest of the revision's inputs, from [`INPUTS_LABEL`]. Valid only for [`RevisionOrigin::Ours`]; otherwise
    /// helm copied the label.
    pub inputs: Option<String>,
    /// The digest (from [`CATALOG_LABEL`]) of those inputs of the revision that come from the catalogue. Valid only for
    /// [`RevisionOrigin::Ours`]; otherwise helm copied the label.
    pub catalog: Option<String>,
    /// The release's name in the catalogue, from [`RELEASE_LABEL`]. The name is right even if someone else made the
    /// revision, because helm copies the label.
    pub catalog_name: Option<String>,
    /// The digest of the images of the release's pods and Jobs, from [`IMAGES_LABEL`]. Valid only for
    /// [`RevisionOrigin::Ours`]; otherwise helm copied the label.
    pub images: Option<String>,
    /// The digest (from [`INSTANCES_LABEL`]) of the settings that running instances (virtual machines) depend on. Valid
    /// only for [`RevisionOrigin::Ours`]; otherwise helm copied the label.
    pub instances: Option<String>,
    /// A digest that describes how the chart splits the release's `DaemonSets`, from [`SPLIT_LABEL`]. Valid only for
    /// [`RevisionOrigin::Ours`]; otherwise helm copied the label.
    pub split: Option<String>,
    /// The baseline of the release: a number that decides which defaults of the catalogue apply to the release
    /// ([`crate::desired::BASELINE`]). It comes from [`BASELINE_LABEL`], and is 0 if the label is missing. The number
    /// is right even if someone else made the revision, because helm copies the label.
    pub baseline: u32,
    /// The chart of the revision, from [`CHART_LABEL`]. Valid only for [`RevisionOrigin::Ours`]; otherwise helm copied
    /// the label.
    pub chart: Option<ChartIdentity>,
    /// The digest (from [`HOOKS_LABEL`]) of the inputs that the hooks of the revision may read; `None` if osdpl did not
    /// write the label for this revision.
    pub hooks: Option<String>,
    /// Whether, according to [`CLEANED_UP_LABEL`], osdpl has removed the objects that this revision left behind when it
    /// failed.
    pub cleaned_up: bool,
    /// When helm created the record, by the API server's clock.
    pub created: Option<Timestamp>,
    /// The uid of the record's Secret. The uid distinguishes two records with the same name: if a release is
    /// uninstalled and installed again, the numbers of its revisions start at 1 again.
    pub uid: Option<String>,
    /// The resource version of the record's Secret. osdpl sends this version with each write. If helm has changed the
    /// record since osdpl read it, the API server refuses the write.
    pub resource_version: Option<String>,
}

/// The error for a Secret that has the type of a helm record, but a wrong name or wrong labels.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "secret {secret} has the type of a helm release record, but {why}; inspect the Secret with `kubectl get secret -o \
     yaml`: correct its labels, or delete the Secret if it is not the record of a release"
)]
pub struct MalformedRecord {
    /// The Secret, as `namespace/name`.
    pub secret: String,
    /// The problem with the Secret.
    pub why: String,
}

impl RecordMeta {
    /// Reads the metadata of a record's Secret.
    ///
    /// Like helm, the function takes the release's name, the revision and the status from the labels. The name of the
    /// Secret must agree with these labels.
    ///
    /// # Errors
    /// Returns an error if a label is missing or wrong, or if the name of the Secret does not agree with the labels.
    pub fn read(metadata: &ObjectMeta) -> Result<Self, MalformedRecord> {
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let secret = metadata.name.as_deref().unwrap_or_default();
        let malformed = |why| MalformedRecord { secret: format!("{namespace}/{secret}"), why };
        let labels = Labels(metadata.labels.as_ref());
        labels.owned().map_err(malformed)?;
        let release = ReleaseKey::new(namespace, labels.required("name").map_err(malformed)?);
        let revision = labels.revision().map_err(malformed)?;
        let status = labels.required("status").and_then(|text| text.parse().map_err(described)).map_err(malformed)?;
        let expected = format!("sh.helm.release.v1.{}.v{revision}", release.name);
        if secret != expected {
            return Err(malformed(format!("its labels require the name {expected:?}")));
        }
        let hooks = labels.get(HOOKS_LABEL).and_then(HookInputs::parse);
        Ok(Self {
            origin: labels.origin(revision).map_err(malformed)?,
            inputs: labels.get(INPUTS_LABEL).map(str::to_owned),
            catalog: labels.get(CATALOG_LABEL).map(str::to_owned),
            catalog_name: labels.get(RELEASE_LABEL).map(str::to_owned),
            images: labels.get(IMAGES_LABEL).map(str::to_owned),
            instances: labels.get(INSTANCES_LABEL).map(str::to_owned),
            split: labels.get(SPLIT_LABEL).map(str::to_owned),
            baseline: labels.get(BASELINE_LABEL).and_then(|text| text.parse().ok()).unwrap_or_default(),
            chart: labels.get(CHART_LABEL).and_then(ChartIdentity::parse),
            hooks: hooks.as_ref().and_then(|hooks| hooks.of_revision(revision)).map(str::to_owned),
            cleaned_up: labels.get(CLEANED_UP_LABEL) == Some(revision.to_string().as_str()),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
            release,
            revision,
            status,
        })
    }

    /// Returns the name of the Secret that contains the record.
    pub fn secret_name(&self) -> String {
        format!("sh.helm.release.v1.{}.v{}", self.release.name, self.revision)
    }
}

/// Returns the newest record of a release: the record with the highest revision, whatever its status.
///
/// After a failed upgrade, the previous revision still has the status `deployed`. But osdpl decides by the record of
/// the failed revision, because this record shows the last operation of helm.
pub fn newest_record<'a>(records: impl IntoIterator<Item = &'a RecordMeta>) -> Option<&'a RecordMeta> {
    records.into_iter().max_by_key(|meta| meta.revision)
}

/// helm's annotation with the name of the release, on every object of a release except hooks.
pub(crate) const RELEASE_NAME_ANNOTATION: &str = "meta.helm.sh/release-name";

/// helm's annotation with the namespace of the release, on every object of a release except hooks.
pub const RELEASE_NAMESPACE_ANNOTATION: &str = "meta.helm.sh/release-namespace";

/// Returns the release that an object belongs to, according to helm's annotations (helm: `action.checkOwnership`);
/// `None` if one of these annotations is missing.
///
/// helm does not write these annotations on the objects of hooks.
pub fn helm_owner(metadata: &ObjectMeta) -> Option<ReleaseKey> {
    let annotations = metadata.annotations.as_ref()?;
    Some(ReleaseKey::new(annotations.get(RELEASE_NAMESPACE_ANNOTATION)?, annotations.get(RELEASE_NAME_ANNOTATION)?))
}

struct Labels<'a>(Option<&'a BTreeMap<String, String>>);

impl<'a> Labels<'a> {
    fn get(&self, key: &str) -> Option<&'a str> {
        self.0.and_then(|labels| labels.get(key)).map(String::as_str)
    }

    fn required(&self, key: &str) -> Result<&'a str, String> {
        self.get(key).filter(|value| !value.is_empty()).ok_or_else(|| format!("its label {key:?} is missing"))
    }

    fn owned(&self) -> Result<(), String> {
        match self.required("owner")? {
            "helm" => Ok(()),
            other => Err(format!("its label \"owner\" is {other:?} where \"helm\" is expected")),
        }
    }

    fn revision(&self) -> Result<u32, String> {
        let text = self.required("version")?;
        match text.parse() {
            Ok(revision) if revision > 0 => Ok(revision),
            _ => Err(format!("its label \"version\" is {text:?} where a revision number is expected")),
        }
    }

    /// Returns who made the revision with the number `revision`, from the attempt label of its record.
    ///
    /// An attempt label with an invalid value is an error. If osdpl ignored such a label, it would assume that someone
    /// else made the revision, and could mark the record as failed while the helm process that made the record still
    /// runs.
    fn origin(&self, revision: u32) -> Result<RevisionOrigin, String> {
        match self.get(ATTEMPT_LABEL).map(str::parse::<Attempt>) {
            None => Ok(RevisionOrigin::Foreign),
            Some(Ok(attempt)) if attempt.revision() == revision => Ok(RevisionOrigin::Ours(attempt)),
            Some(Ok(attempt)) => Ok(RevisionOrigin::Inherited(attempt)),
            Some(Err(error)) => Err(format!("its label {ATTEMPT_LABEL:?} was not written by osdpl: {error}")),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "shaped for map_err")]
fn described(error: super::UnknownStatus) -> String {
    format!("its label \"status\" is wrong: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(name: &str, labels: &[(&str, &str)]) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.into()),
            namespace: Some("cloud".into()),
            labels: Some(labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()),
            ..ObjectMeta::default()
        }
    }

    const RECORD: [(&str, &str); 4] =
        [("owner", "helm"), ("name", "keystone"), ("status", "deployed"), ("version", "10")];

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
        assert_eq!(meta.origin, RevisionOrigin::Ours(Attempt::new("p123.abc", 7, 10).unwrap()));
        assert_eq!((meta.catalog_name.as_deref(), meta.images.as_deref()), (Some("identity"), Some("1ma9e5")));
        assert_eq!((meta.secret_name().as_str(), meta.baseline), ("sh.helm.release.v1.keystone.v10", 0));
        assert_eq!(read(&with(&[(BASELINE_LABEL, "1")])).unwrap().baseline, 1);
    }

    #[test]
    fn is_cleaned_up_only_if_the_label_names_the_revision() {
        assert!(!read(&RECORD).unwrap().cleaned_up);
        assert!(read(&with(&[(CLEANED_UP_LABEL, "10")])).unwrap().cleaned_up);
        assert!(!read(&with(&[(CLEANED_UP_LABEL, "9")])).unwrap().cleaned_up, "helm copied the label from revision 9");
    }

    #[test]
    fn an_inherited_attempt_label_proves_nothing() {
        let inherited = read(&with(&[(ATTEMPT_LABEL, "p123.abc-7-v9")])).unwrap();
        assert_eq!(inherited.origin, RevisionOrigin::Inherited(Attempt::new("p123.abc", 7, 9).unwrap()));
        assert_eq!(read(&RECORD).unwrap().origin, RevisionOrigin::Foreign);
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
            (with(&[("version", "11")]), "its labels require the name \"sh.helm.release.v1.keystone.v11\""),
            (with(&[(ATTEMPT_LABEL, "mine")]), "was not written by osdpl: \"mine\" is not an attempt of osdpl"),
        ];
        for (labels, why) in cases {
            let error = read(&labels).unwrap_err().to_string();
            assert!(error.contains(why), "{error}\nlacks {why}");
            assert!(error.contains("secret cloud/sh.helm.release.v1.keystone.v10"), "{error}");
            assert!(error.contains("kubectl get secret"), "{error}");
        }
    }
}
