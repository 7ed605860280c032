//! Detects the OpenStack release of a running cloud from the tags of its container images.

use std::collections::BTreeMap;

use serde_json::Value;

use super::identify::IdentifiedReleases;
use crate::catalog::{Catalog, Level, OpenStackRelease};
use crate::desired::Finding;
use osdpl_values::{CollectSorted, Path, get};

/// The field of the spec to which the warning about a guessed OpenStack release refers.
const FIELD: &str = "spec.openstackRelease";
/// The maximum number of image tags that the warning about a guessed OpenStack release lists.
const NAMED: usize = 3;

/// The OpenStack release that a cloud most likely runs.
pub(super) struct DetectedRelease {
    /// The name of the OpenStack release, such as `2026.1`.
    pub name: String,
    /// A warning that `name` is only a guess; `None` if at least one image tag belongs to an OpenStack release of the
    /// catalogue.
    pub warning: Option<Finding>,
}

/// Returns the OpenStack release of the catalogue to which most image tags belong. If no tag belongs to any, returns
/// the newest OpenStack release of the catalogue.
pub(super) fn detect_openstack_release(known: &IdentifiedReleases<'_>, catalog: &Catalog) -> DetectedRelease {
    let mut counts: BTreeMap<&String, usize> = catalog.openstack.keys().map(|name| (name, 0)).collect_map();
    let mut tags: BTreeMap<String, usize> = BTreeMap::new();
    for tag in tags_of(known) {
        for (name, release) in &catalog.openstack {
            counts.entry(name).and_modify(|count| *count += usize::from(is_of(&tag, name, release)));
        }
        *tags.entry(tag).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(name, count)| (*count, *name));
    let (name, count) = most.map(|(name, count)| (name.clone(), count)).unwrap_or_default();
    let warning = (count == 0).then(|| warning(&name, tags));
    DetectedRelease { name, warning }
}

/// Returns the tags in the image references of all releases. Skips references without a tag, for example those with
/// only a digest.
fn tags_of(known: &IdentifiedReleases<'_>) -> Vec<String> {
    let path: Path = ["images", "tags"].into_iter().collect();
    let images =
        known.releases.values().filter_map(|found| get(&found.effective_values, &path).and_then(Value::as_object));
    let images = images.flatten().filter_map(|(_, image)| image.as_str());
    let tag = |image: &str| {
        let (_, tag) = image.split('@').next()?.rsplit_once(':')?;
        // The text after the last colon is not a tag if it contains a slash. In this case, the colon is the one before
        // the port of a registry: `registry:5000/image`.
        (!tag.is_empty() && !tag.contains('/')).then(|| tag.to_owned())
    };
    images.filter_map(tag).collect()
}

/// Whether an image tag belongs to the OpenStack release `name`.
///
/// This is the case if the catalogue's variables for the OpenStack release contain the tag, or if the tag contains the
/// release's name: the tag `2025.1-ubuntu_jammy` belongs to `2025.1`.
fn is_of(tag: &str, name: &str, release: &OpenStackRelease) -> bool {
    let is_own = release.variables.values().any(|variable| variable.as_str() == Some(tag));
    is_own || tag.split(|letter: char| !letter.is_ascii_digit() && letter != '.').any(|part| part == name)
}

fn warning(guess: &str, tags: BTreeMap<String, usize>) -> Finding {
    let mut tags: Vec<(String, usize)> = tags.into_iter().collect();
    tags.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    let names: Vec<String> = tags.into_iter().take(NAMED).map(|(tag, _)| tag).collect();
    let what =
        if names.is_empty() { "have no tags".to_owned() } else { format!("have tags such as {}", names.join(", ")) };
    let message = format!(
        "osdpl can't determine the OpenStack release from the images, which {what}, and assumes {guess}, the newest \
         in the catalogue; set the right OpenStack release before you adopt any helm release"
    );
    Finding::new(Level::Warning, FIELD, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::identify::{InstalledRelease, identify_releases};
    use super::*;
    use crate::observed::ReleaseKey;
    use crate::release::{Chart, RevisionSource};

    /// Returns the OpenStack release that osdpl detects for a cloud with these images, and the warning if this release
    /// is only a guess.
    fn determined(images: &[&str]) -> (String, Option<String>) {
        let older = "openstackRelease: '2025.1'\ndescription: x\nvariables: {imageTag: t0}\n";
        let files = crate::testing::files(&[("values/openstack/2025.1.yaml", older)]);
        let catalog = Catalog::load(&files).unwrap();
        let tags: serde_json::Map<String, Value> =
            images.iter().enumerate().map(|(index, image)| (format!("i{index}"), json!(image))).collect();
        let chart = Chart { name: "front".into(), version: "1.0.0".into(), app_version: String::new() };
        let config = json!({"images": {"tags": tags}}).as_object().unwrap().clone();
        let source = RevisionSource { config, chart, defaults: serde_json::Map::default(), fingerprint: String::new() };
        let found = [InstalledRelease::new(ReleaseKey::new("cloud", "front"), 1, source)];
        let DetectedRelease { name, warning } =
            detect_openstack_release(&identify_releases(&found, &catalog), &catalog);
        (name, warning.map(|warning| warning.to_string()))
    }

    #[test]
    fn determines_the_release_by_tags() {
        for image in
            ["x/front:t0", "x/front:2025.1-ubuntu_jammy", "own:5000/x/front:v2025.1", "x/front:2025.1@sha256:0123"]
        {
            assert_eq!(determined(&[image]), ("2025.1".into(), None), "{image}");
        }
        assert_eq!(determined(&["x:2025.1-a", "x:2026.1-b", "x:2025.1-c", "x:11.4"]).0, "2025.1", "the majority wins");
    }

    #[test]
    fn warns_if_the_release_is_a_guess() {
        let guess = |what: &str| {
            let message = format!(
                "spec.openstackRelease: osdpl can't determine the OpenStack release from the images, which {what}, \
                 and assumes 2026.1, the newest in the catalogue; set the right OpenStack release before you adopt any \
                 helm release"
            );
            ("2026.1".to_owned(), Some(message))
        };
        let tagged = guess("have tags such as 2024.1-ubuntu_jammy, 11.4, 2025.11");
        assert_eq!(determined(&["x:2024.1-ubuntu_jammy", "y:2024.1-ubuntu_jammy", "x:2025.11", "db:11.4"]), tagged);
        assert_eq!(determined(&["own:5000/x@sha256:2025.1", "own:5000/front"]), guess("have no tags"));
        assert_eq!(determined(&[]), guess("have no tags"));
    }
}
