//! Parses the names of images.

use anyhow::{Context, ensure};

/// The name of an image, with the registry and the tag that container runtimes assume if a name omits them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reference {
    /// The registry and the path, such as `docker.io/library/rabbitmq`.
    pub repository: String,
    /// The tag, such as `4.3.5`.
    pub tag: String,
}

impl Reference {
    /// Parses a name such as `rabbitmq:4.3.5`. Refuses a digest, because images that are built here have other digests.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        ensure!(!text.contains('@'), "the image {text} has a digest, so it cannot be built here: name it by its tag");
        let (first, rest) = text.split_once('/').unwrap_or(("", text));
        let has_registry = first.contains(['.', ':']) || first == "localhost";
        let (registry, path) = if has_registry { (first, rest) } else { ("docker.io", text) };
        let (path, tag) = path.split_once(':').unwrap_or((path, "latest"));
        ensure!(!path.is_empty() && !tag.is_empty() && !tag.contains('/'), "{text} is not the name of an image");
        let library = if registry == "docker.io" && !path.contains('/') { "library/" } else { "" };
        Ok(Self { repository: format!("{registry}/{library}{path}"), tag: tag.into() })
    }

    /// Returns the part of the tag before the first hyphen. In the tags of OpenStack's services, such as
    /// `2026.1-ubuntu_noble`, this is the OpenStack release.
    pub fn release(&self) -> &str {
        self.tag.split('-').next().unwrap_or_default()
    }
}

impl std::fmt::Display for Reference {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}:{}", self.repository, self.tag)
    }
}

/// Returns the images in rendered manifests: the value of each key `image`, without duplicates.
pub(super) fn in_manifests(manifests: &str) -> anyhow::Result<Vec<Reference>> {
    let values = manifests.lines().filter_map(|line| line.trim_start_matches([' ', '-']).strip_prefix("image:"));
    let names = values.map(|value| value.trim().trim_matches(['"', '\''])).filter(|value| !value.is_empty());
    let mut found = names.map(Reference::parse).collect::<Result<Vec<_>, _>>().context("in the rendered manifests")?;
    found.sort();
    found.dedup();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completes_names_like_a_container_runtime() {
        let cases = [
            ("rabbitmq:4.3.5", "docker.io/library/rabbitmq:4.3.5"),
            ("docker.io/rabbitmq:4.3.5-management", "docker.io/library/rabbitmq:4.3.5-management"),
            ("airshipit/nova", "docker.io/airshipit/nova:latest"),
            ("quay.io/airshipit/nova:2026.1-ubuntu_noble", "quay.io/airshipit/nova:2026.1-ubuntu_noble"),
            ("localhost:5000/nova:1", "localhost:5000/nova:1"),
        ];
        for (text, expected) in cases {
            assert_eq!(Reference::parse(text).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn refuses_digests_and_empty_names() {
        for text in ["nova@sha256:00", "nova:", ":1", ""] {
            assert!(Reference::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn finds_each_image_of_manifests_once() {
        let manifests = "  containers:\n  - image: \"quay.io/a/b:1\"\n    name: image\n  - name: c\n    \
                         image: quay.io/a/b:1\n  imagePullPolicy: Never\n";
        let found = in_manifests(manifests).unwrap();
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), ["quay.io/a/b:1"]);
    }
}
