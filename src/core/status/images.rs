//! Reports the digests with which pods run images with moving tags: in the status of each release, as a warning if pods
//! run one image with different digests, and as an event if a tag has moved.

use std::collections::{BTreeMap, BTreeSet};

use super::event::{Subject, event};
use super::{Event, Report};
use crate::api::HelmReleaseStatus;
use crate::observed::ReleaseKey;
use crate::plan::Decision;

/// The maximum number of entries in `images` and in `previousImages` of a release.
const MAX_IMAGES: usize = 20;

/// The length of a digest in a warning: enough to tell digests apart. The status contains the whole digest.
const SHORT_DIGEST: usize = "sha256:0123456789ab".len();

/// The digests of one image that run, each with the names of the workloads that run it.
type Digests<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Adds the digests of images to the status of a release.
///
/// While no pod runs an image, the status keeps the entries of the image. Otherwise osdpl could not compare them with
/// the digest of the next pod. For the same reason, the status keeps all entries while osdpl does not know which images
/// the release has.
pub(super) fn report_images(
    child: &mut HelmReleaseStatus,
    before: Option<&HelmReleaseStatus>,
    name: &str,
    decision: &Decision,
    report: &Report<'_>,
) {
    let (known, previous) = before.map_or((&[][..], &[][..]), |before| (&before.images, &before.previous_images));
    let Some(floating) = floating(report, name) else {
        (child.images, child.previous_images) = (known.to_vec(), previous.to_vec());
        return;
    };
    for image in floating.keys() {
        let known = entries(known, image);
        let digests = running(report, &decision.key, image);
        let entry = |digest: &&str| format!("{image}@{digest}");
        let now: Vec<String> = if digests.is_empty() { known.clone() } else { digests.keys().map(entry).collect() };
        let is_gone = |entry: &String| !now.contains(entry);
        let gone: Vec<_> = known.into_iter().filter(is_gone).collect();
        let previous = if gone.is_empty() { entries(previous, image) } else { gone };
        child.previous_images.extend(previous.into_iter().filter(is_gone));
        child.images.extend(now);
    }
    child.images.truncate(MAX_IMAGES);
    child.previous_images.truncate(MAX_IMAGES);
}

/// Returns the images of a release with moving tags ([`DesiredRelease::floating_images`]); `None` if osdpl does not
/// know the names of the images that pods use.
///
/// [`DesiredRelease::floating_images`]: crate::desired::DesiredRelease::floating_images
fn floating<'a>(report: &'a Report<'_>, name: &str) -> Option<&'a BTreeMap<String, String>> {
    let desired = report.desired.releases.get(name).filter(|release| release.blocked.is_none())?;
    desired.floating_images.as_ref()
}

/// Returns the entries of one image.
fn entries(all: &[String], image: &str) -> Vec<String> {
    let is_own = |entry: &&String| entry.rsplit_once('@').is_some_and(|(name, _)| name == image);
    all.iter().filter(is_own).cloned().collect()
}

/// Returns the digests in the entries of one image, separated by commas.
fn digests(entries: &[String]) -> String {
    let digests = entries.iter().filter_map(|entry| entry.rsplit_once('@'));
    digests.map(|(_, digest)| digest).collect::<Vec<_>>().join(", ")
}

/// Returns the digests of an image that pods of a release run.
fn running<'a>(report: &'a Report<'_>, key: &ReleaseKey, image: &str) -> Digests<'a> {
    let mut digests = Digests::new();
    for running in report.observed.images.iter().filter(|running| running.release == *key) {
        for (_, digest) in running.images.iter().filter(|(name, _)| name == image) {
            digests.entry(digest).or_default().insert(&running.workload);
        }
    }
    digests
}

/// Returns a warning for each image that pods of one release run with different digests.
pub(super) fn warnings(report: &Report<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    for (name, decision) in &report.plan.decisions {
        for (image, field) in floating(report, name).into_iter().flatten() {
            let digests = running(report, &decision.key, image);
            if digests.len() > 1 {
                let digests: Vec<String> = digests.iter().map(describe).collect();
                warnings.push(format!(
                    "pods of release {name} run image {image} with different digests, because its tag has moved: {}; pin one of the digests in status.children.{name}.images with {field}, or restart the pods with the old digest",
                    digests.join(", ")
                ));
            }
        }
    }
    warnings
}

/// Formats a digest and the workloads that run it as `sha256:0123456789ab (mariadb-server)`.
fn describe((digest, workloads): (&&str, &BTreeSet<&str>)) -> String {
    let workloads: Vec<&str> = workloads.iter().copied().collect();
    format!("{} ({})", digest.get(..SHORT_DIGEST).unwrap_or(digest), workloads.join(", "))
}

/// Returns an event for each image whose tag has moved: pods run the image with a digest that the previous status does
/// not contain, although the image has the same name.
pub(super) fn events(
    name: &str,
    before: Option<&HelmReleaseStatus>,
    now: &HelmReleaseStatus,
    report: &Report<'_>,
) -> Vec<Event> {
    let (Some(before), Some(floating)) = (before, floating(report, name)) else { return Vec::new() };
    let changed = floating.iter().filter_map(|(image, field)| {
        let known = entries(&before.images, image);
        let new: Vec<String> = entries(&now.images, image).into_iter().filter(|entry| !known.contains(entry)).collect();
        if known.is_empty() || new.is_empty() {
            return None;
        }
        let note = format!(
            "release {name}: new pods run image {image} with another digest, because its tag has moved from {} to {}; to keep one of them, pin it with {field}",
            digests(&known),
            digests(&new),
        );
        Some(Event { subject: Some(Subject::Field(field.clone())), ..event(true, "ImageChanged", note) })
    });
    changed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::OpenStackDeploymentSpec;
    use crate::observed::RunningImages;
    use crate::release::Status;
    use crate::testing::{self, Fixture};

    const IMAGE: &str = "quay.io/store:latest";

    /// Returns a cloud whose release `store` has an image with a moving tag. `running` lists workloads and the digests
    /// that they run.
    fn cloud(running: &[(&str, &str)]) -> Fixture {
        testing::fixture().with_release("store", testing::observed_release(Status::Deployed)).with(|fixture| {
            let release = fixture.desired.releases.get_mut("store").unwrap();
            release.floating_images = Some([(IMAGE.to_owned(), format!("spec.images.digests[{IMAGE}]"))].into());
            let images = running.iter().map(|(workload, digest)| RunningImages {
                release: release.key.clone(),
                workload: (*workload).to_owned(),
                images: vec![(IMAGE.to_owned(), (*digest).to_owned()), ("other:1".to_owned(), "x".to_owned())],
            });
            fixture.observed.images = images.collect();
        })
    }

    /// Returns the status of the release `store`, its events, and the warnings.
    fn reported(fixture: &Fixture, before: &HelmReleaseStatus) -> (HelmReleaseStatus, Vec<Event>, Vec<String>) {
        let (plan, spec) = (fixture.plan(), OpenStackDeploymentSpec::default());
        let report = Report::new(&spec, 1, &fixture.desired, &fixture.observed, &plan);
        let mut child = HelmReleaseStatus::default();
        report_images(&mut child, Some(before), "store", &plan.decisions["store"], &report);
        let events = events("store", Some(before), &child, &report);
        (child, events, warnings(&report))
    }

    /// Returns the digests in `images`, the digests in `previousImages`, and the numbers of events and of warnings.
    fn summary(
        (child, events, warnings): &(HelmReleaseStatus, Vec<Event>, Vec<String>),
    ) -> (String, String, [usize; 2]) {
        (digests(&child.images), digests(&child.previous_images), [events.len(), warnings.len()])
    }

    #[test]
    fn records_the_first_digest_without_an_event() {
        let first = reported(&cloud(&[("db", "a"), ("controller", "a")]), &HelmReleaseStatus::default());
        assert_eq!(first.0.images, [format!("{IMAGE}@a")]);
        assert_eq!(summary(&first), ("a".into(), String::new(), [0, 0]));
    }

    #[test]
    fn reports_a_moved_tag_until_all_pods_run_the_same_digest() {
        let first = reported(&cloud(&[("db", "a")]), &HelmReleaseStatus::default()).0;
        let mixed = reported(&cloud(&[("db", "a"), ("db", "b")]), &first);
        assert_eq!(summary(&mixed), ("a, b".into(), String::new(), [1, 1]));
        assert!(mixed.1[0].warning && mixed.1[0].note.contains("moved from a to b"), "{}", mixed.1[0].note);
        assert!(mixed.2[0].contains("a (db), b (db); pin"), "{}", mixed.2[0]);
        let same = reported(&cloud(&[("db", "a"), ("db", "b")]), &mixed.0);
        assert_eq!(summary(&same), ("a, b".into(), String::new(), [0, 1]), "each digest is reported once");
        let moved = reported(&cloud(&[("db", "b")]), &mixed.0);
        assert_eq!(summary(&moved), ("b".into(), "a".into(), [0, 0]));
        let later = reported(&cloud(&[("db", "b")]), &moved.0);
        assert_eq!(summary(&later), ("b".into(), "a".into(), [0, 0]));
        let back = reported(&cloud(&[("db", "a")]), &later.0);
        assert_eq!(summary(&back), ("a".into(), "b".into(), [1, 0]));
    }

    #[test]
    fn keeps_the_digest_while_no_pod_runs() {
        let first = reported(&cloud(&[("db", "a")]), &HelmReleaseStatus::default()).0;
        let restarting = reported(&cloud(&[]), &first).0;
        assert_eq!(restarting, first);
        let unknown = cloud(&[("db", "b")])
            .with(|fixture| fixture.desired.releases.get_mut("store").unwrap().floating_images = None);
        assert_eq!(reported(&unknown, &first).0, first, "osdpl may still fetch the chart");
        assert_eq!(summary(&reported(&cloud(&[("db", "b")]), &restarting)), ("b".into(), "a".into(), [1, 0]));
    }

    #[test]
    fn forgets_a_pinned_image() {
        let first = reported(&cloud(&[("db", "a")]), &HelmReleaseStatus::default()).0;
        let pinned = cloud(&[("db", "a"), ("db", "b")])
            .with(|fixture| fixture.desired.releases.get_mut("store").unwrap().floating_images = Some(BTreeMap::new()));
        assert_eq!(summary(&reported(&pinned, &first)), (String::new(), String::new(), [0, 0]));
    }
}
