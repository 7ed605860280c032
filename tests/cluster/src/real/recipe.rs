//! Reads `images/images.yaml`: the layers of the images, and the images that consist of them.

use std::collections::BTreeMap;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use super::reference::Reference;
use crate::Program;

mod release;

const TEXT: &str = include_str!("../../images/images.yaml");
/// The names and contents of the requirements files (for pip) to which layers refer.
const REQUIREMENTS: [(&str, &str); 5] = [
    ("openstack-2025.1.txt", include_str!("../../images/openstack-2025.1.txt")),
    ("openstack-2025.2.txt", include_str!("../../images/openstack-2025.2.txt")),
    ("openstack-2026.1.txt", include_str!("../../images/openstack-2026.1.txt")),
    ("openstack-client.txt", include_str!("../../images/openstack-client.txt")),
    ("mariadb.txt", include_str!("../../images/mariadb.txt")),
];

/// The content of `images.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recipes {
    pub debian: Debian,
    releases: Vec<String>,
    /// The layers by name. After [`Recipes::read`], a layer that depends on the OpenStack release exists once for each
    /// release, with a name such as `nova-2026.1`.
    pub layers: BTreeMap<String, Layer>,
    images: BTreeMap<String, Image>,
    /// The images that the node has besides those that the charts of the cloud request.
    always: Vec<String>,
}

/// The URLs of Debian's package archives.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Debian {
    pub mirror: String,
    pub security: String,
}

/// The recipe of a layer. The comment in `images.yaml` describes the fields.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Layer {
    /// The name of the layer in `images.yaml`, which is the same for all OpenStack releases.
    #[serde(skip)]
    pub recipe: String,
    pub from: Option<String>,
    pub debian: Option<String>,
    pub users: Vec<User>,
    pub packages: Vec<String>,
    pub unpack: Vec<String>,
    pub python: Option<String>,
    pub venv: Option<String>,
    pub run: Vec<String>,
    pub copy: Option<CopyOf>,
    pub files: BTreeMap<String, LayerFile>,
}

impl Layer {
    /// Returns the names of the layers that must be built before this layer.
    pub fn needs(&self) -> impl Iterator<Item = &String> {
        self.from.iter().chain(self.copy.as_ref().map(|copy| &copy.layer))
    }

    fn needs_mut(&mut self) -> impl Iterator<Item = &mut String> {
        self.from.iter_mut().chain(self.copy.as_mut().map(|copy| &mut copy.layer))
    }

    /// Returns the programs in the layer that [`crate::programs`] provides.
    pub fn programs(&self) -> impl Iterator<Item = Program> {
        self.files.values().filter_map(|file| file.program)
    }
}

/// A user that a layer creates, with a group of the same name and ID.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct User {
    pub name: String,
    pub id: u32,
}

/// A folder of another layer that becomes the content of a layer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CopyOf {
    pub layer: String,
    pub path: String,
}

/// A file of a layer: its content as `text`, or a program that [`crate::programs`] provides.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LayerFile {
    #[serde(default)]
    pub text: Option<String>,
    #[serde(default)]
    pub program: Option<Program>,
    /// Whether the file is an executable program.
    #[serde(default)]
    pub executable: bool,
}

/// An image: its newest layer, and the command and the user of containers for which a pod names none.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Image {
    pub layer: String,
    #[serde(default)]
    pub command: Vec<String>,
    pub user: Option<u32>,
    /// Whether `cluster real prepare` leaves the image out.
    #[serde(default)]
    rare: bool,
}

impl Recipes {
    /// Reads the embedded `images.yaml`.
    pub fn read() -> anyhow::Result<Self> {
        let mut recipes: Self = serde_saphyr::from_str(TEXT).context("cannot read images.yaml")?;
        recipes.layers = release::expand(recipes.layers, &recipes.releases);
        for name in recipes.layers.keys() {
            recipes.chain(name)?;
        }
        Ok(recipes)
    }

    /// Returns a layer by its name.
    pub fn layer(&self, name: &str) -> anyhow::Result<&Layer> {
        self.layers.get(name).with_context(|| format!("images.yaml has no layer {name}: add it, or correct the name"))
    }

    /// Returns the names of a layer and of all layers below it, with the newest layer first.
    pub fn chain(&self, name: &str) -> anyhow::Result<Vec<String>> {
        let mut chain = vec![name.to_owned()];
        while let Some(below) = &self.layer(&chain[chain.len() - 1])?.from {
            if chain.contains(below) {
                bail!("images.yaml: the layer {below} is below itself");
            }
            chain.push(below.clone());
        }
        Ok(chain)
    }

    /// Returns the names of the layers in `wanted` and of all layers that they need, in the order in which they must be
    /// built.
    pub fn order(&self, wanted: &[String]) -> anyhow::Result<Vec<String>> {
        let mut order = Vec::new();
        for name in wanted {
            self.visit(name, &mut order)?;
        }
        Ok(order)
    }

    fn visit(&self, name: &str, order: &mut Vec<String>) -> anyhow::Result<()> {
        if order.iter().any(|known| known == name) {
            return Ok(());
        }
        for below in self.layer(name)?.needs() {
            self.visit(below, order)?;
        }
        order.push(name.to_owned());
        Ok(())
    }

    /// Returns the newest layer of each image that is not rare, for a cloud of this OpenStack release.
    pub fn layers_of_images(&self, release: &str) -> anyhow::Result<Vec<String>> {
        self.images.values().filter(|image| !image.rare).map(|image| self.layer_of_image(image, release)).collect()
    }

    fn layer_of_image(&self, image: &Image, release: &str) -> anyhow::Result<String> {
        if self.layers.contains_key(&image.layer) {
            return Ok(image.layer.clone());
        }
        ensure!(
            self.releases.iter().any(|known| known == release),
            "images.yaml has no recipes for OpenStack {release}, only for {}: use one of these releases, or add \
             {release} to `releases` and write openstack-{release}.txt",
            self.releases.join(", ")
        );
        Ok(release::layer(&image.layer, release))
    }

    /// Returns the images that the node has besides those that the charts of the cloud request. `release` is the
    /// OpenStack release of the cloud.
    pub fn always(&self, release: &str) -> anyhow::Result<Vec<Reference>> {
        self.always.iter().map(|name| Reference::parse(&name.replace(release::PLACEHOLDER, release))).collect()
    }

    /// Returns each image name in `wanted` with the recipe of the image. The tag selects the OpenStack release, if the
    /// layers of the image depend on it. If images have no recipe, the error names all of them.
    pub fn select(&self, wanted: &[Reference]) -> anyhow::Result<Vec<(Reference, Image)>> {
        let is_missing = |one: &&Reference| !self.images.contains_key(&one.repository);
        let missing: Vec<&str> = wanted.iter().filter(is_missing).map(|one| one.repository.as_str()).collect();
        if !missing.is_empty() {
            bail!(
                "cannot build {}: images.yaml has no recipe for them; add one, or disable the service in the sample",
                missing.join(", ")
            );
        }
        wanted.iter().map(|reference| Ok((reference.clone(), self.image(reference)?))).collect()
    }

    fn image(&self, reference: &Reference) -> anyhow::Result<Image> {
        let image = &self.images[&reference.repository];
        let layer = self
            .layer_of_image(image, reference.release())
            .with_context(|| format!("cannot build {reference}, whose tag must begin with an OpenStack release"))?;
        Ok(Image { layer, ..image.clone() })
    }
}

/// Returns the content of the requirements file with the name `file`.
pub(super) fn requirements(file: &str) -> anyhow::Result<&'static str> {
    let found = REQUIREMENTS.iter().find(|(name, _)| *name == file);
    Ok(found.with_context(|| format!("images.yaml names the unknown file {file}: add it to REQUIREMENTS"))?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_in_the_recipes_exists() {
        let recipes = Recipes::read().unwrap();
        for (name, layer) in &recipes.layers {
            assert!(recipes.order(std::slice::from_ref(name)).unwrap().contains(name));
            layer.python.iter().for_each(|file| assert!(requirements(file).unwrap().contains("==")));
            assert_eq!(layer.python.is_some(), layer.venv.is_some(), "{name}");
            for (path, file) in &layer.files {
                assert!(path.starts_with('/') && file.text.is_some() != file.program.is_some(), "{name}: {path}");
            }
        }
        for release in &recipes.releases {
            let layers = recipes.layers_of_images(release).unwrap();
            assert!(layers.iter().all(|name| recipes.layers.contains_key(name)), "{release}: {layers:?}");
        }
        let always = recipes.always("2025.2").unwrap();
        assert_eq!(recipes.select(&always).unwrap().len(), always.len());
    }

    #[test]
    fn order_has_each_layer_after_those_that_it_needs() {
        let recipes = Recipes::read().unwrap();
        let order = recipes.order(&["nova-2026.1".into(), "keystone-2026.1".into()]).unwrap();
        let position = |name: &str| order.iter().position(|known| known == name).unwrap();
        assert!(position("venv-2026.1") < position("openstack-2026.1"));
        assert!(position("openstack-2026.1") < position("nova-2026.1"));
        assert_eq!(order.iter().filter(|name| *name == "base").count(), 1);
    }

    fn select(name: &str) -> anyhow::Result<String> {
        let selected = Recipes::read()?.select(&[Reference::parse(name)?])?;
        Ok(selected[0].1.layer.clone())
    }

    #[test]
    fn names_images_without_a_recipe() {
        let error = select("quay.io/airshipit/zaqar:2026.1").unwrap_err().to_string();
        assert!(error.contains("quay.io/airshipit/zaqar"), "{error}");
    }

    #[test]
    fn tag_selects_the_release() {
        assert_eq!(select("quay.io/airshipit/nova:2025.1-ubuntu_noble").unwrap(), "nova-2025.1");
        assert_eq!(select("quay.io/airshipit/nova:2025.2").unwrap(), "nova-2025.2");
    }

    #[test]
    fn tag_is_irrelevant_for_layers_without_a_release() {
        for tag in ["2025.1-ubuntu_noble", "2019.1-ubuntu_bionic", "latest-ubuntu_jammy"] {
            assert_eq!(select(&format!("quay.io/airshipit/libvirt:{tag}")).unwrap(), "libvirt");
            assert_eq!(select(&format!("quay.io/airshipit/openstack-client:{tag}")).unwrap(), "client");
            assert_eq!(select(&format!("quay.io/airshipit/ceph-config-helper:{tag}")).unwrap(), "kubectl");
        }
    }

    #[test]
    fn error_about_an_unknown_release_lists_the_known_ones() {
        let error = format!("{:#}", select("quay.io/airshipit/nova:2024.2-ubuntu_noble").unwrap_err());
        assert!(error.starts_with("cannot build quay.io/airshipit/nova:2024.2-ubuntu_noble"), "{error}");
        assert!(error.contains("no recipes for OpenStack 2024.2, only for 2025.1, 2025.2, 2026.1"), "{error}");
        assert!(Recipes::read().unwrap().layers_of_images("2024.2").is_err());
    }

    #[test]
    fn cloud_needs_the_layers_of_one_release() {
        let recipes = Recipes::read().unwrap();
        let order = recipes.order(&recipes.layers_of_images("2025.2").unwrap()).unwrap();
        let needed = ["debian", "mariadb", "client", "venv-2025.2", "horizon-2025.2"];
        assert!(needed.iter().all(|name| order.contains(&(*name).into())), "{order:?}");
        assert!(!order.iter().any(|name| name.ends_with("-2025.1") || name.ends_with("-2026.1")), "{order:?}");
    }

    #[test]
    fn requirements_pin_every_package() {
        for (file, text) in REQUIREMENTS {
            let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
            assert!(lines.iter().all(|line| line.split("==").count() == 2), "{file}: {lines:?}");
        }
    }
}
