//! Reads `images/images.yaml`: the layers of the images, and the images that consist of them.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use serde::Deserialize;

use super::reference::Reference;
use crate::Program;

const TEXT: &str = include_str!("../../images/images.yaml");
/// The names and contents of the requirements files (for pip) to which layers refer.
const REQUIREMENTS: [(&str, &str); 3] = [
    ("openstack-2026.1.txt", include_str!("../../images/openstack-2026.1.txt")),
    ("openstack-client.txt", include_str!("../../images/openstack-client.txt")),
    ("mariadb.txt", include_str!("../../images/mariadb.txt")),
];

/// The content of `images.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recipes {
    pub debian: Debian,
    pub layers: BTreeMap<String, Layer>,
    images: BTreeMap<String, Image>,
    /// The images that the node itself needs.
    pub node: Vec<String>,
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

/// An image: its newest layer, and the command that it runs if a pod names no command.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Image {
    pub layer: String,
    #[serde(default)]
    pub command: Vec<String>,
}

impl Recipes {
    /// Reads the embedded `images.yaml`.
    pub fn read() -> anyhow::Result<Self> {
        let recipes: Self = serde_saphyr::from_str(TEXT).context("cannot read images.yaml")?;
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
        let layer = self.layer(name)?;
        for below in layer.from.iter().chain(layer.copy.as_ref().map(|copy| &copy.layer)) {
            self.visit(below, order)?;
        }
        order.push(name.to_owned());
        Ok(())
    }

    /// Returns each image name in `wanted` with the recipe of the image. If images have no recipe, the error names all
    /// of them.
    pub fn select(&self, wanted: &[Reference]) -> anyhow::Result<Vec<(Reference, Image)>> {
        let found = |reference: &Reference| Some((reference.clone(), self.images.get(&reference.repository)?.clone()));
        let missing: Vec<String> =
            wanted.iter().filter(|one| found(one).is_none()).map(|one| one.repository.clone()).collect();
        if !missing.is_empty() {
            bail!(
                "cannot build {}: images.yaml has no recipe for them; add one, or disable the service in the sample",
                missing.join(", ")
            );
        }
        Ok(wanted.iter().filter_map(found).collect())
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
        for image in recipes.images.values() {
            recipes.layer(&image.layer).unwrap();
        }
        let node: Vec<Reference> = recipes.node.iter().map(|text| Reference::parse(text).unwrap()).collect();
        assert_eq!(recipes.select(&node).unwrap().len(), node.len());
    }

    #[test]
    fn order_has_each_layer_after_those_that_it_needs() {
        let recipes = Recipes::read().unwrap();
        let order = recipes.order(&["nova".into(), "keystone".into()]).unwrap();
        let position = |name: &str| order.iter().position(|known| known == name).unwrap();
        assert!(position("venv") < position("openstack") && position("openstack") < position("nova"));
        assert_eq!(order.iter().filter(|name| *name == "base").count(), 1);
    }

    #[test]
    fn names_images_without_a_recipe() {
        let wanted = Reference::parse("quay.io/airshipit/zaqar:2026.1").unwrap();
        let error = Recipes::read().unwrap().select(&[wanted]).unwrap_err().to_string();
        assert!(error.contains("quay.io/airshipit/zaqar"), "{error}");
    }

    #[test]
    fn requirements_pin_every_package() {
        for (file, text) in REQUIREMENTS {
            let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
            assert!(lines.iter().all(|line| line.split("==").count() == 2), "{file}: {lines:?}");
        }
    }
}
